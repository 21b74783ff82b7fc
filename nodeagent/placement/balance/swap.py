"""Exchange the nodes of two instances, beyond single moves. Pure. Needs NumPy.

It exchanges two primary or two secondary nodes, so that every node keeps its number of instances.
The search is among layouts, not among moves: a moved instance moves to another place at no cost, as
long as one move leads there from its origin. Sums judge all pairs at once; the few good ones are
tried instance by instance.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nodeagent.placement.balance.swap_pairs import GAIN, Judged, Pairs
from nodeagent.placement.layout.arrays import Grid, Ints
from nodeagent.placement.layout.layout import Layout, Place
from nodeagent.placement.layout.moves import (
    REPLACING,
    Kind,
    Move,
    Moved,
    attempt,
    distance,
    kinds,
    towards,
    tried,
)
from nodeagent.placement.layout.node import (
    Filled,
    Refused,
    add_primary,
    add_secondary,
    remove_primary,
    remove_secondary,
)

_PAIRS = 120_000  # judged at once
_WORTH = 5e-4  # of the score; if all pairs together gain less, it stops


class Exchanged(NamedTuple):
    """The layout, its score, and the number of moves that lead to it."""

    layout: Layout
    score: float
    moves: int


def exchange(
    layout: Layout,
    origin: Sequence[Place],
    allowance: int,
    random: np.random.Generator,
    go_on: Callable[[], bool],
) -> Exchanged:
    """Exchange while it lowers the score, at most so many moves away from the origin."""
    search = Exchanges(layout, origin, allowance)
    before, rounds = search.score, 0
    while go_on():
        search.round(random)
        rounds += 1
        if rounds >= search.blocks:  # every pair has been judged
            if search.score >= (1.0 - _WORTH) * before:
                break
            before, rounds = search.score, 0
    return Exchanged(search.layout, search.score, search.moves)


class Exchanges:
    """The layout in its present state."""

    def __init__(self, layout: Layout, origin: Sequence[Place], allowance: int) -> None:
        self.layout, self.origin, self.allowance = layout, origin, allowance
        self.grid = Grid(layout)
        self.score = self.grid.score({})
        self.moves = sum(map(distance, origin, layout.places))
        self.pairs = Pairs(self.grid, [origin[index] for index in self.grid.rows])
        first = layout.with_changes({}, dict(enumerate(origin)))
        self.kinds = {index: _kinds(first, index) for index in tried(first)}
        self._queue = np.zeros(0, np.intp)
        self.blocks = 1

    def round(self, random: np.random.Generator) -> None:
        """Judge one block of pairs, and make the good exchanges."""
        rows = self._rows()
        if len(rows) < 2:
            return
        size = max(1, _PAIRS // len(rows))
        self.blocks = -(-len(rows) // size)
        if not len(self._queue):
            self._queue = random.permutation(rows)
        block, self._queue = self._queue[:size], self._queue[size:]
        one, other = np.repeat(block, len(rows)), np.tile(rows, len(block))
        self._make(self.pairs.judge(one, other, max(0, self.allowance - self.moves)))

    def _rows(self) -> Ints:
        """List moved DRBD instances; others, too, while more moves are allowed."""
        rows = np.flatnonzero(self.grid.mirrored)
        if self.moves < self.allowance:
            return rows
        moved_rows: Ints = rows[self.pairs.moved()[rows]]
        return moved_rows

    def _make(self, judged: Judged) -> None:
        """Make exchanges of different nodes, the best first."""
        grid = self.grid
        used = np.zeros(grid.count, bool)
        nodes: dict[int, Filled] = {}
        places: dict[int, Place] = {}
        score, moves = self.score, self.moves
        # A further move must be worth it: free ones come first.
        order = np.argsort(judged.changes / (1 + np.maximum(judged.farther, 0)), kind="stable")
        for n in order:
            one, other = int(judged.one[n]), int(judged.other[n])
            touched = [grid.primary[one], grid.secondary[one], grid.primary[other]]
            touched.append(grid.secondary[other])
            if used[touched].any() or moves + judged.farther[n] > max(self.allowance, moves):
                continue
            made = self.tried(one, other, primary=bool(judged.primary[n]))
            if made is None:
                continue
            after = grid.score({**nodes, **made[0]})
            if after >= score - GAIN or not self._reachable(*made):
                continue
            nodes.update(made[0])
            places.update(made[1])
            used[touched] = True
            score, moves = after, moves + int(judged.farther[n])
        if not nodes:
            return
        self.score, self.moves = score, moves
        self.layout = self.layout.with_changes(nodes, places)
        grid.take(self.layout, [grid.column[i] for i in nodes], [grid.row[i] for i in places])
        self.pairs.read()

    def tried(
        self, one: int, other: int, *, primary: bool
    ) -> tuple[dict[int, Filled], dict[int, Place]] | None:
        """Put both instances on each other's nodes; None if one does not fit."""
        layout, rows = self.layout, self.grid.rows
        nodes: dict[int, Filled] = {}

        def node(index: int) -> Filled:
            return nodes.get(index) or layout.nodes[index]

        pair = [(rows[row], layout.places[rows[row]]) for row in (one, other)]
        for index, (p, s, shared) in pair:
            demand = layout.demands[index]
            nodes[p] = remove_primary(node(p), demand, shared)
            nodes[s] = remove_secondary(node(s), demand, p)
        places = {}
        for (index, was), (_, place) in zip(pair, reversed(pair), strict=True):
            p, s = (place.primary, was.secondary) if primary else (was.primary, place.secondary)
            demand = layout.demands[index]
            shared = len(node(p).host.locations & node(s).host.locations)
            runs = add_primary(node(p), demand, shared)
            if isinstance(runs, Refused):
                return None
            nodes[p] = runs
            mirrors = add_secondary(node(s), demand, p)
            if isinstance(mirrors, Refused):
                return None
            nodes[s] = mirrors
            places[index] = Place(p, s, shared)
        return nodes, places

    def _reachable(self, nodes: Mapping[int, Filled], places: Mapping[int, Place]) -> bool:
        """Tell whether each could make its one move there last, after the others.

        The order of two moves is not known yet; all their kinds must be allowed.
        """
        then = self.layout.with_changes(nodes, places)
        for index, place in places.items():
            was, demand = self.origin[index], then.demands[index]
            far = distance(was, place)
            offered = self.kinds.get(index, frozenset())
            if far == 2 and not offered.issuperset(REPLACING):
                return False
            if far != 1:
                continue
            back = {node: then.nodes[node] for node in place[:2]}
            back[place.primary] = remove_primary(back[place.primary], demand, place.shared)
            back[place.secondary] = remove_secondary(back[place.secondary], demand, place.primary)
            runs = add_primary(
                back.get(was.primary, then.nodes[was.primary]), demand, was.shared, force=True
            )
            if isinstance(runs, Refused):
                return False
            back[was.primary] = runs
            mirrors = add_secondary(
                back.get(was.secondary, then.nodes[was.secondary]), demand, was.primary, force=True
            )
            if isinstance(mirrors, Refused):
                return False
            back[was.secondary] = mirrors
            before = then.with_changes(back, {index: was})
            ways = (Move(index, *way) for way in towards(was, place, mirrored=True))
            if not any(w.kind in offered and isinstance(attempt(before, w), Moved) for w in ways):
                return False
        return True


def _kinds(layout: Layout, index: int) -> frozenset[Kind]:
    """Return the kinds of move that may be tried for an instance."""
    failover, others = kinds(layout, index)
    return frozenset({*others, Kind.FAILOVER} if failover else others)
