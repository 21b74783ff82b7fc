"""The possible moves of an instance, and the effect of each on the layout. Pure.

A move is one instance's; it may take several jobs of Ganeti's. Each of its steps passes the nodes'
checks, in the htools' order: so a move is allowed here if and only if it is there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from nodeagent.placement.cluster.cluster import UP, Template
from nodeagent.placement.layout.layout import Layout, Place
from nodeagent.placement.layout.node import (
    Demand,
    Filled,
    Refused,
    add_primary,
    add_secondary,
    migrates,
    remove_primary,
    remove_secondary,
)


class Kind(Enum):
    """The steps of a move, in order; the value is hbal's notation, `{}` being the target.

    f is a failover or migration, r a replacement of the secondary node.
    """

    FAILOVER = "f"
    REPLACE = "r:{}"
    REPLACE_FAILOVER = "r:{} f"
    REPLACE_PRIMARY = "f r:{} f"
    FAILOVER_REPLACE = "f r:{}"
    FAILOVER_ANY = "fa:{}"


# Kinds with a target, in the order in which candidates are tried for each one.
REPLACING = (
    Kind.REPLACE,
    Kind.REPLACE_FAILOVER,
    Kind.REPLACE_PRIMARY,
    Kind.FAILOVER_REPLACE,
)


class Move(NamedTuple):
    """One instance's; `target` is the index of a node, -1 for a failover."""

    instance: int
    kind: Kind
    target: int = -1


@dataclass(frozen=True, slots=True)
class Moved:
    """The nodes of a move, in their state afterwards, and the instance's place."""

    nodes: Mapping[int, Filled]
    place: Place


def arrives(move: Move, at: Place) -> tuple[int, int]:
    match move.kind:
        case Kind.FAILOVER:
            return at.secondary, at.primary
        case Kind.REPLACE:
            return at.primary, move.target
        case Kind.REPLACE_FAILOVER:
            return move.target, at.primary
        case Kind.REPLACE_PRIMARY:
            return move.target, at.secondary
        case Kind.FAILOVER_REPLACE:
            return at.secondary, move.target
        case Kind.FAILOVER_ANY:
            return move.target, at.secondary


def kinds(layout: Layout, instance: int) -> tuple[bool, tuple[Kind, ...]]:
    """Tell whether it may fail over, and which kinds may be tried for every target."""
    rules, place = layout.rules, layout.places[instance]
    mirrored = layout.cluster.instances[instance].template is Template.DRBD
    if not mirrored:
        return False, (Kind.FAILOVER_ANY,) if rules.instance_moves else ()
    secondary_online = not layout.nodes[place.secondary].host.offline
    failover = rules.instance_moves and secondary_online
    if not rules.disk_moves:
        return failover, ()
    primary_offline = layout.nodes[place.primary].host.offline
    if not rules.instance_moves or (rules.restricted and not primary_offline):
        return failover, (Kind.REPLACE,)
    if not secondary_online:
        return failover, (Kind.REPLACE, Kind.REPLACE_FAILOVER)
    if rules.restricted:
        return failover, (Kind.REPLACE, Kind.REPLACE_FAILOVER, Kind.FAILOVER_REPLACE)
    return failover, REPLACING


def tried(layout: Layout) -> tuple[int, ...]:
    """Return the instances that may move now."""
    if not layout.rules.evacuate:
        return layout.movable
    off = {index for index in layout.members if layout.nodes[index].host.offline}
    return tuple(i for i in layout.movable if off.intersection(_holders(layout, i)))


def candidates(layout: Layout, instance: int) -> Iterator[Move]:
    """Yield every move of an instance, in the order that decides between equals."""
    place = layout.places[instance]
    failover, with_target = kinds(layout, instance)
    if failover:
        yield Move(instance, Kind.FAILOVER)
    for target in layout.members:
        if target not in place[:2] and not layout.nodes[target].host.offline:
            yield from (Move(instance, kind, target) for kind in with_target)


def attempt(layout: Layout, move: Move) -> Moved | Refused:
    return _Attempt(layout, move).result()


def distance(was: Place, now: Place) -> int:
    if was[:2] == now[:2]:
        return 0
    kept = {was.primary, was.secondary} & {now.primary, now.secondary} - {-1}
    return 1 if kept or was.secondary == -1 else 2


def towards(now: Place, goal: Place, *, mirrored: bool) -> list[tuple[Kind, int]]:
    """Return the kinds of move, and their targets, that lead to a place, or half the way."""
    p, s = goal[:2]
    if not mirrored:
        return [(Kind.FAILOVER_ANY, p)]
    if (p, s) == (now.secondary, now.primary):
        return [(Kind.FAILOVER, -1)]
    ways = [
        (kind, target)
        for kind in REPLACING
        for target in (p, s)
        if target not in now[:2] and arrives(Move(-1, kind, target), now) == (p, s)
    ]
    return ways or [(Kind.REPLACE, s), (Kind.REPLACE_PRIMARY, p)]


def copied(demand: Demand, kind: Kind) -> float:
    """Return the GiB a move sends over the network: a new secondary's disks, migrated memory."""
    migrations = {Kind.REPLACE: 0, Kind.REPLACE_PRIMARY: 2}.get(kind, 1)
    disks = 0 if kind in (Kind.FAILOVER, Kind.FAILOVER_ANY) else demand.disk
    return (migrations * demand.used + disks) / 1024


