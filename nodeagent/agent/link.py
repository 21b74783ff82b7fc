"""The unix socket between front and runner: frames of JSON, asked and answered in order.

A frame is four bytes of length (big-endian) and one JSON object. The front asks with
`{"verb": …}`; sealed reports and orders travel as texts that the front does not read.
"""

import asyncio
import json
import os
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

from nodeagent.errors import MessageError, Unavailable
from nodeagent.peer import user_and_group
from nodeagent.protocol.canonical import MAX_DEPTH, read

MAX_FRAME = 8 * 1024 * 1024  # a quarter megabyte, its quotes escaped thrice and framed
MAX_QUESTION = 2 * 1024 * 1024  # a quarter megabyte of order, each byte of it escaped once
CONNECTIONS = 8  # the front has three, and for a moment the broken ones before them
Frame: TypeAlias = dict[str, Any]
Handle: TypeAlias = Callable[[Frame], Awaitable[Frame]]


async def read_frame(
    reader: asyncio.StreamReader, limit: int = MAX_FRAME, depth: int = MAX_DEPTH
) -> Frame | None:
    """Read one frame of at most so many bytes and levels; None at the end of the stream."""
    try:
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > limit:
            raise MessageError(f"frame of {size} bytes")
        document = read(await reader.readexactly(size), limit=limit, depth=depth)
    except asyncio.IncompleteReadError:
        return None
    if not isinstance(document, dict):
        raise MessageError("frame is not an object")
    return document


def frame(document: Frame) -> bytes:
    body = json.dumps(document).encode()
    return len(body).to_bytes(4, "big") + body


async def listen(
    path: str, allowed: frozenset[int], gid: int, begin: Callable[[], Handle]
) -> asyncio.Server:
    """Serve on a unix socket to the users in `allowed` only; `begin` makes a handle for each link.

    An attacker who controls the front costs no more than a few descriptors, frames and turns of the
    loop: it can stop the reports, but not a running repair.
    """
    served = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        served += 1
        try:
            with suppress(OSError, MessageError):
                user, _ = user_and_group(writer.get_extra_info("socket"))
                if served > CONNECTIONS or user not in allowed:
                    return
                handle = begin()
                while (asked := await read_frame(reader, MAX_QUESTION, depth=1)) is not None:
                    writer.write(frame(await handle(asked)))
                    await writer.drain()
                    await asyncio.sleep(0)  # neither of these waits if there is more to read
        finally:  # also after a bug in a verb: nobody shall wait in vain
            served -= 1
            writer.transport.abort()  # do not wait until the peer reads its answers: it may never

    with suppress(FileNotFoundError):
        os.unlink(path)
    before = os.umask(0o177)
    try:
        server = await asyncio.start_unix_server(serve, path)
    finally:
        os.umask(before)
    os.chown(path, -1, gid)
    os.chmod(path, 0o660)
    return server


class Link:
    """The front's end: one connection, opened again after it breaks."""

    def __init__(self, path: str, *, on_connect: Callable[[], Frame] | None = None) -> None:
        self.greeting: Frame = {}
        self._path = path
        self._on_connect = on_connect
        self._writer: asyncio.StreamWriter | None = None
        self._waiting: deque[asyncio.Future[Frame]] = deque()
        self._connecting = asyncio.Lock()
        self._pump: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        return self._writer is not None

    async def ask(self, question: Frame, seconds: float = 5.0) -> Frame:
        """Ask the runner, or raise Unavailable."""
        try:
            async with asyncio.timeout(seconds):
                if self._writer is None:
                    await self._connect()
                return await self._put(question)
        except TimeoutError:
            # Answers come in order; after a missing one the others cannot be told apart.
            self._break(Unavailable("the runner does not answer"))
            raise Unavailable("the runner does not answer") from None
        except OSError as error:
            why = error.strerror or error
            raise Unavailable(f"the runner cannot be reached at {self._path}: {why}") from None

    def close(self) -> None:
        self._break(Unavailable("closed"))

    async def _connect(self) -> None:
        async with self._connecting:
            if self._writer is not None:
                return
            reader, writer = await asyncio.open_unix_connection(self._path)
            self._writer, self._waiting = writer, deque()
            self._pump = asyncio.create_task(self._read(reader, writer, self._waiting))
            if self._on_connect:
                self.greeting = await self._put(self._on_connect())

    def _put(self, question: Frame) -> asyncio.Future[Frame]:
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        if self._writer is None:
            raise Unavailable("the runner has gone")
        self._waiting.append(answer)
        self._writer.write(frame(question))
        return answer

    async def _read(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        waiting: deque[asyncio.Future[Frame]],
    ) -> None:
        """Hand out the answers of one connection; its successor's answers are not ours."""
        with suppress(OSError, MessageError):
            while (answer := await read_frame(reader)) is not None:
                if not waiting:
                    break  # an answer without a question
                asked = waiting.popleft()
                if not asked.done():
                    asked.set_result(answer)
        if self._writer is writer:
            self._break(Unavailable("the runner has gone"))

    def _break(self, error: Unavailable) -> None:
        if self._writer is not None:
            # Drop unsent questions: their callers learn that the runner did not get them.
            self._writer.transport.abort()
            self._writer = None
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(error)
