"""Rolling maintenance: groups of nodes that can be rebooted together, as hroller finds them. Pure.

Two nodes are in one group only if no instance has DRBD disks on both. Unless all instances are shut
down before, no third node may be the secondary of instances of both: then all running instances of
a group can be migrated off it at once. Instances without DRBD need a place elsewhere in their node
group. Only the impossible counts there, and before the next group they are back in their places.

Groups, their order and the places of such instances are those of hroller 3.0.2 and 3.1. As there,
such instances also leave the nodes between the first and the last requested one (`bystanders`),
though these are in no group.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nodeagent.errors import MessageError
from nodeagent.placement.cluster.cluster import Cluster, Template
from nodeagent.placement.evacuate.colouring import WAYS, Colours, Graph, best
from nodeagent.placement.layout.layout import Layout, Place, group_of
from nodeagent.placement.layout.node import Filled, Refused, add_primary, remove_primary


class Relocation(NamedTuple):
    """An instance without DRBD, and the node that takes it meanwhile."""

    instance: int
    target: int


class Batch(NamedTuple):
    """Nodes that go together; and the moves for it, in the instances' order."""

    nodes: tuple[int, ...]
    relocations: tuple[Relocation, ...] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """The choice among online nodes, and hroller's other options.

    `group` is a name or UUID, `tags` are of nodes, and one is enough. With `shut_down` no instance
    runs. `skip` leaves out nodes with an instance without DRBD, `ignore` ignores such instances.
    """

    group: str | None = None
    tags: frozenset[str] | None = None
    shut_down: bool = False
    skip: bool = False
    ignore: bool = False


@dataclass(frozen=True, slots=True)
class Rolling:
    """The batches in their order, and the colouring of each way."""

    batches: tuple[Batch, ...]
    coloured: Mapping[str, Colours]


def roll(layout: Layout, wanted: Wanted) -> Rolling:
    """Find the batches. MessageError without any node, or if an instance finds no place."""
    chosen = choose(layout, wanted)
    if not chosen:
        raise MessageError("none of the nodes named is online")
    bystanders = range(min(chosen), max(chosen) + 1)
    graph = conflicts(layout, bystanders, chosen, shut_down=wanted.shut_down)
    coloured = {name: way(graph) for name, way in WAYS.items()}
    split = _Split(layout)
    batches = [
        batch
        for together in best(coloured.values())
        for batch in ([Batch(tuple(together))] if wanted.ignore else split.batches(together))
    ]
    inside = frozenset(chosen)
    asked = [Batch(tuple(n for n in b.nodes if n in inside), b.relocations) for b in batches]
    return Rolling(tuple(in_turn(layout.cluster, asked)), coloured)


def choose(layout: Layout, wanted: Wanted) -> list[int]:
    """Return the chosen nodes, in the cluster's order. MessageError: there is no such group."""
    nodes = layout.cluster.nodes
    group = None if wanted.group is None else group_of(layout.cluster, wanted.group).uuid
    held = set(_single(layout)) if wanted.skip else set()
    return [
        index
        for index, node in enumerate(nodes)
        if not layout.nodes[index].host.offline
        and (group is None or node.group == group)
        and (wanted.tags is None or wanted.tags.intersection(node.tags))
        and index not in held
    ]


def conflicts(
    layout: Layout, vertices: Iterable[int], chosen: Collection[int], *, shut_down: bool
) -> Graph:
    """Return the graph of nodes that exclude each other; with edges between chosen ones only.

    There is an edge for each instance, and one if only a third node prevents it. The order of a
    node's edges is hroller's.
    """
    graph: dict[int, list[int]] = {vertex: [] for vertex in vertices}
    inside = frozenset(chosen)
    edges = list(_pairs(layout))
    if not shut_down:
        known = set(edges)
        edges += [edge for edge in _shared(layout) if edge not in known]
    for node, other in reversed(edges):
        if node in inside and other in inside:
            graph[node].append(other)
    return graph


def in_turn(cluster: Cluster, batches: Iterable[Batch]) -> list[Batch]:
    """Sort batches: the largest first, but the master last of all."""
    master = {index for index, node in enumerate(cluster.nodes) if node.master}
    ordered = []
    for batch in sorted(batches, key=lambda batch: -len(batch.nodes)):
        nodes = tuple(sorted(batch.nodes, key=lambda index: index in master))
        ordered.append(Batch(nodes, batch.relocations))
    return sorted(ordered, key=lambda batch: bool(master.intersection(batch.nodes)))


