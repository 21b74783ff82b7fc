"""Better balance: hbal's own search, and one that finds more. Pure. Needs NumPy.

`exact` is hbal's. `best` takes several descents, which smooth the edges that stop hbal's search;
then exchanges instances as long as that helps; and puts the moves in an order in which each is
allowed. It is never worse than `exact` where it has the time to do that, too.

In a group of up to `SMALL` nodes it looks several moves ahead at last. There it is not worse than
`exact` after as many moves either, so that who stops half way has no worse cluster than with hbal.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import dropwhile
from math import isfinite

import numpy as np

from nodeagent.placement.balance.ahead import look_ahead
from nodeagent.placement.balance.descent import descend
from nodeagent.placement.balance.greedy import greedy, well_balanced
from nodeagent.placement.balance.sequence import arrange
from nodeagent.placement.balance.state import Board, Step, after, has_arrays
from nodeagent.placement.balance.swap import exchange
from nodeagent.placement.layout.layout import Layout
from nodeagent.placement.layout.moves import copied
from nodeagent.placement.layout.rules import Enough
from nodeagent.placement.layout.score import least, score

# Widths of spreads on one way down after another; after these with noise.
_WAYS = (
    (7.0, 2.0, 0.0),
    (14.0, 4.0, 0.0),
    (4.0, 1.0, 0.0),
    (10.0, 3.0, 0.0),
    (20.0, 5.0, 1.0, 0.0),
    (2.0, 0.5, 0.0),
)
_WORSE, _WORSE_LIMITED = 0.3, 0.05
# The number of descents: so much by the cluster's size, its movable instances times its nodes.
_WORK, _FEWEST, _MOST = 4_000_000, 2, 8
# Moves beyond those of `exact`; or of the shortest descent, which mostly has some more than that.
_EXTRA, _EXTRA_UNKNOWN, _FEW = 0.15, 0.11, 4
_ASIDE = 32  # one of so many moves
SMALL = 12  # nodes
_WORTH = 0.002  # of the score: the least gain of a move of several together
_ONWARD = 3  # from the end of `exact` at most one of so many moves more
_JUDGED = 20  # of its steps give an estimate of `exact`'s duration
_EXACT, _DOWN, _POLISHED, _LATE = 0.5, 0.45, 0.75, 1.0  # until which part of the time


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps from a layout, and its score before them."""

    layout: Layout
    initial: float
    steps: tuple[Step, ...] = ()

    @property
    def final(self) -> float:
        return self.steps[-1].score if self.steps else self.initial

    @property
    def copied(self) -> float:
        return sum(copied(self.layout.demands[s.move.instance], s.move.kind) for s in self.steps)

    def after(self, count: int) -> float:
        """Return the score after so many steps, or after all if there are fewer."""
        return self.steps[:count][-1].score if count and self.steps else self.initial

    def end(self) -> Layout:
        return after(self.layout, self.steps)


def exact(layout: Layout, enough: Enough) -> Iterator[Step]:
    """hbal's steps, each as soon as it is found."""
    return greedy(layout, enough)


def best(
    layout: Layout,
    enough: Enough,
    *,
    seed: int = 0,
    price: float = 0.0,
    spent: Callable[[], float] = lambda: 0.0,
) -> Plan:
    """Find the best plan; the same for the same seed, unless its time runs out.

    `price` is the least gain of the score for a GiB copied. `spent` returns the elapsed part of the
    available time.
    """
    start = Plan(layout, score(layout))
    if well_balanced(layout, enough) or not isfinite(start.initial):
        return start
    return _Search(start, enough, seed, price, spent).plan()


