"""Place a new instance with the least loss of later placements: exclusive storage. Pure.

A node's allocation vector counts, for each range of the policy, the largest first, how many
instances of the range's least size still fit. A placement lowers it by the lost allocations. The
place with the lexicographically least (lost allocations, disk left over) wins (design "Allocation
for Partitioned Ganeti").

A pair's metric is the sum of its nodes', so the best pair needs no trial of all. A secondary node's
loss depends on the primary only if it already is secondary of that node's instances.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import inf

from nodeagent.errors import MessageError
from nodeagent.placement.allocate.candidates import NOBODY, Pick, Selection
from nodeagent.placement.cluster.cluster import Load, Policy
from nodeagent.placement.layout.node import (
    Demand,
    Filled,
    Refused,
    add_primary,
    add_secondary,
    ratio,
)

Vector = tuple[int, ...]
Loss = tuple[Vector, int]


def sizes(policy: Policy) -> tuple[Demand, ...]:
    """Return the least instance of each range, by decreasing disk."""
    least = sorted((pair[0] for pair in policy.ranges), key=lambda spec: -spec.disk)
    return tuple(
        Demand(
            memory=spec.memory,
            used=spec.memory,
            reserved=0,
            disk=spec.disk,
            vcpus=spec.vcpus,
            load=Load(),
            local=True,
            mirrored=False,
            spindle_use=spec.spindles,
            spindles=0,  # physical disks do not count
            forthcoming=False,
        )
        for spec in least
    )


def vector(node: Filled, least: Sequence[Demand]) -> Vector:
    """Count how many instances of each size still fit, of one size alone."""
    return tuple(room(node, size) for size in least)


def room(node: Filled, size: Demand) -> int:
    """Count how often `add_primary` would succeed with this size in a row."""
    host = node.host
    if not host.exclusive:
        return _counted(node, size)
    if min(node.present.spindles, node.promised.spindles) < 0:
        return 0
    if max(node.present.pressure, node.promised.pressure) > host.spindle_limit:
        return 0
    stay = 0 if node.failing else max(0, node.reserved)
    disk = min(node.present.disk, node.promised.disk)
    fits = min(
        _times(node.present.memory, size.used, stay + 1),
        _times(node.promised.memory, size.memory, 1),
        _times(disk, size.disk, max(1, host.low_disk)),
    )
    if host.cpu_ratio >= 0:
        used = max(node.present.cpus, node.promised.cpus)
        fits = min(fits, _processors(used, size.vcpus, host.cpus, host.cpu_ratio))
    if fits == inf:
        raise MessageError("the policy's least size takes nothing, so any number of it would fit")
    return int(fits)


def _times(free: int, size: int, least: int) -> float:
    """Count how often a size can be taken so that at least so much stays."""
    if free - size < least:
        return 0
    return (free - least) // size if size else inf


def _processors(used: int, each: int, cpus: float, limit: float) -> float:
    """Count how often so many virtual CPUs fit; the comparison decides, not the quotient."""
    if limit < ratio(used + each, cpus):
        return 0
    if not each or not cpus:
        return inf
    times = max(1, int((limit * cpus - used) // each))
    while limit < ratio(used + times * each, cpus):
        times -= 1
    while not limit < ratio(used + (times + 1) * each, cpus):
        times += 1
    return times


def _counted(node: Filled, size: Demand) -> int:
    if not (size.memory or size.disk):
        raise MessageError("the policy's least size takes nothing, so any number of it would fit")
    times = 0
    after = add_primary(node, size)
    while not isinstance(after, Refused):
        times += 1
        after = add_primary(after, size)
    return times


class Judge:
    """Each node's loss to one instance; judges nodes in the same state once."""

    def __init__(self, demand: Demand, policy: Policy, *, force: bool) -> None:
        self.demand, self.force = demand, force
        self._least = sizes(policy)
        self._vectors: dict[object, Vector] = {}
        self._primaries: dict[object, Loss | Refused] = {}
        self._secondaries: dict[object, Loss | Refused] = {}

    def primary(self, node: Filled) -> Loss | Refused:
        """Return the metric of this primary node."""
        state = _state(node), any(tag in node.promised.exclusion for tag in self.demand.exclusion)
        if state not in self._primaries:
            self._primaries[state] = self._loss(node, self.put(node))
        return self._primaries[state]

    def secondary(self, node: Filled, primary: int = NOBODY) -> Loss | Refused:
        """Return the metric of this secondary node, for the primary node with this index."""
        state = _state(node), node.reserved_for.get(primary, 0)
        if state not in self._secondaries:
            self._secondaries[state] = self._loss(node, self.mirror(node, primary))
        return self._secondaries[state]

    def put(self, node: Filled) -> Filled | Refused:
        return add_primary(node, self.demand, force=self.force)

    def mirror(self, node: Filled, primary: int) -> Filled | Refused:
        return add_secondary(node, self.demand, primary)

    def _loss(self, node: Filled, after: Filled | Refused) -> Loss | Refused:
        if isinstance(after, Refused):
            return after
        pairs = zip(self._vector(node), self._vector(after), strict=True)
        return tuple(before - then for before, then in pairs), after.present.disk

    def _vector(self, node: Filled) -> Vector:
        state = _state(node)
        if state not in self._vectors:
            self._vectors[state] = vector(node, self._least)
        return self._vectors[state]


