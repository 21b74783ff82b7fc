"""Read and write harep's tags: permissions, running repairs, results. Pure.

    enable   ganeti:watcher:autorepair:<type>
    suspend  ganeti:watcher:autorepair:suspend[:<timestamp>]
    pending  ganeti:watcher:autorepair:pending:<type>:<id>:<timestamp>:<jobs>
    result   ganeti:watcher:autorepair:result:<type>:<id>:<timestamp>:<result>:<jobs>

Timestamps are unix seconds; jobs are numbers with + between them, and none leaves the last
field empty. harep 3.0.2 reads numbers as Haskell's `reads` does and ignores what it cannot
read; we read decimal numbers only, and what cannot be read is a value that says why.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from nodeagent.model.tag import LENGTH, fault
from nodeagent.model.units import Seconds

PREFIX = "ganeti:watcher:autorepair:"


class RepairType(IntEnum):
    """Types of repair of an instance; a larger value is more destructive.

    Each includes those before it.
    """

    FIX_STORAGE = 0
    MIGRATE = 1
    FAILOVER = 2
    REINSTALL = 3

    @property
    def word(self) -> str:
        return _WORD[self]


class Ending(IntEnum):
    """The result of a repair; of two for the same repair the larger one counts."""

    ENOPERM = 0
    SUCCESS = 1
    FAILURE = 2

    @property
    def word(self) -> str:
        return self.name.lower()


_WORD = {kind: kind.name.lower().replace("_", "-") for kind in RepairType}
_KIND = {word: kind for kind, word in _WORD.items()}
_ENDING = {ending.word: ending for ending in Ending}


@dataclass(frozen=True, slots=True)
class Enable:
    """Permission for repairs up to this type."""

    tag: str
    kind: RepairType


@dataclass(frozen=True, slots=True)
class Suspend:
    """Suspension: no repair may start or go on `until` (unix seconds), None for ever."""

    tag: str
    until: Seconds | None


@dataclass(frozen=True, slots=True)
class Record:
    """One repair as a tag has it: pending while `ending` is None, else its result.

    `at` is in unix seconds: the start of a pending repair, else the end.
    """

    tag: str
    kind: RepairType
    id: str
    at: Seconds
    jobs: tuple[int, ...] = ()
    ending: Ending | None = None


class Part(IntEnum):
    """The kind of a tag, or the kind it was meant to be."""

    ENABLE = 0
    SUSPEND = 1
    PENDING = 2
    RESULT = 3


@dataclass(frozen=True, slots=True)
class Malformed:
    """A tag with harep's prefix that means nothing, and why."""

    tag: str
    part: Part
    why: str

    def __str__(self) -> str:
        return f"tag {self.tag} cannot be read: {self.why}"


Meaning: TypeAlias = Enable | Suspend | Record | Malformed


def read(tag: str, *, strict: bool = True) -> Meaning | None:
    """Read a tag; None if it is not about repairs.

    Not `strict`: numbers as harep reads them, hexadecimal, octal and negative ones too.
    """
    if not tag.startswith(PREFIX[:-1]):
        return None
    # harep takes a prefix without its colon for the whole prefix: hence `suspend` for ever.
    if tag == PREFIX[:-1]:
        return Malformed(tag, Part.ENABLE, "it names no type of repair")
    if not tag.startswith(PREFIX):
        return None
    word, _, rest = tag.removeprefix(PREFIX).partition(":")
    if strict and not tag.isascii():
        return Malformed(tag, _PART.get(word, Part.ENABLE), "it has letters that Ganeti garbles")
    match word:
        case "suspend":
            return _suspend(tag, rest, strict=strict)
        case "pending":
            return _record(tag, Part.PENDING, rest, strict=strict)
        case "result":
            return _record(tag, Part.RESULT, rest, strict=strict)
        case _:
            return _enable(tag)


def compose(
    kind: RepairType,
    identity: str,
    at: Seconds,
    jobs: tuple[int, ...] = (),
    ending: Ending | None = None,
) -> Record:
    """Return a record with its tag, however long."""
    fields = [kind.word, identity, str(at), *([] if ending is None else [ending.word])]
    what = "pending" if ending is None else "result"
    tag = f"{PREFIX}{what}:{':'.join(fields)}:{'+'.join(map(str, jobs))}"
    return Record(tag, kind, identity, at, jobs, ending)


