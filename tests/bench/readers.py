"""A maintd before 512 readers that take 32 KiB a second each of an answer of 4 MB."""

import statistics
import time
from typing import Any

from tests.bench.crowd import LARGE, SMALL, crowd, target
from tests.bench.table import Row, row

NODES = 13_500
READERS = 512
MEMORY, SECONDS = 200.0, 1.0


def rows(*, quick: bool = False) -> list[Row]:
    """Measure it; `quick` looks for fewer seconds."""
    with target(NODES) as at:
        large = len(at.get(LARGE)) / 1e6
        alone, before = _waits(at.seconds, 5), at.memory()[0] / 1e6
        with crowd(at, READERS):
            waits = _waits(at.seconds, 5 if quick else 15, pause=1)
        most = at.memory()[1] / 1e6
    said = f"{READERS} slow readers of {large:.1f} MB"
    middle = statistics.median(alone)
    wait = f"longest wait of a newcomer beside {said}, s (peer: p50 without)"
    return [
        row(f"maintd's memory with {said}, MB (peer: without)", most, before, most=MEMORY),
        row(wait, max(waits), middle, most=SECONDS),
    ]


def _waits(ask: Any, times: int, pause: float = 0) -> list[float]:
    found = []
    for _ in range(times):
        found.append(ask(SMALL))
        time.sleep(pause)
    return found