def choose_one(nodes: Sequence[Filled], judge: Judge) -> Selection:
    selection = Selection()
    best: tuple[Loss, Filled] | None = None
    for node in nodes:
        loss = judge.primary(node)
        if isinstance(loss, Refused):
            selection.refuse(loss)
            continue
        selection.successes += 1
        if best is None or not best[0] < loss:
            best = loss, node
    if best is not None:
        after = judge.put(best[1])
        assert not isinstance(after, Refused)
        selection.prefer(Pick((after,), best[0]))
    return selection


def choose_pair(primaries: Sequence[Filled], nodes: Sequence[Filled], judge: Judge) -> Selection:
    """Choose the best of these primary nodes, a part of the nodes, with its best secondary."""
    return _Pairs(nodes, judge).choose(primaries)


class _Pairs:
    def __init__(self, nodes: Sequence[Filled], judge: Judge) -> None:
        self.nodes, self.judge = nodes, judge
        self.places = {node.host.index: place for place, node in enumerate(nodes)}
        self.secondaries = [judge.secondary(node) for node in nodes]
        losses = [
            (loss, -place)
            for place, loss in enumerate(self.secondaries)
            if not isinstance(loss, Refused)
        ]
        self.ranked = sorted(losses)
        # By the primary node's index, the places of nodes that are secondary of its instances
        # already.
        self.acquainted: dict[int, list[int]] = defaultdict(list)
        for place, node in enumerate(nodes):
            for primary in node.reserved_for:
                self.acquainted[primary].append(place)

    def choose(self, primaries: Sequence[Filled]) -> Selection:
        selection = Selection()
        outcomes = Counter(map(_outcome, self.secondaries))
        best: tuple[Loss, int, int] | None = None
        for node in primaries:
            place, loss = self.places[node.host.index], self.judge.primary(node)
            if isinstance(loss, Refused):
                selection.refuse(loss, len(self.nodes) - 1)
                continue
            known = {
                other: self.judge.secondary(self.nodes[other], node.host.index)
                for other in self.acquainted.get(node.host.index, ())
                if other != place
            }
            # All of them, without itself, and with its own metric for those in `known`.
            selection.failures.update(outcomes)
            for other in (place, *known):
                selection.failures[_outcome(self.secondaries[other])] -= 1
            selection.failures.update(map(_outcome, known.values()))
            partner = self._partner(place, known)
            if partner is None:
                continue
            (lost, remaining), other = partner
            pairs = zip(loss[0], lost, strict=True)
            whole = (
                tuple(at_primary + at_secondary for at_primary, at_secondary in pairs),
                loss[1] + remaining,
            )
            if best is None or not best[0] < whole:
                best = whole, place, other
        selection.successes = selection.failures.pop("", 0)
        if best is not None:
            loss, place, other = best
            selection.prefer(Pick(self._filled(place, other), loss))
        return selection

    def _partner(self, place: int, known: dict[int, Loss | Refused]) -> tuple[Loss, int] | None:
        """Return the best secondary node of a primary one; of equals the last."""
        offers = [(loss, -other) for other, loss in known.items() if not isinstance(loss, Refused)]
        for loss, other in self.ranked:
            if -other != place and -other not in known:
                offers.append((loss, other))
                break
        if not offers:
            return None
        loss, other = min(offers)
        return loss, -other

    def _filled(self, place: int, other: int) -> tuple[Filled, Filled]:
        first = self.nodes[place]
        primary = self.judge.put(first)
        secondary = self.judge.mirror(self.nodes[other], first.host.index)
        assert not isinstance(primary, Refused)
        assert not isinstance(secondary, Refused)
        return primary, secondary


def _outcome(loss: Loss | Refused) -> str:
    return loss if isinstance(loss, Refused) else ""


def _state(node: Filled) -> tuple[object, ...]:
    """Return everything that decides what fits, without exclusion tags and its peers."""
    host = node.host
    return (
        node.present.memory,
        node.present.disk,
        node.present.spindles,
        node.present.cpus,
        node.present.pressure,
        node.reserved,
        node.failing,
        node.promised.memory,
        node.promised.disk,
        node.promised.spindles,
        node.promised.cpus,
        node.promised.pressure,
        host.exclusive,
        host.low_disk,
        host.cpus,
        host.cpu_ratio,
        host.spindle_limit,
    )
