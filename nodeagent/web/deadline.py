"""One deadline over many waits, and what is known where a call came to nothing."""

import time

from nodeagent.errors import Unavailable


class Unsent(Unavailable):
    """The request certainly reached nobody, so nothing can have come of it."""


class Late(Unavailable):
    """The answer did not come in time; the request may well be carried out."""


class Deadline:
    """Seconds that several waits on one socket share."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds left, for a socket timeout; TimeoutError once they are over."""
        if (left := self._end - time.monotonic()) <= 0:
            raise TimeoutError
        return left
