"""`maintd run` where another maintd acts: wait for our turn, and show who does."""

import asyncio
import logging
import os
import time
from contextlib import suppress

from nodeagent import service
from nodeagent.cli.maintd_parts import (
    http_addresses,
    not_here,
    reload_settings,
    sender,
    served,
    ssconf,
    unix_ms,
)
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.cluster.ganeti.ssconf import Ssconf
from nodeagent.errors import ConfigError, NodeAgentError, NotMaster, Unavailable
from nodeagent.maintd.daemon import Maintd
from nodeagent.maintd.engine.orders import Orders
from nodeagent.maintd.engine.standby import SOCKET, Helper, Standby, until
from nodeagent.maintd.settings import Settings, load
from nodeagent.store.sqlite import MEMORY, SqliteStore

log = logging.getLogger(__name__)


async def stand_by(settings: Settings, config: str, stop: asyncio.Event) -> Settings:
    """Wait for our turn to act, or for `stop`, and serve meanwhile; return the settings by then.

    NotMaster: this node is neither the master nor a master candidate.
    """
    files = ssconf(settings)
    with suppress(Unavailable, ConfigError):
        if await asyncio.to_thread(files.is_master):
            return settings
    not_here(settings)
    await _serve(files, settings, config, stop)
    if not stop.is_set():
        log.info("taking-over")
        with suppress(NodeAgentError):  # SIGHUP has told of a fault
            return load(config, owner=os.geteuid(), port=settings.port)
    return settings


async def _serve(files: Ssconf, settings: Settings, config: str, stop: asyncio.Event) -> None:
    """Show who acts, until it is our turn or `stop`."""
    poll, helper = settings.poll, None
    if settings.succession.enabled:
        helper = Helper(SOCKET, poll.port, tls=poll.tls, steady=time.monotonic)
    store = SqliteStore(MEMORY)
    engine = Standby(
        store=store,
        cluster=GanetiCluster(settings.cluster.luxi),
        orders=sender(Orders, settings),
        policy=settings.policy,
        now=unix_ms,
        nodes=files.snapshot,
        who=lambda: _who(files),
        helper=helper,
    )
    maintd = Maintd(engine, store, settings.maintd.every, unix_ms)
    service.on_signals(stop, lambda: reload_settings(maintd, config, settings))
    ended = asyncio.Event()
    waiting = asyncio.create_task(until(files.is_master, stop))
    waiting.add_done_callback(lambda _: ended.set())
    try:
        # The address of the cluster's master is the acting one's.
        async with served(maintd, settings, http_addresses(settings, standby=True), "standby"):
            log.info("standby")
            await maintd.run(ended)
    finally:
        waiting.cancel()
        if helper is not None:
            helper.close()


def _who(files: Ssconf) -> str:
    """Name the maintd that acts. NotMaster: this node is no candidate."""
    own, master = files.own_name(), files.master()
    if master == own:
        return "nobody"
    if not files.is_candidate():
        raise NotMaster(f"{own} is neither the master nor a master candidate")
    return f"the maintd on {master}"
