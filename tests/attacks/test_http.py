"""H01-H11: hostile HTTP and TLS over real sockets, against the real front or the real server.

| id  | here, or why not |
|-----|------------------|
| H07 | no client certificates are asked for: who may order is decided by the signature on the
|     | order itself; every row of H07 is therefore an order in test_signatures.py (S13) |
"""

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from nodeagent.web import selfsigned
from nodeagent.web.exchange import Answer, Request, Response
from nodeagent.web.refusal import Limits
from nodeagent.web.server import Clear, Server
from nodeagent.web.tls import server_tls, untrusting_tls
from tests.patience import PATIENCE, dawdle, until
from tests.web.live import Agent, agent, read_all

HEALTHY = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
MIB = 2**20


@pytest.fixture(scope="module")
def live() -> Iterator[Agent]:
    """The whole agent, with its own limits."""
    with agent() as running:
        yield running


@pytest.fixture(scope="module")
def secure() -> Iterator[Agent]:
    with agent(tls=True) as running:
        yield running


@contextmanager
def serving(
    limits: Limits, tls: ssl.SSLContext | None = None, clear: Clear | None = None
) -> Iterator[tuple[Server, int]]:
    """The server alone, in a thread, with short deadlines."""
    loop = asyncio.new_event_loop()
    server = Server(_answer, limits)
    port = loop.run_until_complete(server.start("127.0.0.1", 0, tls, clear=clear))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server, port
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _answer(request: Request) -> Response:
    if request.target == "/broken":
        raise RuntimeError("a bug")
    return Response.text(f"{request.method} {request.target} {len(request.body)}")


def ask(port: int, raw: bytes, seconds: float = PATIENCE) -> bytes:
    with socket.create_connection(("127.0.0.1", port), seconds) as connection:
        connection.sendall(raw)
        return read_all(connection)


def connected(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE, (source, 0))


# H01: slow and many.


def drip(port: int, raw: bytes, pause: float) -> bytes:
    """Send byte by byte until the other side has had enough."""
    with connected(port) as connection:
        connection.setblocking(False)
        answer = b""
        for index in range(len(raw)):
            with suppress(OSError):
                connection.send(raw[index : index + 1])
            dawdle(pause)
            try:
                part = connection.recv(65536)
            except BlockingIOError:
                continue
            except ConnectionResetError:  # what came before is read: this one came too late
                break
            answer += part
            if not part:
                break
        return answer


SLOW = {
    "H01 header": b"GET / HTTP/1.1\r\nX: " + b"a" * 1000,
    "H01 body": b"POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\n" + b"a" * 999,
    "H01 empty lines": b"\r" * 1000,
}


@pytest.mark.parametrize("raw", SLOW.values(), ids=SLOW.keys())
def test_h01_slowloris_is_cut_off_at_the_deadline(raw: bytes) -> None:
    with serving(Limits(request_seconds=0.5)) as (server, port):
        answer = drip(port, raw, 0.02)
        assert answer.startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 400 "))
        assert server.answered.total() == 1


def test_h01_an_honest_but_slow_request_is_served_to_the_byte() -> None:
    raw = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab\ncd"
    with serving(Limits()) as (_, port):
        for pause in (0.0, 0.002):
            answer = drip(port, raw + b" " * 20, pause or 0.0005)
            assert answer.endswith(b"POST /a 5"), answer


def test_h01_a_reader_that_takes_nothing_is_cut_off() -> None:
    def large(_: Request) -> Response:
        return Response(200, b"x" * (64 * MIB))

    with serving(Limits(request_seconds=0.3, total_seconds=0.5)) as (server, port):
        server.handler = large
        with connected(port) as connection:
            connection.sendall(HEALTHY)
            until(lambda: server.answered and not server.connections)


# Large answers, and who asks for too much.


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_a_large_answer_arrives_whole(secure: bool) -> None:
    tls = server_tls(selfsigned.make()) if secure else None
    for size in (16 * 1024, 16 * 1024 + 1, 96 * 1024, 5_000_001):
        body = os.urandom(size)
        with serving(Limits(), tls) as (server, port), ExitStack() as stack:
            server.handler = lambda _, body=body: Response(200, body)  # type: ignore[misc]
            one = stack.enter_context(connected(port))
            one = stack.enter_context(untrusting_tls().wrap_socket(one)) if secure else one
            one.sendall(HEALTHY)
            assert read_all(one).partition(b"\r\n\r\n")[2] == body
            until(lambda server=server: not server.connections)  # type: ignore[misc]


