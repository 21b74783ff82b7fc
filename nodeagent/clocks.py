"""This machine's clocks: the one that people and NTP set, and the one that nobody sets."""

import time

from nodeagent.model.units import Ms


def unix_ms() -> Ms:
    """Return the time of day."""
    return Ms(time.time_ns() // 1_000_000)


def steady_ms() -> Ms:
    """Return ms since the machine's start, sleep included."""
    return Ms(time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000)
