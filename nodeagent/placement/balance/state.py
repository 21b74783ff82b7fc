"""A layout that changes, with its score and its arrays. Pure. Needs NumPy.

Only this object of the package changes in place; the searches share it.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from nodeagent.placement.balance.bound import Bound
from nodeagent.placement.balance.move_outcomes import Outcomes
from nodeagent.placement.layout.arrays import Floats, Grid
from nodeagent.placement.layout.layout import Layout, Place
from nodeagent.placement.layout.moves import Move, Moved, attempt
from nodeagent.placement.layout.node import Filled
from nodeagent.placement.layout.score import Metrics, score

_AFRESH = 128  # changes before sums and ranges are computed again


class Step(NamedTuple):
    """A move, its instance's old and new place, and the score after it."""

    move: Move
    before: Place
    after: Place
    score: float


class Board:
    """`outcomes` is None without arrays, see `has_arrays`.

    Outcomes take `price` as the cost of each copied GiB.
    """

    def __init__(self, layout: Layout, price: float = 0.0) -> None:
        self.layout = layout
        self.price = price
        self._soft: Floats | None = None
        self.score = score(layout)
        self._changes = 0
        self.outcomes = Outcomes(Grid(layout), price=price) if has_arrays(layout) else None
        self._bound: Bound | None = None
        self._metrics = self._measure()

    @property
    def bound(self) -> Bound:
        """The bound of the outcomes, made when first asked for. Only with arrays."""
        if self._bound is None:
            assert self.outcomes is not None
            self._bound = Bound(self.outcomes)
        return self._bound

    def soften(self, soft: Floats | None) -> None:
        """Widen every spread by so much: then a gain from nearly equal values is small."""
        self._soft = soft
        if self.outcomes is not None:
            self.outcomes.soften(soft)
            self._bound = None

    def score_with(self, nodes: Mapping[int, Filled]) -> float:
        return self._metrics.score(nodes)

    def _measure(self) -> Metrics | Grid:
        return Metrics(self.layout.group_nodes()) if self.outcomes is None else self.outcomes.grid

    def step(self, move: Move) -> tuple[Step, Moved] | None:
        moved = attempt(self.layout, move)
        if not isinstance(moved, Moved):
            return None
        before = self.layout.places[move.instance]
        return Step(move, before, moved.place, self.score_with(moved.nodes)), moved

    def take(self, nodes: Mapping[int, Filled], places: Mapping[int, Place]) -> None:
        self.layout = self.layout.with_changes(nodes, places)
        self._read(nodes, places)
        self._metrics = self._measure()
        self.score = self.score_with({})

    def _read(self, nodes: Mapping[int, Filled], places: Mapping[int, Place]) -> None:
        """Read a change of the layout into the arrays."""
        if self.outcomes is None:
            return
        self._changes += 1
        if self._changes >= _AFRESH:
            self._changes = 0
            self.outcomes = Outcomes(Grid(self.layout), self._soft, self.price)
            self._bound = None
            return
        grid = self.outcomes.grid
        columns = np.array(sorted(grid.column[index] for index in nodes), np.intp)
        grid.take(self.layout, columns.tolist(), [grid.row[index] for index in places])
        rows = self.outcomes.read(columns)
        if self._bound is not None:
            self._bound.read(rows)


def has_arrays(layout: Layout) -> bool:
    """Tell whether all its moves can be examined at once.

    Not where all nodes are off. Not where only some have exclusive storage, or may get an instance
    whose number of spindles is unknown: no sum tells their free spindles.
    """
    hosts = [node.host for node in layout.group_nodes()]
    demands = [layout.demands[index] for index in layout.movable]
    stay = all(d.spindles is not None or (d.local and not d.forthcoming) for d in demands)
    exclusive = any(host.exclusive for host in hosts)
    alike = len({host.exclusive for host in hosts if not host.offline}) == 1
    return bool(demands) and alike and (stay or not exclusive)


def after(layout: Layout, steps: Iterable[Step]) -> Layout:
    for step in steps:
        moved = attempt(layout, step.move)
        assert isinstance(moved, Moved), (step.move, moved)
        layout = layout.with_changes(moved.nodes, {step.move.instance: moved.place})
    return layout
