"""Sockets of maintd: the admin socket, and the port of the reporting protocol."""

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from nodeagent.errors import ConfigError, Unavailable
from nodeagent.maintd.engine.settings import MASTER, HttpSettings
from nodeagent.maintd.http.routes import Api
from nodeagent.secret import read_private
from nodeagent.web.tls import fingerprint, make_certificate, server_tls

log = logging.getLogger(__name__)
SOCKET_MODE = 0o660


@asynccontextmanager
async def listening(
    api: Api, path: str, addresses: Sequence[str], http: HttpSettings
) -> AsyncIterator[int]:
    """Serve at a unix socket and at numeric addresses; return the port, once all are open.

    It makes the socket's own folder if that is missing. The cluster's own address may come later:
    Ganeti sets it when this node becomes the master. Unavailable: another process listens there, or
    a configured address is not ours. ConfigError: the certificate is unusable.
    """
    tls, shown = (None, "") if http.plain else await asyncio.to_thread(public_tls, http.tls)
    admin, public = api.server(), api.server()
    try:
        try:
            with suppress(FileExistsError):
                os.mkdir(os.path.dirname(path), 0o750)
            await admin.start_unix(path, SOCKET_MODE)
        except OSError as error:
            raise Unavailable(f"maintd.socket {path}: {error.strerror or error}") from None
        port = http.port
        for address in addresses:
            try:
                port = await public.start(
                    address,
                    port,
                    tls,
                    clear=api.reading.clear,
                    early=http.address == MASTER,
                )
            except OSError as error:
                where = f"http.address {address}, port {port}"
                raise Unavailable(f"{where}: {error.strerror or error}") from None
            host = f"[{address}]" if ":" in address else address
            url = f"{'https' if tls else 'http'}://{host}:{port}"
            log.info("listening url=%s certificate=%s socket=%s", url, shown or "-", path)
        yield port
    finally:
        await public.close()
        await admin.close()
        api.context.close()


def public_tls(path: str) -> tuple[ssl.SSLContext, str]:
    """TLS with a file's key and certificate or new ones, and its SHA-256; ConfigError: unusable."""
    if not path:
        made = make_certificate()
        return server_tls(made), fingerprint(made)
    return tls_of(path, named_tls(path))


def named_tls(path: str, *, any_owner: bool = False) -> bytes:
    """The content of the file `http.tls`, which is private, or ConfigError."""
    try:
        return read_private(path, any_owner=any_owner)
    except ConfigError as error:
        raise ConfigError(f"http.tls {error}") from None


def tls_of(path: str, pem: bytes) -> tuple[ssl.SSLContext, str]:
    """TLS with the key and certificate of a file, and its SHA-256; or ConfigError."""
    try:
        return server_tls(pem), fingerprint(pem)
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"http.tls {path}: holds no key and certificate that fit") from None
