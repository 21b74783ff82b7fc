"""An HTTP server on the event loop and h11 that only adds limits and deadlines.

One request a connection, then it is closed: no pipelining, no smuggling, no authorisation
that outlives a request. Whoever is slow loses: when the house is full, the connection that
has waited longest without a complete request makes room for the newcomer.
"""

import asyncio
import logging
import re
import socket
import ssl
from collections import Counter
from dataclasses import dataclass

import h11

from nodeagent.protocol.canonical import printable
from nodeagent.web.exchange import Answer, Handler, Request, Response
from nodeagent.web.stream import Stream
from nodeagent.web.tls import Session

log = logging.getLogger(__name__)
_LINGER = 1.0  # seconds in which a refused sender may read our answer
_SWEEP = 0.25
_AT_ONCE = 64  # newcomers let in before those who are in are heard again
_PAUSE = 0.5  # seconds without letting anybody in, when the system has no room
_END = b"\r\n\r\n"
# h11 unites equal lengths ("5, 5", or the header twice); another parser may not.
_LENGTH = re.compile(rb"\r\ncontent-length[ \t]*:([^\r]*)(?=\r)", re.IGNORECASE)
_WHOLE = re.compile(rb"[ \t]*[0-9]{1,9}[ \t]*")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may cost. Times in seconds, counted from the connection's start."""

    head_bytes: int = 8 * 1024
    target_bytes: int = 2 * 1024
    headers: int = 32
    body_bytes: int = 256 * 1024
    request_seconds: float = 5.0
    total_seconds: float = 20.0
    connections: int = 512
    per_peer: int = 128


