"""A way down that does not end in the first hollow. Pure. Needs NumPy.

A spread has its edge at nothing: once the nodes have, say, equal numbers of instances, every single
move makes them unequal and looks bad, and what else there was to gain is lost. So spreads are
widened at first, which rounds that edge off, and then less and less.

Of a look at all moves several are made, which touch different nodes.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nodeagent.placement.balance.best_move import Found, near
from nodeagent.placement.balance.departures import ORDER
from nodeagent.placement.balance.move_outcomes import Outcomes, Parts
from nodeagent.placement.balance.state import Board, Step
from nodeagent.placement.layout.arrays import Bools, Floats, Ints
from nodeagent.placement.layout.layout import Place
from nodeagent.placement.layout.moves import Kind, Moved, attempt
from nodeagent.placement.layout.node import Filled

_MORE = 1000  # moves looked at, before only the best is looked for
_LEAST = 2e-5  # of the score; less is no gain
_FAILOVER = ORDER[Kind.FAILOVER]


def descend(
    board: Board,
    widths: Sequence[float],
    worse: float,
    noise: np.random.Generator | None,
    go_on: Callable[[], bool],
) -> Iterator[Step]:
    """Steps down, for one width after another, which are in units of a typical instance's change.

    What gains less than the best move of a look, by more than the part `worse`, waits for the next
    look. With `noise` it is not always the best move that is made, but one near it.
    """
    if board.bound is None:
        return
    typical = _typical(board.bound.o)
    for width in widths:
        board.soften(typical * width if width else None)
        while go_on():
            steps = list(_look(board, worse, noise))
            yield from steps
            if not steps:
                break


def _look(board: Board, worse: float, noise: np.random.Generator | None) -> Iterator[Step]:
    """Moves of one look at all, as many of different nodes as gain nearly as much as the best."""
    assert board.bound is not None
    left = _Left(board.bound.o, near(board.bound, worse, _MORE))
    nodes: dict[int, Filled] = {}
    places: dict[int, Place] = {}
    least = -_LEAST * board.score
    while True:
        changes = left.changes()
        if noise is not None:
            changes *= 1.0 - worse / 2 * noise.random(len(changes))
        chosen = int(changes.argmin()) if len(changes) else -1
        if chosen < 0 or changes[chosen] > least:
            break
        least = min(least, (1.0 - worse) * float(changes[chosen]))
        move = board.bound.move(int(left.entries[chosen]), int(left.targets[chosen]))
        moved = attempt(board.layout, move)
        if not isinstance(moved, Moved):
            left.drop(chosen)
            continue
        left.take(chosen)
        nodes.update(moved.nodes)
        places[move.instance] = moved.place
        before = board.layout.places[move.instance]
        yield Step(move, before, moved.place, board.score_with(nodes))
    if nodes:
        board.take(nodes, places)


class _Left:
    """Moves that were found and touch no node of those made: these leave their sums alone."""

    def __init__(self, outcomes: Outcomes, found: Found) -> None:
        self.o, (self.entries, self.targets, _) = outcomes, found
        grid, rows = outcomes.grid, outcomes.leavings.row[self.entries]
        self._ends = np.stack([grid.primary[rows], grid.secondary[rows], self.targets])
        self._parts = self._all_parts()
        terms = (len(grid.weights), 1)
        self._own, self._sums, self._made = np.zeros(terms), np.zeros(terms), 0.0

    def changes(self) -> Floats:
        """Each move's change now; infinite if one made used its nodes."""
        return self.o.changes(self._together()) - self._made

    def take(self, chosen: int) -> None:
        own, sums, _ = self._together()
        self._own, self._sums = own[:, [chosen]], sums[:, [chosen]]
        made = Parts(self._own, self._sums, np.zeros(1))
        self._made = float(self.o.changes(made)[0])
        ends = self._ends[:, chosen]
        touching = np.isin(self._ends, ends[ends >= 0]).any(axis=0)
        self._parts.steps[touching] = np.inf

    def drop(self, chosen: int) -> None:
        self._parts.steps[chosen] = np.inf

    def _together(self) -> Parts:
        own, sums, steps = self._parts
        n = self.o.grid.online_count
        crossed = 2.0 / n**2 * self._sums * sums
        return Parts(self._own + own - crossed, self._sums + sums, steps)

    def _all_parts(self) -> Parts:
        o, entries = self.o, self.entries
        failover: Bools = o.leavings.kind[entries] == _FAILOVER
        order: Ints = np.argsort(~failover, kind="stable")
        count = int(failover.sum())
        without, others = order[:count], order[count:]
        back = np.argsort(order)
        parts = zip(
            o.parts_of_failovers(entries[without]),
            o.parts(entries[others], self.targets[others]),
            strict=True,
        )
        return Parts(*(np.concatenate(pair, axis=-1)[..., back] for pair in parts))


def _typical(outcomes: Outcomes) -> Floats:
    """(terms,): the root mean square of what becoming an instance's primary changes."""
    grid = outcomes.grid
    added = outcomes.added[1].copy()
    added[-1] = grid.sizes.reserved
    part = grid.part[:, grid.online].mean(axis=1)
    times = np.bincount(grid.size, minlength=added.shape[1])
    typical: Floats = part * np.sqrt((added * added) @ times / times.sum())
    return typical
