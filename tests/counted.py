"""How much work something is, counted and not timed: the same on every machine, busy or not."""

import sys
from collections.abc import Callable
from types import FrameType


def lines(work: Callable[[], object]) -> int:
    """How many lines of Python `work` runs in this thread, in each turn of a loop again."""
    count = 0

    def trace(_: FrameType, event: str, __: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        work()
    finally:
        sys.settrace(before)
    return count
