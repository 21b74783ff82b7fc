"""What the pages of a large cluster cost: compressed bytes, and the CPU of one drawing."""

import gzip
import tempfile
from dataclasses import replace
from pathlib import Path

from nodeagent.model.action import MovePrimary
from tests.bench.cost import least
from tests.bench.table import Row, row
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


def rows(*, quick: bool = False) -> list[Row]:
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
                    row(f"{what}: {name}, bytes compressed", size, most=MOST_BYTES),
                    row(f"{what}: {name}, CPU s", seconds, most=MOST_SECONDS),
                ]
        finally:
            one.close()
    return found


def _cost(one: Served, path: str) -> tuple[int, float]:
    """Bytes of the compressed page, and the least CPU of a few drawings."""

    def draw() -> bytes:
        one.seconds += 10  # readers share an answer for a second
        return one.ask("GET", path).body

    body, seconds = least(draw, _DRAWINGS)
    return len(gzip.compress(body)), seconds


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
