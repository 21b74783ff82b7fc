"""An HTTP server on asyncio and h11 that only adds limits and deadlines.

One request a connection, then it is closed: no pipelining, no smuggling, no authorisation
that outlives a request. Whoever is slow loses: when the house is full, the connection that
has waited longest without a complete request makes room for the newcomer.
"""

import asyncio
import logging
import re
import ssl
from collections import Counter
from dataclasses import dataclass

import h11

from nodeagent.protocol.canonical import printable
from nodeagent.web.exchange import Answer, Handler, Request, Response

log = logging.getLogger(__name__)
_BARE = re.compile(rb"(?<!\r)\n|\r(?!\n)|\0")
_LINGER = 1.0  # seconds in which a refused sender may read our answer
_SWEEP = 0.25


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
        self._open: dict[_Connection, None] = {}  # in order of arrival
        self._peers: Counter[str] = Counter()
        self._sweeper: asyncio.TimerHandle | None = None
        self._listener: asyncio.Server | None = None

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return len(self._open)

    async def start(self, address: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen; return the port. OSError if the address is not ours or the port is taken."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: _Connection(self),
            address,
            port,
            ssl=tls,
            backlog=1024,
            ssl_handshake_timeout=self.limits.request_seconds if tls else None,
            ssl_shutdown_timeout=1.0 if tls else None,
        )
        port = self._listener.sockets[0].getsockname()[1]
        return int(port)

    async def close(self) -> None:
        """Stop listening; let answers under way finish within a second."""
        if self._listener:
            self._listener.close()
        for _ in range(50):
            if not self._open:
                break
            await asyncio.sleep(0.02)
        for connection in list(self._open):
            connection.abort()
        if self._sweeper:
            self._sweeper.cancel()

    # What follows is called by the connections.

    def admit(self, connection: "_Connection") -> None:
        self._open[connection] = None
        self._peers[connection.peer] += 1
        if len(self._open) > self.limits.connections:
            self._shed(None)
        elif self._peers[connection.peer] > self.limits.per_peer:
            self._shed(connection.peer)
        if self._sweeper is None:
            self._sweeper = connection.loop.call_later(_SWEEP, self._sweep)

    def leave(self, connection: "_Connection") -> None:
        if self._open.pop(connection, 0) is None:
            self._peers[connection.peer] -= 1
            if not self._peers[connection.peer]:
                del self._peers[connection.peer]

    def _shed(self, peer: str | None) -> None:
        crowd = (c for c in self._open if peer is None or c.peer == peer)
        victim = next((c for c in crowd if not c.complete), None)
        if victim is not None:
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


class _Connection(asyncio.Protocol):
    """One connection: collects one request, has it answered, goes."""

    def __init__(self, server: Server) -> None:
        self.complete = False
        self.peer = ""
        self.since = 0.0
        self.loop = asyncio.get_running_loop()
        self._server = server
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=server.limits.head_bytes)
        self._request: h11.Request | None = None
        self._body = b""
        self._seen = 0
        self._plain = True
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._plain = transport.can_write_eof()
        self.peer = str((transport.get_extra_info("peername") or ("",))[0])
        self.since = self.loop.time()
        self._server.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.leave(self)
        self._transport = None

    def abort(self) -> None:
        if self._transport is not None:
            self._server.leave(self)
            self._transport.abort()

    def eof_received(self) -> bool:
        # Keep our side open while an answer is on its way; TLS cannot.
        return self.complete and self._plain

    def data_received(self, data: bytes) -> None:
        if self.complete:
            return  # one request a connection; what follows it is thrown away
        limits = self._server.limits
        if self._request is None:
            self._seen += len(data)
            head = data.partition(b"\r\n\r\n")[0]
            if _BARE.search(head.removesuffix(b"\r")):
                self.refuse(400, "a line does not end in CR LF")
                return
            if self._seen > limits.head_bytes and b"\r\n\r\n" not in data:
                self.refuse(431, "the head of the request is too large")
                return
        try:
            self._http.receive_data(data)
            self._events()
        except h11.RemoteProtocolError as error:
            # 405 and the like do not come from here; h11 hints at 400 or 431.
            self.refuse(error.error_status_hint, "not an acceptable HTTP request")

    def _events(self) -> None:
        while not self.complete:
            event = self._http.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return
            if isinstance(event, h11.Request):
                self._request = event
                if refusal := _refusal(event, self._server.limits):
                    self.refuse(*refusal)
            elif isinstance(event, h11.Data):
                self._body += event.data
                if len(self._body) > self._server.limits.body_bytes:
                    self.refuse(413, "the body is too large")
            elif isinstance(event, h11.EndOfMessage):
                self._answer()
            else:  # the client closed before its request was complete
                self.abort()
                return

    def _answer(self) -> None:
        assert self._request is not None
        self.complete = True
        request = Request(
            method=self._request.method.decode("ascii"),
            target=self._request.target.decode("latin-1"),
            headers={k.decode("ascii"): v.decode("latin-1") for k, v in self._request.headers},
            body=self._body,
            peer=self.peer,
        )
        try:
            answer: Answer = self._server.handler(request)
        except Exception:
            answer = self._broken(request)
        if isinstance(answer, Response):
            self._send(answer)
        else:
            task = self.loop.create_task(self._later(request, answer))
            task.add_done_callback(lambda _: None)  # keeps a reference until it is done

    async def _later(self, request: Request, answer: Answer) -> None:
        assert not isinstance(answer, Response)
        try:
            response = await answer
        except Exception:
            response = self._broken(request)
        self._send(response)

    def _broken(self, request: Request) -> Response:
        log.exception("request-failed target=%s", printable(request.target))
        return Response.error(500, "internal error; see the log")

    def _send(self, response: Response) -> None:
        self._server.answered[response.status] += 1
        if self._transport is None:
            return
        head_only = self._request is not None and self._request.method == b"HEAD"
        self._transport.write(response.encode(head_only=head_only))
        self._transport.close()

    def refuse(self, status: int, why: str) -> None:
        """Answer an unacceptable request, and give the sender a moment to read it.

        Closing at once, with its data still unread, would reset the connection and the
        answer would be lost.
        """
        self.complete = True
        self._server.answered[status] += 1
        if self._transport is None:
            return
        self._transport.write(Response.error(status, why).encode())
        if self._transport.can_write_eof():
            self._transport.write_eof()
            self.loop.call_later(_LINGER, self.abort)
        else:
            self._transport.close()


def _refusal(request: h11.Request, limits: Limits) -> tuple[int, str] | None:
    """What our server asks beyond the protocol's own grammar."""
    names = [name for name, _ in request.headers]
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
    if names.count(b"content-length") > 1 or names.count(b"host") > 1:
        return 400, "a header that stands once stands twice"
    if b"expect" in names or b"upgrade" in names:
        return 501, "neither Expect nor Upgrade is spoken here"
    length = next((v for k, v in request.headers if k == b"content-length"), b"0")
    if int(length) > limits.body_bytes:
        return 413, "the body is too large"
    if request.method in (b"GET", b"HEAD") and int(length) > 0:
        return 400, "a GET carries no body"
    if request.method in (b"POST", b"PUT", b"PATCH") and b"content-length" not in names:
        return 411, "Content-Length is needed"
    return None
