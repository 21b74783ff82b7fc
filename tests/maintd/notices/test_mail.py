"""Notifications by mail: a real SMTP server, and ones that are slow, refuse or are not trusted."""

import email
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from email.policy import default as modern
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from nodeagent.errors import ConfigError, Unavailable
from nodeagent.maintd.notices.sinks import smtp
from nodeagent.maintd.notices.sinks.smtp import Smtp
from nodeagent.model.notice import Sink
from tests.maintd.notices.sinks import Notifying
from tests.maintd.queue.certificates import certificate
from tests.patience import dawdle
from tests.ports import free_port

SERVER = Smtp("mail", "127.0.0.1", 0, "maintd@example.org", ("ops@example.org", "boss@example.org"))


class Office:
    """Keeps the mails that come; refuses the addresses and answers as it is told to."""

    def __init__(self) -> None:
        self.mails: list[Any] = []
        self.logins: list[tuple[str, str]] = []
        self.refuses: set[str] = set()
        self.answer = "250 OK"

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refuses:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        if self.answer.startswith("250"):
            self.mails.append(email.message_from_bytes(envelope.content, policy=modern))
        return self.answer

    def login(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        self.logins.append((data.login.decode(), data.password.decode()))
        return AuthResult(success=data.password == b"s3cret", handled=False)


@contextmanager
def open_office(office: Office, **more: Any) -> Iterator[int]:
    port = free_port()
    controller = Controller(office, hostname="127.0.0.1", port=port, **more)
    controller.start()
    try:
        yield port
    finally:
        controller.stop()


@pytest.fixture
def office() -> Office:
    return Office()


@pytest.fixture
def pem(tmp_path: Path) -> tuple[ssl.SSLContext, str]:
    return certificate(tmp_path, "localhost"), str(tmp_path / "ca.pem")


@pytest.fixture
def password(tmp_path: Path) -> str:
    (file := tmp_path / "password").write_text("s3cret\n")
    file.chmod(0o600)
    return str(file)


def send(port: int, ca: str = "", seconds: float = 5.0, **more: Any) -> None:
    by = {"port": port, "tls": "none", "ca": ca, "seconds": seconds, **more}
    smtp.send(replace(SERVER, **by), "an-id", "[critical] Größe", "grün\n.\nend\n")


def test_a_mail_says_all_of_it(office: Office) -> None:
    with open_office(office) as port:
        send(port)
    (got,) = office.mails
    assert (got["From"], got["To"]) == ("maintd@example.org", "ops@example.org, boss@example.org")
    assert got["Subject"] == "[critical] Größe"
    assert got["Message-ID"] == "<an-id@maintd>"
    assert got["Auto-Submitted"] == "auto-generated"
    assert got.get_content().replace("\r\n", "\n") == "grün\n.\nend\n"


def test_it_logs_in_over_starttls(
    office: Office, pem: tuple[ssl.SSLContext, str], password: str
) -> None:
    context, ca = pem
    more: dict[str, Any] = {
        "tls_context": context,
        "require_starttls": True,
        "authenticator": office.login,
    }
    with open_office(office, auth_required=True, **more) as port:
        send(port, ca, host="localhost", tls="starttls", user="maintd", password=password)
    assert office.logins == [("maintd", "s3cret")]
    assert len(office.mails) == 1


def test_it_speaks_tls_from_the_start(office: Office, pem: tuple[ssl.SSLContext, str]) -> None:
    context, ca = pem
    with open_office(office, ssl_context=context) as port:
        send(port, ca, host="localhost", tls="tls")
    assert len(office.mails) == 1


def test_a_password_goes_to_no_server_that_is_not_trusted(
    office: Office, pem: tuple[ssl.SSLContext, str], password: str
) -> None:
    more: dict[str, Any] = {"tls_context": pem[0], "authenticator": office.login}
    login: dict[str, Any] = {"user": "maintd", "password": password, "tls": "starttls"}
    with open_office(office, **more) as port:
        with pytest.raises(Unavailable, match="certificate is not trusted"):
            send(port, host="localhost", **login)
        with pytest.raises(Unavailable, match="certificate is not trusted"):
            send(port, pem[1], **login)  # by another name than the certificate's
    with open_office(office) as port, pytest.raises(Unavailable, match="STARTTLS"):
        send(port, pem[1], host="localhost", **login)
    assert (office.logins, office.mails) == ([], [])


def test_no_part_of_a_password_that_cannot_be_sent_is_told(
    office: Office, pem: tuple[ssl.SSLContext, str], password: str
) -> None:
    """smtplib's own error quotes the first character that is not ASCII, and its place."""
    tls, ca = pem
    Path(password).write_text("gehe\u00efm\n")
    options = {"tls_context": tls, "auth_required": True, "authenticator": office.login}
    login: dict[str, Any] = {"user": "maintd", "password": password, "tls": "starttls"}
    with open_office(office, **options) as port, pytest.raises(ConfigError) as error:
        send(port, ca, host="localhost", **login)
    why = f"{password}: its first line is not ASCII, as a password for mail must be"
    assert str(error.value) == why
    ((key, path, read),) = Smtp("mail", "127.0.0.1", 25, "a@b", ("c@d",), **login).secrets()
    assert (key, path) == ("password", password)
    with pytest.raises(ConfigError, match="is not ASCII"):
        read(path)


def test_a_wrong_password_is_told_without_it(
    office: Office, pem: tuple[ssl.SSLContext, str], tmp_path: Path
) -> None:
    (file := tmp_path / "password").write_text("wr0ng\n")
    file.chmod(0o600)
    more: dict[str, Any] = {"tls_context": pem[0], "authenticator": office.login}
    with open_office(office, **more) as port, pytest.raises(Unavailable) as caught:
        login: dict[str, Any] = {"user": "maintd", "password": str(file), "tls": "starttls"}
        send(port, pem[1], 30.0, host="localhost", **login)
    assert "535" in str(caught.value)
    assert "wr0ng" not in str(caught.value)


def test_who_is_refused_keeps_it_from_nobody_else(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    office.refuses = {"boss@example.org"}
    with open_office(office) as port:
        send(port)
        assert len(office.mails) == 1
        assert "mail-refused server=127.0.0.1 for=boss@example.org" in caplog.text
        office.refuses |= {"ops@example.org"}
        with pytest.raises(Unavailable, match="550 no such user"):
            send(port)


def test_a_server_that_is_slow_without_end_is_left_in_time() -> None:
    """A byte now and then would pass any time-out of a single answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            connection, _ = listening.accept()
            with connection:
                try:
                    while True:
                        connection.sendall(b"220-wait\r\n")
                        dawdle(0.05)
                except OSError:
                    pass

        threading.Thread(target=drip, daemon=True).start()
        with pytest.raises(Unavailable, match=r"not delivered within 0\.5 s"):
            send(listening.getsockname()[1], seconds=0.5)


def test_an_incident_is_mailed_once_the_server_is_back(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    port = free_port()
    target = replace(SERVER, port=port, tls="none", seconds=5.0)
    one = Notifying((Sink("mail", "smtp"), target))
    one.break_down("n2")
    one.ticks(2)
    message = one.box("mail").message
    assert message is not None
    assert message.why == "127.0.0.1: Connection refused"
    controller = Controller(office, hostname="127.0.0.1", port=port)
    controller.start()
    one.ticks(3)
    controller.stop()
    (got,) = office.mails
    assert got["Subject"].startswith("[warning] cluster.example: n2 requests evacuate")
    assert "detected: n2 requests evacuate" in got.get_content()
    assert got["Message-ID"] == f"<{message.id}@maintd>"


@pytest.mark.parametrize("tls", ["none", "starttls"])
def test_a_server_that_never_ends_its_reply_is_left(tls: str) -> None:
    """Or whoever is on the way: a greeting comes before TLS."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def talk() -> None:
            there, _ = listening.accept()
            with there, suppress(OSError):
                while True:
                    there.sendall(b"220-" + b"x" * 996 + b"\r\n")

        thread = threading.Thread(target=talk)
        thread.start()
        server = replace(SERVER, port=listening.getsockname()[1], tls=tls)
        with pytest.raises(Unavailable, match="it says more than 65536 bytes"):
            smtp.send(replace(server, seconds=60.0), "m1", "title", "body")
        thread.join()
