"""The commands of a node in its report: written, read, and bounded."""

import pytest

from nodeagent.errors import MessageError
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import COMMANDS
from nodeagent.protocol.commands import (
    Command,
    Kind,
    LastRun,
    State,
    read_commands,
    read_runs,
    write_commands,
    write_runs,
)
from nodeagent.protocol.messages import MOST_COMMANDS

DIGEST = "ab" * 32
RAID = Command("raid", Kind.DIAGNOSE, State.RUNS, DIGEST, Ms(30_000), "0123456789abcdef")
GONE = Command("reset", Kind.REPAIR, State.MISSING, "", Ms(3_600_000))
RAN = LastRun(Ms(1), "live-repair", Ms(1250), Ms(3))


def test_commands_and_runs_are_read_as_they_were_written() -> None:
    assert read_commands(write_commands([RAID, GONE])) == (RAID, GONE)
    assert read_runs(write_runs([RAN, LastRun()]), 2) == (RAN, LastRun())
    assert read_commands(write_commands([])) == ()
    assert read_runs(write_runs([]), 0) == ()


def test_most_commands_with_the_longest_names_have_room() -> None:
    long = Command("n" * 64, Kind.DIAGNOSE, State.INTERPRETER, DIGEST, Ms(86_400_000), "a" * 16)
    longest = LastRun(Ms(2**45), "evacuate-failover", Ms(86_400_000), Ms(2**45))
    text, runs = write_commands([long] * (COMMANDS + 1)), write_runs([longest] * (COMMANDS + 1))
    assert max(len(text), len(runs)) <= MOST_COMMANDS
    assert len(read_runs(runs, len(read_commands(text)))) == COMMANDS


def test_words_of_a_newer_agent_are_taken() -> None:
    (found,) = read_commands(f"raid remedy put-aside {DIGEST} 5 - more")
    assert (found.kind, found.state) == ("remedy", "put-aside")


WRONG = {
    "too few": "raid repair runs - 1",
    "blanks": "raid repair runs  - 1 -",
    "name": "a/b repair runs - 1 -",
    "word": "raid repair\t runs - 1 -",
    "digest": "raid repair runs AB 1 -",
    "timeout": "raid repair runs - -1 -",
    "digits": "raid repair runs - \u0663 -",
    "settings": "raid repair runs - 1 x",
    "an end of line": "raid repair runs - 1 -\n",
    "too many": "\n".join(["raid repair runs - 1 -"] * (COMMANDS + 1)),
}


def test_what_has_another_form_is_refused() -> None:
    for text in WRONG.values():
        with pytest.raises(MessageError):
            read_commands(text)
    for text in ("- 5 1 1", "x - 1 1", "- Ok 1", "- Ok 1.5 1"):
        with pytest.raises(MessageError):
            read_runs(text, 1)
    with pytest.raises(MessageError, match="1 last runs of 2"):
        read_runs(write_runs([RAN]), 2)
