"""A descent that does not end in the first local minimum. Pure. Needs NumPy.

A spread has an edge at zero. Once the nodes have, say, equal numbers of instances, every single
move makes them unequal and looks bad, and other gains are lost. So spreads are widened at first,
which rounds that edge, and then less and less.

Each pass over all moves makes several that touch different nodes.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nodeagent.placement.balance.best_move import GoodMoves, near
from nodeagent.placement.balance.departures import FAILOVER
from nodeagent.placement.balance.move_outcomes import Outcomes, Parts
from nodeagent.placement.balance.state import Board, Step
from nodeagent.placement.layout.arrays import Bools, Floats, Ints
from nodeagent.placement.layout.layout import Place
from nodeagent.placement.layout.moves import Moved, attempt
from nodeagent.placement.layout.node import Filled

_MORE = 1000  # moves examined before the search only wants the best
_LEAST = 2e-5  # of the score; less is no gain


def descend(
    board: Board,
    widths: Sequence[float],
    worse: float,
    noise: np.random.Generator | None,
    go_on: Callable[[], bool],
) -> Iterator[Step]:
    """Descend with one width after another, in units of a typical instance's change.

    A move that gains less than the best of a pass, by more than the part `worse`, waits for the
    next pass. `noise` sometimes picks a move near the best one.
    """
    if board.outcomes is None:
        return
    typical = _typical(board.outcomes)
    for width in widths:
        board.soften(typical * width if width else None)
        while go_on():
            steps = list(_look(board, worse, noise))
            yield from steps
            if not steps:
                break


def _look(board: Board, worse: float, noise: np.random.Generator | None) -> Iterator[Step]:
    """Make the moves of one pass: of different nodes, and nearly as good as the best."""
    moves = near(board.bound, worse, _MORE)
    return make_together(board, moves, -_LEAST * board.score, worse, noise)


def make_together(
    board: Board,
    moves: GoodMoves,
    least: float,
    worse: float,
    noise: np.random.Generator | None = None,
) -> Iterator[Step]:
    """Make those of the moves that touch different nodes, the best first.

    Each changes the score by `least` at most, and gains no less than the best one by more than the
    part `worse`.
    """
    outcomes = board.outcomes
    assert outcomes is not None
    remaining = _Remaining(outcomes, moves)
    nodes: dict[int, Filled] = {}
    places: dict[int, Place] = {}
    while True:
        changes = remaining.changes()
        if noise is not None:
            changes *= 1.0 - worse / 2 * noise.random(len(changes))
        chosen = int(changes.argmin()) if len(changes) else -1
        if chosen < 0 or not changes[chosen] <= least:
            break
        move = outcomes.move(int(remaining.entries[chosen]), int(remaining.targets[chosen]))
        moved = attempt(board.layout, move)
        if not isinstance(moved, Moved):
            remaining.drop(chosen)
            continue
        least = min(least, (1.0 - worse) * float(changes[chosen]))
        remaining.take(chosen)
        nodes.update(moved.nodes)
        places[move.instance] = moved.place
        before = board.layout.places[move.instance]
        yield Step(move, before, moved.place, board.score_with(nodes))
    if nodes:
        board.take(nodes, places)


class _Remaining:
    """GoodMoves moves that touch no node of the moves made: these leave their sums alone."""

    def __init__(self, outcomes: Outcomes, moves: GoodMoves) -> None:
        self.o, (self.entries, self.targets, _) = outcomes, moves
        grid, rows = outcomes.grid, outcomes.leavings.row[self.entries]
        self._ends = np.stack([grid.primary[rows], grid.secondary[rows], self.targets])
        self._parts = self._all_parts()
        terms = (len(grid.weights), 1)
        self._own, self._sums, self._made = np.zeros(terms), np.zeros(terms), 0.0

    def changes(self) -> Floats:
        """Return each move's change now; infinite if a move made used its nodes."""
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
        failover: Bools = o.leavings.kind[entries] == FAILOVER
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
    """Return per term the root mean square of a new primary instance's change."""
    grid = outcomes.grid
    added = outcomes.added[1].copy()
    added[-1] = grid.sizes.reserved
    part = grid.part[:, grid.online].mean(axis=1)
    times = np.bincount(grid.size, minlength=added.shape[1])
    typical: Floats = part * np.sqrt((added * added) @ times / times.sum())
    return typical
