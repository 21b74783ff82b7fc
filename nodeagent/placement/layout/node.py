"""A node with its instances, and its free room: the rules for one instance. Pure.

Each operation returns the changed node. Two ledgers stand side by side: the present one, and
(`promised_…`) the one with forthcoming instances.

The rules, their order and their equalities are the htools': a node is never filled to exactly
nothing; those on memory read state of record less the missing memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf, nan
from typing import NamedTuple

from nodeagent.placement.cluster.cluster import Load


class Refused(StrEnum):
    """The reason why a node does not take an instance; the value is the htools' word for it."""

    MEMORY = "FailMem"
    DISK = "FailDisk"
    SPINDLES = "FailSpindles"
    CPU = "FailCPU"
    TAGS = "FailTags"
    MIGRATION = "FailMig"

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    Refused.MEMORY: "too little memory, or none left if another node fails",
    Refused.DISK: "too little disk, or too much pressure on its disks",
    Refused.SPINDLES: "too few free physical disks, or the instance does not say how many",
    Refused.CPU: "too many virtual CPUs",
    Refused.TAGS: "an instance with the same exclusion tag is there",
    Refused.MIGRATION: "migration tags forbid it",
}


@dataclass(frozen=True, slots=True)
class Host:
    """The part of a node that no instance changes.

    `missing` is the memory that neither instances nor the node itself account for; negative if more
    is free than expected. `low_disk` must stay free. `spindle_limit` bounds the pressure on disks,
    unless `crowdable`; `cpu_ratio` the virtual CPUs by physical ones; negative is unlimited.
    """

    index: int
    name: str
    memory: float
    own_memory: int
    missing: int
    disk: float
    cpus: float
    speed: float
    exclusive: bool
    spindles: int
    low_disk: int
    cpu_ratio: float
    spindle_limit: float
    offline: bool
    locations: frozenset[str] = frozenset()
    sends: frozenset[str] = frozenset()
    receives: frozenset[str] = frozenset()
    crowdable: bool = False

    def too_crowded(self, spindles: int) -> bool:
        return spindles > self.spindle_limit and not self.crowdable


@dataclass(frozen=True, slots=True)
class Demand:
    """An instance's demand; an offline one takes no `vcpus` and reserves no memory.

    `memory` is its size, `used` the part in use now, `reserved` the part reserved on its secondary
    node.
    """

    memory: int
    used: int
    reserved: int
    disk: int
    vcpus: int
    load: Load
    local: bool
    mirrored: bool
    spindle_use: int
    spindles: int | None
    forthcoming: bool
    exclusion: tuple[str, ...] = ()
    desired: frozenset[str] = frozenset()


class Filled(NamedTuple):
    """A node and the sums of its instances; the mappings are never changed in place.

    `reserved_for` is, by primary node, the memory that the instances with this secondary node would
    need here; `reserved` the largest of them. `failing`: it could not take them. `exclusion` counts
    tags with the forthcoming instances', `settled` without. `misplaced` sums, over its primaries,
    the locations shared with their secondary node and the desired ones it lacks.
    """

    host: Host
    free_memory: int
    free_disk: int
    free_spindles: int
    used_cpus: int
    used_spindles: int
    load: Load
    primaries: int
    secondaries: int
    reserved_for: Mapping[int, int]
    reserved: int
    failing: bool
    exclusion: Mapping[str, int]
    settled: Mapping[str, int]
    misplaced: int
    promised_memory: int
    promised_disk: int
    promised_free_spindles: int
    promised_cpus: int
    promised_spindles: int


def add_primary(
    node: Filled, demand: Demand, shared: int = 0, *, force: bool = False
) -> Filled | Refused:
    """Make it the instance's primary node; `shared` counts its locations common with the secondary.

    `force` refuses only the impossible, not the unwise.
    """
    after = _with_primary(node, demand, shared, +1)
    return _why_no_primary(node, after, demand, force=force) or after


def remove_primary(node: Filled, demand: Demand, shared: int = 0) -> Filled:
    """Take the instance off its primary node; `shared` as at its arrival."""
    return _with_primary(node, demand, shared, -1)


def _with_primary(node: Filled, demand: Demand, shared: int, sign: int) -> Filled:
    """The node with an instance more, or less, whether it could take it or not."""
    promised = _promise(node, demand, sign, mirror=False)
    if demand.forthcoming:
        return promised
    free_memory = node.free_memory - sign * demand.used
    load, more = node.load, demand.load
    move = _take_spindles if sign > 0 else _give_spindles
    return promised._replace(
        free_memory=free_memory,
        free_disk=node.free_disk - sign * demand.disk if demand.local else node.free_disk,
        free_spindles=move(node, demand, node.free_spindles),
        used_cpus=node.used_cpus + sign * demand.vcpus,
        used_spindles=node.used_spindles + sign * _pressure(node.host, demand),
        load=Load(
            load.cpu + sign * more.cpu,
            load.memory + sign * more.memory,
            load.disk + sign * more.disk,
            load.net + sign * more.net,
        ),
        primaries=node.primaries + sign,
        failing=free_memory <= node.reserved,
        settled=_counted(node.settled, demand.exclusion, sign),
        misplaced=node.misplaced + sign * (shared + len(demand.desired - node.host.locations)),
    )


