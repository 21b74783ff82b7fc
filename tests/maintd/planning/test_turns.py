"""When the nodes of a roll will be back."""

from dataclasses import replace

import pytest

from nodeagent.maintd.planning.departures import returns_at, turns
from nodeagent.model.roll import Phase, Roll, RollNode, Terms
from nodeagent.model.units import Ms

MINUTE = 60_000
DONE = RollNode("a", "a", Phase.DONE, since=Ms(10 * MINUTE), left_at=Ms(0))


def roll(*nodes: RollNode, at_once: int = 1, pause: int = 0) -> Roll:
    terms = Terms("x", at_once=at_once, pause_between=Ms(pause))
    return Roll(1, "root", Ms(0), terms, (DONE, *nodes))


def waiting(*names: str) -> list[RollNode]:
    return [RollNode(name, name) for name in names]


@pytest.mark.parametrize(
    ("at_once", "pause", "minutes"),
    [(1, 0, (25, 35, 45, 55)), (2, 0, (25, 30, 35, 40)), (1, 5, (25, 40, 55, 70))],
)
def test_each_takes_as_long_as_the_others_did(
    at_once: int, pause: int, minutes: tuple[int, ...]
) -> None:
    away = RollNode("b", "b", Phase.RUNNING, left_at=Ms(15 * MINUTE))
    one = roll(away, *waiting("c", "d", "e"), at_once=at_once, pause=pause * MINUTE)
    found = returns_at(one, Ms(20 * MINUTE))
    assert [found[name] // MINUTE for name in "bcde"] == list(minutes)


def test_nothing_is_foreseen_without_a_first_one_or_while_a_person_has_to_act() -> None:
    one = roll(*waiting("b"))
    assert returns_at(one, Ms(0))
    assert not returns_at(replace(one, nodes=one.nodes[1:]), Ms(0))
    for word in ("stopped", "paused", "canceled"):
        assert not returns_at(replace(one, **{word: "why"}), Ms(0))  # type: ignore[arg-type]


def test_at_first_each_may_take_as_long_as_it_is_allowed_to() -> None:
    one = replace(roll(*waiting("b", "c")), nodes=tuple(waiting("b", "c")))
    within = one.terms.return_within
    assert [(turn.leaves, turn.returns) for turn in turns(one, Ms(0)).values()] == [
        (0, within),
        (within, 2 * within),
    ]
