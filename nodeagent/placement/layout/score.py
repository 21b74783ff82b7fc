"""The cluster score: twenty components, each with its weight (htools' cluster metrics). Pure.

A spread is the standard deviation over all online nodes. Sums add one value after another, as the
htools do: equal layouts then have equal scores to the last bit, and scores that differ by rounding
alone differ in the same direction.

`Metrics` measures a few changed nodes and adds everything up again, as the htools do for a move and
for an instance on one node. `Statistics` corrects the sums instead, as they do for pairs: other
roundings, which decide between equals. `arrays` has the same for many nodes by NumPy.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from math import sqrt
from typing import NamedTuple

from nodeagent.placement.layout.layout import Layout
from nodeagent.placement.layout.node import Filled, ratio


class Sort(Enum):
    """The way from the nodes' values to the component's."""

    SPREAD = auto()
    SUM = auto()
    SUM_OFFLINE = auto()
    CLASHES = auto()


class Component(NamedTuple):
    """One term of the score."""

    name: str
    weight: float
    sort: Sort


COMPONENTS = (
    Component("free_mem_cv", 0.5, Sort.SPREAD),
    Component("free_disk_cv", 0.5, Sort.SPREAD),
    Component("n1_cnt", 1.0, Sort.SUM),
    Component("reserved_mem_cv", 1.0, Sort.SPREAD),
    Component("offline_all_cnt", 4.0, Sort.SUM_OFFLINE),
    Component("offline_pri_cnt", 16.0, Sort.SUM_OFFLINE),
    Component("vcpu_ratio_cv", 0.5, Sort.SPREAD),
    Component("cpu_load_cv", 1.0, Sort.SPREAD),
    Component("mem_load_cv", 1.0, Sort.SPREAD),
    Component("disk_load_cv", 1.0, Sort.SPREAD),
    Component("net_load_cv", 1.0, Sort.SPREAD),
    Component("pri_tags_score", 2.0, Sort.SUM),
    Component("spindles_cv", 0.5, Sort.SPREAD),
    Component("free_mem_cv_forth", 0.5, Sort.SPREAD),
    Component("free_disk_cv_forth", 0.5, Sort.SPREAD),
    Component("vcpu_ratio_cv_forth", 0.5, Sort.SPREAD),
    Component("spindles_cv_forth", 0.5, Sort.SPREAD),
    Component("location_score", 1.0, Sort.SUM),
    Component("location_exclusion_score", 1.0, Sort.CLASHES),
    Component("reserved_mem_rtotal", 0.25, Sort.SUM),
)
_RESERVED_TOTAL = COMPONENTS[-1].weight
_CLASHES = next(n for n, part in enumerate(COMPONENTS) if part.sort is Sort.CLASHES)
_SPREADS = [part.sort is Sort.SPREAD for part in COMPONENTS]

Change = tuple[int, float, float]
"""One node's value of one component: which, before, after."""


def measure(node: Filled) -> tuple[float, ...]:
    """Return one node's value for each component; 0 for the clashes, which are not a node's own."""
    host, load = node.host, node.load
    disk, promised_disk = (
        (node.present.spindles, node.promised.spindles)
        if host.exclusive
        else (node.present.disk, node.promised.disk)
    )
    whole = host.spindles if host.exclusive else host.disk
    instances = node.primaries + node.secondaries
    reserved = ratio(node.reserved, host.memory)
    return (
        ratio(node.present.memory, host.memory),
        disk / whole if whole else 1.0,
        instances if node.failing else 0,
        reserved,
        instances,
        node.primaries,
        ratio(ratio(node.present.cpus, host.cpus), host.speed),
        *load,
        sum(node.promised.exclusion.values()) - len(node.promised.exclusion),
        ratio(node.present.pressure, host.spindle_limit),
        ratio(node.promised.memory, host.memory),
        promised_disk / whole if whole else 1.0,
        ratio(ratio(node.promised.cpus, host.cpus), host.speed),
        ratio(node.promised.pressure, host.spindle_limit),
        node.misplaced,
        0,
        reserved,
    )


def components(nodes: Sequence[Filled]) -> list[float]:
    """Return every component's value; none at all if no node is online."""
    return Metrics(nodes).values


