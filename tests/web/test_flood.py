"""Peers that come first are served while others flood the port."""

import asyncio
import socket
from collections.abc import Callable

from nodeagent.web.exchange import Response
from nodeagent.web.listener import _STRANGERS
from nodeagent.web.refusal import Limits
from nodeagent.web.server import Server

NODE = "127.0.0.9"
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def connect(port: int, source: str) -> socket.socket:
    """A connection of which the server has not heard yet."""
    return socket.create_connection(("127.0.0.1", port), 10, (source, 0))


async def answer(one: socket.socket) -> bytes:
    """What comes back; nothing after a reset."""
    loop = asyncio.get_running_loop()
    one.setblocking(False)
    try:
        await loop.sock_sendall(one, REQUEST)
        return await loop.sock_recv(one, 65536)
    except ConnectionError:
        return b""


def served(limits: Limits, many: int, *, first: bool) -> tuple[int, bytes, Server]:
    """So many strangers connect before the server has its turn, and then the node.

    Return how many of them are answered, the node's answer, and the server.
    """
    is_first: Callable[[str], bool] | None = (lambda peer: peer == NODE) if first else None
    server = Server(lambda _: Response.text("ok\n"), limits, is_first)

    async def run() -> tuple[int, bytes]:
        port = await server.start("127.0.0.1", 0)
        strangers = [connect(port, f"127.0.1.{n % 250 + 1}") for n in range(many)]
        node = connect(port, NODE)
        try:
            said = await answer(node)
            answers = await asyncio.gather(*map(answer, strangers))
        finally:
            for one in (node, *strangers):
                one.close()
            await server.close()
        return sum(text.startswith(b"HTTP/1.1 200 ") for text in answers), said

    answered, said = asyncio.run(run())
    return answered, said, server


def test_of_many_strangers_at_once_some_are_heard_and_the_node_is() -> None:
    answered, said, server = served(Limits(), 300, first=True)
    assert said.startswith(b"HTTP/1.1 200 ")
    assert answered == _STRANGERS
    assert server.shed == 300 - _STRANGERS


def test_where_nobody_comes_first_all_are_heard() -> None:
    answered, said, server = served(Limits(), 300, first=False)
    assert said.startswith(b"HTTP/1.1 200 ")
    assert (answered, server.shed) == (300, 0)


def test_idle_strangers_make_room_for_a_node_and_a_node_for_nobody() -> None:
    limits = Limits(connections=8, per_peer=8)
    server = Server(lambda _: Response.text("ok\n"), limits, lambda peer: peer == NODE)

    async def run() -> tuple[list[bytes], int]:
        port = await server.start("127.0.0.1", 0)
        nodes = [connect(port, NODE) for _ in range(4)]
        strangers = [connect(port, f"127.0.1.{n + 1}") for n in range(12)]
        while server.shed < 8:
            await asyncio.sleep(0)
        nodes += [connect(port, NODE) for _ in range(4)]
        while server.shed < 12:
            await asyncio.sleep(0)
        try:
            return await asyncio.gather(*map(answer, nodes)), server.connections
        finally:
            for one in (*nodes, *strangers):
                one.close()
            await server.close()

    answers, _ = asyncio.run(run())
    assert all(text.startswith(b"HTTP/1.1 200 ") for text in answers)
