"""Check that any one node may fail: its group then has room for all its instances. Pure.

DRBD instances fail over to their secondary nodes. Shared ones, and those that need new disks, go
where the score is least, one after another. Only the impossible counts, not the unwise; offline
nodes count as targets (hail's global N+1).

Mostly the sums alone prove that each finds a place; only otherwise the moves are tried.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from nodeagent.placement.allocate.compliance import violation
from nodeagent.placement.allocate.groups import Site
from nodeagent.placement.cluster.cluster import SHARED, Instance, Template
from nodeagent.placement.layout.layout import Layout, Place
from nodeagent.placement.layout.moves import Kind, Move, Moved, attempt
from nodeagent.placement.layout.node import Demand, Filled, Refused, add_primary, migrates
from nodeagent.placement.layout.score import Metrics

# These move without DRBD; hail recreates block devices.
_MOVING = (SHARED | {Template.DISKLESS}) - {Template.BLOCK_DEVICE}


class Arrival(NamedTuple):
    """A further instance on node `primary`, which would leave it from `place`."""

    primary: int
    instance: Instance
    demand: Demand
    disks: tuple[int, ...]
    place: Place


class _Resident(NamedTuple):
    instance: Instance
    demand: Demand
    disks: tuple[int, ...]
    place: Place


@dataclass(slots=True)
class _Failovers:
    """Demands of a node's DRBD instances on each secondary node."""

    used: dict[int, int]
    unknown: set[int]  # some instance there has an unknown number of physical disks


