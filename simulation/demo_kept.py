"""Extras of a demo that stays up: HTTPS with users, and the cluster as htools' text."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from nodeagent.cluster.backend import Cluster
from nodeagent.maintd.balancing.inputs import take_stock
from nodeagent.maintd.http.routes import Api
from nodeagent.placement.cluster.textfile import write
from nodeagent.web.tls import make_certificate, server_tls

ADMIN, OWNER = "demo", "db"  # users; the second answers for the owner of the same name
CommandLine = Callable[[str, str], str]  # of a user and a path


@asynccontextmanager
async def secured(api: Api, users: Path) -> AsyncIterator[CommandLine]:
    """Serve over TLS as well, for over plain HTTP nobody may change anything.

    `users` is written, with a password for this life only; gives the curl lines that use it.
    """
    password = secrets.token_urlsafe(9)
    users.touch(0o600)
    users.write_text(f"{ADMIN} {password} write\n{OWNER} {password} owner:{OWNER}\n")
    server = api.server()
    port = await server.start("127.0.0.1", 0, server_tls(make_certificate()))
    try:
        yield lambda user, path: f"curl -k -u {user}:{password} https://127.0.0.1:{port}{path}"
    finally:
        await server.close()


def save(cluster: Cluster, path: Path) -> None:
    """Write what `gnt-maint rolling -t` and others of the kind read."""
    path.write_text(write(take_stock(cluster).cluster))
