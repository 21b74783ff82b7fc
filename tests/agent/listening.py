"""Servers that an agent is asked about, or asks: a listener, and a monitoring daemon."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

from nodeagent.web import selfsigned
from nodeagent.web.tls import server_tls

HERE = "127.0.0.1"


Serve = Callable[[socket.socket], None]


@contextmanager
def listener(serve: Serve | None = None, address: str = HERE) -> Iterator[int]:
    """A listening socket; without `serve` nobody ever accepts, as in a frozen node."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family, backlog=8) as server:

        def accept() -> None:
            try:
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.settimeout(5)
                        serve(connection)  # type: ignore[misc]
            except OSError:
                pass  # the test is over

        if serve is not None:
            Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def talk_tls(connection: socket.socket) -> None:
    with server_tls(selfsigned.make()).wrap_socket(connection, server_side=True) as tls:
        tls.recv(1)


DEVICES: list[dict[str, Any]] = [
    {
        "minor": 0,
        "connectionState": "Connected",
        "localRole": "Primary",
        "localState": "UpToDate",
        "instance": "web1",
    },
    {"minor": 1, "connectionState": "Unconfigured"},
    {"minor": 2, "connectionState": "WFConnection", "localState": "UpToDate", "instance": None},
]


def report(devices: object, code: object = 1) -> bytes:
    data = {"status": {"code": code, "message": ""}, "deviceInfos": devices}
    return json.dumps({"name": "drbd", "data": data}).encode()


def mond(body: bytes, status: int = 200) -> Serve:
    def serve(connection: socket.socket) -> None:
        assert b"GET /1/report/storage/drbd " in connection.recv(4096)
        head = f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)

    return serve
