"""Parts of an acting maintd and of a standby alike: settings, keys, addresses."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_address
from typing import TypeVar

import click

from nodeagent import service
from nodeagent.clocks import unix_ms
from nodeagent.cluster.ganeti.ssconf import Ssconf
from nodeagent.errors import ConfigError, NodeAgentError, Unavailable, in_words
from nodeagent.maintd.engine.daemon import Maintd
from nodeagent.maintd.engine.memory import mark_away
from nodeagent.maintd.engine.questions import Sender
from nodeagent.maintd.engine.settings import MASTER, Settings, load, needing_restart
from nodeagent.maintd.http.listen import listening
from nodeagent.maintd.http.readers import Readers
from nodeagent.maintd.http.routes import Api
from nodeagent.protocol.envelope import Key
from nodeagent.secret import read_private
from nodeagent.ssconf import lines as ssconf_lines

log = logging.getLogger("nodeagent.cli.maintd")
S = TypeVar("S", bound=Sender)
_LOOPBACK = "127.0.0.1"


def ask_files(settings: Settings) -> None:
    """Raise NotMaster if Ganeti's files name another master."""
    ssconf(settings).check_master()


def ssconf(settings: Settings) -> Ssconf:
    """Return Ganeti's files on this node."""
    return Ssconf(settings.cluster.node, settings.cluster.ganeti)


def not_here(settings: Settings) -> None:
    """Record that another node is the master: the ledger here will not know its maintd's work."""
    try:
        mark_away(settings.maintd.state)
    except OSError as error:
        click.echo(f"maintd: maintd.state: {in_words(error)}", err=True)


def http_addresses(settings: Settings, *, standby: bool = False) -> list[str]:
    """Return the numeric addresses to serve at.

    "master" is the address that goes with the cluster's master, and loopback. A standby has
    loopback only.
    """
    if settings.http.address != MASTER:
        return [settings.http.address]
    if standby:
        return [_LOOPBACK]
    folder = settings.cluster.ganeti
    path = f"{folder}/ssconf_master_ip"
    if not os.path.exists(path):
        log.warning("master-address-unknown path=%s: maintd serves at loopback only", path)
        return [_LOOPBACK]
    address = _master_address(folder)
    loopback = "::1" if ":" in address else _LOOPBACK
    return list(dict.fromkeys((address, loopback)))


def _master_address(folder: str) -> str:
    try:
        return str(ip_address("".join(ssconf_lines(folder, "master_ip"))))
    except ValueError:
        why = f"{folder}/ssconf_master_ip holds no address"
        raise ConfigError(f'http.address "master": {why}') from None


def reload_settings(maintd: Maintd, config: str, began: Settings) -> None:
    """Reload policy and rhythm at SIGHUP; keep the old ones if the new are wrong.

    It logs changes from `began` that need a restart.
    """
    try:
        settings = load(config, owner=os.geteuid(), port=began.port)
    except NodeAgentError as error:
        log.error("settings-kept why=%r", str(error))  # noqa: TRY400
        maintd.engine.complaint = str(error)
        return
    maintd.engine.policy, maintd.engine.complaint = settings.policy, ""
    maintd.engine.outbox.configure(settings.targets)
    maintd.every = settings.maintd.every
    logging.getLogger().setLevel(settings.maintd.log.upper())
    for key in needing_restart(began, settings):
        log.warning("settings-need-restart %s changed; the old one stays", key)
    log.info("settings-reloaded")


@asynccontextmanager
async def served(
    maintd: Maintd, settings: Settings, addresses: list[str], status: str, *, dry: bool = False
) -> AsyncIterator[None]:
    """Serve a daemon over HTTP, and tell systemd that it lives.

    A dry run goes on without, where it runs beside the daemon.
    """
    api = Api(maintd, settings.http.users, readers=Readers(settings.http.read))
    async with AsyncExitStack() as stack:
        beat = asyncio.create_task(service.keep_alive(maintd.alive))
        stack.callback(beat.cancel)
        try:
            server = listening(api, settings.maintd.socket, addresses, settings.http)
            await stack.enter_async_context(server)
        except Unavailable as error:
            if not dry:
                raise
            log.warning("not-listening why=%r", str(error))
        service.notify("READY=1", f"STATUS={status}")
        yield


def cluster_key(settings: Settings) -> Key:
    """Return the key that the agents' reports are sealed with."""
    return Key(_of_ganeti(settings, settings.maintd.key, "hmac.key"))


def own_certificate(settings: Settings) -> bytes:
    """Return the key and certificate that sign as this master candidate."""
    return _of_ganeti(settings, settings.maintd.certificate, "client.pem")


def sender(kind: type[S], settings: Settings) -> S:
    """Return what asks agents, or orders something, in the name of this master candidate."""
    return kind.by(cluster_key(settings), own_certificate(settings), settings.poll, unix_ms)


def _of_ganeti(settings: Settings, path: str, name: str) -> bytes:
    """Read a file of Ganeti's, which may belong to a user of Ganeti's."""
    return read_private(path or _secret(settings, name), any_owner=True)


def _secret(settings: Settings, name: str) -> str:
    """Return the secret's path: systemd's own copy for us (LoadCredential=), else Ganeti's."""
    given = os.path.join(os.environ.get("CREDENTIALS_DIRECTORY", ""), name)
    if os.path.isabs(given) and os.path.exists(given):
        return given
    return f"{settings.cluster.ganeti}/{name}"
