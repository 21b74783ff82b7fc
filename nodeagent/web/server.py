"""An HTTP server on the event loop and h11 that only adds limits and deadlines.

It serves one request a connection, then closes it: no pipelining, no smuggling, no authorisation
that outlives a request. At the limit a newcomer takes the place of the connection that has waited
longest without a complete request, or of the slowest reader.
"""

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import TypeAlias

import h11

from nodeagent.protocol.canonical import printable
from nodeagent.web.exchange import Answer, Handler, Request, Response
from nodeagent.web.listener import Listener
from nodeagent.web.places import IsFirst, Places, network_of
from nodeagent.web.refusal import Limits, fault_of, length_of, read, refusal_of, waits_to_continue
from nodeagent.web.stream import Stream
from nodeagent.web.tls import Session

log = logging.getLogger(__name__)
_LINGER = 1.0  # seconds for a refused sender to read our answer
_SWEEP = 0.25
_SMALL = 16 * 1024  # bytes of an answer that is sent in one piece with its head
_PIECE = 32 * 1024  # bytes encrypted at a time, and kept for each reader
_END = b"\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


# Of a request without TLS and its https address: the refusal, or None to answer it.
Clear: TypeAlias = Callable[[Request, str], Response | None]
_CLIENT_HELLO = 0x16  # the first byte of TLS (RFC 8446, 5.1); no HTTP request begins so


