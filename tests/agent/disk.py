"""A disk that hangs, so that fsync(2) does not return, or that fails."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


class Disk:
    """A disk whose writes wait while it `hangs`, and fail while it has a `fault`."""

    def __init__(self) -> None:
        self._answers = threading.Event()
        self._answers.set()
        self._left = list[threading.Event]()
        self.asked = 0  # how often anything was to be written
        self.fault: int | None = None  # an error number

    def hangs(self) -> None:
        self._answers.clear()

    def answers(self) -> None:
        for event in (*self._left, self._answers):
            event.set()

    def answers_later_calls(self) -> None:
        """What waits now waits on, and what comes from now on does not."""
        self._left.append(self._answers)
        self._answers = threading.Event()
        self._answers.set()

    def fsync(self, _: int) -> None:
        self.asked += 1
        self._answers.wait()
        if self.fault is not None:
            raise OSError(self.fault, os.strerror(self.fault))


@contextmanager
def a_disk() -> Iterator[Disk]:
    """This process's disk; it answers again in the end."""
    disk = Disk()
    with patch("os.fsync", disk.fsync):
        try:
            yield disk
        finally:
            disk.answers()
