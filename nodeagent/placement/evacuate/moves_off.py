"""The ways of one instance off evacuated nodes. Pure.

Targets are nodes of the same group that are online and stay; all of the htools' checks must allow a
place. `targets` orders the allowed places by the group's score afterwards.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from nodeagent.placement.cluster.cluster import SHARED, Template
from nodeagent.placement.layout.layout import Layout
from nodeagent.placement.layout.moves import Kind, Move, Moved, attempt
from nodeagent.placement.layout.node import Refused, add_primary, migrates, remove_secondary

_ANYWHERE = SHARED | {Template.DISKLESS}  # their disks are not on a node
Ahead: TypeAlias = tuple[Layout, tuple[Move, ...]]
Why: TypeAlias = Callable[[], str]
"""Asked only if somebody wants to know: then every place is looked at for what it lacks."""


class Furthest(NamedTuple):
    """The furthest place of an instance, if any, and why no further."""

    ahead: Ahead | None = None
    why: Why | None = None


class Exits:
    """`leaving` are the nodes, `gone` those whose state is unknown.

    `doubts` say why nodes are offline in the cluster, if only their reports are missing.
    """

    def __init__(
        self,
        layout: Layout,
        leaving: frozenset[int],
        gone: frozenset[int],
        doubts: Mapping[str, str],
    ) -> None:
        from nodeagent.placement.evacuate.targets import Arrivals  # imports NumPy: only when needed

        self._layout, self._leaving, self._gone, self._doubts = layout, leaving, gone, doubts
        self._targets: dict[str, list[int]] = {}
        members: dict[str, list[int]] = {}
        for index, node in enumerate(layout.cluster.nodes):
            if index not in leaving:
                members.setdefault(node.group, []).append(index)
                if not layout.nodes[index].host.offline:
                    self._targets.setdefault(node.group, []).append(index)
        self._arrivals = Arrivals(members)

    def shuffled(self, instances: Sequence[int], seed: int) -> list[int]:
        """Return the instances in an order drawn by lot, the same for the same seed."""
        return self._arrivals.shuffled(instances, seed)

    def unmovable(self, instance: int) -> str:
        """Say why it stays whatever room there is; empty if it need not."""
        known, at = self._layout.cluster.instances[instance], self._layout.places[instance]
        if known.template in _ANYWHERE:
            return ""
        name = self._name(at.primary)
        if known.template is not Template.DRBD:
            return f"its disks ({known.template}) are only on {name}"
        if at.secondary not in self._leaving and (why := self._out(at.secondary)):
            return f"its secondary {self._name(at.secondary)} {why}"
        if at.secondary in self._leaving and at.primary in self._gone:
            return f"it cannot get a new secondary: {name} {self._out(at.primary)}"
        return ""

    def best(self, layout: Layout, instance: int) -> Furthest:
        """Return its best way off the nodes, or its furthest place; `layout` is the present one."""
        at = layout.places[instance]
        if not layout.demands[instance].mirrored:
            return self._first(layout, instance, Kind.FAILOVER_ANY)
        if at.primary not in self._leaving:
            ahead, why = self._first(layout, instance, Kind.REPLACE)
            return Furthest(ahead, why and _because("its secondary cannot move", why))
        if at.secondary in self._leaving:
            return self._both(layout, instance)
        if refused := _runs_at_mirror(layout, instance):
            name = self._name(at.secondary)
            return Furthest(None, lambda: f"its secondary {name} cannot run it: {refused.words}")
        ahead, why = self._first(layout, instance, Kind.FAILOVER_REPLACE)
        if why is None:
            return Furthest(ahead)
        alone = Move(instance, Kind.FAILOVER)
        after = attempt(layout, alone)
        moved = (_with(layout, instance, after), (alone,)) if isinstance(after, Moved) else None
        return Furthest(moved, _because("no node can be its new secondary", why))

    def best_of(self, layout: Layout, instance: int, kind: Kind, targets: Sequence[int]) -> int:
        """Return the best of these targets, whatever the checks say of each."""
        return self._arrivals.best(layout, instance, kind, targets)

    def _both(self, layout: Layout, instance: int) -> Furthest:
        """Leave both nodes: get a new secondary, run there, get another secondary."""
        reason: Why | None = None
        for midway, moves in self._ways(layout, instance, Kind.REPLACE_FAILOVER):
            ahead, why = self._first(midway, instance, Kind.REPLACE)
            if ahead is not None:
                return Furthest((ahead[0], (*moves, *ahead[1])))
            reason = reason or why
        return Furthest(None, reason or self._nowhere(layout, instance, Kind.REPLACE_FAILOVER))

    def _first(self, layout: Layout, instance: int, kind: Kind) -> Furthest:
        for ahead in self._ways(layout, instance, kind):
            return Furthest(ahead)
        return Furthest(None, self._nowhere(layout, instance, kind))

    def _ways(self, layout: Layout, instance: int, kind: Kind) -> Iterator[Ahead]:
        targets = self._places(layout, instance)
        for move, after in self._arrivals.best_first(layout, instance, kind, targets):
            yield _with(layout, instance, after), (move,)

    def _places(self, layout: Layout, instance: int) -> list[int]:
        at = layout.places[instance]
        group = layout.cluster.nodes[at.primary].group
        return [target for target in self._targets.get(group, ()) if target not in at[:2]]

    def _nowhere(self, layout: Layout, instance: int, kind: Kind) -> Why:
        def why() -> str:
            refused = Counter(
                after
                for target in self._places(layout, instance)
                if isinstance(after := attempt(layout, Move(instance, kind, target)), Refused)
            )
            if not refused:
                return "no other node of its group is online and stays"
            if refused.total() == 1:
                return f"the only other node does not take it: {next(iter(refused)).words}"
            each = "; ".join(f"{why.words} ({count})" for why, count in refused.most_common())
            return f"none of the {refused.total()} other nodes can take it: {each}"

        return why

    def _out(self, index: int) -> str:
        """Say why the node takes nothing; empty if it may."""
        name = self._name(index)
        if name in self._doubts:
            return f"is in doubt ({self._doubts[name]})"
        if index in self._gone:
            return "is offline"
        return "is drained" if self._layout.nodes[index].host.offline else ""

    def _name(self, index: int) -> str:
        return self._layout.nodes[index].host.name


def _because(what: str, why: Why) -> Why:
    return lambda: f"{what}: {why()}"


def _runs_at_mirror(layout: Layout, instance: int) -> Refused | None:
    p, s, shared = layout.places[instance]
    demand = layout.demands[instance]
    if not migrates(layout.nodes[p].host, layout.nodes[s].host):
        return Refused.MIGRATION
    without = remove_secondary(layout.nodes[s], demand, p)
    after = add_primary(without, demand, shared, force=layout.rules.ignore_soft)
    return after if isinstance(after, Refused) else None


def _with(layout: Layout, instance: int, moved: Moved) -> Layout:
    return layout.with_changes(moved.nodes, {instance: moved.place})
