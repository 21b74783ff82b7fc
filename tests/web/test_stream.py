"""Connections go when they are over, not when garbage is collected."""

import asyncio
import gc
import socket

import pytest

from nodeagent.web import selfsigned
from nodeagent.web.exchange import Request, Response
from nodeagent.web.server import Server
from nodeagent.web.tls import server_tls, untrusting_tls

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def later(_: Request) -> Response:
    await asyncio.sleep(0)
    return Response.text("ok\n")


def talk(port: int, *, tls: bool) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 5) as plain:
        with untrusting_tls().wrap_socket(plain) if tls else plain as connection:
            connection.sendall(REQUEST)
            return connection.recv(4096)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("slow", [False, True], ids=["at once", "later"])
def test_nothing_of_a_connection_is_left(tls: bool, slow: bool) -> None:
    """A front that answers a thousand a second would stop and collect in the middle of one."""

    async def some() -> int:
        server = Server(later if slow else lambda _: Response.text("ok\n"))
        context = server_tls(selfsigned.make()) if tls else None
        port = await server.start("127.0.0.1", 0, context)

        async def one() -> None:
            answer = await asyncio.to_thread(talk, port, tls=tls)
            assert answer.startswith(b"HTTP/1.1 ")

        await one()  # what is made on first use
        gc.collect()
        for _ in range(5):
            await one()
        for _ in range(100):
            if not server.connections:
                break
            await asyncio.sleep(0.02)
        left = sum(type(thing).__name__ == "_Connection" for thing in gc.get_objects())
        await server.close()
        return left

    was = gc.isenabled()
    gc.disable()
    try:
        assert asyncio.run(some()) == 0
    finally:
        if was:
            gc.enable()
