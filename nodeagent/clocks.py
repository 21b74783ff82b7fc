"""This machine's clocks: the one that people and NTP set, and the one that nobody sets.

A deadline is by the latter.
"""

import time

from nodeagent.model.units import Ms


def unix_ms() -> Ms:
    """Return the time of day."""
    return Ms(time.time_ns() // 1_000_000)


def steady_ms() -> Ms:
    """Return ms since the machine's start, sleep included."""
    return Ms(time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000)


class Deadline:
    """Seconds that several waits on one socket share."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left, for a socket timeout; TimeoutError once they are over."""
        if (remaining := self._end - time.monotonic()) <= 0:
            raise TimeoutError
        return remaining
