"""The moves from one layout to another, each allowed in its turn. Pure. Needs NumPy.

It makes the allowed moves that lower the score most; moves of different nodes go together. If none
of the rest is allowed, one instance steps aside first. Moves that are never allowed are left out.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from nodeagent.placement.balance.best_move import GoodMoves
from nodeagent.placement.balance.departures import KINDS
from nodeagent.placement.balance.descent import make_together
from nodeagent.placement.balance.state import Board, Step
from nodeagent.placement.layout.layout import Layout, Place
from nodeagent.placement.layout.moves import Kind, Move, Moved, attempt, towards

_PART = 0.5  # of the best one's gain: with it go moves that gain no less by more than that
_ASIDE = 24  # steps aside at most
_TRIED = 40  # ways to step aside, for one instance


def arrange(board: Board, goal: Mapping[int, Place], go_on: Callable[[], bool]) -> Iterator[Step]:
    """Yield the steps that bring these instances to their places."""
    waiting = {i: place for i, place in goal.items() if place[:2] != board.layout.places[i][:2]}
    aside: set[int] = set()
    while waiting and go_on():
        steps = list(_round(board, waiting))
        if not steps and len(aside) < _ASIDE:
            steps = list(_step_aside(board, waiting, aside))
        if not steps:
            return
        for step in steps:
            if step.after[:2] == waiting[step.move.instance][:2]:
                del waiting[step.move.instance]
        yield from steps


def _round(board: Board, waiting: Mapping[int, Place]) -> Iterator[Step]:
    """Make allowed moves towards the places: the best one whatever it changes, and more like it."""
    assert board.outcomes is not None
    grid, leavings = board.outcomes.grid, board.outcomes.leavings
    entries, targets = [], []
    for index, place in waiting.items():
        row = grid.row[index]
        ways = towards(board.layout.places[index], place, mirrored=bool(grid.mirrored[row]))
        for kind, target in ways:
            entries.append(leavings.first[kind] + int(leavings.place[row]))
            targets.append(grid.column[target] if target >= 0 else -1)
    moves = GoodMoves(
        np.array(entries, np.intp), np.array(targets, np.intp), np.zeros(len(entries))
    )
    return make_together(board, moves, float(np.finfo(float).max), _PART)


def _step_aside(board: Board, waiting: Mapping[int, Place], aside: set[int]) -> Iterator[Step]:
    """Move a waiting instance aside, so that it, or another, can then reach its place.

    So its way takes two moves, for example, if its secondary node has no room to run it, as the one
    move would need for a moment.
    """
    layout = board.layout
    for index in waiting:
        if index in aside:
            continue
        for move in _ways_out(board, index):
            moved = attempt(layout, move)
            if not isinstance(moved, Moved):
                continue
            then = layout.with_changes(moved.nodes, {index: moved.place})
            if any(_can_go(then, other, waiting[other]) for other in waiting):
                tried = board.step(move)
                assert tried is not None
                board.take(tried[1].nodes, {index: tried[0].after})
                aside.add(index)
                yield tried[0]
                return


def _ways_out(board: Board, index: int) -> list[Move]:
    """Return some moves of an instance, the cheapest first."""
    outcomes = board.outcomes
    assert outcomes is not None
    grid, leavings = outcomes.grid, outcomes.leavings
    row = np.array([grid.row[index]])
    moves: list[tuple[float, Move]] = []
    for kind in KINDS:
        if (kind is Kind.FAILOVER_ANY) == bool(grid.mirrored[row[0]]):
            continue
        entry = leavings.entries(kind, row)
        if kind is Kind.FAILOVER:
            moves.append((float(outcomes.failovers(entry)[0]), outcomes.move(int(entry[0]), -1)))
            continue
        targets = np.arange(grid.count)
        changes = outcomes.change(np.repeat(entry, grid.count), targets)
        for target in np.argsort(changes, kind="stable")[:_TRIED]:
            moves.append((float(changes[target]), outcomes.move(int(entry[0]), int(target))))
    moves = sorted((pair for pair in moves if np.isfinite(pair[0])), key=lambda pair: pair[0])
    return [move for _, move in moves[:_TRIED]]


def _can_go(layout: Layout, index: int, goal: Place) -> bool:
    mirrored = layout.demands[index].mirrored
    ways = towards(layout.places[index], goal, mirrored=mirrored)
    moves = (Move(index, kind, target) for kind, target in ways)
    return any(isinstance(attempt(layout, move), Moved) for move in moves)
