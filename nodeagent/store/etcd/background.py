"""An event loop in a thread of its own, for callers that wait, and for work that nobody waits for.

A round of maintd may take minutes, and blocks its loop at times: the lease must be kept meanwhile.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from nodeagent.errors import Unavailable

T = TypeVar("T")


class Background:
    """The loop and its thread, which ends with `close` or the process."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Future[Any]] = set()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    @property
    def closed(self) -> bool:
        return not self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there, and wait for its end; `work` bounds its own time."""
        if self.closed:
            work.close()
            raise Unavailable("the connection to etcd is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it there until it ends, or until `close`."""

        async def begin() -> None:
            task = asyncio.ensure_future(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self.run(begin())

    def close(self) -> None:
        """Cancel what is left, and end the thread."""
        if self.closed:
            return
        self.run(self._cancel())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_default_executor()
