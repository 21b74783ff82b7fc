"""An HTTP client for a command that may wait: one request, blocking, at a socket or over TLS.

A single deadline for everything from the connection to the last byte; no redirects.
"""

import base64
import re
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import h11

from nodeagent.errors import ConfigError, Unavailable
from nodeagent.protocol.canonical import printable
from nodeagent.web.deadline import Deadline, Late, Unsent
from nodeagent.web.tls import trusting_tls

MOST = 512 * 1024 * 1024  # all there is to observe of 10,000 nodes is 50 MB
_URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?/?")
_PORT = 1816


class Absent(Unsent):
    """Nobody listens there, or the address is unreachable."""


@dataclass(frozen=True, slots=True)
class Replied:
    status: int
    body: bytes


class Caller:
    """Makes requests to one server, each on a connection of its own.

    `where` names the server in complaints; `most` bounds an answer's body.
    """

    def __init__(
        self,
        where: str,
        connect: Callable[[Deadline], socket.socket],
        host: str = "localhost",
        user: str = "",
        password: str = "",
        most: int = MOST,
    ) -> None:
        self.where = where
        self._connect = connect
        self._most = most
        self._headers = [("Host", host), ("Accept-Encoding", "identity"), ("Connection", "close")]
        if user:
            token = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers.append(("Authorization", f"Basic {token}"))

    def request(
        self,
        method: str,
        target: str,
        seconds: float,
        body: bytes = b"",
        more: Sequence[tuple[str, str]] = (),
    ) -> Replied:
        """Ask. Unsent: the request was not read; Absent: nobody is there to read it.

        Late: the answer did not come in time. Unavailable: it is lost. PermissionError: the
        socket's mode keeps us out.
        """
        deadline = Deadline(seconds)
        http = h11.Connection(h11.CLIENT, max_incomplete_event_size=64 * 1024)
        headers = [*self._headers, *more]
        if body:
            headers += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        out = http.send(h11.Request(method=method, target=target, headers=headers)) or b""
        out += (http.send(h11.Data(data=body)) or b"") if body else b""
        out += http.send(h11.EndOfMessage()) or b""
        try:
            connection = self._connect(deadline)
        except PermissionError:
            raise
        except OSError as error:
            raise Absent(f"{self.where}: {_told(error)}") from error
        with closing(connection):
            try:
                connection.settimeout(deadline.left())
                connection.sendall(out)
            except OSError as error:
                raise Unsent(f"{self.where} takes no request: {_told(error)}") from None
            try:
                return self._receive(http, connection, deadline)
            except TimeoutError:
                raise Late(f"{self.where}: no complete answer within {seconds:g} s") from None
            except OSError as error:
                why = f"the answer was lost: {_told(error)}"
            except h11.RemoteProtocolError as error:
                hung_up = http.trailing_data == (b"", True)
                why = f"not an HTTP answer: {str(error)[:200]}"
                why = "the connection was closed before the answer" if hung_up else why
        raise Unavailable(f"{self.where}: {why}")

    def _receive(
        self, http: h11.Connection, connection: socket.socket, deadline: Deadline
    ) -> Replied:
        status, held, body = 0, 0, []
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                connection.settimeout(deadline.left())
                http.receive_data(connection.recv(256 * 1024))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body.append(bytes(event.data))
                held += len(event.data)
                if held > self._most:
                    raise Unavailable(f"{self.where}: an answer larger than {self._most} bytes")
            elif isinstance(event, h11.EndOfMessage):
                return Replied(status, b"".join(body))
            elif not isinstance(event, h11.InformationalResponse):
                raise Unavailable(f"{self.where}: the connection was closed before the answer")


def at_socket(path: str) -> Caller:
    def connect(deadline: Deadline) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            sock.settimeout(deadline.left())
            sock.connect(path)
        except BaseException:
            sock.close()
            raise
        return sock

    return Caller(path, connect)


def at_url(url: str, ca: str = "", user: str = "", password: str = "") -> Caller:
    """Return a caller of `https://HOST[:PORT]`; ConfigError if the arguments do not fit.

    `ca` is a file with the expected certificate, or with the one that signed it. Then no name is
    compared, as Ganeti's own certificates name no host. Without it the system decides.
    """
    match = _URL.fullmatch(url)
    if match is None or int(match[3] or _PORT) > 65535:
        raise ConfigError(f"--url is {printable(url)}; it must be of the form https://HOST:{_PORT}")
    scheme, host, port = match[1], match[2].strip("[]"), int(match[3] or _PORT)
    if scheme == "http" and user:
        raise ConfigError(f"--url is {printable(url)}; a password is sent by https only")
    if scheme == "http" and ca:
        raise ConfigError(f"--url is {printable(url)}; a certificate needs https")
    tls = trusting_tls(ca, named=False) if scheme == "https" else None
    connect, where = over_network(host, port, tls), f"{match[2]}:{port}"
    return Caller(f"{scheme}://{where}", connect, where, user, password)


def over_network(
    host: str, port: int, tls: ssl.SSLContext | None
) -> Callable[[Deadline], socket.socket]:
    def connect(deadline: Deadline) -> socket.socket:
        sock = socket.create_connection((host, port), deadline.left())
        try:
            sock.settimeout(deadline.left())
            return tls.wrap_socket(sock, server_hostname=host) if tls else sock
        except BaseException:
            sock.close()
            raise

    return connect


def _told(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not the one expected: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error.strerror or str(error)
