"""The client of a command or a thread: light, and with one deadline."""

import socket
from functools import partial
from threading import Event

import pytest

from nodeagent.errors import Unavailable
from nodeagent.web.blocking import NotConnected, at_url
from tests.agent.listening import listener

HEAD = b"HTTP/1.1 200 OK\r\n"


def say(raw: bytes, connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(raw)


def drip(connection: socket.socket) -> None:
    """Begin a long answer, and send byte after byte until nobody reads."""
    say(HEAD + b"Content-Length: 999999\r\n\r\n", connection)
    while not Event().wait(0.01):
        connection.sendall(b"x")


def test_a_drip_is_cut_off_at_the_one_deadline() -> None:
    with listener(drip) as port, pytest.raises(Unavailable) as caught:
        at_url(f"http://127.0.0.1:{port}").request("GET", "/", 0.3)
    assert str(caught.value) == f"http://127.0.0.1:{port}: no complete answer within 0.3 s"
    assert not isinstance(caught.value, NotConnected)


def test_an_answer_with_its_headers_is_returned() -> None:
    raw = HEAD + b"Retry-After: 7\r\nContent-Length: 2\r\n\r\nok"
    with listener(partial(say, raw)) as port:
        answer = at_url(f"http://127.0.0.1:{port}").request("GET", "/", 5.0)
    assert (answer.status, answer.body, answer.retry_after) == (200, b"ok", "7")


def test_nobody_there_is_absent() -> None:
    with pytest.raises(
        NotConnected, match=r"^http://127\.0\.0\.1:1: Connection refused$"
    ) as caught:
        at_url("http://127.0.0.1:1").request("GET", "/", 5.0)
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)
