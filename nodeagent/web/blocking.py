"""The HTTP client of a command or a thread that may wait: at a unix socket, or over the network.

One deadline runs from the connection to the last byte. A command at a socket loads no TLS.
"""

import base64
import re
import socket
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, TypeAlias

from nodeagent.clocks import Deadline
from nodeagent.errors import ConfigError, Unavailable
from nodeagent.protocol.canonical import printable
from nodeagent.web.transaction import BROKEN, MAX_BODY, Answered, Transaction, error_text, too_late

if TYPE_CHECKING:
    import ssl

MOST = 512 * 1024 * 1024  # all there is to observe of 10,000 nodes is 50 MB
_HOST = r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?"
URL = rf"{_HOST}(/[^\s#\x00-\x1f\x7f-\uffff]*)"
_MAINTD = re.compile(f"{_HOST}/?")
_PORT = 1816
_PORTS = {"http": 80, "https": 443}
_ADDRESSES = 4  # addresses tried for one name

Connect: TypeAlias = Callable[[Deadline], socket.socket]


class NotConnected(Unavailable):
    """There is no connection; its cause is the OSError."""


class Caller:
    """Make requests to one maintd, each on a connection of its own; `where` names it to people."""

    def __init__(
        self,
        where: str,
        connect: Connect,
        host: str = "localhost",
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.where = where
        self._connect = connect
        self._host = host
        self._headers = headers

    def request(
        self,
        method: str,
        target: str,
        seconds: float,
        body: bytes = b"",
        more: Sequence[tuple[str, str]] = (),
    ) -> Answered:
        """Send a request; return its answer.

        NotConnected: there is no maintd. Unavailable: there is no answer.
        """
        transaction = Transaction(
            method,
            target,
            host=self._host,
            headers=[*self._headers, *more],
            body=body,
            most=MOST,
        )
        try:
            return ask(self._connect, transaction, seconds)
        except NotConnected as error:
            raise NotConnected(f"{self.where}: {error}") from error.__cause__
        except Unavailable as error:
            raise Unavailable(f"{self.where}: {error}") from None


def at_socket(path: str) -> Caller:
    """Return the caller of a maintd at a unix socket."""

    def connect(deadline: Deadline) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            sock.settimeout(deadline.remaining())
            sock.connect(path)
        except BaseException:
            sock.close()
            raise
        return sock

    return Caller(path, connect)


def at_url(
    url: str, ca: str = "", user: str = "", password: str = "", named: str = "--url"
) -> Caller:
    """Return a caller of `https://HOST[:PORT]`; ConfigError, at `named`, if it does not fit.

    `ca` is a file with the expected certificate, or with the one that signed it. Then no name is
    compared, as Ganeti's own certificates name no host. Without it the system decides.
    """
    scheme, host, port = maintd_at(url, named)
    given = f"{named} is {printable(url)}"
    if scheme == "http" and user:
        raise ConfigError(f"{given}; a password is sent by https only")
    if scheme == "http" and ca:
        raise ConfigError(f"{given}; a certificate needs https")
    connect = _over_network(host.strip("[]"), port, _tls(scheme, ca, named=False))
    headers = []
    if user:
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        headers = [("Authorization", f"Basic {token}")]
    where = f"{host}:{port}"
    return Caller(f"{scheme}://{where}", connect, where, headers)


def maintd_at(url: str, named: str = "--url") -> tuple[str, str, int]:
    """Return scheme, host and port of a maintd; ConfigError, at `named`, if it does not fit."""
    match = _MAINTD.fullmatch(url)
    if match is None or int(match[3] or _PORT) > 65535:
        form = f"it must be of the form https://HOST:{_PORT}"
        raise ConfigError(f"{named} is {printable(url)}; {form}")
    return match[1], match[2], int(match[3] or _PORT)


def request(
    url: str,
    body: bytes = b"",
    *,
    seconds: float,
    ca: str = "",
    headers: Sequence[tuple[str, str]] = (),
    most: int = MAX_BODY,
) -> Answered:
    """Post the body, or get what is there if it is empty; or raise Unavailable.

    `ca` is a file with the certificates to trust instead of the system's.
    """
    match = re.fullmatch(URL, url)
    assert match is not None
    scheme, host, named_port, target = match.groups()
    connect = _over_network(host.strip("[]"), int(named_port or _PORTS[scheme]), _tls(scheme, ca))
    method, where = "POST" if body else "GET", f"{host}:{named_port or _PORTS[scheme]}"
    return ask(connect, Transaction(method, target, where, headers, body, most), seconds)


def is_url(text: str) -> bool:
    return re.fullmatch(URL, text) is not None


def wrong_port(url: str) -> str:
    """Say why the port of a URL is wrong; "" if it is right, or `url` is not a URL."""
    match = re.fullmatch(URL, url)
    if match is None or 0 < int(match[3] or 1) <= 65535:
        return ""
    return f"has the port {match[3]}; it must be from 1 to 65535"


def ask(connect: Connect, transaction: Transaction, seconds: float) -> Answered:
    """Connect, send, and wait for the answer, or raise NotConnected, or Unavailable."""
    deadline = Deadline(seconds)
    try:
        connection = connect(deadline)
    except TimeoutError as error:
        raise NotConnected(too_late(seconds)) from error
    except OSError as error:
        raise NotConnected(error_text(error)) from error
    with closing(connection):
        try:
            unsent = memoryview(transaction.request())
            while unsent:
                connection.settimeout(deadline.remaining())
                unsent = unsent[connection.send(unsent) :]
            while True:
                connection.settimeout(deadline.remaining())
                if answer := transaction.receive(connection.recv(256 * 1024)):
                    return answer
        except TimeoutError:
            raise Unavailable(too_late(seconds)) from None
        except OSError:
            raise Unavailable(BROKEN) from None


def _over_network(host: str, port: int, tls: "ssl.SSLContext | None") -> Connect:
    """Return what connects to a host: to the first of its addresses that can be reached.

    Each gets a share of the time; its certificate must bear the host's name.
    """

    def connect(deadline: Deadline) -> socket.socket:
        fault: OSError = TimeoutError()
        addresses = _addresses(host, port)
        for index, address in enumerate(addresses):
            share = Deadline(deadline.remaining() / (len(addresses) - index))
            try:
                return _connected(address, port, share, tls, host)
            except OSError as error:
                fault = error
        raise fault

    return connect


def _connected(
    address: str, port: int, deadline: Deadline, tls: "ssl.SSLContext | None", name: str
) -> socket.socket:
    sock = socket.create_connection((address, port), deadline.remaining())
    try:
        sock.settimeout(deadline.remaining())
        return tls.wrap_socket(sock, server_hostname=name) if tls else sock
    except BaseException:
        sock.close()
        raise


def _tls(scheme: str, ca: str, *, named: bool = True) -> "ssl.SSLContext | None":
    if scheme != "https":
        return None
    from nodeagent.web.tls import trusting_tls

    return trusting_tls(ca, named=named)


def _addresses(host: str, port: int) -> list[str]:
    """Return the first addresses of a name, or raise OSError: there is at least one."""
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # the latter for two dots in a row
        raise OSError(f"{host}: {getattr(error, 'strerror', None) or error}") from None
    return list(dict.fromkeys(str(row[4][0]) for row in rows))[:_ADDRESSES]
