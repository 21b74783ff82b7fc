"""The HTTP client on the event loop: one request to a numeric address, with one deadline.

It owns its sockets, as the server does: see ADR 31 for what asyncio's streams would cost a poll.
"""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from nodeagent.errors import Unavailable
from nodeagent.model.evidence import Contact
from nodeagent.protocol.canonical import printable
from nodeagent.web.stream import Stream
from nodeagent.web.tls import Session
from nodeagent.web.transaction import (
    BROKEN,
    MAX_BODY,
    Answered,
    Transaction,
    error_text,
    host_header,
    too_late,
)


class NoAnswer(Unavailable):
    """No complete answer; `contact` tells how far the connection came."""

    def __init__(self, why: str, contact: Contact) -> None:
        super().__init__(why)
        self.contact = contact


Done: TypeAlias = Callable[[Answered | Unavailable], None]


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
) -> Answered:
    """Make one request to a numeric address, or raise Unavailable with the reason.

    `seconds` bounds everything from the connection to the last byte, however slowly they
    come; `most` bounds the body.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Answered | Unavailable] = loop.create_future()
    transaction = Transaction(method, target, host_header(address, port), body=body, most=most)
    call = Call(loop, address, port, transaction, seconds, tls)

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


@dataclass(slots=True, eq=False)
class Call:
    """One request. It calls `start`'s `done` once at its end, from the loop, never at once."""

    loop: asyncio.AbstractEventLoop
    address: str
    port: int
    transaction: Transaction
    seconds: float
    tls: ssl.SSLContext | None = None
    _done: Done | None = None
    _timer: asyncio.TimerHandle | None = None
    _connecting: socket.socket | None = None
    _stream: Stream | None = None
    _session: Session | None = None
    _certificate: str = ""
    _contact: Contact = Contact.UNKNOWN

    def start(self, done: Done) -> None:
        """Connect, send, collect the answer; the deadline runs from now."""
        self._done = done
        self._timer = self.loop.call_later(self.seconds, self.abort, too_late(self.seconds))
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        try:
            socket.inet_pton(family, self.address)  # a name would be looked up
        except (OSError, ValueError):
            self._later(f"{printable(self.address)} is not a numeric address")
            return
        try:
            sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError as error:
            self._later(error_text(error))
            return
        self._connecting = sock
        self._contact = Contact.SILENT
        code = sock.connect_ex((self.address, self.port))
        if code in (0, errno.EINPROGRESS):
            self.loop.add_writer(sock.fileno(), self._connected)
        else:
            self._contact = _contact(code)
            self._later(os.strerror(code))

    def abort(self, why: str | None = None) -> None:
        """End now; the caller learns `why`, if there is a reason. A second call does nothing."""
        contact = self._contact  # so far: to end the stream ourselves is no answer
        self._end(None if why is None else NoAnswer(why, contact))

    def _end(self, end: Answered | NoAnswer | None) -> None:
        done, self._done = self._done, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        sock, self._connecting = self._connecting, None
        if sock is not None:
            self.loop.remove_writer(sock.fileno())
            sock.close()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.abort()
        if done is not None and end is not None:
            done(end)

    def _later(self, why: str) -> None:
        self.loop.call_soon(self.abort, why)

    def _connected(self) -> None:
        sock, self._connecting = self._connecting, None
        assert sock is not None
        self.loop.remove_writer(sock.fileno())
        if code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            sock.close()
            self._contact = _contact(code)
            self.abort(os.strerror(code))
            return
        self._contact = Contact.CONNECTS
        self._stream = stream = Stream(self.loop, sock, self._received, self._lost)
        if self.tls is None:
            stream.write(self.transaction.request())
        else:
            self._session = Session(self.tls, client=True)
            self._session.receive()
            stream.write(self._session.outgoing.read())
        stream.start()

    def _lost(self) -> None:
        if self._contact is Contact.CONNECTS:
            self._contact = Contact.REFUSED  # its kernel lives, and a program may not
        self.abort(BROKEN)

    def _received(self, data: bytes) -> None:
        stream = self._stream
        if stream is None:
            return
        if self._contact is Contact.CONNECTS:
            self._contact = Contact.ANSWERS if data else Contact.REFUSED
        try:
            parts = (
                [data] if self._session is None else self._decrypted(self._session, stream, data)
            )
            for part in parts:
                if answer := self.transaction.receive(part):
                    self._end(replace(answer, certificate=self._certificate))
                    return
        except ssl.SSLError as error:
            self.abort(error_text(error))
        except Unavailable as error:
            self.abort(str(error))

    def _decrypted(self, tls: Session, stream: Stream, data: bytes) -> list[bytes]:
        """Decrypt bytes; after the handshake send the request."""
        parts = tls.receive(data)
        if tls.ready and not self._certificate:
            self._certificate = tls.fingerprint
            tls.send(self.transaction.request(), last=False)
        if tls.outgoing.pending:
            stream.write(tls.outgoing.read())
        return parts


def _contact(code: int) -> Contact:
    """The contact of a connection that failed with this errno."""
    if code in (errno.ECONNREFUSED, errno.ECONNRESET):
        return Contact.REFUSED
    return Contact.SILENT if code in (errno.ETIMEDOUT, errno.EHOSTUNREACH) else Contact.UNKNOWN
