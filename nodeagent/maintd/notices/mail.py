"""Send one mail by SMTP, within a deadline, even if the server hangs."""

import logging
import smtplib
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate
from typing import BinaryIO, cast

from nodeagent.errors import Unavailable, plain
from nodeagent.secret import read_password
from nodeagent.web.tls import trusting_tls

log = logging.getLogger(__name__)
_REPLY = 300  # characters of a server's reply
_MOST = 64 * 1024  # bytes of all that a server says in one conversation


@dataclass(frozen=True, slots=True)
class Server:
    """The mail server and the addresses; `tls` is starttls, tls or none.

    `user` logs in with the first line of the file `password`.
    """

    host: str
    port: int
    sender: str
    to: tuple[str, ...]
    tls: str = "starttls"
    user: str = ""
    password: str = ""


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


class _Smtp(smtplib.SMTP):
    """A conversation in which the server may say only so much, before and after STARTTLS."""

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            lines = cast(BinaryIO, self.sock.makefile("rb"))
            self.file = _Bounded(lines)
        return super().getreply()


class _SmtpOverTls(_Smtp, smtplib.SMTP_SSL):
    """The same over TLS from its first byte."""


def send(by: Server, identity: str, title: str, body: str, ca: str, seconds: float) -> None:
    """Send it to the server, or raise Unavailable; the same identity is the same Message-ID."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = by.sender, ", ".join(by.to), title
    mail["Date"], mail["Message-ID"] = formatdate(), f"<{identity}@maintd>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(body)
    secure = trusting_tls(ca) if by.tls != "none" else None
    late = threading.Event()
    smtp = (
        _SmtpOverTls(timeout=seconds, context=secure) if by.tls == "tls" else _Smtp(timeout=seconds)
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
            smtp.login(by.user, read_password(by.password))
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
        case smtplib.SMTPResponseException(smtp_code=code, smtp_error=said):
            text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
            return plain(f"{code} {text}", _REPLY)
        case smtplib.SMTPRecipientsRefused():
            code, said = next(iter(error.recipients.values()))
            return plain(f"{code} {said.decode('utf-8', 'replace')}", _REPLY)
        case ssl.SSLCertVerificationError():
            return f"TLS: its certificate is not trusted: {error.verify_message}"
        case OSError():
            return error.strerror or str(error) or type(error).__name__
        case _:
            return plain(str(error), _REPLY)
