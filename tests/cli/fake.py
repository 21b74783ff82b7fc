"""A maintd that answers at a socket as it is told to."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from nodeagent.web.exchange import Request, Response
from nodeagent.web.server import Server

Answers: TypeAlias = Callable[[Request], Response]


class Fake:
    def __init__(self, path: Path, handle: Answers) -> None:
        self.socket = str(path)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = Server(handle)
        start = self._server.start_unix(self.socket, 0o600)
        asyncio.run_coroutine_threadsafe(start, self._loop).result(10)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


@contextmanager
def telling(path: str, table: Mapping[str, object]) -> Iterator[None]:
    """It knows these resources and no others; of those with None it has nothing to tell yet."""

    def handle(request: Request) -> Response:
        if request.target not in table:
            return Response.error(404, "no such resource")
        said = table[request.target]
        if said is None:
            return Response.error(503, "no round was held yet")
        return Response.json(said)

    fake = Fake(Path(path), handle)
    try:
        yield
    finally:
        fake.close()
