"""Wait for what other processes, threads and sockets do.

The one place of the quick suite that looks at the machine's clock: the limit only ends what hangs,
and no busy machine meets it.
"""

import asyncio
import time
from collections.abc import Callable

PATIENCE = 120.0  # seconds
_EVERY = 0.01  # seconds between two looks


def until(
    true: Callable[[], object], why: Callable[[], object] = lambda: "", every: float = _EVERY
) -> None:
    """Wait until `true()`, which is asked every so many seconds; else fail, and say `why()`."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, why()
        time.sleep(every)


async def until_async(true: Callable[[], object]) -> None:
    """`until`, while the loop's other tasks go on."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(_EVERY)


def dawdle(seconds: float) -> None:
    """Let time pass on purpose, as a slow peer or a machine that stalls; this waits for nothing."""
    time.sleep(seconds)
