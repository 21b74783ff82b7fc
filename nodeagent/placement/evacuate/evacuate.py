"""Evacuate nodes: find places for all their instances together. Pure.

Each instance goes where its group's score is least afterwards. A place counts only if no remaining
node loses its ability to take over after another one's failure (N+1); see `moves_off`. The largest
go first. If an instance finds no place, the next try starts with it; if that is no news, the order
is drawn by lot. A try ends as soon as it cannot leave fewer than the best one.

The spindle ratio is a preference: Ganeti itself refuses nothing for it. If some instances find no
place, and nodes have reached the ratio, nodes beyond it count as well.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import inf
from types import MappingProxyType

from nodeagent.errors import MessageError
from nodeagent.placement.cluster.cluster import Cluster
from nodeagent.placement.evacuate.moves_off import Exits, Why
from nodeagent.placement.layout.layout import EVERYBODY, Layout, Place, lay_out
from nodeagent.placement.layout.moves import Kind, Move, Moved, attempt
from nodeagent.placement.layout.node import Demand, Filled
from nodeagent.placement.layout.rules import Rules

TRIES = 50  # orders of a node's instances at most
_SURE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Way:
    """The moves of one instance, in this order."""

    instance: int
    moves: tuple[Move, ...]
    before: Place
    after: Place


class Reasons(Mapping[int, str]):
    """The reasons why instances stay; each reason is computed on demand."""

    def __init__(self, reasons: Mapping[int, Why]) -> None:
        self._reasons = reasons

    def __getitem__(self, instance: int) -> str:
        return self._reasons[instance]()

    def __iter__(self) -> Iterator[int]:
        return iter(self._reasons)

    def __len__(self) -> int:
        return len(self._reasons)


@dataclass(frozen=True, slots=True)
class Evacuation:
    """The layout before and after; the moves; the instances that stay, and why.

    An instance may be in both: then it runs elsewhere, and its secondary stays.
    """

    before: Layout
    after: Layout
    leaving: frozenset[int]
    ways: tuple[Way, ...]
    left: Mapping[int, str]
    exits: Exits = field(compare=False, repr=False)

    @property
    def complete(self) -> bool:
        """Tell whether the nodes are empty then."""
        return not self.left

    def staying(self) -> list[int]:
        """List the nodes that may take instances, in the groups of the evacuated ones."""
        nodes = self.before.cluster.nodes
        groups = {nodes[index].group for index in self.leaving}
        return [n for n, node in enumerate(nodes) if node.group in groups and _stays(self, n)]

    def crowded(self) -> list[int]:
        """List the nodes that get more pressure on their disks than the spindle ratio allows."""
        crowded = []
        for index in self.staying():
            before, after = self.before.nodes[index], self.after.nodes[index]
            spindles = after.present.pressure
            if spindles > max(before.present.pressure, after.host.spindle_limit):
                crowded.append(index)
        return crowded


class OneByOne:
    """Places for single instances once the others of an evacuation have moved.

    They get the best place whatever the checks say, and count there. Some cannot count, such as one
    whose other node is drained: these are spread evenly.
    """

    def __init__(self, evacuation: Evacuation) -> None:
        rules = replace(evacuation.after.rules, ignore_soft=True)
        self._layout = replace(evacuation.after, rules=rules)
        self._leaving, self._exits = evacuation.leaving, evacuation.exits
        self._uncounted = Counter[int]()

    def place(self, instance: int, targets: Sequence[int], *, runs: bool) -> int:
        """Return the best of these nodes; the instance `runs` there, or has its secondary there."""
        at, demand = self._layout.places[instance], self._layout.demands[instance]
        if runs:
            kind = Kind.REPLACE_FAILOVER if demand.mirrored else Kind.FAILOVER_ANY
        else:
            kind = Kind.FAILOVER_REPLACE if at.primary in self._leaving else Kind.REPLACE
        fewest = min(self._uncounted[target] for target in targets)
        even = [target for target in targets if self._uncounted[target] == fewest]
        target = self._exits.best_of(self._layout, instance, kind, even)
        moved = attempt(self._layout, Move(instance, kind, target))
        if isinstance(moved, Moved):
            self._layout = self._layout.with_changes(moved.nodes, {instance: moved.place})
        else:
            self._uncounted[target] += 1
        return target


def _stays(evacuation: Evacuation, index: int) -> bool:
    return index not in evacuation.leaving and not evacuation.before.nodes[index].host.offline


def evacuate(
    cluster: Cluster,
    names: Iterable[str],
    rules: Rules,
    doubts: Mapping[str, str] = _SURE,
    demands: tuple[Demand, ...] | None = None,
) -> Evacuation:
    """Evacuate the nodes of these names. MessageError if there is no such node.

    `doubts` say why nodes are offline in the cluster, if only their reports are missing; `demands`
    are the instances', if known.
    """
    return Emptier(cluster, rules, doubts, demands).empty(names)


class Emptier:
    """A cluster whose nodes can be evacuated; laid out once.

    Arguments as `evacuate`'s.
    """

    def __init__(
        self,
        cluster: Cluster,
        rules: Rules,
        doubts: Mapping[str, str] = _SURE,
        demands: tuple[Demand, ...] | None = None,
    ) -> None:
        self._layout = lay_out(cluster, EVERYBODY, rules, demands)
        self._doubts = doubts
        self._at = {node.name: index for index, node in enumerate(cluster.nodes)}
        self._gone = frozenset(
            index for index, node in enumerate(cluster.nodes) if node.offline and not node.memory
        )

    def moved(self, cluster: Cluster) -> "Emptier":
        """Return the same for a cluster in which only some instances have moved."""
        layout = self._layout
        return Emptier(cluster, layout.rules, self._doubts, layout.demands)

    def empty(self, names: Iterable[str]) -> Evacuation:
        """Evacuate these nodes by the try that leaves the least. MessageError as `evacuate`."""
        leaving = self._indices(names)
        layout = _online(self._layout, leaving)
        evacuation = self._emptying(layout, leaving).best()
        if evacuation.complete or not _is_crowded(evacuation):
            return evacuation
        crowded = self._emptying(_crowdable(layout), leaving).best()
        return crowded if len(crowded.left) < len(evacuation.left) else evacuation

    def fits(self, names: Collection[str], beside: Collection[str] = ()) -> Evacuation | None:
        """Evacuate these nodes and others beside them, in one try; None if these keep any.

        It stops at the first of their instances without a place.
        """
        leaving, vital = self._indices([*names, *beside]), self._indices(names)
        layout = _online(self._layout, leaving)
        evacuation = self._emptying(layout, leaving).once(vital)
        if _concerned(evacuation, vital) and _is_crowded(evacuation):
            evacuation = self._emptying(_crowdable(layout), leaving).once(vital)
        return None if _concerned(evacuation, vital) else evacuation

    def _indices(self, names: Iterable[str]) -> frozenset[int]:
        names = list(names)
        for name in names:
            if name not in self._at:
                raise MessageError(f"there is no node {name}")
        return frozenset(self._at[name] for name in names)

    def _emptying(self, layout: Layout, leaving: frozenset[int]) -> "_Emptying":
        return _Emptying(layout, leaving, Exits(layout, leaving, self._gone, self._doubts))


def _is_crowded(evacuation: Evacuation) -> bool:
    """Tell whether a node that stays could not take another instance by its spindle ratio."""
    here = (
        i
        for i, at in enumerate(evacuation.before.places)
        if evacuation.leaving.intersection(at[:2])
    )
    pressure = max((evacuation.before.demands[i].spindle_use for i in here), default=0)
    nodes = (evacuation.after.nodes[index] for index in evacuation.staying())
    return any(
        max(node.present.pressure, node.promised.pressure) + pressure > node.host.spindle_limit
        for node in nodes
        if not node.host.exclusive
    )


def _room_for_pressure(node: Filled) -> float:
    """Return the pressure on its disks that the node's spindle ratio still allows."""
    if node.host.crowdable or node.host.exclusive:
        return inf
    return max(0.0, node.host.spindle_limit - max(node.present.pressure, node.promised.pressure))


