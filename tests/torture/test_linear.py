"""The checker says yes to right histories and no to seeded wrong ones."""

from typing import Any

import pytest

from tests.torture.linear import UNKNOWN, Op, State, wrong
from tests.torture.objects import OF_TAG, STEPS, Planned, Unsafe


def register(state: State, verb: str, given: Any, answer: Any) -> tuple[bool, State]:
    """`write` a value, `read` it, `cas` (old, new)."""
    match verb:
        case "write":
            return True, given
        case "read":
            return answer is UNKNOWN or answer == state, state
        case _:
            done = state == given[0]
            return answer is UNKNOWN or answer == done, given[1] if done else state


def op(verb: str, given: Any, answer: Any, start: float, end: float | None = None) -> Op:
    return Op("x", verb, given, answer, start, end)


RIGHT = {
    "one after another": [op("write", 1, None, 0, 1), op("read", None, 1, 2, 3)],
    "a read beside a write sees either": [
        op("write", 1, None, 0, 1),
        op("write", 2, None, 2, 6),
        op("read", None, 1, 3, 4),
        op("read", None, 2, 4.5, 5),
    ],
    "what was never answered happens later": [
        op("write", 1, None, 0, 1),
        op("write", 2, None, 2),
        op("read", None, 1, 3, 4),
        op("read", None, 2, 5, 6),
    ],
    "what was never answered does not happen": [
        op("write", 1, None, 0, 1),
        op("cas", (1, 2), None, 2),
        op("read", None, 1, 300, 400),
    ],
    "one of two wins": [
        op("cas", (None, 1), True, 0, 5),
        op("cas", (None, 2), False, 1, 4),
        op("read", None, 1, 6, 7),
    ],
}
WRONG = {
    "an acknowledged write is lost": [
        op("write", 1, None, 0, 1),
        op("write", 2, None, 2, 3),
        op("read", None, 1, 4, 5),
    ],
    "back in time": [
        op("write", 1, None, 0, 1),
        op("write", 2, None, 2, 9),
        op("read", None, 2, 3, 4),
        op("read", None, 1, 5, 6),
    ],
    "two winners": [op("cas", (None, 1), True, 0, 5), op("cas", (None, 2), True, 1, 4)],
    "out of nowhere": [op("read", None, 7, 0, 1)],
    "seen before it was asked for": [op("read", None, 1, 0, 1), op("write", 1, None, 2, 3)],
    "what was never answered is taken back": [
        op("write", 1, None, 0, 1),
        op("write", 2, None, 2),
        op("read", None, 2, 3, 4),
        op("read", None, 1, 5, 6),
    ],
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str) -> None:
    assert wrong(RIGHT[name], {"x": register}, {}) is None


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str) -> None:
    assert wrong(WRONG[name], {"x": register}, {}) == "x"


def test_each_object_is_by_itself() -> None:
    other = [Op("y", o.verb, o.given, o.answer, o.start, o.end) for o in WRONG["two winners"]]
    steps = {"x": register, "y": register}
    assert wrong(RIGHT["one of two wins"] + other, steps, {}) == "y"


A, B = {"n4": 7}, {"n4": 7, "n5": 9}
PLAN = (Planned("n4", 7), Planned("n5", 9))


def asked(key: str, *told: tuple[str, Any, Any]) -> list[Op]:
    """Requests one after another, with their answers."""
    return [
        Op(key, verb, given, said, 2 * n, 2 * n + 1) for n, (verb, given, said) in enumerate(told)
    ]


@pytest.mark.parametrize(
    ("history", "right"),
    [
        (asked("pause/n1", ("pause", "a", True), ("pause", "b", False), ("read", 0, "a")), True),
        (asked("pause/n1", ("pause", "a", True), ("pause", "b", True)), False),
        (asked("pause/n1", ("pause", "a", True), ("read", 0, None)), False),
        (asked("pause/n1", ("pause", "a", True), ("force", "b", True), ("read", 0, "b")), True),
        (asked("pause/n1", ("pause", "a", True), ("resume", 0, False)), False),
        (asked("pause/n1", ("pause", "a", True), ("read", 0, OF_TAG)), False),
        (asked("pause/n1", ("pause", Unsafe("a"), True), ("read", 0, OF_TAG)), True),
        (asked("pause/n1", ("pause", Unsafe("a"), True), ("read", 0, "a")), True),
        (asked("pause/n1", ("pause", "a", True), ("resume", 0, True), ("read", 0, "a")), False),
        (asked("schedule", ("set", (B, None), True), ("read", 0, PLAN)), True),
        (asked("schedule", ("set", (A, None), True), ("set", (B, {}), True)), False),
        (asked("schedule", ("set", (A, {}), True), ("set", (B, A), True), ("read", 0, PLAN)), True),
        (asked("schedule", ("set", (A, None), True), ("down", "n5", True)), False),
        (
            asked(
                "schedule",
                ("set", (A, {}), True),
                ("down", "n4", True),
                ("up", "n4", True),
                ("read", 0, ()),
            ),
            True,
        ),
        (
            asked("schedule", ("set", (A, {}), True), ("down", "n4", True), ("set", ({}, A), True)),
            False,
        ),
        (asked("offer/1", ("write", "no", True), ("read", 0, "yes")), False),
        (asked("series/1", ("add", 1, True), ("read", 0, False)), False),
        (asked("series/1", ("read", 0, True)), False),
    ],
)
def test_objects(history: list[Op], right: bool) -> None:
    assert (wrong(history, STEPS, {}) is None) == right
