"""The client of a command or a thread: light, and with one deadline."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nodeagent.errors import Unavailable
from nodeagent.web.blocking import NotConnected, at_url

HEAD = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def server(raw: bytes, byte: bytes = b"") -> Iterator[str]:
    """The URL of a server that says this to one request, and then the byte until nobody reads."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(raw)
                while byte and not over.wait(0.01):
                    connection.sendall(byte)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


def test_a_drip_is_cut_off_at_the_one_deadline() -> None:
    raw = HEAD + b"Content-Length: 999999\r\n\r\n"
    with server(raw, b"x") as url, pytest.raises(Unavailable) as caught:
        at_url(url).request("GET", "/", 0.3)
    assert str(caught.value) == f"{url}: no complete answer within 0.3 s"
    assert not isinstance(caught.value, NotConnected)


def test_an_answer_with_its_headers_is_returned() -> None:
    with server(HEAD + b"Retry-After: 7\r\nContent-Length: 2\r\n\r\nok") as url:
        answer = at_url(url).request("GET", "/", 5.0)
    assert (answer.status, answer.body, answer.retry_after) == (200, b"ok", "7")


def test_nobody_there_is_absent() -> None:
    with pytest.raises(
        NotConnected, match=r"^http://127\.0\.0\.1:1: Connection refused$"
    ) as caught:
        at_url("http://127.0.0.1:1").request("GET", "/", 5.0)
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)
