"""Open the ledger in etcd as the settings say."""

import calendar
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from cryptography import x509

from nodeagent.errors import ConfigError
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.maintd.settings import StoreSettings
from nodeagent.model.units import Seconds, in_ms
from nodeagent.secret import read_password, read_private
from nodeagent.store.etcd.client import Client, client_tls
from nodeagent.store.etcd.lease import Leader
from nodeagent.store.etcd.store import EtcdStore, Options

SOON = 30 * 86400  # seconds before a certificate ends, for check-config
NEAR = 14 * 86400  # the same for a running maintd, whose status tells of it


def open_etcd(settings: StoreSettings, *, reading: bool = False) -> EtcdStore:
    """Open it, to act with it unless it is only for `reading`; ConfigError names the wrong key."""
    name = f"maintd on {socket.gethostname()} (process {os.getpid()})"
    leader = None if reading else lambda client, key: Leader(client, key, name)
    options = Options(told=partial(_ending, tuple(_ends_of(settings))))
    return EtcdStore(_client(settings), settings.prefix, leader, options=options)


def _ends_of(settings: StoreSettings) -> Iterator[tuple[str, Seconds]]:
    """Yield the certificates that this process will use until it ends, and when each ends."""
    for path in filter(None, (settings.certificate, settings.ca)):
        with suppress(ConfigError):
            yield path, _end(_read(path))


def _ending(
    ends: Sequence[tuple[str, Seconds]], now: Callable[[], float] = time.time
) -> tuple[str, ...]:
    """Tell of the certificates that end within two weeks, or have ended."""
    return tuple(
        f"{path}: it {verb} {_said(end)}: renew it, and restart maintd"
        for path, end in ends
        if end < now() + NEAR
        for verb in ("ends" if end > now() else "has ended",)
    )


def _client(settings: StoreSettings) -> Client:
    password, tls = "", None
    try:
        if settings.password:
            password = read_password(settings.password)
    except ConfigError as error:
        raise ConfigError(f"store.password {error}") from None
    if settings.key:
        try:
            read_private(settings.key)
        except ConfigError as error:
            raise ConfigError(f"store.key {error}") from None
    if any(text.startswith("https:") for text in settings.endpoints):
        try:
            tls = client_tls(settings.ca, settings.certificate, settings.key)
        except ConfigError as error:
            raise ConfigError(f"store: {error}") from None
    return Client(settings.endpoints, tls=tls, user=settings.user, password=password)


def certificate_ends(path: str, now: float | None = None) -> str:
    """Return when a client certificate ends if that is soon, else "".

    ConfigError: it has ended, or etcd will not take it.
    """
    found = _read(path)
    if found.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME):
        raise ConfigError(f"{path}: etcd's gateway refuses a subject with a CN: make one without")
    end = _end(found)
    left = end - (time.time() if now is None else now)
    if left < 0:
        raise ConfigError(f"{path}: it ended {_said(end)}: renew it, and restart maintd")
    return f"{path}: it ends {_said(end)}: renew it, and restart maintd" if left < SOON else ""


def _read(path: str) -> x509.Certificate:
    try:
        with open(path, "rb") as file:
            return x509.load_pem_x509_certificate(file.read(1024 * 1024))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{path}: no certificate can be read") from None


def _end(certificate: x509.Certificate) -> Seconds:
    """Return the end of its validity, unix seconds."""
    try:
        moment = certificate.not_valid_after_utc
    except AttributeError:  # before cryptography 42
        moment = certificate.not_valid_after
    return Seconds(calendar.timegm(moment.timetuple()))


def _said(end: Seconds) -> str:
    return f"at {rfc3339(in_ms(end))}"
