"""`cpu-avg-load`: the number of busy processors, averaged over up to ten minutes."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import psutil

WINDOW = 600.0  # seconds, as in Ganeti's monitoring daemon


class CpuAvgLoad:
    """Busy processors: everything but idle, as mond counts; waiting for disks is busy.

    `steady` is seconds of a clock that nobody sets.
    """

    name = "cpu-avg-load"
    category: str | None = None

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._samples: deque[tuple[float, list[float]]] = deque()

    def sample(self) -> Any:
        """`{"cpu_number": int, "cpus": [float], "cpu_total": float}`, in busy processors."""
        now = self._steady()
        self._samples.append(
            (now, [_busy_seconds(times) for times in psutil.cpu_times(percpu=True)])
        )
        while len(self._samples) > 2 and now - self._samples[1][0] >= WINDOW:
            self._samples.popleft()
        (then, before), (_, after) = self._samples[0], self._samples[-1]
        if now - then < 1.0 or len(before) != len(after):
            return {"error": "Time covered by data is not sufficient."}
        span = now - then
        cpus = [max(0.0, min(1.0, (b - a) / span)) for a, b in zip(before, after, strict=True)]
        return {"cpu_number": len(cpus), "cpus": cpus, "cpu_total": sum(cpus)}


def _busy_seconds(times: Any) -> float:
    # psutil counts guest time within user, and guest_nice within nice.
    named = times._asdict()
    return float(sum(named.get(part, 0.0) for part in _BUSY))


_BUSY = ("user", "nice", "system", "iowait", "irq", "softirq", "steal")
