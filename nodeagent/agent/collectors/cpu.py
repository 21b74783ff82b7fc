"""`cpu-avg-load`: the number of busy processors, averaged over up to ten minutes."""

import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any

STATISTICS = "/proc/stat"
_TICKS = os.sysconf("SC_CLK_TCK")  # a second
WINDOW = 600.0  # seconds, as in Ganeti's monitoring daemon


class CpuAvgLoad:
    """Busy processors: everything but idle, as mond counts; waiting for disks is busy.

    `steady` is seconds of a clock that nobody sets.
    """

    name = "cpu-avg-load"
    category: str | None = None

    def __init__(
        self, steady: Callable[[], float] = time.monotonic, statistics: str = STATISTICS
    ) -> None:
        self._steady = steady
        self._statistics = statistics
        self._samples: deque[tuple[float, list[float]]] = deque()

    def sample(self) -> Any:
        """`{"cpu_number": int, "cpus": [float], "cpu_total": float}`, in busy processors."""
        now = self._steady()
        self._samples.append((now, self._busy_seconds()))
        while len(self._samples) > 2 and now - self._samples[1][0] >= WINDOW:
            self._samples.popleft()
        (then, before), (_, after) = self._samples[0], self._samples[-1]
        if now - then < 1.0 or len(before) != len(after):
            return {"error": "Time covered by data is not sufficient."}
        span = now - then
        cpus = [max(0.0, min(1.0, (b - a) / span)) for a, b in zip(before, after, strict=True)]
        return {"cpu_number": len(cpus), "cpus": cpus, "cpu_total": sum(cpus)}

    def _busy_seconds(self) -> list[float]:
        """Return the seconds that each processor has been busy since the boot."""
        with open(self._statistics) as file:
            rows = [line.split() for line in file if line.startswith("cpu")]
        return [sum(map(int, columns)) / _TICKS for columns in map(_busy, rows[1:])]


def _busy(row: list[str]) -> list[str]:
    """Return the columns of busy time (proc(5)); user and nice have the guests' time in them."""
    _, user, nice, system, _, *rest = row
    return [user, nice, system, *rest[:4]]  # waiting for disks, two sorts of interrupts, stolen
