"""Serving the load report beside Ganeti's own monitoring daemon, measured in turn in one run.

Both are asked for `/1/report/default/cpu-avg-load`, each request on a fresh connection.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import needs
from tests.bench.table import Row, row
from tests.ports import free_port
from tests.real import vcluster
from tests.web.live import agent, resident, wait_for

HERE = Path(__file__).parent
FLOORS = needs.SHARED / "floors"
LOAD = vcluster.LOAD
SEALED = "/1/report/node/diagnose"
RATE = 1000
MIB = 2**20

HANGING = """
import asyncio, functools, os, sys, time
from nodeagent import service
from nodeagent.agent.collectors import Sampler
from nodeagent.agent.collectors.cpu import CpuAvgLoad
from nodeagent.agent.front import Front
from nodeagent.settings import load

class Hanging:
    name, category = "hanging", "storage"
    def sample(self):
        time.sleep(3600)

async def main():
    stop = asyncio.Event()
    service.on_signals(stop)
    samplers = [Sampler(CpuAvgLoad()), *(Sampler(Hanging()) for _ in range(3))]
    await Front(load(sys.argv[1], owner=os.getuid()), samplers=samplers).run(stop)

asyncio.run(main())
"""


def rows(*, quick: bool = False) -> list[Row]:
    """Measure everything; `quick` asks less and proves less."""
    many, slice_, rounds = (10_000, 2000, 3) if quick else (200_000, 5000, 7)
    with tempfile.TemporaryDirectory() as folder, agent() as ours, monitor(folder) as mond:
        tools = Tools(folder)
        pid = {"front": ours.pid("front"), "runner": ours.pid("runner")}
        for _ in range(3):  # all that is made on first use has been made
            tools.peak(ours.port, LOAD, 500)
            ours.get("/metrics")
            ours.get("/1/report/all")
            if mond:
                tools.peak(mond[1], LOAD, 500)
        before = {name: resident(number) for name, number in pid.items()}
        before_mond = resident(mond[0]) if mond else 0
        tools.peak(ours.port, LOAD, many)
        if mond:
            tools.peak(mond[1], LOAD, many)
        tools.peak(ours.port, SEALED, many // 20)
        after = {name: resident(number) for name, number in pid.items()}
        after_mond = resident(mond[0]) if mond else 0
        seen: dict[str, list[dict[str, float]]] = {"ours": [], "mond": []}
        for _ in range(rounds):  # in turn, so that the machine's other work meets all
            seen["ours"].append(tools.offer(ours.port, LOAD, slice_))
            if mond:
                seen["mond"].append(tools.offer(mond[1], LOAD, slice_))
    asked = f"after {many:,} requests"
    found = [
        _latency(f"p99 at {RATE:,} fresh requests/s, ms, {asked}", seen, "p99_ms", 1.0),
        row(
            f"front's memory {asked}, times that before",
            after["front"] / before["front"],
            after_mond / before_mond if mond else None,
            most=1.2,
        ),
    ]
    megabytes_mond = after_mond / 1e6 if mond else None
    for name in ("front", "runner"):
        megabytes = after[name] / 1e6
        found.append(row(f"{name}'s memory {asked}, MB", megabytes, megabytes_mond, most=30))
    return [*found, *hung(slice_, rounds)]


def hung(slice_: int, rounds: int) -> list[Row]:
    """Three collectors that never return, beside the same front without them."""
    with tempfile.TemporaryDirectory() as folder, agent() as well, agent() as ill:
        tools = Tools(folder)
        ill.stop("front")
        with open(ill.log_file("front"), "ab") as log:
            command = [sys.executable, "-c", HANGING, ill.place.config]
            cwd = Path(__file__).parents[2]
            ill.processes["front"] = subprocess.Popen(command, stdout=log, stderr=log, cwd=cwd)
        wait_for(lambda: ill.get("/readyz").status == 200, ill)
        assert b"error" in ill.get("/1/report/storage/hanging").body
        seen: dict[str, list[dict[str, float]]] = {"ours": [], "mond": []}
        for _ in range(rounds):
            seen["mond"].append(tools.offer(well.port, LOAD, slice_))
            seen["ours"].append(tools.offer(ill.port, LOAD, slice_))
    said = "while three collectors hang, ms (peer: without them)"
    return [
        _latency(f"p50 {said}", seen, "p50_ms", 1.25),
        _latency(f"p99 {said}", seen, "p99_ms", 1.5),
    ]


def _latency(name: str, seen: dict[str, list[dict[str, float]]], which: str, times: float) -> Row:
    return row(name, _middle(seen["ours"], which), _middle(seen["mond"], which), times=times)


def _middle(seen: list[dict[str, float]], which: str) -> float | None:
    """The median round: the machine's other work spoils some of them."""
    assert all(one["errors"] == 0 for one in seen), seen
    return statistics.median(one[which] for one in seen) if seen else None


class Tools:
    """The load generators, compiled on the spot."""

    def __init__(self, folder: str) -> None:
        self._offer, self._peak = f"{folder}/offer", f"{folder}/cpoll"
        compile_c(HERE / "offer.c", self._offer)
        self._closed = (FLOORS / "cpoll.c").exists()
        if self._closed:
            compile_c(FLOORS / "cpoll.c", self._peak, "-w", "-lssl", "-lcrypto")

    def offer(self, port: int, target: str, total: int, rate: int = RATE) -> dict[str, float]:
        """Requests that come when they are due, whatever the answers do."""
        return _said(self._offer, "-p", port, "-u", target, "-R", rate, "-r", total)

    def peak(self, port: int, target: str, total: int) -> dict[str, float]:
        """As many requests as can be had, 32 at once."""
        if not self._closed:  # then open-loop at a rate both can bear
            return self.offer(port, target, total, 2500)
        seen = _said(self._peak, "-p", port, "-u", target, "-c", 32, "-r", total)
        assert seen["errs"] == 0, seen
        return seen


def compile_c(source: Path, program: str, *more: str) -> None:
    """Compile a load generator, or say what is missing."""
    if needs.absent("gcc"):
        raise SystemExit("bench: gcc is needed: apt-get install gcc libssl-dev")
    subprocess.run(["gcc", "-O2", "-o", program, str(source), *more], check=True)


def _said(*words: object) -> dict[str, float]:
    out = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, check=True).stdout
    found: dict[str, float] = json.loads(out)
    return found


@contextmanager
def monitor(folder: str) -> Iterator[tuple[int, int] | None]:
    """The real ganeti-mond, and the confd it asks, with a cluster below `folder`: pid and port."""
    if why := needs.missing("root", "mond", "confd"):
        print(f"bench: no peer for the load report: {why}", file=sys.stderr)
        yield None
        return
    port, environment = free_port(), vcluster.lay_out(folder)
    # Without a confd to answer it mond stops answering for ten seconds of every fifteen.
    with vcluster.confd(environment), vcluster.mond(environment, port) as process:
        yield process.pid, port
