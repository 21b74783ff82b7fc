"""`maintd run` where another maintd acts: wait for our turn, and show who does."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from nodeagent import service
from nodeagent.cli.maintd_parts import (
    http_addresses,
    not_here,
    reload_settings,
    sender,
    ssconf,
    unix_ms,
)
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.errors import ConfigError, NodeAgentError, NotMaster, Unavailable
from nodeagent.maintd.daemon import Maintd
from nodeagent.maintd.engine.conduct import Conduct
from nodeagent.maintd.engine.orders import Orders
from nodeagent.maintd.engine.standby import Standby, until
from nodeagent.maintd.http.listen import listening
from nodeagent.maintd.http.readers import Readers
from nodeagent.maintd.http.routes import Api
from nodeagent.maintd.settings import Settings, load
from nodeagent.maintd.succession.watch import SOCKET, Succession
from nodeagent.model.snapshot import Snapshot
from nodeagent.protocol.look import Look
from nodeagent.store.sqlite import MEMORY, SqliteStore

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Part:
    """A standby's sources: the nodes, who acts, and whether it is our turn."""

    nodes: Callable[[], Snapshot]
    who: Callable[[], str]
    turn: Callable[[], bool]


async def stand_by(settings: Settings, config: str, stop: asyncio.Event) -> Settings:
    """Wait for our turn to act, or for `stop`, and serve meanwhile; return the settings by then.

    NotMaster: this node is neither the master nor a master candidate.
    """
    part = _part(settings)
    if await _is_turn(part):
        return settings
    not_here(settings)
    await _serve(part, settings, config, stop)
    if not stop.is_set():
        log.info("taking-over")
        with suppress(NodeAgentError):  # SIGHUP has told of a fault
            return load(config, owner=os.geteuid(), port=settings.port)
    return settings


async def _is_turn(part: _Part) -> bool:
    with suppress(Unavailable, ConfigError):
        return await asyncio.to_thread(part.turn)
    return False


async def _serve(part: _Part, settings: Settings, config: str, stop: asyncio.Event) -> None:
    """Show who acts, until it is our turn or `stop`."""
    orders = sender(Orders, settings)

    async def nobody(_: Snapshot) -> Mapping[str, Look]:
        return {}

    conduct = Conduct("", lambda: None, vote=False)
    succession = _succession(settings)
    store, cluster = SqliteStore(MEMORY), GanetiCluster(settings.cluster.luxi)
    engine = Standby(
        store=store,
        cluster=cluster,
        orders=orders,
        look=nobody,
        policy=settings.policy,
        now=unix_ms,
        conduct=conduct,
        nodes=part.nodes,
        who=part.who,
        succession=succession,
    )
    maintd = Maintd(engine, store, settings.maintd.every, unix_ms)
    service.on_signals(stop, lambda: reload_settings(maintd, config, settings))
    # The address of the cluster's master is the acting one's.
    addresses = http_addresses(settings, standby=True)
    api = Api(maintd, settings.http.users, readers=Readers(settings.http.read))
    beat = asyncio.create_task(service.keep_alive(maintd.alive))
    ended = asyncio.Event()
    waiting = asyncio.create_task(until(part.turn, stop))
    waiting.add_done_callback(lambda _: ended.set())
    try:
        async with listening(api, settings.maintd.socket, addresses, settings.http):
            service.notify("READY=1", "STATUS=standby")
            log.info("standby")
            await maintd.run(ended)
    finally:
        beat.cancel()
        waiting.cancel()
        if succession is not None:
            succession.close()


def _succession(settings: Settings) -> Succession | None:
    if not settings.succession.enabled:
        return None
    poll = settings.poll
    return Succession(SOCKET, poll.port, tls=poll.tls, steady=time.monotonic)


def _part(settings: Settings) -> _Part:
    files = ssconf(settings)

    def who() -> str:
        own, master = files.own_name(), files.master()
        if master == own:
            return "nobody"
        if not files.is_candidate():
            raise NotMaster(f"{own} is neither the master nor a master candidate")
        return f"the maintd on {master}"

    return _Part(files.snapshot, who, lambda: files.master() == files.own_name())
