"""Servers that answer as they are told, and misbehave as they are told."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

from tests.patience import dawdle

Behave: TypeAlias = Callable[[socket.socket, Any], object]
"""What to do with one request on a connection; anything true hangs up afterwards."""


class Scripted:
    """Takes connections and answers the n-th request as the n-th behaviour says.

    The last behaviour goes on for ever. `requests` are those read in full.
    """

    def __init__(self, listener: socket.socket, script: Sequence[Behave]) -> None:
        self.requests: list[Any] = []
        self.connections = 0
        self.script = script
        self._listener = listener
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                threading.Thread(target=self._talk, args=[connection], daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        self.connections += 1
        with suppress(OSError):
            while (request := _read(connection)) is not None:
                number = len(self.requests)
                self.requests.append(request)
                if self.script[min(number, len(self.script) - 1)](connection, request):
                    break
        with suppress(OSError):
            connection.close()

    def close(self) -> None:
        for one in (self._listener, *self._open):
            with suppress(OSError):  # close() alone wakes nobody who waits on it
                socket.socket.shutdown(one, socket.SHUT_RDWR)
            with suppress(OSError):
                one.close()


@contextmanager
def luxid(path: str, *script: Behave) -> Iterator[Scripted]:
    """A LUXI server."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(5)
    server = Scripted(listener, script)
    try:
        yield server
    finally:
        server.close()


def _read(connection: socket.socket) -> Any:
    taken = b""
    while not taken.endswith(b"\3"):
        part = connection.recv(65536)
        if not part:
            return None
        taken += part
    return json.loads(taken[:-1])


def says(result: object, *, success: bool = True) -> Behave:
    """Answer."""
    return raw(json.dumps({"success": success, "result": result}).encode() + b"\3")


def raw(data: bytes) -> Behave:
    """Send these bytes."""
    return lambda connection, _: connection.sendall(data)


def hang_up(connection: socket.socket, request: object) -> bool:
    """Say nothing and close."""
    return True


def reset(connection: socket.socket, request: object) -> bool:
    """Say nothing and break the connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return True


def half(data: bytes) -> Behave:
    """Begin an answer and close."""

    def begin(connection: socket.socket, _: object) -> bool:
        connection.sendall(data)
        return True

    return begin


def drip_for_ever(beginning: bytes) -> Behave:
    """The beginning of an answer, then a blank now and then, until the other side has gone."""

    def slowly(connection: socket.socket, _: object) -> None:
        connection.sendall(beginning)
        while True:
            connection.sendall(b" ")
            dawdle(0.01)

    return slowly


def never(connection: socket.socket, request: object) -> None:
    """Say nothing and stay."""
