"""The cost of a save: on this node's disk, and in Ganeti's configuration.

The rule is written into a cluster in memory: what Ganeti takes for it is in the facts of ADR 29.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from nodeagent.maintd.engine.carrier import Carrier
from nodeagent.maintd.engine.conduct import Acting, Conduct
from nodeagent.model.action import MovePrimary
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.incident import Incident
from nodeagent.model.ledger import Intent, Ledger
from nodeagent.model.purpose import OfIncident
from nodeagent.model.queue import Entry, Queue
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Machine, Mode, Schedule, Scheduled, Unavailability, Window
from nodeagent.protocol.canonical import canonical
from nodeagent.store.sqlite import SqliteStore
from simulation.cluster import SimulatedCluster
from tests.bench.table import Row, row

CPU_MS, RULE_KB = 20.0, 32.0  # of 500 nodes
LARGE_MS, LARGE_KB = 3000.0, 1024.0  # of 10,000 machines
SEEN_AGAIN = 20  # open incidents
NOW = 1_795_000_000_000
TEXT = canonical({"status": "evacuate", "details": {"disk": "sda", "errors": 12}})
UUID = "00000000-0000-4000-8000-{:012d}"


def rows(*, quick: bool = False) -> list[Row]:
    """Measure everything."""
    times = 10 if quick else 40
    _, cpu, size = _cost(usual(), seen_again, times)
    took, _, large_size = _cost(large(10_000, 2_000, 1_000), busy, max(3, times // 10))
    what = "500 nodes, 50 incidents, 200 moves"
    much = "10,000 machines, 2,000 entries, 1,000 windows"
    return [
        row(f"save, CPU ms: {what}", cpu, most=CPU_MS),
        row(f"ledger in Ganeti's configuration, KB: {what}", size, most=RULE_KB),
        row(f"save, ms: {much}", took, most=LARGE_MS),
        row(f"ledger in Ganeti's configuration, KB: {much}", large_size, most=LARGE_KB),
    ]


def usual() -> Ledger:
    """Make the ledger of 500 nodes, of which 50 are evacuated."""
    incidents = tuple(
        Incident(
            UUID.format(n),
            UUID.format(n),
            f"node{n}.example.com",
            Diagnosis(Need.EVACUATE, None, TEXT),
            Ms(NOW),
            seen_at=Ms(NOW),
        )
        for n in range(50)
    )
    moves = tuple(
        Intent(
            str(NOW + n),
            OfIncident(UUID.format(n % 50)),
            f"node{n % 50}.example.com",
            MovePrimary(
                f"web{n}.example.com",
                f"node{n % 50}.example.com",
                live=True,
                target=f"node{n * 7 % 500}.example.com",
            ),
            job=str(n),
            promised=Ms(NOW),
        )
        for n in range(200)
    )
    return Ledger(round=NOW + 200, incidents=incidents, intents=moves)


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
    uuid = UUID.format
    incidents = tuple(
        Incident(
            uuid(n),
            uuid(n),
            f"node{n}.example.com",
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
            Scheduled(one, window.unavailability, Mode.DRAINING, Ms(NOW), uuid(n * each + m))
            for n, window in enumerate(planned)
            for m, one in enumerate(window.machines)
        ),
    )


def seen_again(ledger: Ledger, nth: int) -> Ledger:
    """A round in which each open incident is seen again."""
    now = Ms(NOW + nth * 60_000)
    seen = tuple(replace(one, seen_at=now) for one in ledger.incidents)
    return replace(ledger, incidents=seen)


def busy(ledger: Ledger, nth: int) -> Ledger:
    """A round in which work goes on."""
    queue = ledger.queue.drop(ledger.queue.entries[0].index)
    queue = queue.add(Entry(0, "10.0.0.1", "r640", "unreachable", queued_at=Ms(NOW + nth)))
    gone, *rest = ledger.schedule.windows
    more = replace(gone, machines=(Machine(f"new{nth}.example.com"),))
    return replace(seen_again(ledger, nth), queue=queue, schedule=Schedule((*rest, more)))


def acting() -> Acting:
    """Nobody else is here."""
    return Acting(Conduct("n1", lambda: None, vote=False))


def _cost(
    ledger: Ledger, change: Callable[[Ledger, int], Ledger], times: int
) -> tuple[float, float, float]:
    """Milliseconds and CPU milliseconds of one save on the average, and KB in the rule."""
    cluster = SimulatedCluster.of(time.time, [Node("n1", UUID.format(1), "127.0.0.1")])
    carrier = Carrier(cluster, lambda: Ms(NOW), acting())
    took = cpu = 0.0
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(SqliteStore(os.path.join(folder, "ledger"))) as store,
        asyncio.Runner() as runner,
    ):
        for nth in range(times + 1):
            ledger = change(ledger, nth)
            began, there = time.perf_counter(), time.process_time()
            store.save(ledger)
            assert runner.run(carrier.write(store.number, UUID.format(1), ledger))
            if nth:  # the first one imports
                took += time.perf_counter() - began
                cpu += time.process_time() - there
    return took / times * 1000, cpu / times * 1000, carrier.kept.size / 1024
