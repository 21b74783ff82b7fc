"""The history as two rings of numbered keys: all events, and those of administrators' acts.

`event/N` has the number N of the event. `audit/M` is the M-th of its kind, and begins with N; other
events never evict it.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace

from nodeagent.errors import Corrupt
from nodeagent.model.event import AUDIT, Event
from nodeagent.store.codec import decode, encode
from nodeagent.store.etcd.reader import PAGE, Reader, View
from nodeagent.store.etcd.record import Op, Record, pack, unpack

KEEP_EVENTS, KEEP_AUDIT = 20_000, 5_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The number of events that each ring keeps."""

    events: int = KEEP_EVENTS
    audits: int = KEEP_AUDIT


def lines_of(events: Sequence[Event]) -> list[tuple[str, bool]]:
    """Return each event's text, and whether it is an administrator's act."""
    return [(encode(event), event.kind in AUDIT) for event in events]


def appended(
    record: Record, lines: Sequence[tuple[str, bool]], keep: Limits
) -> tuple[Record, list[Op]]:
    """Return the record and the changes that append events, and evict the oldest."""
    ops: list[Op] = []
    numbers = {"event": record.events, "audit": record.audits}
    for nth, (text, audit) in enumerate(lines, record.events + 1):
        if audit:
            numbers["audit"] += 1
            ops.append(Op(_key("audit", numbers["audit"]), pack(f"{nth} {text}")))
        else:
            ops.append(Op(_key("event", nth), pack(text)))
        numbers["event"] = nth
    for ring, most in (("event", keep.events), ("audit", keep.audits)):
        end = _key(ring, numbers[ring] - most + 1)
        if lines and numbers[ring] > most:
            ops = [op for op in ops if not (op.key.startswith(ring) and op.key < end)]
            ops.append(Op(f"{ring}/", end=end))
    return replace(record, events=numbers["event"], audits=numbers["audit"]), ops


async def newest(
    reader: Reader, view: View, keep: Limits, wanted: Callable[[Event], bool], limit: int
) -> tuple[list[Event], int]:
    """Return the newest wanted events, the newest last, and the number of damaged ones met."""
    found: list[tuple[int, Event]] = []
    damaged = 0
    rings = ("event", view.record.events, keep.events), ("audit", view.record.audits, keep.audits)
    for ring, last, most in rings if limit > 0 else ():
        some: list[tuple[int, Event]] = []
        async for key, raw in _backwards(reader, view, ring, last, most):
            try:
                number, event = _read(ring, key, raw)
            except Corrupt:
                damaged += 1
                continue
            if wanted(event):
                some.append((number, event))
            if len(some) == limit:
                break
        found += some
    found.sort(key=lambda one: one[0])
    return [event for _, event in found[-limit:]], damaged


async def _backwards(
    reader: Reader, view: View, ring: str, last: int, most: int
) -> AsyncIterator[tuple[str, bytes]]:
    """Yield the lines of a ring, the newest first."""
    least = max(0, last - most)
    while last > least:
        first = max(least, last - PAGE)
        found = await reader.texts(view, _key(ring, first + 1), _key(ring, last + 1))
        for key in sorted(found, reverse=True):
            yield key, found[key]
        last = first


def _read(ring: str, key: str, raw: bytes) -> tuple[int, Event]:
    number, text = key.rpartition("/")[2], unpack(raw)
    if ring == "audit":
        number, _, text = text.partition(" ")
    if not number.isdecimal():
        raise Corrupt(f"{key} has no number")
    return int(number), decode(Event, text)


def _key(ring: str, number: int) -> str:
    return f"{ring}/{number:016}"
