"""Moves: which there are, what they are checked for, and what they make of the nodes."""

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy

import pytest

from nodeagent.placement.layout import score
from nodeagent.placement.layout.layout import Layout
from nodeagent.placement.layout.moves import (
    Kind,
    Move,
    Moved,
    arrives,
    attempt,
    candidates,
    commands,
    tried,
)
from nodeagent.placement.layout.node import Refused
from tests.placement.asked import laid_out
from tests.placement.clusters import Case, case
from tests.placement.hbal import shown
from tests.placement.referee import Foul, Referee, replay


def target_name(layout: Layout, move: Move) -> str:
    return layout.nodes[move.target].host.name if move.target >= 0 else ""


def test_every_move_is_allowed_or_not_as_the_referee_says() -> None:
    """Which of its checks refuses a move first is each one's own affair."""
    seen: Counter[Kind] = Counter()
    refused = 0
    for seed in range(200, 208):
        asked = case(seed)
        layout = laid_out(asked)
        referee = Referee(asked.text, asked.options, asked.loads)
        movers = set(tried(layout))
        for index in layout.residents[:12]:
            offered = list(candidates(layout, index)) if index in movers else []
            for move in every_move(layout, index):
                after = attempt(layout, move) if move in offered else Refused.TAGS
                copy = deepcopy(referee)
                name = layout.cluster.instances[index].name
                got = score_or_foul(copy, name, move.kind.value.format(target_name(layout, move)))
                if isinstance(after, Refused):
                    assert isinstance(got, Foul), (seed, move, after)
                    refused += move in offered
                    continue
                assert not isinstance(got, Foul), (seed, move, got)
                seen[move.kind] += 1
                then = layout.with_changes(after.nodes, {index: after.place})
                assert shown(score.score(then)) == shown(got)
                assert after.place[:2] == arrives(move, layout.places[index])
    assert min(seen[kind] for kind in Kind) > 5
    assert refused > 50


def score_or_foul(referee: Referee, name: str, action: str) -> float | Foul:
    try:
        return referee.play(name, action)
    except Foul as foul:
        return foul


def every_move(layout: Layout, index: int) -> Iterator[Move]:
    """Also those which are none."""
    yield Move(index, Kind.FAILOVER)
    for kind in set(Kind) - {Kind.FAILOVER}:
        yield from (Move(index, kind, target) for target in range(len(layout.nodes)))


TEXT = """\
g|u|preferred|

n1|16384|0|15360|409600|306600|16|N|u|1
n2|16384|0|16384|409600|306600|16|N|u|1
n3|16384|0|16384|409600|409600|16|N|u|1

i1|1024|51200|1|running|Y|n1|n2|drbd|
i2|1024|51200|1|ADMIN_down|Y|n1|n2|drbd|
i3|1024|51200|1|running|Y|n1||rbd|
i4|1024|51200|1|running|Y|n1||plain|

"""


@pytest.mark.parametrize(
    ("move", "ends", "told"),
    [
        (Move(0, Kind.FAILOVER), (1, 0), ["migrate -f i1"]),
        (Move(1, Kind.FAILOVER), (1, 0), ["failover -f i2"]),
        (Move(0, Kind.REPLACE, 2), (0, 2), ["replace-disks -n n3 i1"]),
        (
            Move(0, Kind.REPLACE_FAILOVER, 2),
            (2, 0),
            ["replace-disks -n n3 i1", "migrate -f i1"],
        ),
        (
            Move(0, Kind.REPLACE_PRIMARY, 2),
            (2, 1),
            ["migrate -f i1", "replace-disks -n n3 i1", "migrate -f i1"],
        ),
        (
            Move(0, Kind.FAILOVER_REPLACE, 2),
            (1, 2),
            ["migrate -f i1", "replace-disks -n n3 i1"],
        ),
        (Move(2, Kind.FAILOVER_ANY, 1), (1, -1), ["migrate -f -n n2 i3"]),
    ],
)
def test_each_kind(move: Move, ends: tuple[int, int], told: list[str]) -> None:
    layout = laid_out(Case(TEXT))
    assert move in list(candidates(layout, move.instance))
    after = attempt(layout, move)
    assert isinstance(after, Moved)
    assert after.place[:2] == ends
    assert commands(layout, move) == told


def test_the_order_in_which_they_are_tried() -> None:
    layout = laid_out(Case(TEXT))
    assert [(m.kind.value, m.target) for m in candidates(layout, 0)] == [
        ("f", -1),
        ("r:{}", 2),
        ("r:{} f", 2),
        ("f r:{} f", 2),
        ("f r:{}", 2),
    ]
    assert tried(layout) == (0, 1, 2)


def test_there_and_back_is_where_it_was() -> None:
    layout = laid_out(Case(TEXT))
    there = attempt(layout, Move(0, Kind.FAILOVER))
    assert isinstance(there, Moved)
    moved = layout.with_changes(there.nodes, {0: there.place})
    back = attempt(moved, Move(0, Kind.FAILOVER))
    assert isinstance(back, Moved)
    assert score.score(moved.with_changes(back.nodes, {0: back.place})) == score.score(layout)


def test_the_referee_sees_fouls() -> None:
    """A list with a forbidden move, and one with a false score, are not let pass."""
    assert replay(TEXT, [], None, [("i4", "f", "1.0")]) == ["1. i4 f: cannot move"]
    (wrong,) = replay(TEXT, [], None, [("i1", "f", "1.0")])
    assert wrong.startswith("1. i1 f: score ")
    assert replay(TEXT, ["-O", "n3"], None, [("i1", "r:n3", "1.0")]) == ["1. i1 r:n3: no target"]


def test_reasons_have_words() -> None:
    assert all(" " in reason.words for reason in Refused)
