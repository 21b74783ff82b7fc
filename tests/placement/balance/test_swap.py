"""Exchanges of pairs, judged at once and one by one; and the way to the layout they lead to."""

from itertools import product

import numpy as np

from nodeagent.placement.balance.sequence import arrange
from nodeagent.placement.balance.state import Board
from nodeagent.placement.balance.swap import Exchanges, exchange
from nodeagent.placement.balance.swap_pairs import Pairs
from nodeagent.placement.layout.arrays import Grid
from nodeagent.placement.layout.layout import Layout
from nodeagent.placement.layout.moves import Moved, attempt, distance
from nodeagent.placement.layout.score import score
from tests.placement.asked import arrays_serve, laid_out
from tests.placement.clusters import case

SEEDS = range(500, 620)


def layouts() -> list[Layout]:
    """Some for which arrays serve."""
    return [layout for seed in SEEDS if arrays_serve(layout := laid_out(case(seed)))]


def is_tagged(layout: Layout) -> bool:
    """What tags cost is not judged."""
    places = any(node.host.locations for node in layout.nodes)
    return places or any(demand.exclusion or demand.desired for demand in layout.demands)


def test_judged_is_what_comes_of_it() -> None:
    made = 0
    for layout in layouts():
        if is_tagged(layout):
            continue
        search = Exchanges(layout, layout.places, 99)
        pairs, now = search.pairs, score(layout)
        rows = np.flatnonzero(pairs.grid.mirrored)
        if not len(rows):
            continue
        both = np.array(list(product(rows, rows)))
        judged = pairs.judge(both[:, 0], both[:, 1], 99)
        for n in range(len(judged.one)):
            one, other = int(judged.one[n]), int(judged.other[n])
            tried = search.tried(one, other, primary=bool(judged.primary[n]))
            if tried is None:
                continue
            then = layout.with_changes(*tried)
            assert abs(score(then) - now - judged.changes[n]) < 1e-7
            assert judged.farther[n] == sum(map(distance, layout.places, then.places))
            made += 1
    assert made > 80


def test_not_farther_than_allowed() -> None:
    for allowance in (0, 2, 5):
        for layout in layouts()[:20]:
            found = exchange(
                layout, layout.places, allowance, np.random.default_rng(1), lambda: True
            )
            assert found.moves == sum(map(distance, layout.places, found.layout.places))
            assert found.moves <= allowance
            assert abs(found.score - score(found.layout)) < 1e-12
            assert found.score <= score(layout)


def test_there_are_moves_to_most_of_what_exchanges_lead_to() -> None:
    wanted = arrived = 0
    for layout in layouts():
        found = exchange(layout, layout.places, 12, np.random.default_rng(1), lambda: True)
        goal = {index: found.layout.places[index] for index in layout.movable}
        at = layout
        for step in arrange(Board(layout), goal, lambda: True):
            moved = attempt(at, step.move)
            assert isinstance(moved, Moved)
            at = at.with_changes(moved.nodes, {step.move.instance: moved.place})
            assert abs(score(at) - step.score) < 1e-12
        wanted += found.moves > 0
        arrived += found.moves > 0 and at.places == found.layout.places
    assert wanted > 12
    assert arrived >= 0.8 * wanted


def test_pairs_know_what_may_migrate() -> None:
    """An instance is not brought to run where it can never go."""
    layout = laid_out(case(3, "migrating"))
    grid = Grid(layout)
    grid.can_migrate[:] = np.eye(grid.count, dtype=bool)
    pairs = Pairs(grid, [layout.places[index] for index in grid.rows])
    rows = np.flatnonzero(grid.mirrored)
    both = np.array(list(product(rows, rows)))
    assert not pairs.judge(both[:, 0], both[:, 1], 99).primary.any()
