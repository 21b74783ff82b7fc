"""One HTTP request and its answer, as bytes: a bounded answer, no redirects, no socket. Pure.

There are two ways to wait for an answer: `client` on the event loop, `blocking` in a thread or a
command. Both send and read it here, and say in the same words why there is none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import h11

from nodeagent.errors import Unavailable

MAX_BODY = 4 * 1024 * 1024  # a megabyte of diagnosis, each of its quotes escaped twice
BROKEN = "the connection broke before the answer"
_CLOSED = "the connection was closed before the answer"
_MAX_HEAD = 16 * 1024
_INTERIM = 8  # interim answers before the answer
_PIECES = 256  # pieces of a body, besides one for every half kilobyte


@dataclass(frozen=True, slots=True)
class Answered:
    """A complete answer. `certificate` is the SHA-256 of the peer's, hex; empty without TLS.

    `retry_after` is that header, or empty.
    """

    status: int
    body: bytes
    certificate: str = ""
    retry_after: str = ""


def _connection() -> h11.Connection:
    return h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)


@dataclass(slots=True)
class Transaction:
    """One request on a connection of its own. `host` names the server, `most` bounds the body.

    `held` is the number of bytes of the answer's body so far.
    """

    method: str
    target: str
    host: str
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    most: int = MAX_BODY
    held: int = field(default=0, init=False)
    _http: h11.Connection = field(default_factory=_connection, init=False)
    _status: int = field(default=0, init=False)
    _retry_after: str = field(default="", init=False)
    _parts: list[bytes] = field(default_factory=list, init=False)
    _pieces: int = field(default=0, init=False)  # of the body, or before it interim answers

    def request(self) -> bytes:
        """Return the bytes to send, once."""
        headers = [
            ("Host", self.host),
            ("Connection", "close"),
            ("Accept-Encoding", "identity"),
            *self.headers,
        ]
        if self.body:
            headers.append(("Content-Type", "application/json"))
            headers.append(("Content-Length", str(len(self.body))))
        request = h11.Request(method=self.method, target=self.target, headers=headers)
        raw = self._http.send(request) or b""
        if self.body:
            raw += self._http.send(h11.Data(data=self.body)) or b""
        return raw + (self._http.send(h11.EndOfMessage()) or b"")

    def receive(self, data: bytes) -> Answered | None:
        """Take bytes that have come, b"" for their end; return the answer once it is complete.

        Unavailable: there will be none.
        """
        try:
            self._http.receive_data(data)
            return self._read()
        except h11.RemoteProtocolError as error:
            hung_up = self._http.trailing_data == (b"", True)
            why = _CLOSED if hung_up else f"not an HTTP answer: {str(error)[:200]}"
            raise Unavailable(why) from None

    def _read(self) -> Answered | None:
        """Handle the events that h11 has so far."""
        while (event := self._http.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.Data):
                self._take(bytes(event.data))
            elif isinstance(event, h11.Response):
                self._begin(event)
            elif isinstance(event, h11.InformationalResponse):
                self._pieces += 1
                if self._pieces > _INTERIM:
                    raise Unavailable("too many interim answers")
            elif isinstance(event, h11.EndOfMessage):
                body = b"".join(self._parts)
                return Answered(self._status, body, retry_after=self._retry_after)
            else:
                raise Unavailable(_CLOSED)
        return None

    def _begin(self, response: h11.Response) -> None:
        headers = dict(response.headers)
        self._status = response.status_code
        self._retry_after = headers.get(b"retry-after", b"").decode("latin-1")
        self._pieces = 0
        if int(headers.get(b"content-length", b"0")) > self.most:
            raise Unavailable(self._too_large())

    def _take(self, part: bytes) -> None:
        self._parts.append(part)
        self.held += len(part)
        self._pieces += 1
        if self.held > self.most:
            raise Unavailable(self._too_large())
        if self._pieces > _PIECES + self.held // 512:  # reading them would cost others' time
            raise Unavailable("an answer in too many pieces")

    def _too_large(self) -> str:
        return f"answer larger than {self.most} bytes"


def host_header(address: str, port: int) -> str:
    """Return the Host of a server that is named by its address."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def too_late(seconds: float) -> str:
    """Say that the deadline is over."""
    return f"no complete answer within {seconds:g} s"


def error_text(error: OSError) -> str:
    """Say what is wrong with a connection."""
    import ssl  # not for a command that talks to a unix socket, and has an answer

    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: its certificate is not trusted: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or str(error)).replace('_', ' ').lower()}"
    return error.strerror or str(error) or type(error).__name__
