"""The plain load collectors, in the shapes of Ganeti's monitoring daemon.

Each samples in a thread of its own, and answers come from its last sample. So a hanging collector
delays no other answer: its sample gets old, and then its answer is an error.
"""

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

log = logging.getLogger(__name__)

PERFORMANCE, STATUS = 0, 1  # mond's kinds


class Collector(Protocol):
    name: str
    category: str | None

    def sample(self) -> Any:
        """Measure the machine once; return the report's `data`, or raise OSError."""
        ...


def report(
    name: str, category: str | None, kind: int, nanoseconds: int, data: Any
) -> dict[str, Any]:
    """A report object in mond's member order; `nanoseconds` is when the data was taken."""
    return {
        "name": name,
        "version": "B",
        "format_version": 1,
        "timestamp": nanoseconds,
        "category": category,
        "kind": kind,
        "data": data,
    }


class Sampler:
    def __init__(
        self,
        collector: Collector,
        every: float = 5.0,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.collector = collector
        self._every = every
        self._clock = clock
        self._last: tuple[int, float, Any] | None = None
        self._why = "no sample yet"
        self._text: tuple[tuple[int, float, Any] | None, bytes] = (None, b"")
        self._stop = threading.Event()
        name = f"collect-{collector.name}"
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; do not wait for it, as it may hang."""
        self._stop.set()

    def report(self) -> dict[str, Any]:
        """Return the last sample as a report; an error in its data once it is too old."""
        last, collector = self._last, self.collector
        if last is None:
            return self._report(self._clock(), {"error": self._why})
        taken, monotonic, data = last
        age = time.monotonic() - monotonic
        if age > 3 * self._every + 5:
            return self._report(taken, {"error": f"{collector.name} has hung for {age:.0f} s"})
        return self._report(taken, data)

    def text(self) -> bytes:
        """Return the report as JSON; built once for each sample, as many requests ask for it."""
        last, text = self._text
        if last is not self._last or last is None or time.monotonic() - last[1] > self._every:
            last = self._last
            text = json.dumps(self.report()).encode()
            self._text = (last, text)
        return text

    def _report(self, taken: int, data: Any) -> dict[str, Any]:
        return report(self.collector.name, self.collector.category, PERFORMANCE, taken, data)

    def _loop(self) -> None:
        pause = min(1.5, self._every)  # two samples make a first average
        logged = ""
        while True:
            try:
                data = self.collector.sample()
                self._last = (self._clock(), time.monotonic(), data)
                logged = ""
            except Exception as error:
                self._last = None
                self._why = f"{type(error).__name__}: {error}"
                if logged != self._why:  # when it begins or changes, not each time
                    logged = self._why
                    log.warning("collector-failed name=%s why=%r", self.collector.name, logged)
            if self._stop.wait(pause):
                return
            pause = self._every