def test_a_peer_that_asks_for_more_than_can_be_answered_makes_room_for_others() -> None:
    """Nor does a request that nobody waits for any more go on; a change does."""
    gate, ended = threading.Event(), list[str]()

    def handler(request: Request) -> Answer:
        return _answer(request) if request.target == "/healthz" else late(request)

    async def late(request: Request) -> Response:
        try:
            while not gate.is_set():
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            ended.append(request.method)
            raise
        return _answer(request)

    with serving(Limits(connections=10, total_seconds=60)) as (server, port), ExitStack() as stack:
        server.handler = handler
        change = b"POST /change HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
        crowd = []
        for raw in (*[HEALTHY.replace(b"healthz", b"late")] * 9, change):
            crowd.append(stack.enter_context(connected(port)))
            crowd[-1].sendall(raw)
        until(lambda: len(server.tasks) == 10)
        for n in range(2, 7):
            with socket.create_connection(
                ("127.0.0.1", port), PATIENCE, (f"127.0.0.{n}", 0)
            ) as other:
                other.sendall(HEALTHY)
                assert read_all(other).startswith(b"HTTP/1.1 200 ")
        until(lambda: ended == ["GET"])  # one place is enough
        with connected(port, "127.0.0.9") as other:
            until(lambda: server.connections == 10)
            for _ in range(5):  # the crowd comes on
                with connected(port) as more:
                    assert read_all(more) == b""
            other.sendall(HEALTHY)
            assert read_all(other).startswith(b"HTTP/1.1 200 "), "who has one place keeps it"
        gate.set()
        assert read_all(crowd[-1]).startswith(b"HTTP/1.1 200 ")


# H02: TLS handshakes that never end.


def test_h02_handshakes_are_counted_from_the_first_moment() -> None:
    with serving(Limits(connections=10), tls=server_tls(selfsigned.make())) as (server, port):
        with ExitStack() as stack:
            for _ in range(50):
                stack.enter_context(connected(port))
            with untrusting_tls().wrap_socket(
                socket.create_connection(("127.0.0.1", port))
            ) as good:
                good.sendall(HEALTHY)
                assert read_all(good).startswith(b"HTTP/1.1 200 ")
            assert server.connections <= 10
        assert server.shed >= 40


def test_h02_plain_http_on_the_tls_port_is_ended(secure: Agent) -> None:
    with socket.create_connection((secure.address, secure.port), PATIENCE) as plain:
        plain.sendall(HEALTHY)
        assert not read_all(plain).startswith(b"HTTP")
    assert secure.get("/healthz").status == 200


# H03, H04: grammar.

