"""An HTTP client for one request with one deadline: no redirects, no DNS, bounded answers.

It owns its sockets, as the server does. asyncio's transports would double the cost, and its TLS
costs a quarter of a megabyte for each connection.
"""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import h11

from nodeagent.errors import Unavailable
from nodeagent.model.evidence import Contact
from nodeagent.protocol.canonical import printable
from nodeagent.web.stream import Stream
from nodeagent.web.tls import Session

MAX_BODY = 4 * 1024 * 1024  # a megabyte of diagnosis, each of its quotes escaped twice
_MAX_HEAD = 16 * 1024
_INTERIM = 8  # interim answers before the answer
_PIECES = 256  # of a body, besides one for every half kilobyte


@dataclass(frozen=True, slots=True)
class Answered:
    """A complete answer. `certificate` is the SHA-256 of the peer's, hex; empty without TLS.

    `retry_after` is that header, or empty.
    """

    status: int
    body: bytes
    certificate: str
    retry_after: str = ""


class NoAnswer(Unavailable):
    """No complete answer; `contact` tells how far the connection came.

    `sent` tells whether any of the request may have left us.
    """

    def __init__(self, why: str, contact: Contact, *, sent: bool = True) -> None:
        super().__init__(why)
        self.contact = contact
        self.sent = sent


class TooLarge(NoAnswer):
    """An answer of more bytes than the caller wanted."""


Done: TypeAlias = Callable[[Answered | Unavailable], None]


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms that all requests of a kind share; `most` bounds an answer's body.

    `host` is the server's name, its address where empty; `headers` go with our own.
    """

    port: int
    seconds: float
    tls: ssl.SSLContext | None = None
    most: int = MAX_BODY
    host: str = ""
    headers: Sequence[tuple[str, str]] = ()


async def fetch(
    address: str,
    port: int,
    target: str,
    *,
    seconds: float,
    method: str = "GET",
    body: bytes = b"",
    tls: ssl.SSLContext | None = None,
    most: int = MAX_BODY,
    host: str = "",
    headers: Sequence[tuple[str, str]] = (),
) -> Answered:
    """Make one request to a numeric address, or raise Unavailable with the reason.

    `seconds` bounds everything from the connection to the last byte, however slowly they
    come; `most` bounds the body. `host` is the server's name, if it has one.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Answered | Unavailable] = loop.create_future()
    terms = Terms(port, seconds, tls, most, host, headers)
    call = Call(loop, address, terms, target, method, body)

    def done(end: Answered | Unavailable) -> None:
        if not future.done():  # canceled a moment before, by a deadline of the caller's
            future.set_result(end)

    call.start(done)
    try:
        answer = await future
    finally:
        call.abort()
    if isinstance(answer, Unavailable):
        raise answer
    return answer