def fit(record: Record) -> Record | None:
    """Return the record as Ganeti takes it: with as many of its newest jobs as fit.

    None if there is no such tag.
    """
    while len(record.tag) > LENGTH and record.jobs:
        record = compose(record.kind, record.id, record.at, record.jobs[1:], record.ending)
    return None if fault([record.tag]) else record


def _enable(tag: str) -> Enable | Malformed:
    word = tag.removeprefix(PREFIX)
    if (kind := _KIND.get(word)) is not None:
        return Enable(tag, kind)
    # A possible suspension must not count as a permission to repair.
    part = Part.SUSPEND if word.lower().startswith("suspend") else Part.ENABLE
    return Malformed(tag, part, f"{word!r} is not a type of repair")


def _suspend(tag: str, rest: str, *, strict: bool) -> Suspend | Malformed:
    if not rest:
        return Suspend(tag, None)
    until = _number(rest, strict=strict)
    if until is None:
        return Malformed(tag, Part.SUSPEND, f"{rest!r} is not a time in unix seconds")
    return Suspend(tag, Seconds(until))


def _record(tag: str, part: Part, rest: str, *, strict: bool) -> Record | Malformed:
    fields = rest.split(":") if rest else []
    names = ("type", "id", "time", "result", "jobs") if part is Part.RESULT else _PENDING
    if len(fields) != len(names):
        return Malformed(
            tag, part, f"it has {len(fields)} fields, not {len(names)}: {', '.join(names)}"
        )
    by_name = dict(zip(names, fields, strict=True))
    kind, at = _KIND.get(by_name["type"]), _number(by_name["time"], strict=strict)
    ending = _ENDING.get(by_name["result"]) if part is Part.RESULT else None
    jobs = _jobs(by_name["jobs"], strict=strict)
    if kind is None:
        return Malformed(tag, part, f"{by_name['type']!r} is not a type of repair")
    if at is None:
        return Malformed(tag, part, f"{by_name['time']!r} is not a time in unix seconds")
    if part is Part.RESULT and ending is None:
        return Malformed(tag, part, f"{by_name['result']!r} is not a result")
    if jobs is None:
        return Malformed(tag, part, f"{by_name['jobs']!r} is not a list of jobs")
    if strict and not by_name["id"]:
        return Malformed(tag, part, "its id is empty")
    return Record(tag, kind, by_name["id"], Seconds(at), jobs, ending)


_PART = {"suspend": Part.SUSPEND, "pending": Part.PENDING, "result": Part.RESULT}
_PENDING = ("type", "id", "time", "jobs")
_TELLING = (f"{PREFIX}pending", f"{PREFIX}result")


def about_repairs(tags: Iterable[str]) -> list[str]:
    """Return the tags with harep's prefix, or all of it but the colon, sorted."""
    return sorted(tag for tag in tags if tag.startswith(PREFIX[:-1]))


def telling(tags: Iterable[str]) -> list[str]:
    """Return the tags that may be about repairs, sorted: most instances have none."""
    candidates = [tag for tag in tags if tag.startswith(_TELLING)]
    candidates.sort()
    return candidates


_DECIMAL = re.compile("[0-9]{1,18}")
_READS = re.compile("(-?)(?:(0[xX][0-9a-fA-F]+)|(0[oO][0-7]+)|([0-9]+))")


def _number(text: str, *, strict: bool) -> int | None:
    if strict:
        return int(text) if _DECIMAL.fullmatch(text) else None
    if len(text) > LENGTH or not (match := _READS.fullmatch(text)):
        return None
    minus, hexadecimal, octal, decimal = match.groups()
    digits, base = (hexadecimal, 16) if hexadecimal else (octal, 8) if octal else (decimal, 10)
    value = int(digits, base)
    return -value if minus else value


def _jobs(text: str, *, strict: bool) -> tuple[int, ...] | None:
    numbers = [_number(job, strict=strict) for job in text.split("+")] if text else []
    jobs = tuple(number for number in numbers if number is not None and number >= 0)
    return jobs if len(jobs) == len(numbers) else None