class Redundancy:
    """A site and its residents; answers for small changes of it."""

    def __init__(self, site: Site) -> None:
        self.site = site
        layout = site.layout
        self._residents: dict[int, list[_Resident]] = {index: [] for index in layout.members}
        everyone = zip(
            layout.cluster.instances, layout.demands, site.disks, layout.places, strict=True
        )
        for resident in map(_Resident._make, everyone):
            if resident.place.primary in self._residents and not resident.demand.forthcoming:
                self._residents[resident.place.primary].append(resident)
        for residents in self._residents.values():
            residents.reverse()  # the last arrival leaves first
        self._failovers = {index: _failovers(of) for index, of in self._residents.items()}
        self._groups: dict[str, list[int]] = {}
        for index in layout.members:
            self._groups.setdefault(layout.cluster.nodes[index].group, []).append(index)
        # An arrival only makes failovers harder: one that fails now also fails then.
        self._never = not all(
            self._fail_over(index, of, layout.nodes) for index, of in self._failovers.items()
        )

    def holds(self, changed: Mapping[int, Filled], arrival: Arrival | None = None) -> bool:
        """Tell whether it is redundant with these nodes changed, after the arrival."""
        if self._never:
            return False
        nodes = list(self.site.layout.nodes)
        for index, node in changed.items():
            nodes[index] = node
        return all(
            self._empties(index, residents, nodes, arrival)
            for index, residents in self._residents.items()
        )

    def _empties(
        self, index: int, residents: list[_Resident], nodes: list[Filled], arrival: Arrival | None
    ) -> bool:
        failovers = self._failovers[index]
        if arrival and arrival.primary == index and not arrival.demand.forthcoming:
            residents = [_Resident(*arrival[1:]), *residents]
            failovers = _failovers(residents)
        if not self._fail_over(index, failovers, nodes):
            return False
        others = [
            resident for resident in residents if resident.instance.template is not Template.DRBD
        ]
        if not others:
            return True
        free = {
            target: nodes[target].present.memory - failovers.used.get(target, 0)
            for target in self._targets(index)
        }
        plain = self._plain(index, others, nodes, free)
        return self._tried(index, residents, nodes) if plain is None else plain

    def _targets(self, index: int) -> list[int]:
        group = self.site.cluster.nodes[index].group
        return [target for target in self._groups[group] if target != index]

    def _fail_over(self, index: int, failovers: _Failovers, nodes: Sequence[Filled]) -> bool:
        """Tell whether all its DRBD instances can change sides."""
        if not failovers.used:
            return True
        node = nodes[index]
        if not node.host.offline and node.present.disk <= 0:
            return False
        if node.host.exclusive and (failovers.unknown or node.present.spindles < 0):
            return False
        for secondary, used in failovers.used.items():
            other = nodes[secondary]
            if other.present.memory - used <= 0 or other.present.disk <= 0:
                return False
            unknown = secondary in failovers.unknown
            if other.host.exclusive and (unknown or other.present.spindles < 0):
                return False
            if not migrates(node.host, other.host):
                return False
        return True

    def _plain(
        self,
        index: int,
        others: Sequence[_Resident],
        nodes: Sequence[Filled],
        free: Mapping[int, int],
    ) -> bool | None:
        """Tell whether the others find a place wherever the first of them go; None: it depends.

        A target is closed to the largest of them only once much has come to it. If all arrivals
        together are too small to close every target, none is ever turned away.
        """
        if any(nodes[target].host.exclusive for target in free):
            return None
        if any(
            resident.instance.template not in _MOVING
            and violation(
                resident.instance, resident.disks, self.site.policy(index), exclusive=False
            )
            for resident in others
        ):
            return None
        here = nodes[index].host
        shared = any(resident.instance.template in _MOVING for resident in others)
        reached = [t for t in free if not shared or migrates(here, nodes[t].host)]
        memory = [resident.demand.used for resident in others]
        disk = [resident.demand.disk for resident in others if resident.demand.local]
        if not reached or max(free.values()) - max(memory) <= 0:
            return None
        closed = sum(
            min(
                _share(free[target] - max(memory), sum(memory)),
                _share(nodes[target].present.disk - max(disk), sum(disk)) if disk else inf,
            )
            for target in reached
        )
        return True if closed > (2 if disk else 1) else None

    def _tried(self, index: int, residents: list[_Resident], nodes: Sequence[Filled]) -> bool:
        """Tell whether it works out in hail's order."""
        layout = self._alone(residents, nodes)
        leaving = list(enumerate(residents))
        targets = self._targets(index)
        for number, resident in leaving:
            if resident.instance.template is Template.DRBD:
                after = attempt(layout, Move(number, Kind.FAILOVER))
                if not isinstance(after, Moved):
                    return False
                layout = layout.with_changes(after.nodes, {number: after.place})
        group = self._groups[self.site.cluster.nodes[index].group]
        for number, resident in leaving:
            if resident.instance.template in _MOVING:
                moved = _best_move(number, targets, group, layout)
                if moved is None:
                    return False
                layout = layout.with_changes(moved.nodes, {number: moved.place})
        stuck = [
            resident
            for resident in residents
            if resident.instance.template not in {Template.DRBD, *_MOVING}
        ]
        return self._made_anew(
            sorted(stuck, key=lambda resident: -resident.instance.memory), targets, layout
        )

    def _alone(self, residents: Sequence[_Resident], nodes: Sequence[Filled]) -> Layout:
        """Return the layout with these instances only, without the soft checks."""
        layout = self.site.layout
        return replace(
            layout,
            nodes=tuple(nodes),
            rules=replace(layout.rules, ignore_soft=True),
            cluster=replace(
                layout.cluster, instances=tuple(resident.instance for resident in residents)
            ),
            demands=tuple(resident.demand for resident in residents),
            places=tuple(resident.place for resident in residents),
        )

    def _made_anew(
        self, stuck: Sequence[_Resident], targets: Sequence[int], layout: Layout
    ) -> bool:
        for resident in stuck:
            node = self._best_new_node(resident, targets, layout)
            if node is None:
                return False
            layout = layout.with_changes({node.host.index: node}, {})
        return True

    def _best_new_node(
        self, resident: _Resident, targets: Sequence[int], layout: Layout
    ) -> Filled | None:
        """Return the best target with the instance; the last one of equals."""
        metrics = Metrics([layout.nodes[member] for member in self.site.layout.members])
        best: tuple[float, Filled] | None = None
        for target in targets:
            node, policy = layout.nodes[target], self.site.policy(target)
            if violation(resident.instance, resident.disks, policy, exclusive=node.host.exclusive):
                continue
            after = add_primary(node, resident.demand, force=True)
            if not isinstance(after, Refused):
                score = metrics.score({target: after})
                if best is None or not best[0] < score:
                    best = score, after
        return None if best is None else best[1]


def _best_move(
    number: int, targets: Sequence[int], group: Sequence[int], layout: Layout
) -> Moved | None:
    """Return the best failover of an instance to one of these; the last one of equals."""
    metrics = Metrics([layout.nodes[member] for member in group])
    best: tuple[float, Moved] | None = None
    for target in targets:
        moved = attempt(layout, Move(number, Kind.FAILOVER_ANY, target))
        if isinstance(moved, Moved):
            score = metrics.score(moved.nodes)
            if best is None or not best[0] < score:
                best = score, moved
    return None if best is None else best[1]


def _failovers(residents: Sequence[_Resident]) -> _Failovers:
    failovers = _Failovers({}, set())
    for resident in residents:
        if resident.instance.template is Template.DRBD:
            secondary = resident.place.secondary
            failovers.used[secondary] = failovers.used.get(secondary, 0) + resident.demand.used
            if resident.demand.spindles is None:
                failovers.unknown.add(secondary)
    return failovers


def _share(room: float, whole: int) -> float:
    """Return the part of the whole that must come before no room is left."""
    if room <= 0:
        return 0.0
    return room / whole if whole else inf
