"""Answers of fence agents: only exact words are on or off. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nodeagent.errors import plain

ON, OFF, MIXED, NOTHING = "on", "off", "mixed", "nothing"
_EXACT = {(0, "Status: ON"): ON, (2, "Status: OFF"): OFF}
_IGNORED = ("Ignoring unknown option", "Ignoring option")
_STAMP = re.compile(r"^[-0-9]{10} [:0-9]{8},\d{3} (ERROR|WARNING): ")
_USAGE = "Please use '-h' for usage"
WORDS = 160  # characters of an agent's own words that are shown


@dataclass(frozen=True, slots=True)
class PowerAnswer:
    """A device's or level's state of power, and why it is not on or off."""

    state: str
    why: str = ""


def answer_of(code: int, stdout: str, stderr: str, stopped: str) -> PowerAnswer:
    """Return the answer of one `action=status`; exit codes alone mean nothing."""
    if fault := fault_of(stderr, stopped):
        return PowerAnswer(NOTHING, fault)
    status_lines = [line for line in stdout.splitlines() if line.lstrip().startswith("Status")]
    state = _EXACT.get((code, status_lines[0])) if len(status_lines) == 1 else None
    return (
        PowerAnswer(state)
        if state
        else PowerAnswer(NOTHING, f"exit {code}: {last_words(stderr, stdout)}")
    )


def fault_of(stderr: str, stopped: str) -> str:
    """Say why no word of this run counts, or nothing."""
    if stopped:
        return "no answer in time" if stopped == "time" else "too much output"
    if any(word in stderr for word in _IGNORED):
        return "the agent ignored one of its options"
    return ""


def last_words(stderr: str, stdout: str) -> str:
    """Return the last line of an agent that is for people, bounded."""
    for text in (stderr, stdout):
        lines = [_STAMP.sub("", line).strip() for line in text.splitlines()[-20:]]
        if readable := [line for line in lines if line and line != _USAGE]:
            return _short(readable[-1])
    return "no words"


def _short(line: str) -> str:
    """Keep both ends of a long line: libraries put the cause last."""
    if len(line) > WORDS:
        line = f"{line[: WORDS // 2]} … {line[-WORDS // 2 :]}"
    return plain(line, WORDS + 3)


def together(answers: Sequence[PowerAnswer]) -> PowerAnswer:
    """Return the answer of a level: all its devices must say the same."""
    states = {answer.state for answer in answers}
    if len(states) == 1:
        return answers[0]
    if NOTHING in states:
        return next(answer for answer in answers if answer.state == NOTHING)
    return PowerAnswer(MIXED, "some devices say on and others off")


def twice(first: PowerAnswer, second: PowerAnswer) -> PowerAnswer:
    """Return the answer of two readings, both of which must be the same."""
    if first.state == second.state or second.state == NOTHING:
        return second
    return PowerAnswer(MIXED, f"it said {first.state}, and then {second.state}")
