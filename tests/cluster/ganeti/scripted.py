"""Servers that answer as they are told, and misbehave as they are told."""

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

from tests.patience import dawdle

Behave: TypeAlias = Callable[[socket.socket, Any], object]
"""What to do with one request on a connection; anything true hangs up afterwards."""


class Scripted:
    """Takes connections and answers the n-th request as the n-th behaviour says.

    The last behaviour goes on for ever. `requests` are those read in full.
    """

    def __init__(self, listener: socket.socket, read: Callable[[socket.socket], Any]) -> None:
        self.requests: list[Any] = []
        self.connections = 0
        self.script: list[Behave] = []
        self._listener = listener
        self._read = read
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
        with suppress(OSError, ConnectionError, ssl.SSLError):
            while (request := self._read(connection)) is not None:
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
    server = Scripted(listener, _read_luxi)
    server.script = list(script)
    try:
        yield server
    finally:
        server.close()


def _read_luxi(connection: socket.socket) -> Any:
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


def drip(data: bytes, every: float) -> Behave:
    """A byte now and then."""

    def slowly(connection: socket.socket, _: object) -> None:
        for byte in data:
            connection.sendall(bytes([byte]))
            dawdle(every)

    return slowly


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


@contextmanager
def rapi(certificate: str, key: str, *script: Behave) -> Iterator[tuple[Scripted, int]]:
    """A RAPI server, and its port; requests are `(method, target, headers, body)`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    plain = socket.create_server(("127.0.0.1", 0))
    listener = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
    server = Scripted(listener, _read_http)
    server.script = list(script)
    try:
        yield server, listener.getsockname()[1]
    finally:
        server.close()


def _read_http(connection: socket.socket) -> Any:
    taken = b""
    while b"\r\n\r\n" not in taken:
        part = connection.recv(65536)
        if not part:
            return None
        taken += part
    head, _, body = taken.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines}
    while len(body) < int(headers.get("content-length", "0")):
        body += connection.recv(65536)
    return method, target, headers, json.loads(body) if body else None


def http(status: int, said: object) -> Behave:
    """An HTTP answer with this JSON."""
    return half(http_bytes(status, json.dumps(said).encode()))


def http_bytes(status: int, body: bytes) -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
