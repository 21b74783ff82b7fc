"""One deadline over many waits."""

import time


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