class Call:
    """One request. It calls `start`'s `done` once at its end, from the loop, never at once."""

    __slots__ = (
        "_address",
        "_body",
        "_certificate",
        "_connecting",
        "_contact",
        "_done",
        "_http",
        "_loop",
        "_pieces",
        "_request",
        "_retry_after",
        "_sent",
        "_status",
        "_stream",
        "_terms",
        "_timer",
        "_tls",
        "held",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: str,
        terms: Terms,
        target: str,
        method: str = "GET",
        body: bytes = b"",
    ) -> None:
        self._loop = loop
        self._address = address
        self._terms = terms
        self._request = (method, target, body)
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
        self._connecting: socket.socket | None = None
        self._contact = Contact.UNKNOWN
        self._stream: Stream | None = None
        self._tls: Session | None = None
        self._certificate = ""
        self._timer: asyncio.TimerHandle | None = None
        self._done: Done | None = None
        self._status = 0
        self._retry_after = ""
        self._sent = False
        self._body: list[bytes] = []
        self._pieces = 0  # of the body and before it
        self.held = 0  # bytes of the body so far

    def start(self, done: Done) -> None:
        """Connect, send, collect the answer; the deadline runs from now."""
        self._done = done
        self._timer = self._loop.call_later(self._terms.seconds, self._too_late)
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        try:
            socket.inet_pton(family, self._address)  # a name would be looked up
        except (OSError, ValueError):
            self._later(f"{printable(self._address)} is not a numeric address")
            return
        try:
            sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError as error:
            self._later(_text(error))
            return
        self._connecting = sock
        self._contact = Contact.SILENT
        code = sock.connect_ex((self._address, self._terms.port))
        if code in (0, errno.EINPROGRESS):
            self._loop.add_writer(sock.fileno(), self._connected)
        else:
            self._contact = _contact(code)
            self._later(_text(OSError(code, os.strerror(code))))

    def abort(self, why: str | None = None, kind: type[NoAnswer] = NoAnswer) -> None:
        """End now; the caller learns `why`, if there is a reason. A second call does nothing."""
        done, self._done = self._done, None
        contact = self._contact  # so far: to end the stream ourselves is no answer
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        sock, self._connecting = self._connecting, None
        if sock is not None:
            self._loop.remove_writer(sock.fileno())
            sock.close()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.abort()
        if done is not None and why is not None:
            done(kind(why, contact, sent=self._sent))

    def _later(self, why: str) -> None:
        self._loop.call_soon(self.abort, why)

    def _too_late(self) -> None:
        self.abort(f"no complete answer within {self._terms.seconds:g} s")

    def _connected(self) -> None:
        sock, self._connecting = self._connecting, None
        assert sock is not None
        self._loop.remove_writer(sock.fileno())
        if code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            sock.close()
            self._contact = _contact(code)
            self.abort(_text(OSError(code, os.strerror(code))))
            return
        self._contact = Contact.CONNECTS
        self._stream = stream = Stream(self._loop, sock, self._received, self._lost)
        if self._terms.tls is None:
            stream.write(self._raw_request())
        else:
            name = self._terms.host or self._address
            self._tls = Session(self._terms.tls, name)
            self._tls.receive()
            stream.write(self._tls.outgoing.read())
        stream.start()

    def _raw_request(self) -> bytes:
        method, target, body = self._request
        self._sent = True
        host = self._terms.host or self._address
        host = f"[{host}]" if ":" in host else host
        headers = [
            ("Host", f"{host}:{self._terms.port}"),
            ("Connection", "close"),
            ("Accept-Encoding", "identity"),
            *self._terms.headers,
        ]
        if body:
            length = str(len(body))
            headers += [("Content-Type", "application/json"), ("Content-Length", length)]
        http = self._http
        raw = http.send(h11.Request(method=method, target=target, headers=headers)) or b""
        if body:
            raw += http.send(h11.Data(data=body)) or b""
        return raw + (http.send(h11.EndOfMessage()) or b"")

    def _lost(self) -> None:
        if self._contact is Contact.CONNECTS:
            self._contact = Contact.REFUSED  # its kernel lives, and a program may not
        self.abort("the connection broke before the answer")

    def _received(self, data: bytes) -> None:
        stream = self._stream
        if stream is None:
            return
        if self._contact is Contact.CONNECTS:
            self._contact = Contact.ANSWERS if data else Contact.REFUSED
        try:
            if self._tls is None:
                self._http.receive_data(data)
            else:
                for plain in self._tls.receive(data):
                    self._http.receive_data(plain)
                if self._tls.ready and not self._certificate:
                    self._certificate = self._tls.fingerprint
                    self._tls.send(self._raw_request(), last=False)
                if self._tls.outgoing.pending:
                    stream.write(self._tls.outgoing.read())
            self._read_on()
        except h11.RemoteProtocolError as error:
            hung_up = self._http.trailing_data == (b"", True)
            why = f"not an HTTP answer: {str(error)[:200]}"
            self.abort("the connection was closed before the answer" if hung_up else why)
        except ssl.SSLError as error:
            self.abort(_text(error))

    def _read_on(self) -> None:
        """Handle the events that h11 has so far."""
        while self._done is not None:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                return
            if isinstance(event, h11.Data):
                self._take(bytes(event.data))
            elif isinstance(event, h11.Response):
                self._status = event.status_code
                self._pieces = 0
                heads = dict(event.headers)
                self._retry_after = heads.get(b"retry-after", b"").decode("latin-1")
                length = heads.get(b"content-length", b"0")
                if int(length) > self._terms.most:
                    self.abort(self._too_large(), TooLarge)
            elif isinstance(event, h11.InformationalResponse):
                self._pieces += 1
                if self._pieces > _INTERIM:
                    self.abort("too many interim answers")
            elif isinstance(event, h11.EndOfMessage):
                self._complete()
            else:
                self.abort("the connection was closed before the answer")

    def _take(self, piece: bytes) -> None:
        self._body.append(piece)
        self.held += len(piece)
        self._pieces += 1
        if self.held > self._terms.most:
            self.abort(self._too_large(), TooLarge)
        elif self._pieces > _PIECES + self.held // 512:
            self.abort("an answer in too many pieces")  # reading them would cost others' time

    def _too_large(self) -> str:
        return f"answer larger than {self._terms.most} bytes"

    def _complete(self) -> None:
        answer = Answered(self._status, b"".join(self._body), self._certificate, self._retry_after)
        done = self._done
        self.abort()
        assert done is not None
        done(answer)


def _contact(code: int) -> Contact:
    """The contact of a connection that failed with this errno."""
    if code == errno.ECONNREFUSED:
        return Contact.REFUSED
    return Contact.SILENT if code in (errno.ETIMEDOUT, errno.EHOSTUNREACH) else Contact.UNKNOWN


def _text(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: its certificate is not trusted: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or str(error)).replace('_', ' ').lower()}"
    return error.strerror or str(error) or type(error).__name__