def _crowdable(layout: Layout) -> Layout:
    """Let the spindle ratio refuse nothing."""
    nodes = tuple(node._replace(host=replace(node.host, crowdable=True)) for node in layout.nodes)
    return replace(layout, nodes=nodes)


def _concerned(evacuation: Evacuation, nodes: Collection[int]) -> bool:
    """Tell whether an instance stays on one of these nodes."""
    return any(_concerns(evacuation.before.places[instance], nodes) for instance in evacuation.left)


def _concerns(at: Place, nodes: Collection[int]) -> bool:
    return at.primary in nodes or at.secondary in nodes


def _online(layout: Layout, leaving: Iterable[int]) -> Layout:
    """Mark these nodes online, drained or not: moves off them get all checks."""
    nodes, filled = list(layout.cluster.nodes), list(layout.nodes)
    for index in leaving:
        if nodes[index].offline:
            host = filled[index].host
            offline = host.name in layout.rules.offline
            nodes[index] = replace(nodes[index], offline=False)
            filled[index] = filled[index]._replace(host=replace(host, offline=offline))
    cluster = replace(layout.cluster, nodes=tuple(nodes))
    return replace(layout, cluster=cluster, nodes=tuple(filled))


class _Emptying:
    def __init__(self, layout: Layout, leaving: frozenset[int], exits: Exits) -> None:
        self._layout, self._leaving, self._exits = layout, leaving, exits
        here = [i for i, at in enumerate(layout.places) if at[0] in leaving or at[1] in leaving]
        unmovable = ((instance, exits.unmovable(instance)) for instance in here)
        self._never = {instance: _saying(why) for instance, why in unmovable if why}
        self._order = sorted((i for i in here if i not in self._never), key=self._rank)
        self._hopeless: set[int] = set()  # without a place even before any other instance moved

    def _rank(self, instance: int) -> tuple[int, int, int]:
        """Rank an instance: first where it can run; DRBD instances have the least choice."""
        demand, at = self._layout.demands[instance], self._layout.places[instance]
        if at.primary not in self._leaving:
            return 2, -demand.disk, instance
        return (0 if demand.mirrored else 1), -demand.memory, instance

    def best(self) -> Evacuation:
        """Return the try that leaves the least; of equals the first."""
        evacuation = self._try(self._order)
        if len(evacuation.left) <= self._least():
            return evacuation
        order, first = self._order, list[int]()
        for number in range(TRIES - 1):
            if evacuation.left.keys() <= self._hopeless | self._never.keys():
                break  # no order makes room for these
            failed = [i for i in order if i in self._failed]
            if failed == first[: len(failed)]:
                first, order = [], self._exits.shuffled(self._order, number)
            else:
                first = [*failed, *(i for i in first if i not in failed)]
            tried = self._try(
                [*first, *(i for i in order if i not in first)], fewer_than=len(evacuation.left)
            )
            if len(tried.left) < len(evacuation.left):
                evacuation = tried
        return evacuation

    def _least(self) -> int:
        """Return how many stay in any order: nodes take no more within their spindle ratio."""
        layout = self._layout
        if layout.rules.ignore_soft or any(layout.nodes[n].host.offline for n in self._leaving):
            return 0  # then the ratio refuses nothing
        group = [node.group for node in layout.cluster.nodes]
        room, uses = dict.fromkeys(group, 0.0), dict[str, list[int]]()
        for index, node in enumerate(layout.nodes):
            if not (index in self._leaving or node.host.offline):
                room[group[index]] += _room_for_pressure(node)
        for instance in self._order:
            demand = layout.demands[instance]
            if demand.local and not demand.forthcoming:
                group_uses = uses.setdefault(group[layout.places[instance].primary], [])
                group_uses.append(demand.spindle_use)
        return len(self._never) + sum(
            sum(total > room[name] for total in accumulate(sorted(wanted)))
            for name, wanted in uses.items()
        )

    def once(self, vital: Collection[int]) -> Evacuation:
        """Return one try; it ends at the first instance that stays on a vital node."""
        if any(_concerns(self._layout.places[instance], vital) for instance in self._never):
            return self._try([])
        return self._try(self._order, vital)

    def _try(
        self,
        order: Sequence[int],
        vital: Collection[int] = (),
        fewer_than: int | None = None,
    ) -> Evacuation:
        """Place one after another, as long as the try may still be the best."""
        layout, ways, reasons = self._layout, list[Way](), dict(self._never)
        self._failed: set[int] = set()
        for instance in order:
            before = layout.places[instance]
            ahead, why = self._exits.best(layout, instance)
            if why is not None:
                reasons[instance] = why
                self._failed.add(instance)
                if not ways:
                    self._hopeless.add(instance)
                if _concerns(before, vital) or len(reasons) == fewer_than:
                    break
            if ahead is not None:
                layout, moves = ahead
                ways.append(Way(instance, moves, before, layout.places[instance]))
        return Evacuation(
            before=self._layout,
            after=layout,
            leaving=self._leaving,
            ways=tuple(ways),
            left=Reasons(reasons),
            exits=self._exits,
        )


def _saying(why: str) -> Why:
    return lambda: why


def failing(layout: Layout, nodes: Collection[int]) -> list[str]:
    """List the nodes that could not take over after the failure of one other node."""
    return [layout.nodes[index].host.name for index in nodes if layout.nodes[index].failing]