class _Search:
    """Compares plans by their final score and their copied data."""

    def __init__(
        self, start: Plan, enough: Enough, seed: int, price: float, spent: Callable[[], float]
    ) -> None:
        self.start, self.enough, self.price, self.spent = start, enough, price, spent
        self.layout = start.layout
        self.useless: set[float] = set()  # widths at which no first move gains
        self._unchanged: Board | None = None
        self.goal = least(self.layout) + enough.excess
        # A search that cannot go all the way avoids local minima less, and has no steps to waste.
        limited = enough.moves is not None
        self.ways = ((0.0,), *_WAYS) if limited else _WAYS
        self.worse = _WORSE_LIMITED if limited else _WORSE
        self.seed = seed
        self.random = np.random.default_rng(seed)
        self.size = len(self.layout.movable) * len(self.layout.members)

    def plan(self) -> Plan:
        first, whole = self._exactly()
        if not has_arrays(self.layout):
            return first
        smoothed = self._smooth(first, whole=whole)
        if len(self.layout.members) > SMALL:
            return smoothed
        plans = [self._ahead(smoothed)]
        if whole:
            count = len(first.steps)
            plans = [plan for plan in plans if plan.after(count) <= first.final]
            onward = self._onward(first)
            if onward.steps != smoothed.steps:  # else this look ahead is taken
                plans.append(self._ahead(onward))
        return min(plans, key=self._value)

    def _onward(self, first: Plan) -> Plan:
        """Go on where `exact` ends."""
        count = len(first.steps)
        limit = max(count // _ONWARD, _FEW)
        if self.enough.moves is not None:
            limit = min(limit, self.enough.moves - count)
        if limit <= 0 or self.spent() >= _DOWN:
            return first
        start = Plan(first.end(), first.final)
        enough = replace(self.enough, moves=limit)
        search = _Search(start, enough, self.seed, self.price, self.spent)
        if not first.steps:
            search.useless = self.useless
        then = search._smooth(start, whole=True)
        return self._planned((*first.steps, *then.steps))

    def _ahead(self, plan: Plan) -> Plan:
        """Look several moves ahead from a plan's end."""
        enough, limit = self.enough, None
        if enough.moves is not None:
            limit = enough.moves - len(plan.steps)

        def worth(now: float) -> float:
            return max(_WORTH * now, enough.gain if now <= enough.gain_from else 0.0)

        before = self._before(_LATE)
        more = look_ahead(plan.end(), worth, limit, self.price, before)
        return self._planned((*plan.steps, *more))

    def _smooth(self, first: Plan, *, whole: bool) -> Plan:
        """Return the best of the first plan and of those by descents and exchanges."""
        limit = self.enough.moves
        ways = list(self._ways())
        if limit is None:
            fewest = len(first.steps)  # of `exact`, at least
            if not whole:
                fewest = max(fewest, min(len(plan.steps) for plan in ways))
            extra = _EXTRA if whole else _EXTRA_UNKNOWN
            limit = fewest + max(int(fewest * extra), _FEW)
        plans = sorted((self._cut(plan, limit) for plan in [first, *ways]), key=self._value)
        polished = [self._polish(plan, limit) for plan in plans[: 2 if whole else 1]]
        plans += [self._cut(plan, limit) for plan in polished]
        return min(plans, key=self._value)

    def _exactly(self) -> tuple[Plan, bool]:
        """Return hbal's plan, and whether it is whole; start it only if the time suffices."""
        begun, steps = self.spent(), list[Step]()
        expected = self.enough.moves or len(self.layout.movable) / 3
        others = has_arrays(self.layout)  # there are other searches, which want time, too
        until = _EXACT if others else 1.0
        whole = True
        for step in greedy(self.layout, self.enough):
            steps.append(step)
            now = self.spent()
            each = (now - begun) / len(steps)
            too_long = others and len(steps) >= _JUDGED and begun + each * expected > until
            if now >= until or too_long:
                whole = False
                break
        plan = self._planned(steps)
        return self._cut(plan, len(steps)) if self.price else plan, whole

    def _ways(self) -> Iterator[Plan]:
        """Yield descents, at least one."""
        for way in range(min(max(_WORK // max(self.size, 1), _FEWEST), _MOST)):
            before = self.spent()
            yield self._down(way)
            now = self.spent()
            if now + (now - before) > _DOWN:  # the next one would take as long
                return

    def _down(self, way: int) -> Plan:
        noise = self.random if way >= len(self.ways) else None
        widths: tuple[float, ...] = self.ways[way % len(self.ways)]
        if noise is None:
            widths = tuple(dropwhile(self.useless.__contains__, widths))
        if not widths:
            return self._planned(())
        board = self._board()
        in_time = self._before(_POLISHED)
        steps: list[Step] = []
        for width in widths:
            for step in descend(board, (width,), self.worse, noise, in_time):
                steps.append(step)
                if step.score <= self.goal or len(steps) == self.enough.moves:
                    return self._planned(steps)
            if not steps and in_time():
                self.useless.add(width)
        if not steps:
            self._unchanged = board
        return self._planned(steps)

    def _board(self) -> Board:
        """Return a board of the start: one that no step has changed serves again."""
        board, self._unchanged = self._unchanged, None
        return board or Board(self.layout, self.price)

    def _polish(self, plan: Plan, limit: int) -> Plan:
        """Exchange instances at a plan's end, and find the moves that lead there."""
        board = Board(self.layout)
        # Some may have to step aside. And if data has its price, unmoved instances stay.
        allowance = len(plan.steps) if self.price else limit - limit // _ASIDE
        exchanged = exchange(
            plan.end(), self.layout.places, allowance, self.random, self._before(_POLISHED)
        )
        goal = {index: exchanged.layout.places[index] for index in self.layout.movable}
        steps = list(arrange(board, goal, self._before(_LATE)))
        # If not all could go there, there is something left to gain.
        if steps or self.price or 0.0 not in self.useless:
            steps += descend(board, (0.0,), self.worse, None, self._before(_LATE))
        return self._planned(steps)

    def _before(self, part: float) -> Callable[[], bool]:
        return lambda: self.spent() < part

    def _planned(self, steps: Iterable[Step]) -> Plan:
        return Plan(self.layout, self.start.initial, tuple(steps))

    def _cut(self, plan: Plan, limit: int) -> Plan:
        """Keep the most valuable first steps, at most so many."""
        fee, now = 0.0, plan.initial
        costs = [now]
        for step in plan.steps[:limit]:
            fee += self.enough.gain if now <= self.enough.gain_from else 0.0
            fee += self.price * copied(self.layout.demands[step.move.instance], step.move.kind)
            now = step.score
            costs.append(now + fee)
        count = min(range(len(costs)), key=lambda steps: (costs[steps], -steps))
        return self._planned(plan.steps[:count])

    def _value(self, plan: Plan) -> float:
        return plan.final + self.price * plan.copied
