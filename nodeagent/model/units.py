"""Units of time, as types of their own that mypy tells apart. Pure.

At run time each of them is int: `units.pyi` holds mypy's rules. A sum or a difference with a bare
number keeps its unit. With another unit, and as a product or a quotient, it has none.
"""

import re

Ms = Seconds = Nanoseconds = int
_DURATION = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}  # of each unit


def read_duration(text: str) -> float | None:
    """Return the seconds of `500ms`, `90s`, `10m`, `2h` or `7d`; None for other texts."""
    match = _DURATION.fullmatch(text)
    return int(match[1]) * SECONDS[match[2]] if match else None


def in_seconds(ms: Ms) -> Seconds:
    """Return whole seconds, rounded down."""
    return ms // 1000


def in_ms(seconds: Seconds) -> Ms:
    return seconds * 1000


def in_ns(seconds: Seconds) -> Nanoseconds:
    return seconds * 1_000_000_000


def ms_of(value: object) -> Ms | None:
    """Return a time of a saved document, which may have been changed by hand, or ValueError."""
    if value is None:
        return None
    if type(value) is not int or value < 0:
        raise ValueError("a time is not in ms")
    return value
