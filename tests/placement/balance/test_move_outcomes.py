"""Many moves at once, beside the same moves one by one; and bounds, beside what they bound."""

import random
from collections.abc import Iterator
from math import isnan

import numpy as np

from nodeagent.placement.balance.departures import KINDS
from nodeagent.placement.balance.move_outcomes import Outcomes
from nodeagent.placement.layout import score
from nodeagent.placement.layout.arrays import Columns, Grid
from nodeagent.placement.layout.layout import Layout
from nodeagent.placement.layout.moves import Kind, Move, Moved, attempt, candidates, tried
from tests.placement.asked import arrays_serve, laid_out
from tests.placement.clusters import Case, case

SEEDS = range(300, 345)


def walk(layout: Layout, seed: int, steps: int) -> Iterator[tuple[Layout, Move, set[int]]]:
    """Some random allowed moves, and the nodes each changes."""
    rng = random.Random(seed)
    for _ in range(steps):
        moves = [move for i in tried(layout) for move in candidates(layout, i)]
        rng.shuffle(moves)
        for move in moves:
            after = attempt(layout, move)
            if isinstance(after, Moved):
                layout = layout.with_changes(after.nodes, {move.instance: after.place})
                yield layout, move, set(after.nodes)
                break
        else:
            return


def take(outcomes: Outcomes, layout: Layout, move: Move, nodes: set[int]) -> np.ndarray:
    grid = outcomes.grid
    columns = sorted(grid.column[node] for node in nodes)
    grid.take(layout, columns, [grid.row[move.instance]])
    return outcomes.read(np.array(columns))


def all_alike(layout: Layout, outcomes: Outcomes, rows: int) -> int:
    """Every move of the first rows is allowed, and changes the score, as `attempt` says."""
    grid, leavings = outcomes.grid, outcomes.leavings
    now, movers, allowed = score.score(layout), set(tried(layout)), 0
    for row in range(min(rows, len(grid.rows))):
        index = grid.rows[row]
        offered = set(candidates(layout, index)) if index in movers else set()
        for kind in KINDS:
            if (kind is Kind.FAILOVER_ANY) == bool(grid.mirrored[row]):
                continue
            entry = leavings.entries(kind, np.array([row]))
            if kind is Kind.FAILOVER:
                targets, changes = [-1], outcomes.failovers(entry)
            else:
                targets = list(range(grid.count))
                changes = outcomes.change(np.repeat(entry, grid.count), np.array(targets))
            for target, change in zip(targets, changes, strict=True):
                move = Move(index, kind, grid.members[target] if target >= 0 else -1)
                after = attempt(layout, move) if move in offered else None
                if isinstance(after, Moved):
                    then = layout.with_changes(after.nodes, {index: after.place})
                    assert abs(score.score(then) - now - change) < 1e-7, move
                    allowed += 1
                else:
                    assert change == np.inf, (move, after)
    return allowed


def test_a_tag_counts_at_all_nodes_of_a_location() -> None:
    """So a move changes what moves between other nodes are worth."""
    seen = 0
    for seed in range(60):
        layout = laid_out(case(seed, "excluded", "located"))
        if not arrays_serve(layout) or len(layout.members) < 6:
            continue
        outcomes = Outcomes(Grid(layout))
        for moved, move, nodes in walk(layout, seed, 2):
            if layout.demands[move.instance].exclusion:
                take(outcomes, moved, move, nodes)
                seen += all_alike(moved, outcomes, 99)
            break
    assert seen > 300


def test_exclusive_storage_counts_spindles() -> None:
    seen = 0
    for seed in range(30):
        layout = laid_out(case(seed, "dedicated"))
        if not arrays_serve(layout):
            continue
        outcomes = Outcomes(Grid(layout))
        for moved, move, nodes in walk(layout, seed, 2):
            take(outcomes, moved, move, nodes)
            seen += all_alike(moved, outcomes, 9)
    assert seen > 1000


def test_the_score_of_the_arrays_is_the_score_to_the_last_bit() -> None:
    for seed in SEEDS:
        layout = laid_out(case(seed))
        columns = Columns(layout.group_nodes())
        for moved, _, nodes in walk(layout, seed, 5):
            changed = {node: moved.nodes[node] for node in nodes}
            now = score.score(moved)
            assert columns.score(changed) == now or isnan(now)
            for node in changed.values():
                columns.read(node)
            assert columns.score({}) == now or isnan(now)


def test_a_node_that_is_off_stays_the_mirror_of_what_fails_over_from_it() -> None:
    """Ganeti knows none of its figures; the disks are there already."""
    nodes = "n1|?|?|?|?|?|?|Y|u|1\nn2|65536|0|60000|999999|900000|16|N|u|1\n"
    instance = "i1|1024|1024|1|running|Y|n1|n2|drbd|\n"
    layout = laid_out(Case(f"g|u|preferred|\n\n{nodes}\n{instance}\n"))
    assert isinstance(attempt(layout, Move(0, Kind.FAILOVER)), Moved)
