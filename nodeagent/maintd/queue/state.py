"""States of queue entries, and how they change. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nodeagent.model.constraints import Constraints
from nodeagent.model.queue import Attempt, Entry, EntryStatus, Procedures, Queue, StepStatus
from nodeagent.model.units import Ms, Seconds, in_ms

ATTEMPTS = 10_000  # remembered at most


def due(entry: Entry, seconds: Seconds) -> Ms:
    """The time (unix ms) when the watch of an entry's step ends."""
    return in_ms(seconds) + entry.changed_at


def back_off(entry: Entry, procedures: Procedures, now: Ms, why: str) -> Entry:
    """The entry after a failed evacuation; each back-off is longer, up to a limit."""
    doubled = procedures.back_off_seconds * 2 ** min(entry.backoffs, 20)
    seconds = min(doubled, procedures.most_back_off_seconds)
    return replace(
        entry,
        step_status=StepStatus.WAITING,
        changed_at=now,
        backoffs=entry.backoffs + 1,
        backoff_until=now + seconds * 1000,
        why=why,
    )


def finished(entry: Entry, status: EntryStatus, now: Ms, why: str) -> Entry:
    return replace(entry, status=status, changed_at=now, ending=False, why=why)


def waiting(entry: Entry, step: int, since: Ms) -> Entry:
    """The entry before a step that has not started yet."""
    before = replace(entry, step=step, step_status=StepStatus.WAITING, changed_at=since)
    return replace(before, attempt=0, not_before=Ms(0))


def aged(queue: Queue, limits: Constraints, now: Ms) -> Queue:
    """Mark entries that finished too long ago as deleted, as an operator would."""
    lasts = limits.finished_entry_ttl_seconds * 1000
    if not lasts:
        return queue
    for entry in queue.entries:
        if entry.status.finished and not entry.deleted and entry.changed_at + lasts <= now:
            queue = queue.put(replace(entry, deleted=True))
    return queue


def counted(queue: Queue, limits: Constraints, now: Ms) -> Queue:
    """Record the ended repairs: they count after their entries are gone."""
    lasts = max(limits.repairs_counted_seconds, limits.cool_down_seconds) * 1000
    known = {attempt.index for attempt in queue.attempts}
    new = [
        Attempt(entry.index, entry.address, entry.serial, now)
        for entry in queue.entries
        if (entry.status.finished or entry.deleted) and entry.begun_at and entry.index not in known
    ]
    queued = {entry.index for entry in queue.entries}
    kept = [a for a in queue.attempts if a.at + lasts > now or a.index in queued]
    if not new and len(kept) == len(queue.attempts):
        return queue
    return replace(queue, attempts=(*kept, *new)[-ATTEMPTS:])


def counts(queue: Queue) -> Mapping[EntryStatus, int]:
    """The number of entries of each status, including zero."""
    return {s: sum(entry.status is s for entry in queue.entries) for s in EntryStatus}


def matrix(queue: Queue, addresses: Sequence[str]) -> Iterator[tuple[str, EntryStatus, bool]]:
    """For each address of nodes and entries, whether entries of each status exist."""
    known = {(entry.address, entry.status) for entry in queue.entries}
    for address in sorted({*addresses, *(entry.address for entry in queue.entries)}):
        for status in EntryStatus:
            yield address, status, (address, status) in known
