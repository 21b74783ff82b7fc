"""Evacuate nodes: find places for all their instances together. Pure.

Each instance goes where its group's score is least afterwards. A place counts only if no remaining
node loses its ability to take over after another one's failure (N+1); see `moves_off`. The largest
go first. If an instance finds no place, the next try starts with it, as long as this leaves fewer
behind.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from nodeagent.errors import MessageError
from nodeagent.placement.cluster.cluster import Cluster, Group
from nodeagent.placement.evacuate.moves_off import Exits, Plain, Ranking, Why
from nodeagent.placement.layout.layout import Layout, Place, lay_out
from nodeagent.placement.layout.moves import Move
from nodeagent.placement.layout.node import Demand
from nodeagent.placement.layout.rules import Rules

_TRIES = 8
_EVERYBODY = Group("", "")
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

    @property
    def complete(self) -> bool:
        """Tell whether the nodes are empty then."""
        return not self.left

    def staying(self) -> list[int]:
        """List the nodes that may take instances, in the groups of the evacuated ones."""
        nodes = self.before.cluster.nodes
        groups = {nodes[index].group for index in self.leaving}
        return [n for n, node in enumerate(nodes) if node.group in groups and _stays(self, n)]


def _stays(found: Evacuation, index: int) -> bool:
    return index not in found.leaving and not found.before.nodes[index].host.offline


def evacuate(
    cluster: Cluster,
    names: Iterable[str],
    rules: Rules,
    doubts: Mapping[str, str] = _SURE,
    tries: int = _TRIES,
) -> Evacuation:
    """Evacuate the nodes of these names. MessageError if there is no such node.

    `doubts` say why nodes are offline in the cluster, if only their reports are missing. There are
    at most `tries` tries, at least one.
    """
    return Emptier(cluster, rules, doubts).empty(names, tries)


class Emptier:
    """A cluster whose nodes can be evacuated; laid out once.

    Arguments as `evacuate`'s; `ranking` is made for the remaining nodes, by group; `demands` are
    the instances', if known.
    """

    def __init__(
        self,
        cluster: Cluster,
        rules: Rules,
        doubts: Mapping[str, str] = _SURE,
        ranking: Callable[[Mapping[str, Sequence[int]]], Ranking] = Plain,
        demands: tuple[Demand, ...] | None = None,
    ) -> None:
        self._layout = lay_out(cluster, _EVERYBODY, rules, demands)
        self._doubts, self._ranking = doubts, ranking
        self._at = {node.name: index for index, node in enumerate(cluster.nodes)}
        self._gone = frozenset(
            index for index, node in enumerate(cluster.nodes) if node.offline and not node.memory
        )

    def moved(self, cluster: Cluster) -> "Emptier":
        """Return the same for a cluster in which only some instances have moved."""
        layout = self._layout
        return Emptier(cluster, layout.rules, self._doubts, self._ranking, layout.demands)

    def empty(self, names: Iterable[str], tries: int = _TRIES) -> Evacuation:
        """Evacuate these nodes by the try that leaves the least. MessageError as `evacuate`."""
        return self._emptying(names).best(tries)

    def fits(self, names: Collection[str], beside: Collection[str] = ()) -> Evacuation | None:
        """Evacuate these nodes and others beside them, in one try; None if these keep any.

        It stops at the first of their instances without a place.
        """
        return self._emptying([*names, *beside]).whole(frozenset(self._at[n] for n in names))

    def _emptying(self, names: Iterable[str]) -> "_Emptying":
        names = list(names)
        for name in names:
            if name not in self._at:
                raise MessageError(f"there is no node {name}")
        leaving = frozenset(self._at[name] for name in names)
        layout = _online(self._layout, leaving)
        exits = Exits(layout, leaving, self._gone, self._doubts, self._ranking)
        return _Emptying(layout, leaving, exits)


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
        self._never = {instance: _said(why) for instance, why in unmovable if why}
        self._order = sorted((i for i in here if i not in self._never), key=self._rank)

    def _rank(self, instance: int) -> tuple[int, int, int]:
        """Rank an instance: first where it can run; DRBD instances have the least choice."""
        demand, at = self._layout.demands[instance], self._layout.places[instance]
        if at.primary not in self._leaving:
            return 2, -demand.disk, instance
        return (0 if demand.mirrored else 1), -demand.memory, instance

    def best(self, tries: int) -> Evacuation:
        order = self._order
        found: Evacuation | None = None
        first: list[int] = []
        for _ in range(tries):
            tried = self._try([*first, *(i for i in order if i not in first)])
            if found is None or len(tried.left) < len(found.left):
                found = tried
            failed = [i for i in order if i in tried.left]
            if not failed or failed == first[: len(failed)]:
                break
            first = [*failed, *(i for i in first if i not in failed)]
        assert found is not None
        return found

    def whole(self, nodes: frozenset[int]) -> Evacuation | None:
        """Return one try, if it leaves nothing on these nodes."""
        if any(self._concerns(instance, nodes) for instance in self._never):
            return None
        tried = self._try(self._order, nodes)
        return None if any(self._concerns(instance, nodes) for instance in tried.left) else tried

    def _concerns(self, instance: int, nodes: Collection[int]) -> bool:
        at = self._layout.places[instance]
        return at.primary in nodes or at.secondary in nodes

    def _try(self, order: Sequence[int], vital: Collection[int] = ()) -> Evacuation:
        """Place one after another; stop at the first that stays on a vital node."""
        layout, ways, left = self._layout, [], dict(self._never)
        for instance in order:
            before = layout.places[instance]
            ahead, why = self._exits.best(layout, instance)
            if why is not None:
                left[instance] = why
                if self._concerns(instance, vital):
                    break
            if ahead is not None:
                layout, moves = ahead
                ways.append(Way(instance, moves, before, layout.places[instance]))
        return Evacuation(self._layout, layout, self._leaving, tuple(ways), Reasons(left))


def _said(why: str) -> Why:
    return lambda: why


def failing(layout: Layout, nodes: Collection[int]) -> list[str]:
    """List the nodes that could not take over after the failure of one other node."""
    return [layout.nodes[index].host.name for index in nodes if layout.nodes[index].failing]
