"""Waiting for something at maintd, which may be restarting meanwhile."""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from nodeagent.cli.maint.console.client import Unreachable

T = TypeVar("T")
EVERY = 1.0  # seconds between two looks
PATIENCE = 120.0  # seconds without maintd; it may be restarting


def looks_at(
    look: Callable[[float], T],
    timeout: float | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[T]:
    """Yield what each look returns, until the time is over; `look` gets its seconds.

    After the first look an unreachable maintd is waited for, and `tell` hears why.
    """
    began = time.monotonic()
    heard: float | None = None
    remaining = PATIENCE if timeout is None else timeout
    while True:
        try:
            answer = look(min(PATIENCE, remaining + EVERY))
            heard = time.monotonic()
        except Unreachable as error:
            if heard is None or time.monotonic() - heard > PATIENCE:
                raise
            tell(error.format_message())
        else:
            yield answer
        if timeout is not None:
            remaining = began + timeout - time.monotonic()
            if remaining <= 0:
                return
        time.sleep(min(EVERY, remaining))
