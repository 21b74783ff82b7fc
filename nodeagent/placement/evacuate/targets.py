"""The best nodes for one more instance, all at once: a ranking. Pure. Needs NumPy.

Nodes that stay in service come before those that leave soon (`Rules.leaving`), and of these the
ones that stay below their spindle ratio. Then the group's score afterwards decides, and
of scores that are equal to nine digits the first node. The checks are those of `moves`, made one
after another in this order; this module only drops places that cannot pass them.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from nodeagent.placement.layout.arrays import (
    DISK,
    FREE,
    P_PRESSURE,
    PLACE,
    PRESSURE,
    SPREADS,
    WEIGHT,
    Bools,
    Columns,
    Floats,
    parts_of,
)
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
from nodeagent.placement.layout.score import COMPONENTS

_DIGITS = 9
_WEIGHTS = np.array([COMPONENTS[n].weight for n in SPREADS])
# The instance runs at the target; the other kinds make it the secondary.
_RUNS = (Kind.FAILOVER_ANY, Kind.REPLACE_FAILOVER)


class Arrivals:
    """`members` are the nodes that count for the score, by group."""

    def __init__(self, members: Mapping[str, Sequence[int]]) -> None:
        self.members = members
        self._of: dict[str, Scores] = {}

    def shuffled(self, instances: Sequence[int], seed: int) -> list[int]:
        """Return the instances in an order drawn by lot, the same for the same seed."""
        order = np.random.default_rng(seed).permutation(len(instances))
        return [instances[n] for n in order]

    def best_first(
        self, layout: Layout, instance: int, kind: Kind, targets: Sequence[int]
    ) -> Iterator[tuple[Move, Moved]]:
        """Yield the allowed moves, the best first; each is tried only when the caller takes it."""
        changed = _without_target(layout, instance, kind)
        if changed is None:
            return
        for target in self._ranked(layout, instance, kind, targets, changed, checked=True):
            move = Move(instance, kind, target)
            after = attempt(layout, move)
            if isinstance(after, Moved):
                yield move, after

    def best(self, layout: Layout, instance: int, kind: Kind, targets: Sequence[int]) -> int:
        """Return the best of these targets, whatever the checks say of each."""
        changed = _without_target(layout, instance, kind) or {}
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
        columns = self._scores(layout, layout.cluster.nodes[at.primary].group)
        columns.follow(layout.nodes, changed)
        lenient = layout.rules.ignore_soft
        if kind in _RUNS:
            peer = at.primary if kind is Kind.REPLACE_FAILOVER else -1
            scores = columns.as_primary(demand, layout.nodes[peer] if peer >= 0 else None)
            refused = columns.no_primary(demand, lenient=lenient)
        else:
            peer = at.primary if kind is Kind.REPLACE else at.secondary
            scores = columns.as_secondary(demand, changed.get(peer, layout.nodes[peer]))
            refused = columns.no_secondary(demand, peer, lenient=lenient)
        places = np.array([columns.column[target] for target in targets])
        crowded = columns.crowded(demand)
        left_node = at.secondary if kind is Kind.REPLACE else at.primary
        if not (lenient or demand.forthcoming or layout.nodes[left_node].host.offline):
            refused |= crowded & ~columns.crowdable
        keys = [np.round(scores[places], _DIGITS), crowded[places]]
        if leaving := layout.rules.leaving:
            names = (layout.nodes[target].host.name for target in targets)
            keys.append(np.array([leaving.get(name, 0) for name in names]))
        order = np.lexsort(keys)
        return [targets[n] for n in order if not (checked and refused[places[n]])]

    def _scores(self, layout: Layout, group: str) -> "Scores":
        if group not in self._of:
            self._of[group] = Scores([layout.nodes[n] for n in self.members[group]])
        return self._of[group]


def _without_target(layout: Layout, instance: int, kind: Kind) -> Mapping[int, Filled] | None:
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


class Scores(Columns):
    """The change of the score by one more instance at each node, and the checks of arrays."""

    def __init__(self, nodes: Sequence[Filled]) -> None:
        super().__init__(nodes)
        hosts = [node.host for node in nodes]
        self.crowdable = np.array([host.crowdable for host in hosts], bool)
        spindles = [host.spindles if host.exclusive else 0 for host in hosts]
        self._spindle_part = parts_of(spindles)

    def follow(self, nodes: Sequence[Filled], changed: Mapping[int, Filled]) -> None:
        """Read those of the present nodes, and of the changed ones, that are new."""
        for index, column in self.column.items():
            node = changed.get(index) or nodes[index]
            if node is not self.nodes[column]:
                self.read(node)

    def no_primary(self, demand: Demand, *, lenient: bool) -> Bools:
        """Mark nodes that cannot run it, as far as memory and disk show."""
        if demand.forthcoming:
            return np.zeros(self.count, bool)
        free = self.state[FREE] - demand.used
        no: Bools = free <= 0
        if demand.local:
            no |= self.state[DISK] - demand.disk <= 0
        if not lenient:
            no |= (free <= self.reserved) & ~self.failing
        return no

    def no_secondary(self, demand: Demand, peer: int, *, lenient: bool) -> Bools:
        if demand.forthcoming:
            return np.zeros(self.count, bool)
        free = self.state[FREE]
        no: Bools = self.state[DISK] - demand.disk <= 0
        if not lenient:
            reserved = self._then_reserved(demand, peer)
            no |= (demand.reserved >= free) | ((free <= reserved) & ~self.failing)
        return no

    def crowded(self, demand: Demand) -> Bools:
        """Mark nodes on which it would exceed the spindle ratio."""
        pressure = np.where(self.exclusive, 0, demand.spindle_use if demand.local else 0)
        used = np.maximum(self.state[PRESSURE], self.state[P_PRESSURE])
        crowded: Bools = (pressure > 0) & (used + pressure > self.pressure_limit)
        return crowded

    def as_primary(self, demand: Demand, mirror: Filled | None) -> Floats:
        """Return the score change if each node ran it; `mirror` is its other node."""
        steps = self._crowding(demand)
        if not demand.forthcoming:
            steps += self._misplaced(demand, mirror)
            steps += self._failed(self.state[FREE] - demand.used <= self.reserved)
        return self._scored(self._changes(demand, primary=True)) + steps

    def as_secondary(self, demand: Demand, primary: Filled) -> Floats:
        """Return the score change if each node became the secondary of that other one."""
        changes = self._changes(demand, primary=False)
        steps = np.zeros(self.count)
        if not demand.forthcoming:
            reserved = self._then_reserved(demand, primary.host.index)
            more = (reserved - self.reserved) * self.parts["free_mem_cv"]
            changes[PLACE["reserved_mem_cv"]] = more
            steps += more * WEIGHT["reserved_mem_rtotal"]
            steps += self._failed(self.state[FREE] <= reserved)
            column = self.column.get(primary.host.index)
            if column is not None and self.online[column]:
                steps += self._common(primary) * WEIGHT["location_score"]
        return self._scored(changes) + steps

    def _changes(self, demand: Demand, *, primary: bool) -> Floats:
        """Return each spread's change; a node with exclusive storage counts its spindles instead.

        An unknown number of spindles means all, and one more.
        """
        changes = self.changes(demand, primary=primary)
        for component in ("spindles_cv", "spindles_cv_forth"):
            changes[PLACE[component], self.exclusive] = 0.0
        for component in ("free_disk_cv", "free_disk_cv_forth"):
            if demand.forthcoming and component == "free_disk_cv":
                continue
            part = self._spindle_part[self.exclusive]
            if demand.spindles is None:
                free = self.measured[PLACE[component], self.exclusive]
                own = np.where(part > 0, -(free + part), 0.0)
            else:
                own = -demand.spindles * part
            changes[PLACE[component], self.exclusive] = own
        return changes

    def _then_reserved(self, demand: Demand, peer: int) -> Floats:
        column = self.column.get(peer)
        has = 0.0 if column is None else self.peers[:, column]
        reserved: Floats = np.maximum(self.reserved, has + demand.reserved)
        return reserved

    def _failed(self, fails: Bools) -> Floats:
        """Count the instances on a node that fails N+1 then, less those on one that does now."""
        instances = self.measured[PLACE["offline_all_cnt"]]
        failed = self.measured[PLACE["n1_cnt"]]
        weighed: Floats = (fails * (instances + 1) - failed) * WEIGHT["n1_cnt"]
        return weighed

    def _misplaced(self, demand: Demand, mirror: Filled | None) -> Floats:
        steps = np.zeros(self.count)
        if demand.desired:
            steps += [len(demand.desired - node.host.locations) for node in self.nodes]
        if mirror is not None:
            steps += self._common(mirror)
        return steps * WEIGHT["location_score"]

    def _common(self, peer: Filled) -> Floats:
        if not self.placing:
            return np.zeros(self.count)
        locations = peer.host.locations
        return np.array([len(node.host.locations & locations) for node in self.nodes], float)

    def _crowding(self, demand: Demand) -> Floats:
        """Count exclusion tags that are at the node already, and at its locations."""
        steps = np.zeros(self.count)
        if not demand.exclusion:
            return steps
        tags = {tag: demand.exclusion.count(tag) for tag in demand.exclusion}
        clashing = {} if demand.forthcoming else self._clashing()
        for n, node in enumerate(self.nodes):
            for tag, times in tags.items():
                first = tag not in node.promised.exclusion
                steps[n] += (times - first) * WEIGHT["pri_tags_score"]
                if not demand.forthcoming:
                    at = node.host.locations
                    clashes = sum(times - ((location, tag) not in clashing) for location in at)
                    steps[n] += clashes * WEIGHT["location_exclusion_score"]
        return steps

    def _clashing(self) -> set[tuple[str, str]]:
        return {
            (location, tag)
            for n, node in enumerate(self.nodes)
            if self.online[n]
            for location in node.host.locations
            for tag in node.present.exclusion
        }

    def _scored(self, change: Floats) -> Floats:
        """Return the weighed spreads, with each of the columns changed by itself."""
        values, change = self.measured[SPREADS], change[SPREADS]
        mean = values[:, self.online].mean(axis=1)
        above = np.where(self.online, values - mean[:, None], 0.0)
        n = self.online_count
        squares = (above * above).sum(axis=1)[:, None] + change * (2.0 * above + change)
        shift = (above.sum(axis=1)[:, None] + change) / n
        spreads: Floats = _WEIGHTS @ np.sqrt(np.maximum(squares / n - shift * shift, 0.0))
        return spreads
