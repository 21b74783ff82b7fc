"""`maintd run` where another maintd acts: serve what can be read, and wait for our turn."""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass

from nodeagent import service
from nodeagent.cli.maintd_etcd import open_etcd
from nodeagent.cli.maintd_parts import (
    cluster_key,
    http_addresses,
    not_here,
    own_certificate,
    rapi_cluster,
    reload_settings,
    ssconf,
    unix_ms,
)
from nodeagent.cluster.backend import Cluster
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.errors import ConfigError, NodeAgentError, NotMaster, Unavailable
from nodeagent.maintd.daemon import Maintd
from nodeagent.maintd.engine.conduct import Conduct
from nodeagent.maintd.engine.copying import Asker
from nodeagent.maintd.engine.orders import Orders
from nodeagent.maintd.engine.standby import CopyReader, Standby, until
from nodeagent.maintd.http.listen import listening
from nodeagent.maintd.http.readers import Readers
from nodeagent.maintd.http.routes import Api
from nodeagent.maintd.settings import Settings, load
from nodeagent.maintd.succession.watch import SOCKET, Succession
from nodeagent.model.snapshot import Snapshot
from nodeagent.protocol.look import Look
from nodeagent.store.contract import Store
from nodeagent.store.etcd.store import EtcdStore
from nodeagent.store.sqlite import MEMORY, SqliteStore

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Part:
    """A standby's sources: the ledger, the nodes, who acts, and whether it is our turn."""

    store: Store
    cluster: Cluster
    nodes: Callable[[], Snapshot]
    who: Callable[[], str]
    turn: Callable[[], bool]
    feed: Callable[[Snapshot], Awaitable[None]] | None = None


async def stand_by(
    settings: Settings, config: str, stop: asyncio.Event
) -> tuple[Settings, EtcdStore | None]:
    """Wait for our turn to act, or for `stop`, and serve meanwhile.

    Return the settings by then, and the store in etcd with its lease. NotMaster: this node is
    neither the master nor a master candidate.
    """
    told = False
    while not stop.is_set():
        part = _part(settings)
        with closing(part.store):
            if not await _is_turn(part):
                if not told:
                    not_here(settings)
                    told = True
                await _serve(part, settings, config, stop)
        if stop.is_set():
            break
        if told:
            log.info("taking-over")
            with suppress(NodeAgentError):  # SIGHUP has told of a fault
                settings = load(config, owner=os.geteuid(), port=settings.port)
        if settings.store.backend != "etcd":
            return settings, None
        store = open_etcd(settings.store)
        try:
            await asyncio.to_thread(store.take)
        except Unavailable as error:  # another one was faster
            store.close()
            log.info("lease-not-taken why=%r", str(error))
            await asyncio.sleep(1)
        else:
            return settings, store
    return settings, None


async def _is_turn(part: _Part) -> bool:
    with suppress(Unavailable, ConfigError):
        return await asyncio.to_thread(part.turn)
    return False


async def _serve(part: _Part, settings: Settings, config: str, stop: asyncio.Event) -> None:
    """Serve what there is to read, until it is our turn or `stop`."""
    key, certificate = cluster_key(settings), own_certificate(settings)
    poll = settings.poll
    orders = Orders(key, certificate, poll.port, poll.tls, unix_ms, poll.require_node_keys)

    async def nobody(_: Snapshot) -> Mapping[str, Look]:
        return {}

    conduct = Conduct("", lambda: None, vote=False)
    succession = _succession(settings)
    engine = Standby(
        *(part.store, part.cluster, orders, nobody, settings.policy, unix_ms, conduct),
        nodes=part.nodes,
        who=part.who,
        feed=part.feed,
        succession=succession,
    )
    maintd = Maintd(engine, part.store, settings.maintd.every, unix_ms)
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
    where = settings.cluster
    etcd = open_etcd(settings.store, reading=True) if settings.store.backend == "etcd" else None
    if where.backend == "rapi":
        assert etcd is not None  # the settings see to it
        rapi = rapi_cluster(settings)
        who = lambda: etcd.holder() or "nobody"  # noqa: E731
        return _Part(etcd, rapi, rapi.snapshot, who, lambda: not etcd.holder())
    certificate = own_certificate(settings)
    files = ssconf(settings, certificate)
    luxi = GanetiCluster(where.luxi)

    def on_master() -> str:
        own, master = files.own_name(), files.master()
        if master == own:
            return _holder(etcd) or "nobody"
        if not files.is_candidate():
            raise NotMaster(f"{own} is neither the master nor a master candidate")
        return f"the maintd on {master}"

    def is_master() -> bool:
        return files.master() == files.own_name() and not (etcd and etcd.holder())

    if etcd is not None:
        return _Part(etcd, luxi, files.snapshot, on_master, is_master)
    asker = Asker(
        cluster_key(settings), certificate, settings.poll.port, settings.poll.tls, unix_ms
    )
    kept = SqliteStore(MEMORY)
    reader = CopyReader(asker, files.me, kept)
    return _Part(kept, luxi, files.snapshot, on_master, is_master, reader.feed)


def _holder(etcd: EtcdStore | None) -> str:
    return etcd.holder() if etcd is not None else ""
