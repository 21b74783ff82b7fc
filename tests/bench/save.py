"""The cost of a save of a large ledger: only what changed, beside the whole of it.

The peer is the way before: the whole ledger encoded and written as one row. A round is quiet where
nothing happens but that open incidents are seen again. `written` is what the process hands to the
kernel, the log's later move into the file included.

    python -m tests.bench.save [--quick]
"""

import hashlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.incident import Incident
from nodeagent.model.ledger import Ledger
from nodeagent.model.queue import Entry, Queue
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Machine, Mode, Schedule, Scheduled, Unavailability, Window
from nodeagent.protocol.canonical import canonical
from nodeagent.store.codec import encode
from nodeagent.store.sqlite import SqliteStore
from tests.bench.table import Row, row, run

CPU_MS, WRITTEN = 20.0, 64 * 1024
SEEN_AGAIN = 20  # open incidents
NOW = 1_795_000_000_000
TEXT = canonical({"status": "evacuate", "details": {"disk": "sda", "errors": 12}})


def rows(*, quick: bool = False) -> list[Row]:
    """Measure everything."""
    scale = 10 if quick else 1
    machines, entries, windows = 10_000 // scale, 2_000 // scale, 1_000 // scale
    ledger = large(machines, entries, windows)
    what = f"{machines:,} machines, {entries:,} entries, {windows:,} windows"
    found = []
    times = 20 if quick else 60
    for name, change in (
        (f"quiet, {SEEN_AGAIN} incidents seen again", quiet),
        ("the same values in new objects", renewed),
        ("an entry and a window more, one each less", busy),
    ):
        before = [_cost(_Whole, ledger, change, times // 4)]
        ours = [_cost(SqliteStore, ledger, change, times)]
        for place, unit, limit in ((0, "CPU ms", CPU_MS), (1, "bytes written", WRITTEN)):
            mine, theirs = ours[0][place], before[0][place]
            found.append(
                row(
                    f"save, {unit}: {name}; {what} (peer: the whole ledger)",
                    mine,
                    theirs,
                    goal=f"<= {limit:,.0f}",
                    met=mine <= limit,
                )
            )
    return found


def large(machines: int, entries: int, windows: int) -> Ledger:
    """Make a ledger of this size."""
    those = [Machine(f"node{n}.example.com", f"10.{n >> 8}.{n & 255}.1") for n in range(machines)]
    each = machines // windows
    planned = tuple(
        Window(
            tuple(those[n * each : (n + 1) * each]),
            Unavailability(Nanoseconds((NOW + n) * 10**6), Nanoseconds(3600 * 10**9)),
        )
        for n in range(windows)
    )
    uuid = "00000000-0000-4000-8000-{:012d}".format
    incidents = tuple(
        Incident(
            *(uuid(n), uuid(n), f"node{n}.example.com"),
            Diagnosis(Need.EVACUATE, None, TEXT),
            Ms(NOW),
            seen_at=Ms(NOW),
        )
        for n in range(SEEN_AGAIN)
    )
    queue = tuple(
        Entry(n, f"10.{n >> 8}.{n & 255}.1", "r640", "unreachable", f"S{n}", queued_at=Ms(NOW))
        for n in range(entries)
    )
    return Ledger(
        round=NOW,
        incidents=incidents,
        queue=Queue(queue, entries),
        schedule=Schedule(planned),
        scheduled=tuple(
            Scheduled(one, Mode.DRAINING, Ms(NOW), uuid(n)) for n, one in enumerate(those)
        ),
    )


def quiet(ledger: Ledger, nth: int) -> Ledger:
    """A round in which nothing happens."""
    now = Ms(NOW + nth * 60_000)
    seen = tuple(replace(one, seen_at=now) for one in ledger.incidents)
    return replace(ledger, incidents=seen)


def renewed(ledger: Ledger, nth: int) -> Ledger:
    """A quiet round of a planner that makes equal objects."""
    queue = replace(ledger.queue, entries=tuple(map(replace, ledger.queue.entries)))
    states = tuple(map(replace, ledger.scheduled))
    windows = Schedule(tuple(map(replace, ledger.schedule.windows)))
    return replace(quiet(ledger, nth), queue=queue, scheduled=states, schedule=windows)


def busy(ledger: Ledger, nth: int) -> Ledger:
    """A round in which work goes on."""
    queue = ledger.queue.drop(ledger.queue.entries[0].index)
    queue = queue.add(Entry(0, "10.0.0.1", "r640", "unreachable", queued_at=Ms(NOW + nth)))
    gone, *rest = ledger.schedule.windows
    more = replace(gone, machines=(Machine(f"new{nth}.example.com"),))
    return replace(quiet(ledger, nth), queue=queue, schedule=Schedule((*rest, more)))


class _Whole:
    """A save as it was before."""

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("CREATE TABLE ledger (one INTEGER PRIMARY KEY, text TEXT, digest TEXT)")

    def save(self, ledger: Ledger) -> None:
        text = encode(ledger)
        digest = hashlib.sha256(text.encode()).hexdigest()
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("INSERT OR REPLACE INTO ledger VALUES (1, ?, ?)", (text, digest))
        self._db.execute("COMMIT")

    def close(self) -> None:
        self._db.close()


def _cost(
    kind: Callable[[str], Any], ledger: Ledger, change: Callable[[Ledger, int], Ledger], times: int
) -> tuple[float, float]:
    """CPU milliseconds and bytes written of one save, on the average."""
    cpu = written = 0.0
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(kind(os.path.join(folder, "ledger"))) as store,
    ):
        store.save(ledger)
        store.save(change(ledger, 0))
        store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for nth in range(1, times + 1):
            ledger = change(ledger, nth)
            began, there = time.process_time(), _written()
            store.save(ledger)
            cpu += time.process_time() - began
            written += _written() - there
        there = _written()
        store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        written += _written() - there
    return cpu / times * 1000, written / times


def _written() -> int:
    with open("/proc/self/io") as file:
        (found,) = (line for line in file if line.startswith("wchar: "))
    return int(found.split()[1])


if __name__ == "__main__":
    run(rows, __doc__)