def _pairs(layout: Layout) -> Iterator[tuple[int, int]]:
    for instance, place in zip(layout.cluster.instances, layout.places, strict=True):
        if instance.template is Template.DRBD:
            yield place.primary, place.secondary
            yield place.secondary, place.primary


def _shared(layout: Layout) -> Iterator[tuple[int, int]]:
    """Yield all pairs of nodes, also with themselves, that share a secondary node; each once."""
    primaries: list[dict[int, None]] = [{} for _ in layout.nodes]
    for number, place in _last_first(layout):
        if place.secondary != -1:
            primaries[place.secondary].setdefault(layout.places[number].primary)
    yielded: set[tuple[int, int]] = set()
    for some in primaries:
        for edge in ((node, other) for node in some for other in some):
            if edge not in yielded:
                yielded.add(edge)
                yield edge


def _last_first(layout: Layout) -> Iterator[tuple[int, Place]]:
    """Yield the existing instances, without forthcoming ones, in the htools' order of a node's."""
    for number in reversed(range(len(layout.places))):
        if not layout.demands[number].forthcoming:
            yield number, layout.places[number]


def _single(layout: Layout) -> dict[int, list[int]]:
    """Return by node the instances without DRBD."""
    by_node: dict[int, list[int]] = {}
    for number, place in _last_first(layout):
        if layout.cluster.instances[number].template is not Template.DRBD:
            by_node.setdefault(place.primary, []).append(number)
    return by_node


class _Split:
    """Splits a group into batches whose instances without DRBD can leave at once."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.single = _single(layout)
        self.online: dict[str, list[int]] = {}
        for index, node in enumerate(layout.cluster.nodes):
            if not layout.nodes[index].host.offline:
                self.online.setdefault(node.group, []).append(index)

    def batches(self, nodes: Iterable[int]) -> Iterator[Batch]:
        """Yield as many nodes as can be evacuated together, then of the rest, and so on."""
        rest = list(nodes)
        while rest:
            batch = self._batch(rest)
            yield batch
            rest = [index for index in rest if index not in batch.nodes]

    def _batch(self, nodes: Sequence[int]) -> Batch:
        state = _State(self)
        stuck = [instance for index in nodes if (instance := state.empty(index)) is not None]
        if not state.emptied:
            name = self.layout.cluster.instances[stuck[0]].name
            raise MessageError(f"instance {name}: no other node of its group has room for it")
        moves = sorted(state.at.items())
        return Batch(tuple(state.emptied), tuple(Relocation(*move) for move in moves))


class _State:
    def __init__(self, split: _Split) -> None:
        self.split = split
        self.emptied: dict[int, None] = {}
        self.at: dict[int, int] = {}
        self._nodes: dict[int, Filled] = {}
        self._came: dict[int, list[int]] = {}

    def empty(self, index: int) -> int | None:
        """Move all instances to the first nodes with room, or none; return one without a place."""
        split, group = self.split, self.split.layout.cluster.nodes[index].group
        nodes: dict[int, Filled] = {}
        moved: dict[int, int] = {}
        targets = [n for n in split.online.get(group, ()) if n != index and n not in self.emptied]
        here: list[int] = [*reversed(self._came.get(index, ())), *split.single.get(index, ())]
        for instance in here:
            for target in targets:
                after = self._with(nodes, target, instance)
                if not isinstance(after, Refused):
                    break
            else:
                return instance
            demand = split.layout.demands[instance]
            nodes[target] = after
            nodes[index] = remove_primary(self._node(nodes, index), demand)
            moved[instance] = target
        self._nodes.update(nodes)
        self.at.update(moved)
        for instance, target in moved.items():
            self._came.setdefault(target, []).append(instance)
        self.emptied[index] = None
        return None

    def _with(self, nodes: Mapping[int, Filled], target: int, instance: int) -> Filled | Refused:
        demand = self.split.layout.demands[instance]
        return add_primary(self._node(nodes, target), demand, force=True)

    def _node(self, nodes: Mapping[int, Filled], index: int) -> Filled:
        return nodes.get(index) or self._nodes.get(index) or self.split.layout.nodes[index]
