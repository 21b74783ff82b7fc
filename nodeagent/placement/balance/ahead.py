"""Several moves together, where no single one helps. Pure. Needs NumPy.

In a small group most moves are refused or make a spread worse until another follows, so a search
that looks at one move stops early. This one keeps the best few layouts after one move, looks at all
moves from each of them, keeps the best few again, and so on (a beam search). Where every move of a
layout is kept, as in groups of a few nodes, nothing within two moves is missed.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from nodeagent.placement.balance.departures import FAILOVER
from nodeagent.placement.balance.move_outcomes import Outcomes
from nodeagent.placement.balance.state import Step
from nodeagent.placement.layout.arrays import Grid, Ints
from nodeagent.placement.layout.layout import Layout
from nodeagent.placement.layout.moves import Move, Moved, attempt, copied
from nodeagent.placement.layout.score import score

DEPTH, WIDTH = 4, 24  # moves of one chain at most, and layouts kept after each


class Chain(NamedTuple):
    """Moves, the layout after them, and its score with the cost of the data copied."""

    layout: Layout
    steps: tuple[Step, ...]
    cost: float

    @property
    def score(self) -> float:
        return self.steps[-1].score if self.steps else self.cost


def look_ahead(
    layout: Layout,
    worth: Callable[[float], float],
    limit: int | None,
    price: float,
    go_on: Callable[[], bool],
) -> Iterator[Step]:
    """Yield the steps of one chain after another, as long as one gains enough.

    `worth` is the least gain for each move of a chain, by the score before it. `limit` is the
    number of steps at most, `price` the cost of each copied GiB.
    """
    while limit is None or limit > 0:
        depth = DEPTH if limit is None else min(DEPTH, limit)
        chain = _gaining(layout, worth, depth, price, go_on)
        if chain is None:
            return
        yield from chain.steps
        layout = chain.layout
        if limit is not None:
            limit -= len(chain.steps)


def _gaining(
    layout: Layout,
    worth: Callable[[float], float],
    depth: int,
    price: float,
    go_on: Callable[[], bool],
) -> Chain | None:
    """Return the best of the shortest chains that gain enough; None if none does."""
    start = score(layout)
    kept = [Chain(layout, (), start)]
    seen = {_key(layout)}
    for length in range(1, depth + 1):
        longer: list[_Extension] = []
        for chain in kept:
            if not go_on():
                return None
            longer += _continued(chain, price)
        longer.sort(key=lambda candidate: candidate.cost)
        kept = []
        for candidate in longer:
            if len(kept) == WIDTH:
                break
            chain_now = candidate.taken(price)
            if chain_now is not None and (key := _key(chain_now.layout)) not in seen:
                seen.add(key)
                kept.append(chain_now)
        best = min(kept, key=lambda chain: chain.cost, default=None)
        if best is not None and start - best.cost >= length * worth(start):
            return best
    return None


class _Extension(NamedTuple):
    """One more move of a chain, not taken yet, and its cost as the arrays have it."""

    chain: Chain
    move: Move
    grid: Grid
    cost: float

    def taken(self, price: float) -> Chain | None:
        """Return the longer chain; None if the move is not allowed after all."""
        layout, move = self.chain.layout, self.move
        moved = attempt(layout, move)
        if not isinstance(moved, Moved):
            return None
        after = self.grid.score(moved.nodes)
        step = Step(move, layout.places[move.instance], moved.place, after)
        toll = self.chain.cost - self.chain.score
        toll += price * copied(layout.demands[move.instance], move.kind)
        then = layout.with_changes(moved.nodes, {move.instance: moved.place})
        return Chain(then, (*self.chain.steps, step), after + toll)


def _continued(chain: Chain, price: float) -> list[_Extension]:
    """The best moves after a chain, as many as are kept of all."""
    grid = Grid(chain.layout)
    outcomes = Outcomes(grid, price=price)
    entries, targets = _moves(outcomes)
    changes = outcomes.change_of_any(entries, targets)
    order = np.argsort(changes, kind="stable")[:WIDTH]
    longer = []
    for place in order[np.isfinite(changes[order])]:
        move = outcomes.move(int(entries[place]), int(targets[place]))
        longer.append(_Extension(chain, move, grid, chain.cost + float(changes[place])))
    return longer


def _moves(outcomes: Outcomes) -> tuple[Ints, Ints]:
    """Return all moves by entry and column of the target, -1 for none."""
    leavings, count = outcomes.leavings, outcomes.grid.count
    allowed = np.flatnonzero(leavings.allowed)
    failover = leavings.kind[allowed] == FAILOVER
    without, others = allowed[failover], allowed[~failover]
    entries = np.concatenate([without, np.repeat(others, count)])
    targets = np.concatenate([np.full(len(without), -1), np.tile(np.arange(count), len(others))])
    return entries, targets


def _key(layout: Layout) -> tuple[tuple[int, int], ...]:
    return tuple(layout.places[index][:2] for index in layout.movable)