def commands(layout: Layout, move: Move) -> list[str]:
    """Return the `gnt-instance` commands of a move, from the instance's present place."""
    instance = layout.cluster.instances[move.instance]
    verb = "migrate" if instance.status in UP else "failover"
    switch = f"{verb} -f {instance.name}"
    if move.kind is Kind.FAILOVER:
        return [switch]
    target = layout.nodes[move.target].host.name
    if move.kind is Kind.FAILOVER_ANY:
        return [f"{verb} -f -n {target} {instance.name}"]
    replace = f"replace-disks -n {target} {instance.name}"
    steps = {"f": switch, "r:{}": replace}
    return [steps[step] for step in move.kind.value.split()]


def _holders(layout: Layout, instance: int) -> tuple[int, ...]:
    place = layout.places[instance]
    mirrored = layout.cluster.instances[instance].template is Template.DRBD
    return place[:2] if mirrored else place[:1]


class _Stopped(Exception):
    def __init__(self, why: Refused) -> None:
        self.why = why


class _Attempt:
    """One move, step by step. P, S and T are the primary, the secondary and the target node."""

    def __init__(self, layout: Layout, move: Move) -> None:
        self.layout, self.move = layout, move
        self.demand: Demand = layout.demands[move.instance]
        self.at = layout.places[move.instance]
        self.nodes: dict[int, Filled] = {}

    def result(self) -> Moved | Refused:
        steps = {
            Kind.FAILOVER: self._failover,
            Kind.REPLACE: self._replace,
            Kind.REPLACE_FAILOVER: self._replace_failover,
            Kind.REPLACE_PRIMARY: self._replace_primary,
            Kind.FAILOVER_REPLACE: self._failover_replace,
            Kind.FAILOVER_ANY: self._failover_any,
        }
        try:
            shared = steps[self.move.kind]()
        except _Stopped as stopped:
            return stopped.why
        return Moved(self.nodes, Place(*arrives(self.move, self.at), shared))

    def _failover(self) -> int:
        p, s, shared = self.at
        off = self._off(p)
        self._migrate(p, s)
        self._leave()
        self._primary(s, shared, force=off)
        self._secondary(p, s, force=off, has_disks=off)
        return shared

    def _failover_any(self) -> int:
        p, t, shared = self.at.primary, self.move.target, self.at.shared
        self._migrate(p, t)
        self._primary(t, shared, force=self._off(p))
        self.nodes[p] = remove_primary(self._node(p), self.demand, shared)
        return shared

    def _replace(self) -> int:
        (p, s, _), t = self.at, self.move.target
        shared = self._shared(p, t)
        self._leave()
        self._secondary(t, p, force=self._off(s))
        self._primary(p, shared, force=True)
        return shared

    def _replace_failover(self) -> int:
        (p, s, _), t = self.at, self.move.target
        shared = self._shared(p, t)
        self._migrate(p, t)
        self._leave()
        self._primary(t, shared, force=False)
        self._secondary(p, t, force=self._off(s))
        return shared

    def _replace_primary(self) -> int:
        (p, s, _), t = self.at, self.move.target
        shared, off = self._shared(t, s), self._off(p)
        self._migrate(p, s)
        self._migrate(s, t)
        self._leave()
        self._primary(s, shared, force=off)
        self.nodes[s] = remove_primary(self._node(s), self.demand, shared)
        self._primary(t, shared, force=off)
        self._secondary(s, t, force=off)
        return shared

    def _failover_replace(self) -> int:
        (p, s, _), t = self.at, self.move.target
        shared, off = self._shared(s, t), self._off(p)
        self._migrate(p, s)
        self._leave()
        self._primary(s, shared, force=off)
        self._secondary(t, s, force=off)
        return shared

    def _node(self, index: int) -> Filled:
        return self.nodes.get(index) or self.layout.nodes[index]

    def _off(self, index: int) -> bool:
        return self.layout.nodes[index].host.offline

    def _shared(self, node: int, other: int) -> int:
        return len(self._node(node).host.locations & self._node(other).host.locations)

    def _migrate(self, source: int, target: int) -> None:
        if not migrates(self._node(source).host, self._node(target).host):
            raise _Stopped(Refused.MIGRATION)

    def _leave(self) -> None:
        p, s, shared = self.at
        self.nodes[p] = remove_primary(self._node(p), self.demand, shared)
        self.nodes[s] = remove_secondary(self._node(s), self.demand, p)

    def _primary(self, index: int, shared: int, *, force: bool) -> None:
        force = force or self.layout.rules.ignore_soft
        after = add_primary(self._node(index), self.demand, shared, force=force)
        if isinstance(after, Refused):
            raise _Stopped(after)
        self.nodes[index] = after

    def _secondary(self, index: int, primary: int, *, force: bool, has_disks: bool = False) -> None:
        force = force or self.layout.rules.ignore_soft
        after = add_secondary(
            self._node(index), self.demand, primary, force=force, has_disks=has_disks
        )
        if isinstance(after, Refused):
            raise _Stopped(after)
        self.nodes[index] = after
