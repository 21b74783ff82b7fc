"""A connected socket on the event loop: bytes in, bytes out, nothing in between.

asyncio's transports cost a task, a future and four turns of the loop for every connection,
half of what it takes to answer one; here a request that came with the connection is read,
answered and done in a single turn.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress


class Stream:
    """One connection. `received` is called with what came, b"" once at its end."""

    __slots__ = ("_deaf", "_left", "_loop", "_lost", "_reading", "_received", "_sock", "_then")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        received: Callable[[bytes], None],
        lost: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._sock: socket.socket | None = sock
        self._received = received
        self._lost = lost
        self._left = memoryview(b"")
        self._reading = False
        self._deaf = False
        self._then: Callable[[], None] | None = None  # to be done when all is sent

    def start(self) -> None:
        """Read what has come already; go on reading as more comes."""
        self._read()
        if self._sock is not None and not self._deaf:
            self._reading = True
            self._loop.add_reader(self._sock.fileno(), self._read)

    def write(self, data: bytes) -> None:
        """Send now what can be sent, and the rest when it can be."""
        if self._sock is None:
            return
        if self._left:
            self._left = memoryview(bytes(self._left) + data)
            return
        try:
            sent = self._sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self.abort()
            return
        if sent < len(data):
            self._left = memoryview(data)[sent:]
            self._loop.add_writer(self._sock.fileno(), self._write_on)

    def close(self) -> None:
        """Read no more; send what is left, then hang up."""
        self._stop_reading()
        self._after_writing(self.abort)

    def shut(self) -> None:
        """Send what is left, then say that nothing follows; what comes is still read."""
        self._after_writing(self._shut)

    def abort(self) -> None:
        """Hang up at once."""
        sock, self._sock = self._sock, None
        if sock is None:
            return
        if self._reading:
            self._loop.remove_reader(sock.fileno())
        if self._left:
            self._loop.remove_writer(sock.fileno())
        sock.close()
        lost = self._lost
        # Who uses this is used by it no more: both go at once, not when garbage is collected.
        self._received, self._lost, self._then = _nothing, _nobody, None
        lost()

    def _read(self) -> None:
        if self._sock is None:
            return
        try:
            data = self._sock.recv(64 * 1024)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.abort()
            return
        if not data:
            self._stop_reading()
        self._received(data)

    def _stop_reading(self) -> None:
        self._deaf = True
        if self._reading and self._sock is not None:
            self._reading = False
            self._loop.remove_reader(self._sock.fileno())

    def _after_writing(self, then: Callable[[], None]) -> None:
        self._then = then
        if not self._left:
            then()

    def _shut(self) -> None:
        if self._sock is not None:
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_WR)

    def _write_on(self) -> None:
        if self._sock is None:
            return
        try:
            sent = self._sock.send(self._left)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.abort()
            return
        left = self._left[sent:]
        if left:
            self._left = left
            return
        self._loop.remove_writer(self._sock.fileno())
        self._left = left
        if self._then is not None:
            self._then()


def _nothing(_: bytes) -> None:
    """Nobody hears what comes now."""


def _nobody() -> None:
    """Nobody is to be told any more."""
