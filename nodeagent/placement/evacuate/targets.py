"""The best nodes for one more instance, all at once: a ranking. Pure. Needs NumPy.

Nodes that stay below their spindle ratio come first. Then the group's score afterwards decides, and
of scores that are equal to nine digits the first node. The checks are those of `moves`, made one
after another in this order; this module only drops places that cannot pass them.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from nodeagent.placement.layout.arrays import SPREADS, WEIGHT, Bools, Floats
from nodeagent.placement.layout.layout import Layout
from nodeagent.placement.layout.moves import Kind, Move, Moved, attempt
from nodeagent.placement.layout.node import (
    Demand,
    Filled,
    Refused,
    add_primary,
    remove_primary,
    remove_secondary,
)
from nodeagent.placement.layout.score import COMPONENTS, measure

_DIGITS = 9
_ROW = {part.name: n for n, part in enumerate(COMPONENTS)}
_WEIGHTS = np.array([COMPONENTS[n].weight for n in SPREADS])
# The instance runs at the target; the other kinds make it the secondary.
_RUNS = (Kind.FAILOVER_ANY, Kind.REPLACE_FAILOVER)


class Arrivals:
    """`members` are the nodes that count for the score, by group."""

    def __init__(self, members: Mapping[str, Sequence[int]]) -> None:
        self.members = members
        self._of: dict[str, _Columns] = {}

    def shuffled(self, instances: Sequence[int], seed: int) -> list[int]:
        """Return the instances in an order drawn by lot, the same for the same seed."""
        order = np.random.default_rng(seed).permutation(len(instances))
        return [instances[n] for n in order]

    def best_first(
        self, layout: Layout, instance: int, kind: Kind, targets: Sequence[int]
    ) -> Iterator[tuple[Move, Moved]]:
        """Yield the allowed moves, the best first; each is tried only when the caller takes it."""
        changed = _left(layout, instance, kind)
        if changed is None:
            return
        for target in self._ranked(layout, instance, kind, targets, changed, checked=True):
            move = Move(instance, kind, target)
            after = attempt(layout, move)
            if isinstance(after, Moved):
                yield move, after

    def best(self, layout: Layout, instance: int, kind: Kind, targets: Sequence[int]) -> int:
        """Return the best of these targets, whatever the checks say of each."""
        changed = _left(layout, instance, kind) or {}
        return self._ranked(layout, instance, kind, targets, changed, checked=False)[0]

    def _ranked(
        self,
        layout: Layout,
        instance: int,
        kind: Kind,
        targets: Sequence[int],
        changed: Mapping[int, Filled],
        *,
        checked: bool,
    ) -> list[int]:
        """Sort the targets, the best first; `checked` drops those that the checks would refuse."""
        if not targets:
            return []
        demand, at = layout.demands[instance], layout.places[instance]
        columns = self._columns(layout, layout.cluster.nodes[at.primary].group)
        columns.read(layout.nodes, changed)
        lenient = layout.rules.ignore_soft
        if kind in _RUNS:
            peer = at.primary if kind is Kind.REPLACE_FAILOVER else -1
            scores = columns.as_primary(demand, layout.nodes[peer] if peer >= 0 else None)
            refused = columns.no_primary(demand, lenient=lenient)
        else:
            peer = at.primary if kind is Kind.REPLACE else at.secondary
            scores = columns.as_secondary(demand, changed.get(peer, layout.nodes[peer]))
            refused = columns.no_secondary(demand, peer, lenient=lenient)
        places = np.array([columns.place[target] for target in targets])
        order = np.lexsort((np.round(scores[places], _DIGITS), columns.crowded(demand)[places]))
        return [targets[n] for n in order if not (checked and refused[places[n]])]

    def _columns(self, layout: Layout, group: str) -> "_Columns":
        if group not in self._of:
            self._of[group] = _Columns([layout.nodes[n] for n in self.members[group]])
        return self._of[group]


def _left(layout: Layout, instance: int, kind: Kind) -> Mapping[int, Filled] | None:
    """Return the remaining nodes before the target has its part; None if one refuses."""
    demand, (p, s, shared) = layout.demands[instance], layout.places[instance]
    if kind in _RUNS:
        return {}
    if kind is Kind.REPLACE:
        node = add_primary(remove_primary(layout.nodes[p], demand, shared), demand, force=True)
        return None if isinstance(node, Refused) else {p: node}
    without = remove_secondary(layout.nodes[s], demand, p)
    node = add_primary(without, demand, force=layout.rules.ignore_soft)
    return None if isinstance(node, Refused) else {s: node}


class _Columns:
    """A group's nodes as arrays, one column each; read again after a node's change."""

    def __init__(self, nodes: Sequence[Filled]) -> None:
        hosts = [node.host for node in nodes]
        self.place = {host.index: n for n, host in enumerate(hosts)}
        self._nodes: list[Filled | None] = [None] * len(nodes)
        self._online = np.array([not host.offline for host in hosts], bool)
        self._count = int(self._online.sum())
        self._exclusive = np.array([host.exclusive for host in hosts], bool)
        self._locations = [host.locations for host in hosts]
        self._placing = any(self._locations)
        self._memory = _parts([host.memory for host in hosts])
        self._disk = _parts([h.spindles if h.exclusive else h.disk for h in hosts])
        self._cpus = _parts([host.cpus * host.speed for host in hosts])
        self._spindle_limit = np.array([host.spindle_limit for host in hosts])
        self._pressure = _parts([host.spindle_limit for host in hosts])
        count = len(nodes)
        self._values = np.zeros((len(COMPONENTS), count))
        self._free, self._room, self._reserved = (np.zeros(count) for _ in range(3))
        self._spindles = np.zeros(count)
        self._failing = np.zeros(count, bool)

    def read(self, nodes: Sequence[Filled], changed: Mapping[int, Filled]) -> None:
        """Read the present nodes and the changed ones."""
        for index, n in self.place.items():
            node = changed.get(index) or nodes[index]
            if node is not self._nodes[n]:
                self._nodes[n] = node
                self._values[:, n] = measure(node)
                self._free[n], self._room[n] = node.free_memory, node.free_disk
                self._reserved[n], self._failing[n] = node.reserved, node.failing
                self._spindles[n] = max(node.used_spindles, node.promised_spindles)

    def no_primary(self, demand: Demand, *, lenient: bool) -> Bools:
        """Mark nodes that cannot run it, as far as memory and disk show."""
        if demand.forthcoming:
            return np.zeros(len(self._free), bool)
        free = self._free - demand.used
        no: Bools = free <= 0
        if demand.local:
            no |= self._room - demand.disk <= 0
        if not lenient:
            no |= (free <= self._reserved) & ~self._failing
        return no

    def no_secondary(self, demand: Demand, peer: int, *, lenient: bool) -> Bools:
        if demand.forthcoming:
            return np.zeros(len(self._free), bool)
        no: Bools = self._room - demand.disk <= 0
        if not lenient:
            reserved = self._then_reserved(demand, peer)
            no |= (demand.reserved >= self._free) | ((self._free <= reserved) & ~self._failing)
        return no

    def crowded(self, demand: Demand) -> Bools:
        """Mark nodes on which it would exceed the spindle ratio."""
        pressure = np.where(self._exclusive, 0, demand.spindle_use if demand.local else 0)
        found: Bools = (pressure > 0) & (self._spindles + pressure > self._spindle_limit)
        return found

    def as_primary(self, demand: Demand, mirror: Filled | None) -> Floats:
        """Return the score change if each node ran it; `mirror` is its other node."""
        change = self._promised(demand)
        change[_ROW["free_mem_cv_forth"]] = -demand.memory * self._memory
        change[_ROW["vcpu_ratio_cv_forth"]] = demand.vcpus * self._cpus
        steps = self._crowded(demand)
        if not demand.forthcoming:
            self._here(change, demand)
            change[_ROW["free_mem_cv"]] = -demand.used * self._memory
            change[_ROW["vcpu_ratio_cv"]] = demand.vcpus * self._cpus
            change[_ROW["cpu_load_cv"]] = demand.load.cpu
            change[_ROW["mem_load_cv"]] = demand.load.memory
            change[_ROW["net_load_cv"]] = demand.load.net
            steps += self._misplaced(demand, mirror)
            steps += self._failed(self._free - demand.used <= self._reserved)
        return self._scored(change) + steps

    def as_secondary(self, demand: Demand, primary: Filled) -> Floats:
        """Return the score change if each node became the secondary of that other one."""
        change = self._promised(demand)
        steps = np.zeros(len(self._free))
        if not demand.forthcoming:
            self._here(change, demand)
            reserved = self._then_reserved(demand, primary.host.index)
            more = (reserved - self._reserved) * self._memory
            change[_ROW["reserved_mem_cv"]] = more
            steps += more * WEIGHT["reserved_mem_rtotal"]
            steps += self._failed(self._free <= reserved)
            at = self.place.get(primary.host.index)
            if at is not None and self._online[at]:
                steps += self._common(primary) * WEIGHT["location_score"]
        return self._scored(change) + steps

    def _then_reserved(self, demand: Demand, peer: int) -> Floats:
        had = [node.reserved_for.get(peer, 0) for node in self._nodes if node is not None]
        found: Floats = np.maximum(self._reserved, np.array(had, float) + demand.reserved)
        return found

    def _promised(self, demand: Demand) -> Floats:
        change = np.zeros_like(self._values)
        change[_ROW["free_disk_cv_forth"]] = self._disks(demand, "free_disk_cv_forth")
        change[_ROW["spindles_cv_forth"]] = self._pressed(demand)
        return change

    def _here(self, change: Floats, demand: Demand) -> None:
        change[_ROW["free_disk_cv"]] = self._disks(demand, "free_disk_cv")
        change[_ROW["spindles_cv"]] = self._pressed(demand)
        change[_ROW["disk_load_cv"]] = demand.load.disk

    def _disks(self, demand: Demand, component: str) -> Floats:
        """Return the used part of each disk or its spindles; unknown means all, and one more."""
        taken = -(demand.disk if demand.local else 0) * self._disk
        if not self._exclusive.any():
            return taken
        if demand.spindles is None:
            there = self._values[_ROW[component]]
            own = np.where(self._disk > 0, -(there + self._disk), 0.0)
        else:
            own = -demand.spindles * self._disk
        return np.where(self._exclusive, own, taken)

    def _pressed(self, demand: Demand) -> Floats:
        pressure = demand.spindle_use if demand.local else 0
        return np.where(self._exclusive, 0, pressure) * self._pressure

    def _failed(self, fails: Bools) -> Floats:
        """Count the instances on a node that fails N+1 then, less those on one that does now."""
        instances, failed = self._values[_ROW["offline_all_cnt"]], self._values[_ROW["n1_cnt"]]
        found: Floats = (fails * (instances + 1) - failed) * WEIGHT["n1_cnt"]
        return found

    def _misplaced(self, demand: Demand, mirror: Filled | None) -> Floats:
        steps = np.zeros(len(self._free))
        if demand.desired:
            steps += [len(demand.desired - locations) for locations in self._locations]
        if mirror is not None:
            steps += self._common(mirror)
        return steps * WEIGHT["location_score"]

    def _common(self, peer: Filled) -> Floats:
        if not self._placing:
            return np.zeros(len(self._free))
        there = peer.host.locations
        return np.array([len(locations & there) for locations in self._locations], float)

    def _crowded(self, demand: Demand) -> Floats:
        """Count exclusion tags that are at the node already, and at its locations."""
        steps = np.zeros(len(self._free))
        if not demand.exclusion:
            return steps
        tags = {tag: demand.exclusion.count(tag) for tag in demand.exclusion}
        there = {} if demand.forthcoming else self._clashing()
        for n, node in enumerate(self._nodes):
            assert node is not None
            for tag, times in tags.items():
                steps[n] += (times - (tag not in node.exclusion)) * WEIGHT["pri_tags_score"]
                if not demand.forthcoming:
                    clashes = sum(times - ((at, tag) not in there) for at in self._locations[n])
                    steps[n] += clashes * WEIGHT["location_exclusion_score"]
        return steps

    def _clashing(self) -> set[tuple[str, str]]:
        return {
            (location, tag)
            for n, node in enumerate(self._nodes)
            if node is not None and self._online[n]
            for location in self._locations[n]
            for tag in node.settled
        }

    def _scored(self, change: Floats) -> Floats:
        """Return the weighed spreads, with each of the columns changed by itself."""
        values, change = self._values[SPREADS], change[SPREADS]
        mean = values[:, self._online].mean(axis=1)
        above = np.where(self._online, values - mean[:, None], 0.0)
        n = self._count
        squares = (above * above).sum(axis=1)[:, None] + change * (2.0 * above + change)
        shift = (above.sum(axis=1)[:, None] + change) / n
        found: Floats = _WEIGHTS @ np.sqrt(np.maximum(squares / n - shift * shift, 0.0))
        return found


def _parts(wholes: Sequence[float]) -> Floats:
    return np.array([1.0 / whole if whole else 0.0 for whole in wholes])