class Metrics:
    """Nodes and their values; `values` are the components', none at all if no node is online."""

    def __init__(self, nodes: Sequence[Filled]) -> None:
        self._nodes = list(nodes)
        self._place = {node.host.index: n for n, node in enumerate(nodes)}
        self._rows = [measure(node) for node in nodes]
        self._among = [0] * len(nodes)  # the node's place among those online, or those offline
        sides: dict[bool, list[int]] = {False: [], True: []}
        for n, node in enumerate(nodes):
            self._among[n] = len(sides[node.host.offline])
            sides[node.host.offline].append(n)
        self._columns = {
            side: [[self._rows[n][place] for n in of] for place in range(len(COMPONENTS))]
            for side, of in sides.items()
        }
        self.placing = any(node.host.locations for node in nodes)
        self.values: list[float] = []
        if sides[False]:
            self.values = [self._value(place) for place in range(len(COMPONENTS))]

    def _value(self, place: int) -> float:
        sort = COMPONENTS[place].sort
        if sort is Sort.CLASHES:
            return self.clashing({})
        return _combined(sort, self._columns[sort is Sort.SUM_OFFLINE][place])

    def score(self, changed: Mapping[int, Filled]) -> float:
        """Return the score with these nodes changed, by their index; others do not count."""
        if not self.values:
            return 0.0
        values = list(self.values)
        rows = [
            (self._place[index], measure(node))
            for index, node in changed.items()
            if index in self._place
        ]
        for place, part in enumerate(COMPONENTS):
            if part.sort is Sort.CLASHES:
                if self.placing:
                    values[place] = self.clashing(changed)
                continue
            off = part.sort is Sort.SUM_OFFLINE
            column = None
            for n, row in rows:
                if row[place] != self._rows[n][place] and self._nodes[n].host.offline is off:
                    column = column or list(self._columns[off][place])
                    column[self._among[n]] = row[place]
            if column is not None:
                values[place] = _combined(part.sort, column)
        return weigh(values)

    def clashing(self, changed: Mapping[int, Filled]) -> float:
        """Return the value of the one component that is not a sum over nodes."""
        nodes = (changed.get(node.host.index, node) for node in self._nodes)
        return float(clashes(node for node in nodes if not node.host.offline))

    def changes(self, before: Filled, after: Filled) -> tuple[Change, ...]:
        """Return the differences in the components that count the node."""
        pairs = zip(COMPONENTS, measure(before), measure(after), strict=True)
        counting = (Sort.SUM_OFFLINE,) if before.host.offline else (Sort.SPREAD, Sort.SUM)
        return tuple(
            (place, old, new)
            for place, (part, old, new) in enumerate(pairs)
            if old != new and part.sort in counting
        )

    def statistics(self) -> "Statistics":
        """Return the sums, for corrections."""
        sums, variances = [0.0] * len(COMPONENTS), [0.0] * len(COMPONENTS)
        columns = self._columns[False]
        online = len(columns[0])
        for place, column in enumerate(columns):
            if _SPREADS[place] and online:
                sums[place] = total(column)
                variances[place] = variance(column, sums[place])
        return Statistics(online, sums, variances, self.values)


class Statistics:
    """Sums over the nodes, corrected node by node."""

    __slots__ = ("_count", "_sums", "_terms", "_values", "_variances")

    def __init__(
        self, count: int, sums: list[float], variances: list[float], values: list[float]
    ) -> None:
        self._count, self._sums, self._variances, self._values = count, sums, variances, values
        self._terms = [part.weight * value for part, value in zip(COMPONENTS, values, strict=False)]

    def updated(self, changes: Sequence[Change], clashing: float | None) -> "Statistics":
        """Return the sums with these changes of one node, and so many clashes if they count."""
        sums, variances, values = list(self._sums), list(self._variances), list(self._values)
        for place, old, new in changes:
            values[place] = self._value(place, old, new)
            if _SPREADS[place]:
                variances[place] = self._variance(place, old, new)
                sums[place] += new - old
        if clashing is not None:
            values[_CLASHES] = clashing
        return Statistics(self._count, sums, variances, values)

    def score(self, changes: Sequence[Change]) -> float:
        """Return the score with these changes of one more node."""
        terms = list(self._terms)
        for place, old, new in changes:
            terms[place] = COMPONENTS[place].weight * self._value(place, old, new)
        return total(terms)

    def _value(self, place: int, old: float, new: float) -> float:
        if _SPREADS[place]:
            return sqrt(self._variance(place, old, new))
        return self._values[place] + (new - old)

    def _variance(self, place: int, old: float, new: float) -> float:
        n, shift = self._count, new - old
        squares = new * new - old * old
        change = (n * squares - 2 * self._sums[place] * shift) - shift * shift
        return max(0.0, self._variances[place] + change / (n * n))


def weigh(values: Iterable[float]) -> float:
    """Return the score of these components."""
    return total(part.weight * value for part, value in zip(COMPONENTS, values, strict=False))


def score(layout: Layout) -> float:
    """Return the group's distance from balance; 0 is perfect, a group that is off scores 0."""
    return weigh(components(layout.group_nodes()))


def total(values: Iterable[float]) -> float:
    """Add one after another, not as `sum` does since Python 3.12."""
    added = 0.0
    for value in values:
        added += value
    return added


def least(layout: Layout) -> float:
    """Return a lower bound of the score: memory must be reserved somewhere."""
    nodes = layout.group_nodes()
    if len(nodes) <= 1:
        return 0.0
    memory = total(node.host.memory for node in nodes)
    without_largest = memory - max(node.host.memory for node in nodes)
    if without_largest <= 0:
        return 0.0
    needed = float(sum(sum(node.reserved_for.values()) for node in nodes))
    return _RESERVED_TOTAL * (needed / without_largest - needed / memory)


def clashes(nodes: Iterable[Filled]) -> int:
    """Count the instances that share a location with one of the same exclusion tag."""
    pairs: dict[tuple[str, str], int] = {}
    for node in nodes:
        for tag, count in node.present.exclusion.items():
            for location in node.host.locations:
                pairs[location, tag] = pairs.get((location, tag), 0) + count
    return sum(pairs.values()) - len(pairs)


def _combined(sort: Sort, values: Sequence[float]) -> float:
    """Return the standard deviation of the whole population, or the sum."""
    added = total(values)
    return sqrt(variance(values, added)) if sort is Sort.SPREAD else added


def variance(values: Sequence[float], added: float) -> float:
    """Return the variance of the whole population; `added` is its sum."""
    mean = added / len(values)
    return total([(value - mean) * (value - mean) for value in values]) / len(values)