GOOD_TAIL = b"Host: x\r\n\r\n"
BAD = {
    "H03 line of 100 KB": (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + GOOD_TAIL, 431),
    "H03 target of 3 KB": (b"GET /" + b"a" * 3000 + b" HTTP/1.1\r\n" + GOOD_TAIL, 414),
    "H03 200 headers": (b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 200 + GOOD_TAIL, 431),
    "H03 33 headers": (b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 32 + GOOD_TAIL, 431),
    "H03 header of 9 KB": (b"GET / HTTP/1.1\r\nX: " + b"a" * 9000 + b"\r\n\r\n", 431),
    "H03 no Host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "H03 two Hosts": (b"GET / HTTP/1.1\r\nHost: a\r\n" + GOOD_TAIL, 400),
    "H03 HTTP/0.9": (b"GET /\r\n\r\n", 400),
    "H03 HTTP/2.0": (b"GET / HTTP/2.0\r\n" + GOOD_TAIL, 400),
    "H03 HTTP/1.2": (b"GET / HTTP/1.2\r\n" + GOOD_TAIL, 400),
    "H03 HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "H03 CL and TE": (
        b"POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n" + GOOD_TAIL,
        (400, 501),
    ),
    "H03 chunked": (
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + GOOD_TAIL + b"0\r\n\r\n",
        501,
    ),
    "H03 TE xchunked": (
        b"POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n" + GOOD_TAIL,
        (400, 501),
    ),
    "H03 TE twice": (
        b"POST / HTTP/1.1\r\nTransfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n" + GOOD_TAIL,
        (400, 501),
    ),
    "H03 two lengths": (
        b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n" + GOOD_TAIL,
        400,
    ),
    "H03 two equal lengths": (
        b"POST / HTTP/1.1\r\nContent-Length: 0\r\ncontent-length: 0\r\n" + GOOD_TAIL,
        400,
    ),
    "H03 lengths in one": (b"POST / HTTP/1.1\r\nContent-Length: 0, 0\r\n" + GOOD_TAIL, 400),
    "H03 negative length": (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n" + GOOD_TAIL, 400),
    "H03 plus length": (b"POST / HTTP/1.1\r\nContent-Length: +5\r\n" + GOOD_TAIL, 400),
    "H03 length in hex": (b"POST / HTTP/1.1\r\nContent-Length: 0x5\r\n" + GOOD_TAIL, 400),
    "H03 length with _": (b"POST / HTTP/1.1\r\nContent-Length: 1_0\r\n" + GOOD_TAIL, 400),
    "H03 empty length": (b"POST / HTTP/1.1\r\nContent-Length:\r\n" + GOOD_TAIL, 400),
    "H03 length of 5,000 digits": (
        b"POST / HTTP/1.1\r\nContent-Length: " + b"1" * 5000 + b"\r\n" + GOOD_TAIL,
        400,
    ),
    "H03 space before the colon": (b"GET / HTTP/1.1\r\nX : 1\r\n" + GOOD_TAIL, 400),
    "H03 folded header": (b"GET / HTTP/1.1\r\nX: 1\r\n  2\r\n" + GOOD_TAIL, 400),
    "H03 folded with a tab": (b"GET / HTTP/1.1\r\nX: 1\r\n\t2\r\n" + GOOD_TAIL, 400),
    "H03 bare LF": (b"GET / HTTP/1.1\nHost: x\n\n", 400),
    "H03 bare LF inside": (b"GET / HTTP/1.1\r\nX: 1\nY: 2\r\n" + GOOD_TAIL, 400),
    "H03 bare CR": (b"GET / HTTP/1.1\r\nX: 1\rY: 2\r\n" + GOOD_TAIL, 400),
    "H03 NUL": (b"GET / HTTP/1.1\r\nX: \0\r\n" + GOOD_TAIL, 400),
    "H03 NUL in the target": (b"GET /\0 HTTP/1.1\r\n" + GOOD_TAIL, 400),
    "H03 escape in the target": (b"GET /\x1b[2J HTTP/1.1\r\n" + GOOD_TAIL, 400),
    "H03 byte 255 in the target": (b"GET /\xff HTTP/1.1\r\n" + GOOD_TAIL, 400),
    "H03 empty line before": (b"\r\nGET / HTTP/1.1\r\n" + GOOD_TAIL, 400),
    "H03 only an empty line": (b"\r\n\r\n", 400),
    "H03 space before": (b" GET / HTTP/1.1\r\n" + GOOD_TAIL, 400),
    "H03 absolute form": (b"GET http://evil/ HTTP/1.1\r\n" + GOOD_TAIL, 400),
    "H03 authority form": (b"CONNECT evil:443 HTTP/1.1\r\n" + GOOD_TAIL, 400),
    "H03 asterisk": (b"OPTIONS * HTTP/1.1\r\n" + GOOD_TAIL, 400),
    "H03 //evil": (b"GET //evil/1 HTTP/1.1\r\n" + GOOD_TAIL, 404),
    "H03 %2f..": (b"GET /1%2f.. HTTP/1.1\r\n" + GOOD_TAIL, 404),
    "H03 /../": (b"GET /1/../metrics HTTP/1.1\r\n" + GOOD_TAIL, 404),
    "H03 %00": (b"GET /metrics%00 HTTP/1.1\r\n" + GOOD_TAIL, 400),
    "H03 %ff": (b"GET /%ff HTTP/1.1\r\n" + GOOD_TAIL, 404),
    "H03 unknown method": (b"BREW / HTTP/1.1\r\n" + GOOD_TAIL, 405),
    "H03 lower-case method": (b"get / HTTP/1.1\r\n" + GOOD_TAIL, 405),
    "H03 TRACE": (b"TRACE / HTTP/1.1\r\n" + GOOD_TAIL, 405),
    "H03 DELETE": (b"DELETE /1/report/all HTTP/1.1\r\n" + GOOD_TAIL, 405),
    "H03 Expect": (
        b"POST /1/order HTTP/1.1\r\nContent-Length: 1\r\nExpect: 200-ok\r\n" + GOOD_TAIL,
        417,
    ),
    "H03 Expect of too much": (
        b"POST /1/order HTTP/1.1\r\nContent-Length: 263168\r\nExpect: 100-continue\r\n" + GOOD_TAIL,
        413,
    ),
    "H03 Upgrade": (b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n" + GOOD_TAIL, 501),
    "H03 20 query parameters": (b"GET /1?" + b"a=1&" * 20 + b" HTTP/1.1\r\n" + GOOD_TAIL, 200),
    "H03 salts by the dozen": (
        b"GET /1/report/node/diagnose?" + b"salt=a&" * 12 + b" HTTP/1.1\r\n" + GOOD_TAIL,
        200,
    ),
    "H03 salt with a brace": (
        b"GET /1/report/node/diagnose?salt=%7B HTTP/1.1\r\n" + GOOD_TAIL,
        400,
    ),
    "H04 body on GET": (b"GET / HTTP/1.1\r\nContent-Length: 3\r\n" + GOOD_TAIL + b"abc", 400),
    "H04 POST without length": (b"POST /1/order HTTP/1.1\r\n" + GOOD_TAIL, 415),
    "H04 POST without length where none is taken": (b"POST /1 HTTP/1.1\r\n" + GOOD_TAIL, 405),
    "H04 PUT without length": (b"PUT /1/order HTTP/1.1\r\n" + GOOD_TAIL, 405),
    "H04 10 GB": (b"POST / HTTP/1.1\r\nContent-Length: 10000000000\r\n" + GOOD_TAIL, (400, 413)),
    "H04 257 KiB": (b"POST / HTTP/1.1\r\nContent-Length: 263168\r\n" + GOOD_TAIL, 413),
}


@pytest.mark.parametrize(("raw", "status"), BAD.values(), ids=BAD.keys())
def test_h03_h04_grammar(live: Agent, raw: bytes, status: int | tuple[int, ...]) -> None:
    answer = live.send(raw)
    assert answer.status in (status if isinstance(status, tuple) else (status,)), answer
    assert answer.text.count(b"HTTP/1.1 ") == 1


def test_h03_what_follows_a_request_is_never_a_second_one(live: Agent) -> None:
    for first in (
        HEALTHY,
        b"POST /1/order HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        b"POST /1/order HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /1/report/node/diagnose HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
    ):
        answer = live.send(first + b"GET /1/list/collectors HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.text.count(b"HTTP/1.1 ") <= 1
        assert b"cpu-avg-load" not in answer.text
        assert b"Connection: close" in answer.head or not answer.text


def test_h04_a_body_longer_than_it_said_is_cut_at_its_length() -> None:
    with serving(Limits()) as (_, port):
        raw = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nabcdefgh"
        assert ask(port, raw).endswith(b"POST /a 2")


def test_h04_a_body_in_pieces_is_cut_at_its_length() -> None:
    head = b"POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    with serving(Limits()) as (_, port), connected(port) as one:
        one.sendall(head + b"ab")
        assert one.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        one.sendall(b"cdefgh")
        assert read_all(one).endswith(b"POST /a 5")


def test_h04_a_body_that_ends_early_is_no_request() -> None:
    with serving(Limits(request_seconds=0.5)) as (server, port):
        raw = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\nabc"
        with connected(port) as peer:
            peer.sendall(raw)
            peer.shutdown(socket.SHUT_WR)
            assert read_all(peer) == b""
        assert not server.answered


# H05, H06, H10, H11.


@pytest.mark.parametrize("target", ["/", "/nothing", "/metrics", "/1/report/all", "/%ff"])
def test_h05_no_banner_and_careful_headers(live: Agent, target: str) -> None:
    head = live.get(target).head.lower()
    assert b"server:" not in head
    assert b"python" not in head
    for header in (b"x-content-type-options: nosniff", b"cache-control: no-store"):
        assert header in head
    for header in (b"set-cookie", b"access-control", b"location:"):
        assert header not in head


def test_h06_nothing_a_client_sends_reaches_the_log_raw(
    live: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    for line in (b"GET /\x1b]0;x HTTP/1.1", b"\x1b[2J\x07", b"GET /a%0d%0aroot:%1b HTTP/1.1"):
        live.send(line + b"\r\nHost: x\r\nUser-Agent: \x1b[31m\r\n\r\n")
    assert all(line.isprintable() for line in live.log("front").splitlines())
    with serving(Limits()) as (_, port):
        assert ask(port, b"GET /broken HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 500 ")
    assert "/broken" in caplog.text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_h08_old_tls_is_refused(secure: Agent, version: ssl.TLSVersion) -> None:
    context = untrusting_tls()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    plain = socket.create_connection((secure.address, secure.port), PATIENCE)
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        context.wrap_socket(plain)
    plain.close()


def test_h08_no_session_is_resumed_and_none_is_kept(secure: Agent) -> None:
    """What a connection was allowed to do ends with it; 1.3 knows no renegotiation at all."""
    context = untrusting_tls()
    session = None
    for _ in range(3):
        plain = socket.create_connection((secure.address, secure.port), PATIENCE)
        with context.wrap_socket(plain, session=session) as peer:
            assert peer.version() == "TLSv1.3"
            assert not peer.session_reused
            peer.sendall(HEALTHY)
            assert read_all(peer).startswith(b"HTTP/1.1 200 ")
            session = peer.session
            assert session is None or not session.has_ticket


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1"])
def test_h09_an_address_that_is_not_ours_stops_the_front(address: str) -> None:
    server = Server(_answer)
    with pytest.raises(OSError, match="assign"):
        asyncio.run(server.start(address, 0))


def test_h09_a_port_that_is_taken_stops_the_front(live: Agent) -> None:
    with pytest.raises(OSError, match="in use"):
        asyncio.run(Server(_answer).start(live.address, live.port))


def test_h10_forged_forwarding_headers_change_nothing() -> None:
    forged = b"".join(
        name + b": 127.0.0.99\r\n" for name in (b"X-Forwarded-For", b"Forwarded", b"X-Real-IP")
    )
    with serving(Limits(per_peer=3)) as (server, port), ExitStack() as stack:
        server.handler = lambda request: Response.text(request.peer)
        answer = ask(port, b"GET / HTTP/1.1\r\nHost: x\r\n" + forged + b"\r\n")
        assert answer.endswith(b"\r\n127.0.0.1")
        for _ in range(10):
            one = stack.enter_context(connected(port))
            one.sendall(b"GET / HTTP/1.1\r\n" + forged)
        until(lambda: server.connections <= 3 and server.shed >= 7)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_h11_what_a_browser_can_be_made_to_send_is_no_order(live: Agent, kind: str) -> None:
    assert live.post("/1/order", b"{}", kind).status == 415


# One port with TLS and without: the first byte decides.

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
BOTH = {
    "H10 no byte": (b"", b""),
    "H10 one byte of HTTP": (b"G", b"HTTP/1.1 408 "),
    "H10 one byte of TLS": (b"\x16", b""),
    "H10 TLS with garbage": (b"\x16\x03\x01\x00\x05garbage" + b"\xff" * 600, b"\x15\x03"),
    "H10 a head of 1 MB": (b"GET / HTTP/1.1\r\nX: " + b"a" * MIB, b"HTTP/1.1 431 "),
    "H10 a POST with a body": (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + b"a" * 200_000,
        b"HTTP/1.1 400 ",
    ),
    "H10 a POST that waits for 100": (
        b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
        b"HTTP/1.1 400 ",
    ),
    "H10 a chunked POST": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 400 ",
    ),
    "H10 HTTP/0.9": (b"GET /\r\n\r\n", b"HTTP/1.1 400 "),
    "H10 HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"HTTP/1.1 400 "),
    "H10 SSH": (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"HTTP/1.1 400 "),
    "H10 SSL 2": (b"\x80\x2e\x01\x03\x01" + b"\0" * 41 + b"\r\n\r\n", b"HTTP/1.1 400 "),
}


def _get_only(request: Request, url: str) -> Response | None:
    return None if request.method == "GET" else Response.error(400, f"use {url}")


@pytest.fixture(scope="module")
def tls() -> ssl.SSLContext:
    return server_tls(selfsigned.make())


@pytest.mark.parametrize(("raw", "start"), BOTH.values(), ids=BOTH.keys())
def test_h10_what_is_neither_costs_little_and_ends(
    tls: ssl.SSLContext, raw: bytes, start: bytes
) -> None:
    limits = Limits(request_seconds=0.5)
    with serving(limits, tls, _get_only) as (server, port), connected(port) as one:
        with suppress(ConnectionError):
            one.sendall(raw)
        answer = read_all(one)
        assert answer.startswith(start), answer
        assert bool(answer) is bool(start)
        if start.startswith(b"HTTP"):
            assert b"https://127.0.0.1:%d" % port in answer
            assert b"Content-Type: application/json\r\n" in answer
        until(lambda: server.connections == 0)
        assert ask(port, GET).startswith(b"HTTP/1.1 200 ")
        with untrusting_tls().wrap_socket(connected(port)) as good:
            good.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab")
            assert read_all(good).endswith(b"POST / 2")


def test_h10_the_bytes_of_tls_may_come_one_by_one(tls: ssl.SSLContext) -> None:
    with serving(Limits(), tls, _get_only) as (_, port), connected(port) as one:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = untrusting_tls().wrap_bio(incoming, outgoing)
        with suppress(ssl.SSLWantReadError):
            session.do_handshake()
        for byte in outgoing.read():
            one.sendall(bytes([byte]))
        incoming.write(one.recv(65536))
        with suppress(ssl.SSLWantReadError):
            session.do_handshake()
        assert session.version() == "TLSv1.3"
