"""Mail by SMTP: one mail a message, within a deadline, even if the server hangs."""

import logging
import smtplib
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email.message import EmailMessage
from email.utils import formatdate
from typing import BinaryIO, cast

from nodeagent.errors import ConfigError, Unavailable, plain
from nodeagent.maintd.notices.delivery import Delivered, Delivery, Letter, Secret, seconds_of
from nodeagent.maintd.notices.render import check, rendered, template_of, values
from nodeagent.model.notice import Sink
from nodeagent.model.units import Ms
from nodeagent.secret import read_password
from nodeagent.section import Section
from nodeagent.web.tls import trusting_tls
from nodeagent.web.transaction import error_text

log = logging.getLogger(__name__)
_REPLY = 300  # characters of a server's reply
_ADDRESS = r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+"
_SERVER = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?"
_PORTS = {"starttls": 587, "tls": 465, "none": 25}
_MOST = 64 * 1024  # bytes of all that a server says in one conversation


@dataclass(frozen=True, slots=True)
class Smtp:
    """A mail server and the addresses; `tls` is starttls, tls or none.

    `user` logs in with the first line of the private file `password`. `ca` is a file with the
    certificates to trust instead of the system's; `seconds` bounds one try.
    """

    name: str
    host: str
    port: int
    sender: str
    to: tuple[str, ...]
    tls: str = "starttls"
    user: str = ""
    password: str = ""
    ca: str = ""
    seconds: float = 10.0
    table: str = field(default="", compare=False)

    def deliver(self, letter: Letter, now: Ms) -> Delivery:
        known = values(letter.message, letter.sink, letter.cluster)
        title, body = rendered(letter.sink, known)
        send(self, letter.message.id, title, body)
        return Delivered()

    def secrets(self) -> Iterator[Secret]:
        yield "password", self.password, _read_password


def read(section: Section, sink: Sink) -> tuple[Sink, Smtp]:
    """Read the keys of a mail server."""
    tls = section.text("tls", "starttls", "starttls|tls|none", "starttls, tls or none")
    server = section.text("server", "", _SERVER, "HOST or HOST:PORT")
    sender = section.text("from", "", _ADDRESS, "a mail address")
    to = section.words("to", _ADDRESS, "a list of mail addresses, each once")
    user = section.text("user", "", r"[\x21-\x7e]*", "a name of ASCII without space")
    password = section.path("password", "")
    if section.is_right("kind"):
        section.require({"server": server, "from": sender, "to": to})
    if section.is_right("user", "password") and bool(user) != bool(password):
        section.complain(f"{section.shown} needs user and password, or neither", "user")
    if password and tls == "none":
        why = f'{section.where("tls")} "none" sends a password without TLS: set starttls'
        section.complain(why, "tls")
    alone = server.endswith("]") or ":" not in server
    host, _, named = (server, "", "") if alone else server.rpartition(":")
    port = int(named or _PORTS[tls])
    if not 0 < port <= 65535:
        why = f"has the port {port}; it must be from 1 to 65535"
        section.complain(f"{section.where('server')} {why}", "server")
    title, body = template_of(section, "title"), template_of(section, "body")
    sink = replace(sink, title=title, body=body)
    check(section, sink)
    smtp = Smtp(
        name=sink.name,
        host=host.strip("[]"),
        port=port,
        sender=sender,
        to=to,
        tls=tls,
        user=user,
        password=password,
        ca=section.path("ca", ""),
        seconds=seconds_of(section),
        table=section.name,
    )
    return sink, smtp


def _read_password(path: str) -> str:
    """The password; smtplib sends only ASCII, and its error would quote what is not."""
    password = read_password(path)
    if not password.isascii():
        raise ConfigError(f"{path}: its first line is not ASCII, as a password for mail must be")
    return password


class _Bounded:
    """The lines of a server's replies, until they are too many: smtplib itself never stops."""

    def __init__(self, lines: BinaryIO) -> None:
        self._lines = lines
        self._left = _MOST

    def readline(self, size: int) -> bytes:
        line = self._lines.readline(min(size, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise OSError(f"it says more than {_MOST} bytes")
        return line

    def close(self) -> None:
        self._lines.close()


class _Conversation(smtplib.SMTP):
    """A conversation in which the server may say only so much, before and after STARTTLS."""

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            lines = cast(BinaryIO, self.sock.makefile("rb"))
            self.file = _Bounded(lines)
        return super().getreply()


class _ConversationOverTls(_Conversation, smtplib.SMTP_SSL):
    """The same over TLS from its first byte."""


def send(by: Smtp, identity: str, title: str, body: str) -> None:
    """Send it to the server, or raise Unavailable; the same identity is the same Message-ID."""
    seconds = by.seconds
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = by.sender, ", ".join(by.to), title
    mail["Date"], mail["Message-ID"] = formatdate(), f"<{identity}@maintd>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(body)
    secure = trusting_tls(by.ca) if by.tls != "none" else None
    late = threading.Event()
    smtp = (
        _ConversationOverTls(timeout=seconds, context=secure)
        if by.tls == "tls"
        else _Conversation(timeout=seconds)
    )
    smtp._host = by.host  # type: ignore[attr-defined]  # the name that a certificate must bear
    watch = threading.Timer(seconds, _cut, (smtp, late))
    watch.daemon = True
    watch.start()
    try:
        smtp.connect(by.host, by.port)
        if by.tls == "starttls":
            smtp.starttls(context=secure)
        if by.user:
            smtp.login(by.user, _read_password(by.password))
        refused = smtp.send_message(mail, by.sender, by.to)
        with suppress(OSError, smtplib.SMTPException):
            smtp.quit()
    except (OSError, smtplib.SMTPException, ValueError) as error:
        why = f"not delivered within {seconds:g} s" if late.is_set() else _words(error)
        raise Unavailable(f"{by.host}: {why}") from None
    finally:
        watch.cancel()
        smtp.close()
    if refused:  # the others have it: a new try would repeat it for them
        log.warning("mail-refused server=%s for=%s", by.host, ",".join(sorted(refused)))


def _cut(smtp: smtplib.SMTP, late: threading.Event) -> None:
    """End a conversation that takes too long."""
    late.set()
    if (sock := smtp.sock) is not None:
        with suppress(OSError):  # not TLS's own shutdown, which may be followed by plain text
            socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _words(error: Exception) -> str:
    match error:
        case smtplib.SMTPResponseException(smtp_code=code, smtp_error=reply):
            text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply)
            return plain(f"{code} {text}", _REPLY)
        case smtplib.SMTPRecipientsRefused():
            code, reply = next(iter(error.recipients.values()))
            return plain(f"{code} {reply.decode('utf-8', 'replace')}", _REPLY)
        case OSError():
            return error_text(error)
        case _:
            return plain(str(error), _REPLY)
