"""The cost of a ledger in etcd beside SQLite's: saves, the time to take over, a standby's memory.

etcd is one member on this machine, with its log on the disk. A take-over is timed
from the moment when Ganeti's files name the other node to its first round; one a second is held.
The cost of copies is measured with real agents, all on this machine: on one of its own each
candidate would write beside the others.

    python -m tests.bench.standby [--quick]
"""

import asyncio
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from nodeagent.maintd.engine.copying import Asker
from nodeagent.maintd.engine.keeping import Keeping
from nodeagent.model.ledger import Ledger
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.protocol.envelope import Key
from nodeagent.store.etcd.client import Client
from nodeagent.store.etcd.lease import Leader
from nodeagent.store.etcd.store import EtcdStore, clock
from nodeagent.store.sqlite import SqliteStore
from tests import needs
from tests.agent.place import safe_folder
from tests.bench.save import busy, large, quiet
from tests.bench.table import Row, row, run
from tests.cli.masters import CLUSTER_KEY, Cluster, Master, address, candidates, in_etcd, two, uuid
from tests.store.etcd.server import Etcd

MEMORY = 60.0  # MB
TAKEN_OVER = 16.0  # seconds: a lease's time to live, and 6 s
PAGES = ("/status", "/1/round", "/1/windows", "/metrics")


def rows(*, quick: bool = False) -> list[Row]:
    """Measure everything."""
    copies = [*_handed_over(quick=quick), *_taken_copy(quick=quick)]
    if why := needs.absent("etcd"):
        print(f"bench: {why}")
        return copies
    with tempfile.TemporaryDirectory() as folder, _durable(Path(folder)) as etcd:
        found = [*_saves(etcd, Path(folder), quick=quick), *_standbys(etcd, quick=quick)]
    return [*found, *copies]


@contextmanager
def _durable(folder: Path) -> Iterator[Etcd]:
    server = Etcd(folder)
    server.command.remove("--unsafe-no-fsync")
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _saves(etcd: Etcd, folder: Path, *, quick: bool) -> Iterator[Row]:
    scale = 10 if quick else 1
    machines, entries, windows = 10_000 // scale, 2_000 // scale, 1_000 // scale
    ledger = large(machines, entries, windows)
    of = f"{machines:,} machines, {entries:,} entries, {windows:,} windows"

    def remote() -> EtcdStore:
        made = EtcdStore(Client([etcd.url]), "/bench/", lambda c, key: Leader(c, key, "bench"))
        made.load()
        return made

    for name, change in (("quiet", quiet), ("an entry and a window more", busy)):
        mine = _cost(remote, ledger, change, 20 if quick else 60)
        peer = _cost(lambda: SqliteStore(str(folder / "ledger")), ledger, change, 20)
        for place, unit in enumerate(("ms", "CPU ms")):
            what = f"save in etcd, {unit}: {name}; {of} (peer: SQLite)"
            yield row(what, mine[place], peer[place])


def _cost(
    opened: Callable[[], Any], ledger: Ledger, change: Callable[[Ledger, int], Ledger], times: int
) -> tuple[float, float]:
    """Median milliseconds, and mean CPU milliseconds, of one save."""
    took, cpu = [], 0.0
    with closing(opened()) as store:
        store.load()
        store.save(ledger)
        for nth in range(times):
            ledger = change(ledger, nth)
            began, there = time.perf_counter(), time.process_time()
            store.save(ledger)
            took.append(time.perf_counter() - began)
            cpu += time.process_time() - there
    return statistics.median(took) * 1000, cpu / times * 1000


def _standbys(etcd: Etcd, *, quick: bool) -> Iterator[Row]:
    tries = 1 if quick else 5
    found: dict[str, list[list[float]]] = {"sqlite": [], "etcd": []}
    for kind, several in found.items():
        for _ in range(tries):
            with two(in_etcd(etcd) if kind == "etcd" else "") as cluster:
                several.append(_lives(cluster))
    mine, peer = (
        [statistics.median(each) for each in zip(*found[kind], strict=True)]
        for kind in ("etcd", "sqlite")
    )
    for place, how in enumerate(("an orderly end", "a kill")):
        what = f"take-over after {how}, s, with etcd (peer: SQLite)"
        limit = TAKEN_OVER if place else TAKEN_OVER - 10
        yield row(what, mine[place], peer[place], goal=f"<= {limit:g}", met=mine[place] <= limit)
    for kind, memory in (("etcd", mine[2]), ("SQLite", peer[2])):
        met = memory <= MEMORY
        yield row(
            f"a standby's memory, MB, with {kind} (peer: the acting one)",
            *(memory, mine[3] if kind == "etcd" else peer[3]),
            goal=f"<= {MEMORY:g}",
            met=met,
        )


