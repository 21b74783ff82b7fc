"""One deadline over many waits, and the errors that say how far a failed call came."""

import time

from nodeagent.errors import Unavailable


class Unsent(Unavailable):
    """The request certainly reached nobody, so it had no effect."""


class Late(Unavailable):
    """The answer did not come in time; the request may still be carried out."""


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
