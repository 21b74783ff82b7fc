"""Calls that write to a disk, in a thread: one that does not answer delays nobody.

A disk that dies often hangs for minutes before it fails, and just then its node has most to report.
"""

import asyncio
import errno
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from nodeagent.folder import replace_file

log = logging.getLogger(__name__)

SECONDS = 5.0  # a disk that takes longer does not answer
_POLL = 0.02  # seconds

Later = Callable[[str, Callable[[], None]], None]


class Writer:
    """Makes calls one after the other, in a thread that ends with the last of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[object, Callable[[], None]] = {}
        self._busy = False

    def later(self, name: str, call: Callable[[], None]) -> None:
        """Make a call soon, instead of one of this name that still waits. It raises nothing."""
        with self._lock:
            self._waiting.pop(name, None)
            self._add(name, call)

    async def now(self, call: Callable[[], None], seconds: float | None = None) -> None:
        """Make a call and wait for its end; raise its OSError, or one after `seconds`.

        Without these it is `SECONDS`. A call that has begun by then goes on.
        """
        loop, name = asyncio.get_running_loop(), object()
        ended: asyncio.Future[None] = loop.create_future()

        def tell(error: OSError | None) -> None:
            if ended.done():
                return
            if error is None:
                ended.set_result(None)
            else:
                ended.set_exception(error)

        def run() -> None:
            error = None
            try:
                call()
            except OSError as raised:
                error = raised
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(tell, error)

        with self._lock:
            self._add(name, run)
        try:
            async with asyncio.timeout(SECONDS if seconds is None else seconds):
                await ended
        except TimeoutError:
            with self._lock:
                self._waiting.pop(name, None)
            raise OSError(errno.ETIMEDOUT, "the disk does not answer") from None

    async def finish(self) -> None:
        """Wait until all calls are made, for `SECONDS` at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS):
                while self._busy:
                    await asyncio.sleep(_POLL)

    def _add(self, name: object, call: Callable[[], None]) -> None:
        self._waiting[name] = call
        if not self._busy:
            with suppress(RuntimeError):  # no thread can be started: the next call tries again
                # A daemon does not keep the process from ending while it waits for a dead disk.
                threading.Thread(target=self._work, daemon=True).start()
                self._busy = True

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy = False
                    return
                name = next(iter(self._waiting))
                call = self._waiting.pop(name)
            try:
                call()
            except Exception:
                log.exception("writer-broken")


class SavedFile:
    """A file that `later` replaces, as `Writer.later` does.

    `unsaved` is the log line of a failure, with `%` for the path and the reason. `owed` tells that
    the last try has failed: save it again, though nothing has changed.
    """

    def __init__(self, path: str, unsaved: str, later: Later) -> None:
        self.path = path
        self.owed = False
        self._unsaved = unsaved
        self._later = later
        self._told = ""

    def save(self, content: Callable[[], bytes]) -> None:
        """Replace its content soon, unless newer content comes meanwhile."""
        self._later(self.path, partial(self._write, content))

    def _write(self, content: Callable[[], bytes]) -> None:
        try:
            replace_file(self.path, content())
        except OSError as error:
            self.owed = True
            why = error.strerror or str(error)
            if why != self._told:
                log.error(self._unsaved, self.path, why)  # noqa: TRY400
            self._told = why
        else:
            self.owed, self._told = False, ""
