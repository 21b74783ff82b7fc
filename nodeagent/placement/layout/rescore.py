"""The score after a change of a few nodes, without measuring the rest again. Pure.

`score` adds everything up again, as the htools do for a move and for an instance on one node: its
numbers are `score.score`'s to the last bit. `Shifted` corrects the sums instead, as they do for
pairs: other roundings, which decide between equals.
"""

from collections.abc import Mapping, Sequence
from math import sqrt

from nodeagent.placement.layout.node import Filled
from nodeagent.placement.layout.score import (
    COMPONENTS,
    Sort,
    clashes,
    components,
    measure,
    spread,
    total,
    variance,
    weigh,
)

CLASHES = next(n for n, part in enumerate(COMPONENTS) if part.sort is Sort.CLASHES)
_WEIGHTS = [part.weight for part in COMPONENTS]
_SPREADS = [part.sort is Sort.SPREAD for part in COMPONENTS]

Change = tuple[int, float, float]
"""One node's value of one component: which, before, after."""


class Standing:
    """Nodes and their values."""

    def __init__(self, nodes: Sequence[Filled]) -> None:
        self.nodes = list(nodes)
        self.place = {node.host.index: n for n, node in enumerate(nodes)}
        self.rows = [measure(node) for node in nodes]
        self._among = [0] * len(nodes)  # the node's place among those online, or those offline
        sides: dict[bool, list[int]] = {False: [], True: []}
        for n, node in enumerate(nodes):
            self._among[n] = len(sides[node.host.offline])
            sides[node.host.offline].append(n)
        self._columns = {
            side: [list(column) for column in zip(*(self.rows[n] for n in of), strict=True)]
            for side, of in sides.items()
        }
        self.values = components(self.nodes)
        self.placing = any(node.host.locations for node in nodes)

    def score(self, changed: Mapping[int, Filled]) -> float:
        """Return the score with these nodes changed, by their index; others do not count."""
        if not self.values:
            return 0.0
        values = list(self.values)
        other = [
            (self.place[index], measure(node))
            for index, node in changed.items()
            if index in self.place
        ]
        for component, part in enumerate(COMPONENTS):
            if part.sort is Sort.CLASHES:
                if self.placing:
                    values[component] = self.clashing(changed)
                continue
            off = part.sort is Sort.SUM_OFFLINE
            column = None
            for n, row in other:
                if row[component] != self.rows[n][component] and self.nodes[n].host.offline is off:
                    column = column or list(self._columns[off][component])
                    column[self._among[n]] = row[component]
            if column is not None:
                values[component] = spread(column) if part.sort is Sort.SPREAD else total(column)
        return weigh(values)

    def clashing(self, changed: Mapping[int, Filled]) -> float:
        """Return the value of the one component that is not a sum over nodes."""
        nodes = (changed.get(node.host.index, node) for node in self.nodes)
        return float(clashes(node for node in nodes if not node.host.offline))

    def changes(self, before: Filled, after: Filled) -> tuple[Change, ...]:
        """Return the differences in the components that count the node."""
        pairs = zip(COMPONENTS, measure(before), measure(after), strict=True)
        counting = (Sort.SUM_OFFLINE,) if before.host.offline else (Sort.SPREAD, Sort.SUM)
        return tuple(
            (component, old, new)
            for component, (part, old, new) in enumerate(pairs)
            if old != new and part.sort in counting
        )

    def shifted(self) -> "Shifted":
        """Return its sums, for corrections."""
        sums, variances = [0.0] * len(COMPONENTS), [0.0] * len(COMPONENTS)
        columns = self._columns[False]
        for component, column in enumerate(columns):
            if COMPONENTS[component].sort is Sort.SPREAD:
                sums[component] = total(column)
                variances[component] = variance(column, sums[component])
        online = len(columns[0]) if columns else 0
        return Shifted(online, sums, variances, list(self.values))


class Shifted:
    """Sums over the nodes, corrected node by node."""

    __slots__ = ("count", "sums", "terms", "values", "variances")

    def __init__(
        self, count: int, sums: list[float], variances: list[float], values: list[float]
    ) -> None:
        self.count, self.sums, self.variances, self.values = count, sums, variances, values
        self.terms = [w * value for w, value in zip(_WEIGHTS, values, strict=False)]

    def by(self, changes: Sequence[Change], clashing: float | None = None) -> "Shifted":
        """Return the sums with these changes of one node, and so many clashes if they count."""
        sums, variances, values = list(self.sums), list(self.variances), list(self.values)
        for component, old, new in changes:
            values[component] = self._value(component, old, new)
            if _SPREADS[component]:
                variances[component] = self._variance(component, old, new)
                sums[component] += new - old
        if clashing is not None:
            values[CLASHES] = clashing
        return Shifted(self.count, sums, variances, values)

    def score(self, changes: Sequence[Change]) -> float:
        """Return the score with these changes of one more node."""
        terms = list(self.terms)
        for component, old, new in changes:
            terms[component] = _WEIGHTS[component] * self._value(component, old, new)
        return total(terms)

    def _value(self, component: int, old: float, new: float) -> float:
        if _SPREADS[component]:
            return sqrt(self._variance(component, old, new))
        return self.values[component] + (new - old)

    def _variance(self, component: int, old: float, new: float) -> float:
        n, shift = self.count, new - old
        squares = new * new - old * old
        change = (n * squares - 2 * self.sums[component] * shift) - shift * shift
        return max(0.0, self.variances[component] + change / (n * n))
