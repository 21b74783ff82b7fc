"""The commands of a node in its report: which there are, and their last runs. Pure.

Two texts, with a line of words for each command. The first changes rarely and is the same on many
nodes; the second is each node's own. maintd reads them only when somebody asks. As JSON, which is
checked bracket by bracket, they would cost each poll 40 us a node.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from nodeagent.errors import MessageError
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import COMMANDS
from nodeagent.protocol.messages import COMMAND_NAME

_WORD = re.compile(r"[A-Za-z][A-Za-z-]{0,31}")
_DIGEST, _SETTINGS = re.compile("[0-9a-f]{64}|-"), re.compile("[0-9a-f]{1,64}|-")
_NUMBER = re.compile("[0-9]{1,15}")
_RUN = re.compile(  # in one go: maintd reads those of all nodes at a time
    rf"(?:-|({_NUMBER.pattern})) (?:-|({_WORD.pattern}))"
    rf" (?:-|({_NUMBER.pattern})) (?:-|({_NUMBER.pattern}))(?: .*)?"
)
_NONE = "-"


class Kind(StrEnum):
    """The use of a command. An audit runs and is not reported; a check changes nothing."""

    DIAGNOSE = "diagnose"
    AUDIT = "audit"
    REPAIR = "repair"
    QUEUE = "queue"
    CHECK = "check"


class State(StrEnum):
    """Whether a command may run. The whole reason is for the node's own administrator."""

    RUNS = "runs"
    MISSING = "missing"
    FILE = "file-refused"
    FOLDER = "folder-refused"
    INTERPRETER = "interpreter-refused"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a node. `kind` and `state` are words, perhaps of a newer agent.

    `digest` is the SHA-256 of its file, empty if it may not run; `timeout` is in ms. `settings`
    names how its output is read: the same for the same settings, empty for none.
    """

    name: str
    kind: str
    state: str
    digest: str
    timeout: Ms
    settings: str = ""


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run of a command. Times are unix ms, `took` is in ms; None is unknown.

    `since` is when the agent first saw the present digest. `verdict` is the requested action or
    `unusable`, of an ordered command its progress.
    """

    since: Ms | None = None
    verdict: str | None = None
    took: Ms | None = None
    at: Ms | None = None


def write_commands(commands: Sequence[Command]) -> str:
    """Return the text of the first `COMMANDS` of them."""
    return _text((c.name, c.kind, c.state, c.digest, c.timeout, c.settings) for c in commands)


def write_runs(runs: Sequence[LastRun]) -> str:
    """Return the text of their runs, in the order of the commands."""
    return _text((r.since, r.verdict, r.took, r.at) for r in runs)


def _text(rows: Iterable[Sequence[object]]) -> str:
    lines = (
        " ".join(_NONE if word in (None, "") else str(word) for word in row)
        for row in islice(rows, COMMANDS)
    )
    return "\n".join(lines)


def read_commands(text: str) -> tuple[Command, ...]:
    """Read the text of commands, or raise MessageError."""
    return tuple(_command(*row[:6]) for row in _rows(text, 6))


def read_runs(text: str, count: int) -> tuple[LastRun, ...]:
    """Read the runs of so many commands, or raise MessageError."""
    lines = text.split("\n") if text else []
    if len(lines) != count:
        raise MessageError(f"{len(lines)} last runs of {count} commands")
    return tuple(map(_run, lines))


def _rows(text: str, words: int) -> list[list[str]]:
    """Read lines of at least so many words: a later version may add others behind."""
    rows = [line.split(" ") for line in text.split("\n")] if text else []
    if len(rows) > COMMANDS:
        raise MessageError(f"more than {COMMANDS} commands")
    if any(len(row) < words for row in rows):
        raise MessageError(f"a line of commands has less than {words} words")
    return rows


def _command(name: str, kind: str, state: str, digest: str, timeout: str, settings: str) -> Command:
    forms = (
        *((name, COMMAND_NAME), (kind, _WORD), (state, _WORD)),
        *((digest, _DIGEST), (settings, _SETTINGS)),
    )
    if not all(form.fullmatch(word) for word, form in forms):
        raise MessageError("a command is not of the agreed form")
    return Command(name, kind, state, _or_empty(digest), _ms(timeout), _or_empty(settings))


def _run(line: str) -> LastRun:
    match = _RUN.fullmatch(line)
    if match is None:
        raise MessageError("a last run is not of the agreed form")
    since, verdict, took, at = match.groups()
    return LastRun(_ms_or_none(since), verdict, _ms_or_none(took), _ms_or_none(at))


def _or_empty(word: str) -> str:
    return "" if word == _NONE else word


def _ms(word: str) -> Ms:
    if not _NUMBER.fullmatch(word):
        raise MessageError("a time of a command is not in ms")
    return Ms(int(word))


def _ms_or_none(digits: str | None) -> Ms | None:
    return None if digits is None else Ms(int(digits))