def _why_no_primary(node: Filled, after: Filled, demand: Demand, *, force: bool) -> Refused | None:
    host, local = node.host, demand.local
    if demand.forthcoming:
        return None if force else _broken_promise(after, demand, mirror=False)
    if after.free_memory <= 0:
        return Refused.MEMORY
    if local and after.free_disk <= 0:
        return Refused.DISK
    if local and host.exclusive and after.free_spindles < 0:
        return Refused.SPINDLES
    if force:
        return None
    if local and (after.free_disk < host.low_disk or host.too_crowded(after.used_spindles)):
        return Refused.DISK
    if after.failing and not node.failing:
        return Refused.MEMORY
    if 0 <= host.cpu_ratio < ratio(after.used_cpus, host.cpus):
        return Refused.CPU
    if any(tag in node.exclusion for tag in demand.exclusion):
        return Refused.TAGS
    return _broken_promise(after, demand, mirror=False)


def add_secondary(
    node: Filled, demand: Demand, primary: int, *, force: bool = False, has_disks: bool = False
) -> Filled | Refused:
    """Make it a secondary for node `primary`; with `has_disks` the disks are already there."""
    if not demand.mirrored:
        return Refused.DISK
    promised = _promise(node, demand, +1, mirror=True)
    if demand.forthcoming:
        broken = None if force else _broken_promise(promised, demand, mirror=True)
        return broken or promised
    host = node.host
    free_disk = node.free_disk - demand.disk
    spindles = _take_spindles(node, demand, node.free_spindles)
    used_spindles = node.used_spindles + _pressure(host, demand)
    need = node.reserved_for.get(primary, 0) + demand.reserved
    reserved = max(node.reserved, need)
    failing = node.free_memory <= reserved
    if free_disk <= 0 and not has_disks:
        return Refused.DISK
    if host.exclusive and spindles < 0:
        return Refused.SPINDLES
    if not force:
        if free_disk < host.low_disk or host.too_crowded(used_spindles):
            return Refused.DISK
        if demand.reserved >= node.free_memory or (failing and not node.failing):
            return Refused.MEMORY
        if broken := _broken_promise(promised, demand, mirror=True):
            return broken
    return promised._replace(
        free_disk=free_disk,
        free_spindles=spindles,
        used_spindles=used_spindles,
        load=node.load._replace(disk=node.load.disk + demand.load.disk),
        secondaries=node.secondaries + 1,
        reserved_for={**node.reserved_for, primary: need},
        reserved=reserved,
        failing=failing,
    )


def remove_secondary(node: Filled, demand: Demand, primary: int) -> Filled:
    """Remove an instance whose primary node is `primary` from this secondary."""
    promised = _promise(node, demand, -1, mirror=True)
    if demand.forthcoming:
        return promised
    reserved_for = dict(node.reserved_for)
    had = reserved_for.pop(primary, 0)
    if had - demand.reserved > 0:
        reserved_for[primary] = had - demand.reserved
    reserved = node.reserved
    if had >= reserved:
        reserved = max(reserved_for.values(), default=0)
    return promised._replace(
        free_disk=node.free_disk + demand.disk if demand.local else node.free_disk,
        free_spindles=_give_spindles(node, demand, node.free_spindles),
        used_spindles=node.used_spindles - _pressure(node.host, demand),
        load=node.load._replace(disk=node.load.disk - demand.load.disk),
        secondaries=node.secondaries - 1,
        reserved_for=reserved_for,
        reserved=reserved,
        failing=node.free_memory <= reserved,
    )


def migrates(source: Host, target: Host) -> bool:
    return source.sends <= target.receives


def ratio(part: float, whole: float) -> float:
    """Divide as floating point does, also by zero."""
    if whole:
        return part / whole
    return inf if part > 0 else -inf if part < 0 else nan


def _promise(node: Filled, demand: Demand, sign: int, *, mirror: bool) -> Filled:
    """Change the second ledger's fields, for instances of both kinds."""
    taken = demand.disk if demand.local or mirror else 0
    spindles = node.promised_free_spindles
    move = _take_spindles if sign > 0 else _give_spindles
    changed = node._replace(
        promised_disk=node.promised_disk - sign * taken,
        promised_free_spindles=move(node, demand, spindles),
        promised_spindles=node.promised_spindles + sign * _pressure(node.host, demand),
    )
    if mirror:
        return changed
    return changed._replace(
        promised_memory=node.promised_memory - sign * demand.memory,
        promised_cpus=node.promised_cpus + sign * demand.vcpus,
        exclusion=_counted(node.exclusion, demand.exclusion, sign),
    )


def _broken_promise(after: Filled, demand: Demand, *, mirror: bool) -> Refused | None:
    host = after.host
    if not mirror and after.promised_memory <= 0:
        return Refused.MEMORY
    if mirror or demand.local:
        if after.promised_disk <= 0 or after.promised_disk < host.low_disk:
            return Refused.DISK
        if host.exclusive and after.promised_free_spindles < 0:
            return Refused.SPINDLES
        if host.too_crowded(after.promised_spindles):
            return Refused.DISK
    if mirror and demand.reserved >= after.promised_memory:
        return Refused.MEMORY
    if not mirror and 0 <= host.cpu_ratio < ratio(after.promised_cpus, host.cpus):
        return Refused.CPU
    return None


def _pressure(host: Host, demand: Demand) -> int:
    return 0 if host.exclusive or not demand.local else demand.spindle_use


def _take_spindles(node: Filled, demand: Demand, free: int) -> int:
    """Return the free spindles afterwards; -1 for an instance with an unknown number."""
    if not node.host.exclusive:
        return free
    return -1 if demand.spindles is None else free - demand.spindles


def _give_spindles(node: Filled, demand: Demand, free: int) -> int:
    return free + (demand.spindles or 0) if node.host.exclusive else free


def _counted(counts: Mapping[str, int], tags: tuple[str, ...], sign: int) -> Mapping[str, int]:
    if not tags:
        return counts
    changed = dict(counts)
    for tag in tags:
        changed[tag] = changed.get(tag, 0) + sign
        if changed[tag] <= 0:
            del changed[tag]
    return changed
