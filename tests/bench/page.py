"""What the status page of a large cluster costs: its compressed bytes, and the CPU of one drawing.

python -m tests.bench.page [--quick]
"""

import gzip
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from nodeagent.model.action import MovePrimary
from tests.bench.table import Row, row, run
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.served import Served
from tests.maintd.world import need

MOST_BYTES = 300_000
MOST_SECONDS = 0.2
RACK = 50  # nodes
_DRAWINGS = 5
PAGES = {
    "/status": "the page",
    "/status?state=all": "its list of all nodes",
    "/status/n25": "n25's",
}


def rows(*, quick: bool = False) -> list[dict[str, Any]]:
    """Measure a healthy cluster, and one where every twentieth node is unhealthy."""
    count = 1000 if quick else 10_000
    return [*_measured(count, sick=False), *_measured(count, sick=True)]


def _measured(count: int, *, sick: bool) -> list[Row]:
    what = f"page of {count:,} nodes, {'1 in 20 unhealthy' if sick else 'healthy'}"
    found = []
    with tempfile.TemporaryDirectory() as folder:
        one = Served(large(count, sick=sick), Path(folder))
        try:
            one.tick(times=2)
            for path, name in PAGES.items():
                size, seconds = _cost(one, path)
                found += [
                    row(
                        f"{what}: {name}, bytes compressed",
                        size,
                        None,
                        goal=f"<= {MOST_BYTES:,}",
                        met=size <= MOST_BYTES,
                    ),
                    row(
                        f"{what}: {name}, CPU s",
                        seconds,
                        None,
                        goal=f"<= {MOST_SECONDS:g} s",
                        met=seconds <= MOST_SECONDS,
                    ),
                ]
        finally:
            one.close()
    return found


def _cost(one: Served, path: str) -> tuple[int, float]:
    """Bytes of the compressed page, and the least CPU of a few drawings."""
    best, body = float("inf"), b""
    for _ in range(_DRAWINGS):
        one.seconds += 10  # readers share an answer for a second
        began = time.process_time()
        body = one.ask("GET", path).body
        best = min(best, time.process_time() - began)
    return len(gzip.compress(body)), best


def large(count: int, *, sick: bool) -> Rig:
    """So many nodes in racks; if `sick`, 1 in 20 asks to be evacuated, and 1 in 30 is silent."""
    places = [replace(node, group=f"rack-{i // RACK}") for i, node in enumerate(fleet(count))]
    pairs = [(f"n{n}", f"n{n + 1}") for n in range(2, count // 25)]
    rig = Rig(places, mirrored(*pairs), QUICK)
    if sick:
        broken = need("evacuate", details="x" * 200)
        rig.agents.says |= {f"n{n}": broken for n in range(5, count, 20)}
        rig.agents.says |= dict.fromkeys((f"n{n}" for n in range(7, count, 30)), None)
        rig.cluster.takes = lambda action: 1000.0 if isinstance(action, MovePrimary) else 1.0
    return rig


if __name__ == "__main__":
    run(rows, __doc__)