class Server:
    """Serves one handler on one address until closed."""

    def __init__(self, handler: Handler, limits: Limits | None = None) -> None:
        self.handler = handler
        self.limits = limits or Limits()
        self.answered: Counter[int] = Counter()
        self.shed = 0
        self.tls: ssl.SSLContext | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        self._open: dict[_Connection, None] = {}  # in order of arrival
        self._peers: Counter[str] = Counter()
        self._sweeper: asyncio.TimerHandle | None = None
        self._listener: socket.socket | None = None

    @property
    def connections(self) -> int:
        """How many connections are open now, those in a TLS handshake among them."""
        return len(self._open)

    async def start(self, address: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen; return the port. OSError if the address is not ours or the port is taken."""
        loop = asyncio.get_running_loop()
        self.tls = tls
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, port), family=family, backlog=1024)
        self._listener.setblocking(False)
        loop.add_reader(self._listener.fileno(), self._accept, loop, self._listener)
        return int(self._listener.getsockname()[1])

    async def close(self) -> None:
        """Stop listening; let answers under way finish within a second."""
        if self._listener:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
        for _ in range(50):
            if not self._open:
                break
            await asyncio.sleep(0.02)
        for connection in list(self._open):
            connection.abort()
        if self._sweeper:
            self._sweeper.cancel()

    def _accept(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # out of descriptors or memory: those who wait, wait
                log.error("cannot-accept why=%r", str(error))  # noqa: TRY400
                loop.remove_reader(listener.fileno())
                loop.call_later(_PAUSE, self._accept_again, loop, listener)
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _Connection(self, loop, sock, str(address[0])).start()

    def _accept_again(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
        if listener.fileno() >= 0:
            loop.add_reader(listener.fileno(), self._accept, loop, listener)

    # What follows is called by the connections.

    def admit(self, connection: "_Connection") -> None:
        self._open[connection] = None
        self._peers[connection.peer] += 1
        if len(self._open) > self.limits.connections:
            self._shed(list(self._open))
        elif self._peers[connection.peer] > self.limits.per_peer:
            self._shed([c for c in self._open if c.peer == connection.peer])
        if self._sweeper is None:
            self._sweeper = connection.loop.call_later(_SWEEP, self._sweep)

    def leave(self, connection: "_Connection") -> None:
        if self._open.pop(connection, 0) is None:
            self._peers[connection.peer] -= 1
            if not self._peers[connection.peer]:
                del self._peers[connection.peer]

    def _shed(self, crowd: list["_Connection"]) -> None:
        """Who has had a refusal goes first, then who has waited longest without a request."""
        refused = (c for c in crowd if c.refused)
        waiting = (c for c in crowd if not c.complete)
        victim = next(refused, None) or next(waiting)  # the newcomer waits, at the least
        self.shed += 1
        victim.abort()

    def _sweep(self) -> None:
        self._sweeper = None
        if not self._open:
            return
        loop = next(iter(self._open)).loop
        now = loop.time()
        for connection in list(self._open):
            age = now - connection.since
            if age < self.limits.request_seconds:
                break
            if not connection.complete:
                connection.refuse(408, "the request took too long")
            elif age > self.limits.total_seconds:
                connection.abort()
        self._sweeper = loop.call_later(_SWEEP, self._sweep)


class _Connection:
    """One connection: collects one request, has it answered, goes."""

    __slots__ = (
        "_body",
        "_head",
        "_http",
        "_request",
        "_server",
        "_stream",
        "_tls",
        "complete",
        "loop",
        "peer",
        "refused",
        "since",
    )

    def __init__(
        self, server: Server, loop: asyncio.AbstractEventLoop, sock: socket.socket, peer: str
    ) -> None:
        self.complete = False
        self.refused = False
        self.peer = peer
        self.since = loop.time()
        self.loop = loop
        self._server = server
        self._stream = Stream(loop, sock, self._received, self._lost)
        self._tls = Session(server.tls) if server.tls else None
        self._http: h11.Connection | None = None
        self._request: h11.Request | None = None
        self._head = b""
        self._body = b""

    def start(self) -> None:
        self._server.admit(self)
        self._stream.start()

    def abort(self) -> None:
        self._stream.abort()

    def _lost(self) -> None:
        self._server.leave(self)

    def _received(self, data: bytes) -> None:
        if not data:
            if not self.complete or self.refused:
                self.abort()  # else our side stays open for the answer that is on its way
            return
        if self.complete:
            return  # one request a connection; what follows it is thrown away
        if self._tls is not None:
            try:
                data = self._tls.receive(data)
            except ssl.SSLError:
                self._flush(self._tls)  # the alert
                self._stream.close()
                return
            self._flush(self._tls)
            if not data:
                return
        try:
            if self._http is None:
                self._collect_head(data)
            else:
                self._http.receive_data(data)
                self._collect_body(self._http)
        except h11.RemoteProtocolError as error:
            # 405 and the like do not come from here; h11 hints at 400 or 431.
            self.refuse(error.error_status_hint, "not an acceptable HTTP request")

    def _collect_head(self, data: bytes) -> None:
        """Wait for the whole head, look at its bytes, then let h11 read it."""
        start = max(0, len(self._head) - len(_END) + 1)
        self._head = head = self._head + data if self._head else data
        end = head.find(_END, start)
        if end > self._server.limits.head_bytes or (
            end < 0 and len(head) > self._server.limits.head_bytes
        ):
            self.refuse(431, "the head of the request is too large")
        elif fault := _fault(head[: end + 2] if end >= 0 else head.removesuffix(b"\r")):
            self.refuse(400, fault)
        elif end >= 0:
            self._http = http = h11.Connection(h11.SERVER)
            http.receive_data(head)
            self._head = b""
            event = http.next_event()
            assert isinstance(event, h11.Request)
            self._request = event
            if refusal := _refusal(event, self._server.limits):
                self.refuse(*refusal)
            elif b"content-length" in dict(event.headers):
                self._collect_body(http)
            else:
                self._answer()

    def _collect_body(self, http: h11.Connection) -> None:
        while not self.complete:
            event = http.next_event()
            if event is h11.NEED_DATA:
                return
            if isinstance(event, h11.Data):
                self._body += event.data  # never more than the Content-Length, which is bounded
            else:
                assert isinstance(event, h11.EndOfMessage)
                self._answer()

    def _answer(self) -> None:
        assert self._request is not None
        self.complete = True
        request = Request(
            method=self._request.method.decode("ascii"),
            target=self._request.target.decode("ascii"),
            headers={k.decode("ascii"): v.decode("latin-1") for k, v in self._request.headers},
            body=self._body,
            peer=self.peer,
        )
        self._http = None  # nothing more is read
        try:
            answer: Answer = self._server.handler(request)
        except Exception:
            answer = _broken(request)
        if isinstance(answer, Response):
            self._send(answer)
        else:
            task = self.loop.create_task(self._later(request, answer))
            self._server.tasks.add(task)  # the loop itself would not keep it alive
            task.add_done_callback(self._server.tasks.discard)

    async def _later(self, request: Request, answer: Answer) -> None:
        assert not isinstance(answer, Response)
        try:
            response = await answer
        except Exception:
            response = _broken(request)
        self._send(response)

    def _send(self, response: Response) -> None:
        self._server.answered[response.status] += 1
        head_only = self._request is not None and self._request.method == b"HEAD"
        self._write(response.encode(head_only=head_only))
        self._stream.close()

    def refuse(self, status: int, why: str) -> None:
        """Answer an unacceptable request, and give the sender a moment to read it.

        Closing at once, with its data still unread, would reset the connection and the
        answer would be lost.
        """
        self.complete = self.refused = True
        self._http = None
        self._server.answered[status] += 1
        self._write(Response.error(status, why).encode())
        self._stream.shut()
        self.loop.call_later(_LINGER, self.abort)

    def _write(self, plain: bytes) -> None:
        if self._tls is None:
            self._stream.write(plain)
        elif self._tls.ready:
            self._tls.send(plain)
            self._flush(self._tls)

    def _flush(self, tls: Session) -> None:
        if tls.outgoing.pending:
            self._stream.write(tls.outgoing.read())


def _broken(request: Request) -> Response:
    log.exception("request-failed target=%s", printable(request.target))
    return Response.error(500, "internal error; see the log")


def _fault(head: bytes) -> str | None:
    """What is wrong with the bytes of a head, be it complete or not, that h11 lets pass."""
    lines = head.count(b"\r\n")
    if head.count(b"\n") != lines or head.count(b"\r") != lines:
        return "a line does not end in CR LF"
    if b"\0" in head:
        return "a NUL character in the head"
    if b"\r\n " in head or b"\r\n\t" in head:
        return "a header is folded over lines"
    lengths = _LENGTH.findall(head)
    if len(lengths) > 1 or (lengths and not _WHOLE.fullmatch(lengths[0])):
        return "Content-Length is not one whole number"
    return None


def _refusal(request: h11.Request, limits: Limits) -> tuple[int, str] | None:
    """What our server asks beyond the protocol's own grammar."""
    headers = request.headers
    names = [name for name, _ in headers]
    if request.http_version not in (b"1.0", b"1.1"):
        return 400, "not HTTP/1.0 or HTTP/1.1"
    if len(request.target) > limits.target_bytes:
        return 414, "the target is too long"
    if not request.target.startswith(b"/"):
        return 400, "the target is not a path"
    if len(names) > limits.headers:
        return 431, "too many headers"
    if b"transfer-encoding" in names:
        return 501, "a body is accepted with Content-Length only"
    if names.count(b"host") > 1:
        return 400, "a header that stands once stands twice"
    if b"expect" in names or b"upgrade" in names:
        return 501, "neither Expect nor Upgrade is spoken here"
    if b"content-length" not in names:
        body = request.method in (b"POST", b"PUT", b"PATCH")
        return (411, "Content-Length is needed") if body else None
    length = int(next(v for k, v in headers if k == b"content-length"))
    if length > limits.body_bytes:
        return 413, "the body is too large"
    if request.method in (b"GET", b"HEAD") and length > 0:
        return 400, "a GET carries no body"
    return None
