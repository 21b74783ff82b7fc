"""A node with its instances, and its free room: the rules for one instance. Pure.

Each operation returns the changed node. It has one kind of sums twice: of the instances that exist,
and of these with the forthcoming ones.

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


class Sums(NamedTuple):
    """The free room of a node, and what its instances use; the mapping is never changed in place.

    `pressure` is that on its disks, `spindles` the free physical disks. `exclusion` counts the
    tags.
    """

    memory: int
    disk: int
    spindles: int
    cpus: int
    pressure: int
    exclusion: Mapping[str, int]


class Filled(NamedTuple):
    """A node and the sums of its instances; the mappings are never changed in place.

    `present` counts the instances that exist, with the memory in use; `promised` the forthcoming
    ones too, with the memory of their sizes. All else counts those that exist.

    `reserved_for` is, by primary node, the memory that the instances with this secondary node would
    need here; `reserved` the largest of them. `failing`: it could not take them. `misplaced` sums,
    over its primaries, the locations shared with their secondary node and the desired ones it
    lacks.
    """

    host: Host
    present: Sums
    promised: Sums
    load: Load
    primaries: int
    secondaries: int
    reserved_for: Mapping[int, int]
    reserved: int
    failing: bool
    misplaced: int


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
    promised = _with_instance(node.promised, node.host, demand, demand.memory, sign)
    if demand.forthcoming:
        return node._replace(promised=promised)
    present = _with_instance(node.present, node.host, demand, demand.used, sign)
    load, more = node.load, demand.load
    return node._replace(
        present=present,
        promised=promised,
        load=Load(
            load.cpu + sign * more.cpu,
            load.memory + sign * more.memory,
            load.disk + sign * more.disk,
            load.net + sign * more.net,
        ),
        primaries=node.primaries + sign,
        failing=present.memory <= node.reserved,
        misplaced=node.misplaced + sign * (shared + len(demand.desired - node.host.locations)),
    )


def _why_no_primary(node: Filled, after: Filled, demand: Demand, *, force: bool) -> Refused | None:
    host, local, present = node.host, demand.local, after.present
    if demand.forthcoming:
        return None if force else _broken_promise(host, after.promised, demand, mirror=False)
    if present.memory <= 0:
        return Refused.MEMORY
    if local and present.disk <= 0:
        return Refused.DISK
    if local and host.exclusive and present.spindles < 0:
        return Refused.SPINDLES
    if force:
        return None
    if local and (present.disk < host.low_disk or host.too_crowded(present.pressure)):
        return Refused.DISK
    if after.failing and not node.failing:
        return Refused.MEMORY
    if 0 <= host.cpu_ratio < ratio(present.cpus, host.cpus):
        return Refused.CPU
    if any(tag in node.promised.exclusion for tag in demand.exclusion):
        return Refused.TAGS
    return _broken_promise(host, after.promised, demand, mirror=False)


def add_secondary(
    node: Filled, demand: Demand, primary: int, *, force: bool = False, has_disks: bool = False
) -> Filled | Refused:
    """Make it a secondary for node `primary`; with `has_disks` the disks are already there."""
    if not demand.mirrored:
        return Refused.DISK
    host = node.host
    promised = _with_disks(node.promised, host, demand, +1)
    if demand.forthcoming:
        broken = None if force else _broken_promise(host, promised, demand, mirror=True)
        return broken or node._replace(promised=promised)
    present = _with_disks(node.present, host, demand, +1)
    need = node.reserved_for.get(primary, 0) + demand.reserved
    reserved = max(node.reserved, need)
    failing = present.memory <= reserved
    if present.disk <= 0 and not has_disks:
        return Refused.DISK
    if host.exclusive and present.spindles < 0:
        return Refused.SPINDLES
    if not force:
        if present.disk < host.low_disk or host.too_crowded(present.pressure):
            return Refused.DISK
        if demand.reserved >= present.memory or (failing and not node.failing):
            return Refused.MEMORY
        if broken := _broken_promise(host, promised, demand, mirror=True):
            return broken
    return node._replace(
        present=present,
        promised=promised,
        load=node.load._replace(disk=node.load.disk + demand.load.disk),
        secondaries=node.secondaries + 1,
        reserved_for={**node.reserved_for, primary: need},
        reserved=reserved,
        failing=failing,
    )


def remove_secondary(node: Filled, demand: Demand, primary: int) -> Filled:
    """Remove an instance whose primary node is `primary` from this secondary."""
    promised = _with_disks(node.promised, node.host, demand, -1)
    if demand.forthcoming:
        return node._replace(promised=promised)
    reserved_for = dict(node.reserved_for)
    had = reserved_for.pop(primary, 0)
    if had - demand.reserved > 0:
        reserved_for[primary] = had - demand.reserved
    reserved = node.reserved
    if had >= reserved:
        reserved = max(reserved_for.values(), default=0)
    return node._replace(
        present=_with_disks(node.present, node.host, demand, -1),
        promised=promised,
        load=node.load._replace(disk=node.load.disk - demand.load.disk),
        secondaries=node.secondaries - 1,
        reserved_for=reserved_for,
        reserved=reserved,
        failing=node.present.memory <= reserved,
    )


def migrates(source: Host, target: Host) -> bool:
    return source.sends <= target.receives


def ratio(part: float, whole: float) -> float:
    """Divide as floating point does, also by zero."""
    if whole:
        return part / whole
    return inf if part > 0 else -inf if part < 0 else nan


def _with_instance(sums: Sums, host: Host, demand: Demand, memory: int, sign: int) -> Sums:
    """Return the sums with an instance more, or less, that takes so much memory."""
    return _with_disks(sums, host, demand, sign)._replace(
        memory=sums.memory - sign * memory,
        cpus=sums.cpus + sign * demand.vcpus,
        exclusion=_counted(sums.exclusion, demand.exclusion, sign),
    )


def _with_disks(sums: Sums, host: Host, demand: Demand, sign: int) -> Sums:
    """Return the sums with an instance's disks more, or less.

    Physical disks are fewer than none with an instance that does not say how many it takes.
    """
    disk = sums.disk - sign * demand.disk if demand.local else sums.disk
    if not host.exclusive:
        pressure = sums.pressure + sign * (demand.spindle_use if demand.local else 0)
        return sums._replace(disk=disk, pressure=pressure)
    unknown = demand.spindles is None and sign > 0
    spindles = -1 if unknown else sums.spindles - sign * (demand.spindles or 0)
    return sums._replace(disk=disk, spindles=spindles)


def _broken_promise(host: Host, promised: Sums, demand: Demand, *, mirror: bool) -> Refused | None:
    if not mirror and promised.memory <= 0:
        return Refused.MEMORY
    if mirror or demand.local:
        if promised.disk <= 0 or promised.disk < host.low_disk:
            return Refused.DISK
        if host.exclusive and promised.spindles < 0:
            return Refused.SPINDLES
        if host.too_crowded(promised.pressure):
            return Refused.DISK
    if mirror and demand.reserved >= promised.memory:
        return Refused.MEMORY
    if not mirror and 0 <= host.cpu_ratio < ratio(promised.cpus, host.cpus):
        return Refused.CPU
    return None


def _counted(counts: Mapping[str, int], tags: tuple[str, ...], sign: int) -> Mapping[str, int]:
    if not tags:
        return counts
    changed = dict(counts)
    for tag in tags:
        changed[tag] = changed.get(tag, 0) + sign
        if changed[tag] <= 0:
            del changed[tag]
    return changed
