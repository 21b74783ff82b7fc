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
