"""A connected socket on the event loop: bytes in, bytes out, nothing in between.

asyncio's transports cost a task, a future and four turns of the loop for every connection, half of
the cost of an answer. Here a request that comes with the connection is read, answered and finished
in a single turn.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

_IN_A_TURN = 8  # pieces sent before others have their turn
_IN_KERNEL = 64 * 1024  # bytes that the kernel holds and has not sent: 4 s of a slow reader's


class Stream:
    """One connection. It calls `received` with the bytes that come, and with b"" once at the end.

    `taken` is how many bytes the kernel has taken.
    """

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
        self._left = memoryview(b"")  # of the piece that is being sent
        self._queue: deque[Iterator[bytes | memoryview]] = deque()  # of pieces
        self._reading = False
        self._writing = False
        self._deaf = False
        self._then: Callable[[], None] | None = None  # runs when all is sent
        self.taken = 0

    @property
    def busy(self) -> bool:
        """Tell whether something is left to send."""
        return self._writing

    @property
    def here(self) -> tuple[str, int]:
        """Our own address and port of this connection; empty if it has ended, or has none."""
        if self._sock is None or self._sock.family == socket.AF_UNIX:
            return "", 0
        address = self._sock.getsockname()
        return str(address[0]), int(address[1])

    def start(self) -> None:
        """Read the bytes that are there; go on reading as more come."""
        self._read()
        if self._sock is not None and not self._deaf:
            self._reading = True
            self._loop.add_reader(self._sock.fileno(), self._read)

    def write(self, data: bytes) -> None:
        """Send now as much as possible, and the rest later."""
        self._send((data,))

    def pour(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Send pieces, each made once the last was sent.

        The kernel holds little of it, so that `taken` is close to the bytes that the peer has
        taken.
        """
        if self._sock is not None and self._sock.family != socket.AF_UNIX:
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _IN_KERNEL)
        self._send(pieces)

    def close(self) -> None:
        """Read no more; send what is left, then hang up."""
        self._stop_reading()
        self._after_writing(self.abort)

    def shut(self) -> None:
        """Send the rest, then announce the end; go on reading."""
        self._after_writing(self._shut)

    def abort(self) -> None:
        """Hang up at once."""
        sock, self._sock = self._sock, None
        if sock is None:
            return
        if self._reading:
            self._loop.remove_reader(sock.fileno())
        if self._writing:
            self._writing = False
            self._loop.remove_writer(sock.fileno())
        sock.close()
        lost = self._lost
        # Drop the references both ways: both objects go at once, without garbage collection.
        self._received, self._lost, self._then = _nothing, _nobody, None
        self._queue.clear()
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
        if not self._writing:
            then()

    def _shut(self) -> None:
        if self._sock is not None:
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_WR)

    def _send(self, pieces: Iterable[bytes | memoryview]) -> None:
        self._queue.append(iter(pieces))
        if not self._writing:
            self._write_on()

    def _write_on(self) -> None:
        for _ in range(_IN_A_TURN):
            if self._sock is None:
                return
            if not self._left:
                self._left = memoryview(self._next_piece())
                if not self._left:
                    self._sent_all(self._sock)
                    return
            try:
                sent = self._sock.send(self._left)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self.abort()
                return
            self._left = self._left[sent:]
            self.taken += sent
        if not self._writing and self._sock is not None:
            self._writing = True
            self._loop.add_writer(self._sock.fileno(), self._write_on)

    def _next_piece(self) -> bytes | memoryview:
        """Take the next piece to send; b"" if there is none."""
        while self._queue:
            if piece := next(self._queue[0], b""):
                return piece
            self._queue.popleft()
        return b""

    def _sent_all(self, sock: socket.socket) -> None:
        if self._writing:
            self._writing = False
            self._loop.remove_writer(sock.fileno())
        if self._then is not None:
            self._then()


def _nothing(_: bytes) -> None:
    """Ignore the bytes that come now."""


def _nobody() -> None:
    """Tell nobody any more."""