class Server:
    """Serves one handler on some addresses, or one unix socket, until closed.

    Peers for which `is_first` says so are served first when it is flooded.

    With TLS and `clear` the first byte of a connection decides: TLS, or a plain request that
    `clear` has let pass before its body is read.
    """

    def __init__(
        self, handler: Handler, limits: Limits | None = None, is_first: IsFirst | None = None
    ) -> None:
        self.handler = handler
        self.limits = limits or Limits()
        self.answered: Counter[int] = Counter()
        self._is_first = is_first
        self.tls: ssl.SSLContext | None = None
        self.clear: Clear | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        self._places: Places[_Connection] = Places(self.limits, is_first)
        self._sweeper: asyncio.TimerHandle | None = None
        self._listeners: list[Listener] = []

    @property
    def connections(self) -> int:
        """The number of open connections, those in a TLS handshake among them."""
        return len(self._places)

    @property
    def shed(self) -> int:
        """The number of connections that had to make room, those turned away among them."""
        return self._places.shed + sum(listener.turned_away for listener in self._listeners)

    async def start(
        self,
        address: str,
        port: int,
        tls: ssl.SSLContext | None = None,
        *,
        clear: Clear | None = None,
        early: bool = False,
    ) -> int:
        """Listen, perhaps at one more address; return the port.

        OSError if the port is taken, or the address is not ours; with `early` it may be later.
        """
        self.tls, self.clear = tls, clear
        return self._new_listener().listen(address, port, early=early)

    async def start_unix(self, path: str, mode: int) -> None:
        """Listen at a path for the users that the mode lets connect; `Request.peer` names them.

        OSError if somebody listens there already; it replaces a dead server's socket.
        """
        self._new_listener().listen_unix(path, mode)

    async def close(self) -> None:
        """Stop listening; let running answers finish within a second."""
        for listener in self._listeners:
            listener.close()
        for _ in range(50):
            if not self._places:
                break
            await asyncio.sleep(0.02)
        for connection in self._places.open:
            connection.abort()
        if self._sweeper:
            self._sweeper.cancel()

    def _new_listener(self) -> Listener:
        listener = Listener(self._begin, self._is_first)
        self._listeners.append(listener)
        return listener

    def _begin(self, sock: socket.socket, peer: str) -> None:
        _Connection(self, asyncio.get_running_loop(), sock, peer).start()

    # The connections call the following.

    def admit(self, connection: "_Connection") -> None:
        self._places.add(connection, connection.since)
        if self._sweeper is None:
            self._sweeper = connection.loop.call_later(_SWEEP, self._sweep, connection.loop)

    def leave(self, connection: "_Connection") -> None:
        self._places.remove(connection)

    def wait_for(self, connection: "_Connection") -> None:
        """Add a connection that has not taken its whole answer yet."""
        self._places.begin_reading(connection, connection.loop.time())

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Apply the deadlines, as long as there are connections."""
        self._sweeper = None
        if not self._places:
            return
        now = loop.time()
        self._places.drop_slow_readers(now)
        for connection in self._places.open:
            age = now - connection.since
            if age < self.limits.request_seconds:
                break
            if not connection.complete:
                connection.refuse(408, "the request took too long")
            elif age > self.limits.total_seconds:
                connection.abort()
        self._sweeper = loop.call_later(_SWEEP, self._sweep, loop)


class _Connection:
    """One connection: collects one request, has it answered, closes."""

    def __init__(
        self, server: Server, loop: asyncio.AbstractEventLoop, sock: socket.socket, peer: str
    ) -> None:
        self.complete = False
        self.refused = False
        self.peer = peer
        self.network = network_of(peer)
        self.answer = b""
        self.since = loop.time()
        self.loop = loop
        self._server = server
        self._stream = Stream(loop, sock, self._received, self._lost)
        self._undecided = server.tls is not None and server.clear is not None
        self._clear = ""  # its https address, if it speaks without TLS where others use it
        self._tls = Session(server.tls) if server.tls and not self._undecided else None
        self._task: asyncio.Task[None] | None = None
        self._request: h11.Request | None = None
        self._head = b""
        self._body = b""
        self._length = 0  # of the body

    @property
    def taken(self) -> int:
        """Return how many bytes of a large answer were taken."""
        return self._stream.taken

    @property
    def only_looks(self) -> bool:
        """Tell whether its request changes nothing."""
        return self._request is not None and self._request.method in (b"GET", b"HEAD")

    def start(self) -> None:
        self._server.admit(self)
        self._stream.start()

    def abort(self) -> None:
        if self._task is not None and self.only_looks:
            self._task.cancel()  # nobody waits for it
        self._stream.abort()

    def _lost(self) -> None:
        self._server.leave(self)

    def _received(self, data: bytes) -> None:
        if not data:
            if not self.complete or self.refused:
                self.abort()  # else our side stays open for the coming answer
            return
        if self.complete:
            return  # one request a connection; the rest is dropped
        if self._undecided:
            self._decide(data[0])
        if self._tls is not None:
            try:
                data = b"".join(self._tls.receive(data))
            except ssl.SSLError:
                self._flush(self._tls)  # the alert
                self._stream.close()
                return
            self._flush(self._tls)
            if not data:
                return
        if self._request is None:
            self._collect_head(data)
        else:
            self._collect_body(data)

    def _decide(self, first: int) -> None:
        self._undecided = False
        if first == _CLIENT_HELLO and self._server.tls is not None:
            self._tls = Session(self._server.tls)
            return
        host, port = self._stream.here
        self._clear = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    def _collect_head(self, data: bytes) -> None:
        """Wait for the whole head, check its bytes, then let h11 read it."""
        start = max(0, len(self._head) - len(_END) + 1)
        self._head = head = self._head + data if self._head else data
        end = head.find(_END, start)
        if end > self._server.limits.head_bytes or (
            end < 0 and len(head) > self._server.limits.head_bytes
        ):
            self.refuse(431, "the head of the request is too large")
        elif fault := fault_of(head[: end + 2] if end >= 0 else head.removesuffix(b"\r")):
            self.refuse(400, fault)
        elif end >= 0:
            self._head = b""
            self._begin(head[: end + len(_END)], head[end + len(_END) :])

    def _begin(self, head: bytes, rest: bytes) -> None:
        """Read a whole head; the body begins with the rest."""
        try:
            self._request = request = read(head)
        except h11.RemoteProtocolError as error:
            # 405 and the like do not come from here; h11 hints at 400 or 431.
            self.refuse(error.error_status_hint, "not an acceptable HTTP request")
            return
        if refused := self._refused_in_clear():
            self._refuse(refused)
        elif refusal := refusal_of(request, self._server.limits):
            self.refuse(*refusal)
        else:
            self._length = length_of(request)
            if self._length and waits_to_continue(request):
                self._write(_CONTINUE, last=False)
            self._collect_body(rest)

    def _refused_in_clear(self) -> Response | None:
        """Refuse a request without TLS before its body is read, if it needs TLS."""
        if not self._clear or self._server.clear is None:
            return None
        try:
            return self._server.clear(self._as_value(), self._clear)
        except Exception:
            return _broken(self._as_value())

    def _as_value(self) -> Request:
        assert self._request is not None
        return Request(
            method=self._request.method.decode("ascii"),
            target=self._request.target.decode("ascii"),
            headers={k.decode("ascii"): v.decode("latin-1") for k, v in self._request.headers},
            body=self._body,
            peer=self.peer,
            secure=self._tls is not None,
        )

    def _collect_body(self, data: bytes) -> None:
        self._body += data[: self._length - len(self._body)]  # the rest is dropped
        if len(self._body) == self._length:
            self._answer()

    def _answer(self) -> None:
        self.complete = True
        request = self._as_value()
        try:
            answer: Answer = self._server.handler(request)
        except Exception:
            answer = _broken(request)
        if isinstance(answer, Response):
            self._send(answer)
        else:
            task = self._task = self.loop.create_task(self._later(request, answer))
            self._server.tasks.add(task)  # the loop itself would not keep it alive
            task.add_done_callback(self._server.tasks.discard)
            if isinstance(answer, Coroutine):  # Python complains of one that never started
                task.add_done_callback(lambda _: answer.close())

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
        head, body = response.head(), b"" if head_only else response.body
        if len(body) <= _SMALL:
            self._write(head + body)
        else:
            self.answer = body
            self._stream.pour(
                _encrypted(self._tls, head, body) if self._tls else _plain(head, body)
            )
            if self._stream.busy:
                self._server.wait_for(self)
        self._stream.close()

    def refuse(self, status: int, why: str) -> None:
        """Answer an unacceptable request, and give the sender a moment to read it.

        Closing at once, with its data still unread, would reset the connection and the
        answer would be lost.
        """
        hint = f"; this port speaks HTTPS: use {self._clear}" if self._clear else ""
        self._refuse(Response.error(status, f"{why}{hint}"))

    def _refuse(self, response: Response) -> None:
        self.complete = self.refused = True
        self._server.answered[response.status] += 1
        self._write(response.head() + response.body)
        self._stream.shut()
        self.loop.call_later(_LINGER, self.abort)

    def _write(self, plain: bytes, *, last: bool = True) -> None:
        if self._undecided:
            return  # it has said nothing, and may be waiting to speak TLS
        if self._tls is None:
            self._stream.write(plain)
        elif self._tls.ready:
            self._tls.send(plain, last=last)
            self._flush(self._tls)

    def _flush(self, tls: Session) -> None:
        if tls.outgoing.pending:
            self._stream.write(tls.outgoing.read())


def _plain(head: bytes, body: bytes) -> Iterator[bytes | memoryview]:
    yield head
    yield memoryview(body)


def _encrypted(tls: Session, head: bytes, body: bytes) -> Iterator[bytes]:
    """Encrypt a piece when it is needed: connections cannot share encrypted bytes."""
    tls.send(head, last=False)
    view = memoryview(body)
    for start in range(0, len(body), _PIECE):
        tls.send(view[start : start + _PIECE], last=start + _PIECE >= len(body))
        yield tls.outgoing.read()


def _broken(request: Request) -> Response:
    log.exception("request-failed target=%s", printable(request.target))
    return Response.error(500, "internal error; see the log")
