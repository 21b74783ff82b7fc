"""Work in the background: in a thread of its own, one at a time. No round waits for it."""

import threading
from collections.abc import Callable
from typing import TypeAlias

Start: TypeAlias = Callable[[Callable[[], None]], None]


class Background:
    """`busy` tells whether work runs. `start` runs work; by default a thread called `name` does."""

    def __init__(self, name: str, start: Start | None = None) -> None:
        self.busy = False
        self._name = name
        self._start = start or self._in_thread

    def begin(self, work: Callable[[], None]) -> str:
        """Start this work; return why no thread is available, or ""."""
        self.busy = True
        try:
            self._start(lambda: self._do(work))
        except RuntimeError as error:  # too many threads; the round goes on
            self.busy = False
            return str(error)
        return ""

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            self.busy = False

    def _in_thread(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=self._name, daemon=True).start()
