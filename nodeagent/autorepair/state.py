"""The state of an instance's repairs, from its tags alone. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from nodeagent.autorepair.tags import Ending, Malformed, Part, Record, read, telling

WELL, PENDING, FAILED, NEEDS = "Healthy", "Pending repair", "Failure", "Needs repair"
"""The words for an instance's state, as harep prints them."""


@dataclass(frozen=True, slots=True)
class Clear:
    """No repair is pending and none has failed.

    `ended` are older results, and `stale` pending tags that these left: the next change removes
    both.
    """

    ended: tuple[Record, ...] = ()
    stale: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class Pending:
    """A repair is pending; `later` are later requests.

    The next change removes `stale`, tags of this repair, and `ended`, results of others.
    """

    record: Record
    stale: tuple[Record, ...] = ()
    later: tuple[Record, ...] = ()
    ended: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """A repair has failed; nothing happens until somebody removes its tag."""

    record: Record


@dataclass(frozen=True, slots=True)
class Unclear:
    """The tags contradict each other or are unreadable: a person must check them."""

    why: str


State: TypeAlias = Clear | Pending | Failed | Unclear


def word_of(state: State) -> str:
    """Return harep's word for the state of an instance that needs nothing."""
    return PENDING if isinstance(state, Pending) else FAILED if isinstance(state, Failed) else WELL


def as_harep(tags: Collection[str]) -> State:
    """Read the tags as harep 3.0.2 and 3.1 do.

    The largest (ending, time) of a repair's tags counts, and a pending one is the least; repairs
    are in order of their oldest tag. The earliest failure stays. Only counted tags are removed, the
    newest first. A repair beside an older pending one is Unclear: it stops harep altogether.
    """
    counted: tuple[Record, ...] = ()
    for group in _repairs(telling(tags)):
        newest = group[-1]
        if counted and counted[0].ending is Ending.FAILURE:
            break
        if counted and counted[0].ending is None:
            return Unclear(
                f"an unfinished repair, {counted[0].tag}, beside a newer one, {newest.tag}"
            )
        counted = (newest, *counted)
    if counted and counted[0].ending is None:
        return Pending(counted[0], ended=counted[1:])
    if counted and counted[0].ending is Ending.FAILURE:
        return Failed(counted[0])
    return Clear(counted)


def _repairs(tags: Sequence[str]) -> Sequence[Sequence[Record]]:
    """Group the records by repair, the oldest repair first; the last of each counts.

    Tags have no order of their own: Ganeti gives them sorted.
    """
    if not tags:
        return ()
    meanings = (read(tag, strict=False) for tag in tags)
    records = sorted((r for r in meanings if isinstance(r, Record)), key=lambda r: r.id)
    groups = [
        sorted(group, key=lambda r: (-1 if r.ending is None else r.ending, r.at))
        for _, group in groupby(records, key=lambda record: record.id)
    ]
    return sorted(groups, key=lambda group: min(record.at for record in group))


def state_of(tags: Collection[str]) -> State:
    """Read the tags; a result settles the repair whose id it has, whatever its other fields are."""
    records: list[Record] = []
    for tag in telling(tags):
        match read(tag):
            case Record() as record:
                records.append(record)
            case Malformed(part=Part.PENDING | Part.RESULT) as fault:
                return Unclear(str(fault))
    if not records:
        return Clear()
    failures = [record for record in records if record.ending is Ending.FAILURE]
    if failures:
        return Failed(min(failures, key=_age))
    ended = tuple(sorted((r for r in records if r.ending is not None), key=_age))
    settled = {record.id for record in ended}
    open_ones = [r for r in records if r.ending is None and r.id not in settled]
    stale = tuple(r for r in records if r.ending is None and r.id in settled)
    if not open_ones:
        return Clear(ended, stale)
    return _pending(open_ones, stale, ended)


def _pending(
    records: Sequence[Record], stale: tuple[Record, ...], ended: tuple[Record, ...]
) -> Pending | Unclear:
    """Order repairs as they were requested; of each repair one tag counts."""
    repairs: list[Record] = []
    for _, group in groupby(sorted(records, key=lambda r: r.id), key=lambda r: r.id):
        same = sorted(group, key=lambda r: len(r.jobs))
        newest = same[-1]
        # An update adds the new tag and removes the old: both may be there.
        for old in same[:-1]:
            same_one = (old.kind, old.at) == (newest.kind, newest.at)
            if not same_one or not set(old.jobs) <= set(newest.jobs):
                return Unclear(f"tags {old.tag} and {newest.tag} contradict each other")
        repairs.append(newest)
        stale = (*stale, *same[:-1])
    repairs.sort(key=_age)
    begun = [record for record in repairs if record.jobs]
    if len(begun) > 1:
        return Unclear(f"two repairs have started: tags {begun[0].tag} and {begun[1].tag}")
    first = begun[0] if begun else repairs[0]
    later = tuple(record for record in repairs if record is not first)
    return Pending(first, stale, later, ended)


def _age(record: Record) -> tuple[int, str]:
    return record.at, record.id
