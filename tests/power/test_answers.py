"""Only exact words of an agent are a state."""

import pytest

from nodeagent.power.answers import PowerAnswer, answer_of, last_words, together, twice

ON, OFF, MIXED, NOTHING = (PowerAnswer(state) for state in ("on", "off", "mixed", "nothing"))


@pytest.mark.parametrize(
    ("code", "stdout", "state"),
    [
        (0, "Status: ON\n", "on"),
        (2, "Status: OFF\n", "off"),
        (2, "Status: OFF", "off"),
        (0, "Success: Already OFF\n", "nothing"),
        (0, "Success: Rebooted\n", "nothing"),
        (2, "", "nothing"),
        (2, "Status: ON\n", "nothing"),
        (0, "Status: OFF\n", "nothing"),
        (1, "Status: ON\n", "nothing"),
        (-9, "Status: OFF\n", "nothing"),
        (0, "Status: ON\nStatus: ON\n", "nothing"),
        (0, "status: on\n", "nothing"),
        (0, "Status: ON \n", "nothing"),
        (0, "\tStatus: ON\n", "nothing"),
        (127, "", "nothing"),
    ],
)
def test_an_answer(code: int, stdout: str, state: str) -> None:
    assert answer_of(code, stdout, "", "").state == state
    assert answer_of(code, stdout, "", "time").state == "nothing"


def test_the_agents_own_words() -> None:
    said = "2026-11-24 01:00:01,181 ERROR: Failed: no\n\n2026-11-24 01:00:01,182 ERROR: {}\n\n"
    assert last_words(said.format("Please use '-h' for usage"), "out") == "Failed: no"
    assert last_words("", "") == "no words"
    long = last_words("Failed: " + "x" * 100_000 + ": certificate verify failed", "")
    assert len(long) < 200
    assert long.startswith("Failed: x")
    assert long.endswith(": certificate verify failed")


def test_a_level_speaks_with_one_voice() -> None:
    assert together([ON, ON]) == ON
    assert together([ON, OFF]).state == "mixed"
    assert together([OFF, NOTHING]) == NOTHING
    assert together([MIXED, OFF]).state == "mixed"


def test_two_readings() -> None:
    assert twice(OFF, OFF) == OFF
    assert twice(OFF, NOTHING) == NOTHING
    assert twice(OFF, ON).state == "mixed"
