"""An HTTP client for a command that may wait: one request, blocking, at a socket or over TLS.

A single deadline for everything from the connection to the last byte; no redirects.
"""

import base64
import re
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import h11

from nodeagent.errors import ConfigError, Unavailable
from nodeagent.protocol.canonical import printable
from nodeagent.web.tls import trusting_tls

MOST = 512 * 1024 * 1024  # all there is to observe of 10,000 nodes is 50 MB
_URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?/?")
_PORT = 1816


class Absent(Unavailable):
    """Nobody listens there, or cannot be reached; no request was sent."""


@dataclass(frozen=True, slots=True)
class Replied:
    """A complete answer."""

    status: int
    body: bytes


class Caller:
    """Makes requests to one server, each on a connection of its own.

    `where` names the server in complaints; `connect` is given the seconds that are left.
    """

    def __init__(
        self,
        where: str,
        connect: Callable[[float], socket.socket],
        host: str = "localhost",
        authorization: str = "",
    ) -> None:
        self.where = where
        self._connect = connect
        self._headers = [("Host", host), ("Accept-Encoding", "identity"), ("Connection", "close")]
        if authorization:
            self._headers.append(("Authorization", authorization))

    def request(
        self,
        method: str,
        target: str,
        seconds: float,
        body: bytes = b"",
        more: Sequence[tuple[str, str]] = (),
    ) -> Replied:
        """Ask. Absent: nobody was asked. Unavailable: the answer is lost.

        PermissionError: the socket's mode keeps us out.
        """
        end = time.monotonic() + seconds
        http = h11.Connection(h11.CLIENT, max_incomplete_event_size=64 * 1024)
        headers = [*self._headers, *more]
        if body or method == "POST":
            headers += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        out = http.send(h11.Request(method=method, target=target, headers=headers)) or b""
        out += (http.send(h11.Data(data=body)) or b"") if body else b""
        out += http.send(h11.EndOfMessage()) or b""
        try:
            connection = self._connect(seconds)
        except PermissionError:
            raise
        except OSError as error:
            raise Absent(f"{self.where}: {_told(error)}") from None
        with closing(connection):
            try:
                connection.settimeout(_left(end))
                connection.sendall(out)
                return self._receive(http, connection, end)
            except TimeoutError:
                why = f"no complete answer within {seconds:g} s"
            except OSError as error:
                why = f"the answer was lost: {_told(error)}"
            except h11.RemoteProtocolError as error:
                hung_up = http.trailing_data == (b"", True)
                why = f"not an HTTP answer: {str(error)[:200]}"
                why = "the connection was closed before the answer" if hung_up else why
        raise Unavailable(f"{self.where}: {why}")

    def _receive(self, http: h11.Connection, connection: socket.socket, end: float) -> Replied:
        status, held, body = 0, 0, []
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                connection.settimeout(_left(end))
                http.receive_data(connection.recv(256 * 1024))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body.append(bytes(event.data))
                held += len(event.data)
                if held > MOST:
                    raise Unavailable(f"{self.where}: an answer larger than {MOST} bytes")
            elif isinstance(event, h11.EndOfMessage):
                return Replied(status, b"".join(body))
            elif not isinstance(event, h11.InformationalResponse):
                raise Unavailable(f"{self.where}: the connection was closed before the answer")


def at_socket(path: str) -> Caller:
    """Whoever serves at a unix socket."""

    def connect(seconds: float) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            sock.settimeout(seconds)
            sock.connect(path)
        except BaseException:
            sock.close()
            raise
        return sock

    return Caller(path, connect)


def at_url(url: str, ca: str = "", user: str = "", password: str = "") -> Caller:
    """Whoever serves at `https://HOST[:PORT]`. ConfigError where that is not to be done.

    `ca` is a file with the certificate to expect, or with the one that signed it; no name is
    compared then, as Ganeti's own certificates name no host. Without it the system decides.
    """
    match = _URL.fullmatch(url)
    if match is None or int(match[3] or _PORT) > 65535:
        raise ConfigError(f"--url is {printable(url)}; it must be of the form https://HOST:{_PORT}")
    scheme, host, port = match[1], match[2].strip("[]"), int(match[3] or _PORT)
    if scheme == "http" and user:
        raise ConfigError(f"--url is {printable(url)}; a password is sent by https only")
    if scheme == "http" and ca:
        raise ConfigError(f"--url is {printable(url)}; there is no certificate without https")
    tls = trusting_tls(ca, named=False) if scheme == "https" else None

    def connect(seconds: float) -> socket.socket:
        sock = socket.create_connection((host, port), timeout=seconds)
        if tls is None:
            return sock
        try:
            return tls.wrap_socket(sock, server_hostname=host)
        except BaseException:
            sock.close()
            raise

    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    where = f"{scheme}://{match[2]}:{port}"
    return Caller(where, connect, f"{match[2]}:{port}", f"Basic {token}" if user else "")


def _left(end: float) -> float:
    if (left := end - time.monotonic()) <= 0:
        raise TimeoutError
    return left


def _told(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not the one expected: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error.strerror or str(error)
