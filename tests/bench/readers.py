"""A maintd before 512 readers that take 32 KiB a second each of an answer of 4 MB; and its page."""

import gzip
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.attacks.crowd import LARGE, SMALL, crowd, target
from tests.bench.table import row, run
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.served import Served
from tests.maintd.world import need

NODES = 13_500
MEMORY, SECONDS = 200.0, 1.0
PAGE_NODES, PAGE_SICK, PAGE_SECONDS, PAGE_KB = 10_000, 500, 0.2, 300.0


def rows(*, quick: bool = False) -> list[dict[str, Any]]:
    """Measure it; `quick` looks for fewer seconds."""
    many = 512
    with target(NODES) as at:
        large = len(at.get(LARGE)) / 1e6
        alone, before = _waits(at.seconds, 5), at.memory()[0] / 1e6
        with crowd(at, many):
            waits = _waits(at.seconds, 5 if quick else 15, pause=1)
        most = at.memory()[1] / 1e6
    said = f"{many} slow readers of {large:.1f} MB"
    longest = max(waits)
    return [
        *_page(),
        row(
            f"maintd's memory with {said}, MB (peer: without)",
            most,
            before,
            goal=f"<= {MEMORY:g}",
            met=most <= MEMORY,
        ),
        row(
            f"longest wait of a newcomer beside {said}, s (peer: p50 without)",
            longest,
            statistics.median(alone),
            goal=f"<= {SECONDS:g}",
            met=longest <= SECONDS,
        ),
    ]


def _page() -> list[dict[str, Any]]:
    """The status page of a large cluster, where one node in twenty is sick."""
    places = [replace(n, group=f"rack-{i // 50}") for i, n in enumerate(fleet(PAGE_NODES))]
    pairs = [(f"n{n}", f"n{n + 1}") for n in range(1, PAGE_NODES)]
    rig = Rig(places, mirrored(*pairs * 10), replace(QUICK, nodes_in_work=10))
    every = PAGE_NODES // PAGE_SICK
    sick = need("evacuate", details="x" * 200)
    rig.agents.says |= {f"n{n}": sick for n in range(5, PAGE_NODES, every)}
    with tempfile.TemporaryDirectory() as folder:
        one = Served(rig, Path(folder))
        one.tick(times=2)
        seconds = []
        for _ in range(5):
            one.seconds += 10
            began = time.process_time()
            body = one.ask("GET", "/status").body
            seconds.append(time.process_time() - began)
        one.close()
    best, size = min(seconds), len(gzip.compress(body)) / 1000
    what = f"status page of {PAGE_NODES:,} nodes, {PAGE_SICK} of them sick"
    return [
        row(f"{what}, CPU s", best, None, goal=f"<= {PAGE_SECONDS:g}", met=best <= PAGE_SECONDS),
        row(f"{what}, kB compressed", size, None, goal=f"<= {PAGE_KB:g}", met=size <= PAGE_KB),
    ]


def _waits(ask: Any, times: int, pause: float = 0) -> list[float]:
    found = []
    for _ in range(times):
        found.append(ask(SMALL))
        time.sleep(pause)
    return found


if __name__ == "__main__":
    run(rows, __doc__)