def _handed_over(*, quick: bool) -> Iterator[Row]:
    """The cost of a save until a majority of the candidates has it, and until all have."""
    scale = 10 if quick else 1
    machines, entries, windows = 10_000 // scale, 2_000 // scale, 1_000 // scale
    ledger = large(machines, entries, windows)
    of = f"{machines:,} machines, {entries:,} entries, {windows:,} windows"
    for name, change in (("quiet", quiet), ("an entry and a window more", busy)):
        with safe_folder() as folder:
            peer = _cost(lambda f=folder: SqliteStore(str(f / "ledger")), ledger, change, 20)  # type: ignore[misc]
        for many in (3, 9):
            mine = asyncio.run(_copied(many, ledger, change, 5 if quick else 30))
            for place, unit in enumerate(("ms until a majority has it", "CPU ms of maintd")):
                what = f"save with copies on {many} candidates, {unit}: {name}; {of}"
                yield row(f"{what} (peer: on this disk only)", mine[place], peer[place])


async def _copied(
    many: int, ledger: Ledger, change: Callable[[Ledger, int], Ledger], times: int
) -> tuple[float, float]:
    """Median milliseconds, and mean CPU milliseconds, of one save with its copies."""
    took, cpu = [], 0.0
    with safe_folder() as folder, candidates(folder, many) as nodes:
        first = nodes[0]
        asker = Asker(Key(CLUSTER_KEY), first.certificate, first.port, True, clock)
        keeping = Keeping(asker, clock)
        with closing(SqliteStore(str(folder / "ledger"))) as store, closing(keeping):
            store.watch(keeping.saved)
            known = {
                one.name: Node(one.name, uuid(one.name), address(one.name), candidate=True)
                for one in nodes
            }
            keeping.follow(Snapshot("cluster.example.org", known))
            keeping.begin(1, uuid(first.name), store.begin(1, ledger, (), {}), ())
            await _all_have(keeping)
            for nth in range(times):
                ledger = change(ledger, nth)
                began, there = time.perf_counter(), time.process_time()
                store.save(ledger)
                assert await keeping.safe(60)
                took.append(time.perf_counter() - began)
                await _all_have(keeping)
                cpu += time.process_time() - there
    return statistics.median(took) * 1000, cpu / times * 1000


async def _all_have(keeping: Keeping) -> None:
    async with asyncio.timeout(120):
        while not all(one.newest for one in keeping.state().on):
            await asyncio.sleep(0.002)


def _taken_copy(*, quick: bool) -> Iterator[Row]:
    """The time from a failover to a round of the standby with the old master's ledger."""
    mine, peer = (
        statistics.median(_takes(agents=agents) for _ in range(1 if quick else 5))
        for agents in (True, False)
    )
    what = "take-over after a kill, s, with a copy that is taken (peer: nobody keeps copies)"
    yield row(what, mine, peer)


def _takes(*, agents: bool) -> float:
    with two(agents=agents) as cluster:
        n1, n2 = cluster.n1, cluster.n2
        n1.start()
        n1.until(standby=False)
        if agents:
            n1.until_told("copies", lambda told: told and told["have"] == told["of"] == 2)
        n2.start()
        n2.until(standby=True)
        n1.end(signal.SIGKILL)
        began = time.monotonic()
        cluster.failover("n2")
        n2.until(standby=False)
        if agents:
            n2.until_told("copies", lambda told: told and told["epoch"] == 2)
            n2.until_told("outdated", lambda told: told is None)
        return time.monotonic() - began


def _lives(cluster: Cluster) -> list[float]:
    """Seconds of two take-overs, and MB of the standby and the acting one."""
    n1, n2 = cluster.n1, cluster.n2
    n1.start()
    n1.until(standby=False)
    n2.start()
    n2.until(standby=True)
    for page in PAGES:
        for one in (n1, n2):
            one.ask("GET", page)
    memory = [_memory(one.pid) for one in (n2, n1)]
    cluster.failover("n2")
    orderly = _taken(n2)
    n1.end()
    n1.start()
    n1.until(standby=True)
    n2.end(signal.SIGKILL)
    cluster.failover("n1")
    return [orderly, _taken(n1), *memory]


def _taken(one: Master) -> float:
    began = time.monotonic()
    one.until(standby=False)
    return time.monotonic() - began


def _memory(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    run(rows, __doc__)
