"""The client against servers that mean it no good (C01-C05): one deadline, bounded, no detours."""

import asyncio
import errno
import socket
import struct
from collections.abc import Awaitable, Callable

import pytest

from nodeagent.errors import Unavailable
from nodeagent.model.evidence import Contact
from nodeagent.web import client
from nodeagent.web.client import NoAnswer, fetch
from nodeagent.web.tls import untrusting_tls
from nodeagent.web.transaction import Answered
from tests.patience import dawdle

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def fetched(serve: Serve, *, seconds: float = 60.0) -> Answered:
    """Fetch once from a server that does as told."""

    async def main() -> Answered:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            try:
                await serve(reader, writer)
            except ConnectionError:
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            return await fetch("127.0.0.1", port, "/x", seconds=seconds, most=10_000)
        finally:
            server.close()

    return asyncio.run(main())


def saying(raw: bytes) -> Serve:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()

    return serve


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(HEAD + b"Content-Length: 5\r\n\r\nhello", id="length"),
        pytest.param(
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", id="chunks"
        ),
        pytest.param(HEAD + b"\r\nhello", id="until the end"),
        pytest.param(HEAD + b"Content-Type: text/html\r\n\r\nhello", id="C05 other type"),
        pytest.param(b"HTTP/1.1 103 Early\r\n\r\n" * 3 + HEAD + b"\r\nhello", id="interim"),
    ],
)
def test_good_answers(raw: bytes) -> None:
    assert fetched(saying(raw)) == Answered(200, b"hello", "")


BAD = {
    "nothing": b"",
    "no HTTP": b"SSH-2.0-OpenSSH\r\n",
    "cut short": HEAD + b"Content-Length: 50\r\n\r\nhello",
    "cut in the head": HEAD + b"Content-Le",
    "C02 larger than allowed": HEAD + b"\r\n" + b"x" * 20_000,
    "C02 larger than allowed, said before": HEAD + b"Content-Length: 20000\r\n\r\n" + b"x" * 20_000,
    "too many pieces": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 2000,
    "C05 chunk size overflow": HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
    "C05 negative length": HEAD + b"Content-Length: -5\r\n\r\nhello",
    "C05 1,000 interim answers": b"HTTP/1.1 100 Continue\r\n\r\n" * 1000 + HEAD + b"\r\nhello",
    "C05 64 KB of headers": HEAD + b"X: 1\r\n" * 11_000 + b"\r\nhello",
}


@pytest.mark.parametrize("raw", BAD.values(), ids=BAD.keys())
def test_bad_answers_are_unavailable_with_one_line(raw: bytes) -> None:
    with pytest.raises(Unavailable) as error:
        fetched(saying(raw))
    assert str(error.value).isprintable()


def test_c01_a_drip_is_cut_off_at_the_one_deadline() -> None:
    """A client that waits anew for each byte would never come back."""

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 9999\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    with pytest.raises(Unavailable, match=r"within 0\.4 s"):
        fetched(drip, seconds=0.4)


def test_a_deadline_beside_a_cancellation_is_no_error() -> None:
    """A machine that has slept finds the caller's deadline and ours over in one moment."""
    errors: list[object] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        with socket.create_server(("127.0.0.1", 0)) as hung:
            port = hung.getsockname()[1]
            asked = asyncio.create_task(fetch("127.0.0.1", port, "/x", seconds=0.1))
            loop.call_later(0.05, asked.cancel)
            await asyncio.sleep(0)
            dawdle(0.2)
            with pytest.raises(asyncio.CancelledError):
                await asked

    asyncio.run(main())
    assert errors == []


def test_c03_a_redirect_is_an_answer_and_is_not_followed() -> None:
    answer = fetched(saying(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n"))
    assert answer.status == 302


def test_c04_what_is_packed_stays_packed() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08")

    assert fetched(serve).body == b"\x1f\x8b\x08"


def test_c06_no_name_is_looked_up() -> None:
    async def main() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable, match="not a numeric address"):
            await fetch("localhost", port, "/", seconds=2)
        server.close()

    asyncio.run(main())


def contact_of(port: int, *, tls: bool = False) -> Contact:
    """The contact of one question that gets no complete answer."""
    terms = untrusting_tls() if tls else None
    with pytest.raises(NoAnswer) as caught:
        asyncio.run(fetch("127.0.0.1", port, "/", seconds=0.5, tls=terms))
    return caught.value.contact


@pytest.mark.parametrize("tls", [False, True])
def test_a_hung_program_s_kernel_connects_until_its_queue_is_full(*, tls: bool) -> None:
    """Nobody accepts, as where all programs hang; later not even the kernel answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as hung:
        found = [contact_of(hung.getsockname()[1], tls=tls) for _ in range(4)]
    assert found[0] is Contact.CONNECTS
    assert found[-1] is Contact.SILENT


async def resets(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@pytest.mark.parametrize(
    ("serve", "contact"),
    [
        pytest.param(saying(b""), Contact.REFUSED, id="closed at once"),
        pytest.param(resets, Contact.REFUSED, id="reset at once"),
        pytest.param(saying(b"HTTP/1.1 200 O"), Contact.ANSWERS, id="half a line"),
    ],
)
def test_how_far_a_question_came_is_told(serve: Serve, contact: Contact) -> None:
    with pytest.raises(NoAnswer) as caught:
        fetched(serve)
    assert caught.value.contact is contact


def test_a_closed_port_refuses() -> None:
    assert contact_of(1) is Contact.REFUSED


def test_what_fails_on_our_own_side_says_nothing_of_the_other() -> None:
    """A dead node is judged by these: who has no route to it knows nothing of it."""
    for code, contact in (
        (errno.ECONNREFUSED, Contact.REFUSED),
        (errno.ECONNRESET, Contact.REFUSED),
        (errno.ETIMEDOUT, Contact.SILENT),
        (errno.EHOSTUNREACH, Contact.SILENT),
        (errno.ENETUNREACH, Contact.UNKNOWN),
        (errno.EACCES, Contact.UNKNOWN),
        (errno.EADDRNOTAVAIL, Contact.UNKNOWN),
    ):
        assert client._contact(code) is contact, errno.errorcode[code]
