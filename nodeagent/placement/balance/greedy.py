"""hbal's own search: step by step the move that lowers the score most. Pure. Needs NumPy.

The sequence of moves is hbal's, move for move. Among moves that are equal to the last bit the first
wins, by the instances' order and then by that of `moves.candidates`.
"""

from collections.abc import Iterator
from math import isnan

import numpy as np

from nodeagent.placement.balance.best_move import best
from nodeagent.placement.balance.state import Board, Step
from nodeagent.placement.layout.layout import Layout
from nodeagent.placement.layout.moves import Move, Moved, candidates, tried
from nodeagent.placement.layout.rules import Enough
from nodeagent.placement.layout.score import least, score

# Scores from sums of changes may be wrong by so much: rounding may turn a variance of 0 into 1e-16,
# and its root into 1e-8. Loads in small units, as bytes, make large spreads: then by this part.
_UNSURE, _ROUNDING = 3e-7, 1e-11


def well_balanced(layout: Layout, enough: Enough) -> bool:
    return score(layout) - least(layout) < enough.excess


def greedy(layout: Layout, enough: Enough) -> Iterator[Step]:
    """The steps, each as soon as it is found; none if the cluster is well balanced.

    Nor are there any where the score is no number: nothing lowers it.
    """
    if isnan(score(layout)) or well_balanced(layout, enough):
        return
    goal, taken = least(layout) + enough.excess, 0
    board = Board(layout)
    while board.score > goal and (enough.moves is None or taken < enough.moves):
        best_step = _best(board)
        if best_step is None:
            return
        step, moved = best_step
        if board.score <= enough.gain_from and board.score - step.score < enough.gain:
            return
        board.take(moved.nodes, {step.move.instance: moved.place})
        taken += 1
        yield step


def _best(board: Board) -> tuple[Step, Moved] | None:
    best_step: tuple[Step, Moved] | None = None
    limit = board.score
    for move in _promising(board):
        tried_ = board.step(move)
        if tried_ is not None and tried_[0].score < limit:
            best_step, limit = tried_, tried_[0].score
    return best_step


def _promising(board: Board) -> Iterator[Move]:
    """Yield all moves that can be the best one, in the order that decides between equals."""
    outcomes = board.outcomes
    if outcomes is None:
        for instance in tried(board.layout):
            yield from candidates(board.layout, instance)
        return
    moves = best(board.bound, max(_UNSURE, _ROUNDING * outcomes.spread))
    leavings, rows = outcomes.leavings, outcomes.leavings.row[moves.entries]
    for n in np.lexsort((leavings.kind[moves.entries], moves.targets, rows)):
        yield outcomes.move(int(moves.entries[n]), int(moves.targets[n]))
