"""`maintd run`: assemble the master's daemon or a standby's, and run it; `maintd check-master`."""

import asyncio
import fcntl
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

import click

from nodeagent import service
from nodeagent.cli import exits
from nodeagent.cli.maintd_ledger import open_sqlite
from nodeagent.cli.maintd_parts import (
    ask_files,
    cluster_key,
    http_addresses,
    not_here,
    reload_settings,
    sender,
    served,
    ssconf,
)
from nodeagent.clocks import unix_ms
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.errors import ConfigError, NodeAgentError, NotMaster, Unavailable, in_words
from nodeagent.maintd.balancing.headroom_thread import Headrooms
from nodeagent.maintd.balancing.inputs import stock_of
from nodeagent.maintd.balancing.search_thread import Adviser
from nodeagent.maintd.engine.conduct import Conduct
from nodeagent.maintd.engine.daemon import Maintd
from nodeagent.maintd.engine.measure import Measuring
from nodeagent.maintd.engine.memory import away_since, unmark_away
from nodeagent.maintd.engine.noded import Noded
from nodeagent.maintd.engine.orders import Orders
from nodeagent.maintd.engine.poll import poll, remember
from nodeagent.maintd.engine.round import Engine, Services
from nodeagent.maintd.engine.settings import Settings, load
from nodeagent.maintd.engine.standby import SOCKET, Helper, Standby, until
from nodeagent.maintd.engine.witnesses import QuestionsOverHttp, Witnesses
from nodeagent.maintd.notices.firing import Firing
from nodeagent.maintd.notices.outbox import Outbox
from nodeagent.maintd.queue.inventory import Inventory
from nodeagent.model.snapshot import Snapshot
from nodeagent.protocol.look import Look, Seen
from nodeagent.store.departures_file import DeparturesFile
from nodeagent.store.sqlite import MEMORY, SqliteStore

log = logging.getLogger("nodeagent.cli.maintd")
_BELIEVED = 60.0  # seconds from the end of the slowest poll in which its vote is believed


@click.command("check-master")
@click.pass_obj
def check_master(config: str) -> None:
    """End with 1 where Ganeti's files name another master.

    Reads local files only, and queries no node.
    """
    try:
        settings = load(config, owner=os.geteuid())
        ask_files(settings)
    except NotMaster:
        if _may_stand_by(settings):
            return
        not_here(settings)
        # Not 11: the unit counts that as success, which to systemd means that the condition holds.
        raise
    except NodeAgentError as error:  # `run` ends with it, if it matters
        click.echo(f"maintd: {error}", err=True)


def _may_stand_by(settings: Settings) -> bool:
    with suppress(Unavailable, ConfigError):
        return settings.maintd.standby and ssconf(settings).is_candidate()
    return False


@click.command()
@click.option("--dry-run", is_flag=True, help="Decide and show; save and submit nothing.")
@click.option("--no-voting", is_flag=True, help="Do not let the nodes vote on the master.")
@click.option("--yes-do-it", is_flag=True, help="Confirm --no-voting.")
@click.option(
    "-p",
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve HTTP at this port, not at http.port of the settings.",
)
@click.pass_obj
def run(config: str, *, dry_run: bool, no_voting: bool, yes_do_it: bool, port: int | None) -> None:
    """Serve until SIGTERM. Ends with 11 if this node is not the master."""
    if no_voting and not yes_do_it:
        raise click.UsageError("--no-voting lets two masters act at once: add --yes-do-it")
    try:
        settings = load(config, owner=os.geteuid(), port=port)
        service.log_to_stderr(settings.maintd.log)
        asyncio.run(serve(settings, config, dry=dry_run, voting=not no_voting))
    except NotMaster as error:
        if not dry_run:
            not_here(settings)
        # To systemd an end before READY is a failure, whatever the exit code.
        service.notify("READY=1", "STATUS=not the master")
        click.echo(f"maintd: not master, exiting: {error}", err=True)
        sys.exit(exits.NOT_MASTER)
    except OSError as error:
        raise Unavailable(in_words(error)) from None


async def serve(settings: Settings, config: str, *, dry: bool, voting: bool = True) -> None:
    """Run the daemon, first as a standby if it is to be one.

    NotMaster: this node is not the master, or not any more.
    """
    standby = settings.maintd.standby and not dry
    # First of all: on other nodes keys may be unreadable, and state is not ours.
    with suppress(Unavailable, ConfigError):
        if not standby:
            ask_files(settings)
    lock = None if dry else _lock(settings.maintd.state)
    stop = asyncio.Event()
    try:
        if standby:
            service.on_signals(stop)
            settings = await _stand_by(settings, config, stop)
        if not stop.is_set():
            await _act(settings, config, stop, lock, dry=dry, voting=voting)
    finally:
        service.notify("STOPPING=1")
        if lock is not None:
            os.close(lock)


async def _stand_by(settings: Settings, config: str, stop: asyncio.Event) -> Settings:
    """Show who acts, until it is our turn or `stop`; return the settings by then.

    NotMaster: this node is neither the master nor a master candidate.
    """
    files, poll = ssconf(settings), settings.poll
    with suppress(Unavailable, ConfigError):
        if await asyncio.to_thread(files.is_master):
            return settings
    not_here(settings)
    store = SqliteStore(MEMORY)
    helper = Helper(SOCKET, poll.port, tls=poll.tls, steady=time.monotonic)
    engine = Standby(
        store=store,
        cluster=GanetiCluster(settings.cluster.luxi),
        orders=sender(Orders, settings),
        policy=settings.policy,
        now=unix_ms,
        nodes=files.snapshot,
        me=files.own_name,
        helper=helper if settings.succession.enabled else None,
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
        helper.close()
    if not stop.is_set():
        log.info("taking-over")
        with suppress(NodeAgentError):  # SIGHUP has told of a fault
            return load(config, owner=os.geteuid(), port=settings.port)
    return settings


async def _act(
    settings: Settings,
    config: str,
    stop: asyncio.Event,
    lock: int | None,
    *,
    dry: bool,
    voting: bool,
) -> None:
    """Serve as the one that acts, until `stop`."""
    vote = voting and settings.maintd.vote
    alone = None if lock is None else partial(_stay_alone, settings.maintd.state, lock)
    voting_or_not = replace(settings, maintd=replace(settings.maintd, vote=vote))
    maintd = assemble(voting_or_not, dry=dry, alone=alone)
    service.on_signals(stop, lambda: reload_settings(maintd, config, settings))
    try:
        await asyncio.to_thread(maintd.engine.conduct.check_master)
    except Unavailable as error:  # luxid may just be starting; every round asks again
        log.warning("master-unknown why=%r", str(error))
    async with served(maintd, settings, http_addresses(settings), "serving", dry=dry):
        await maintd.run(stop)


def assemble(
    settings: Settings,
    *,
    dry: bool = False,
    alone: Callable[[], None] | None = None,
) -> Maintd:
    """Build the daemon's parts for production; `alone` checks that no other uses its state."""
    cluster, conduct = _cluster(settings, dry=dry)
    if alone is not None:
        conduct = replace(conduct, check_master=partial(_check, alone, conduct.check_master))
    state = settings.maintd.state
    conduct = replace(conduct, away=lambda: away_since(state), back=lambda: unmark_away(state))
    key = cluster_key(settings)
    poll_settings = settings.poll

    genuine: dict[str, Seen] = {}

    async def look(snapshot: Snapshot) -> Mapping[str, Look]:
        nonlocal genuine
        looks = await poll(snapshot, key, poll_settings, unix_ms, genuine)
        genuine = remember(genuine, looks, snapshot)
        return looks

    orders = sender(Orders, settings)
    questions = sender(QuestionsOverHttp, settings)
    store = open_sqlite(state, unix_ms, dry=dry)
    measure = Measuring(
        poll_settings, lambda: {name: seen.report.tls for name, seen in genuine.items()}, unix_ms
    )
    headrooms = Headrooms()
    adviser = Adviser(
        lambda s, qs: stock_of(cluster, s, {q.group for q in qs}),
        measure,
        room=cluster.capacity,
        running=cluster.running,
        tell=headrooms.take,
    )
    outbox = Outbox(settings.targets, unix_ms)
    services = Services(
        adviser=adviser,
        inventory=Inventory(settings.sabakan, unix_ms),
        outbox=outbox,
        firing=Firing(lambda: outbox.targets.values(), time.monotonic),
        headrooms=headrooms,
        noded=Noded(cluster, time.monotonic),
        witnesses=Witnesses(questions, unix_ms, time.monotonic),
        departing=DeparturesFile.beside(settings.maintd.socket),
    )
    engine = Engine(
        store=store,
        cluster=cluster,
        orders=orders,
        look=look,
        policy=settings.policy,
        now=unix_ms,
        conduct=conduct,
        services=services,
    )
    cluster.check = engine.acting.check
    # Questions to Ganeti, the poll, and the submissions: a request waits at most so long.
    slowest = 900.0 + poll_settings.total + 3 * cluster.grace
    return Maintd(engine, store, settings.maintd.every, unix_ms, slowest=slowest)


def _cluster(settings: Settings, *, dry: bool) -> tuple[GanetiCluster, Conduct]:
    where, believed = settings.cluster, settings.poll.total + _BELIEVED
    luxi = GanetiCluster(where.luxi, grace=where.grace or 300.0)
    files = ssconf(settings)
    check = partial(files.check_master, luxi.master)
    conduct = Conduct(files.own_name(), check, settings.maintd.vote)
    return luxi, replace(conduct, oldest=settings.poll.oldest, dry=dry, believed=believed)


def _check(*checks: Callable[[], None]) -> None:
    for check in checks:
        check()


def _lock(folder: str) -> int:
    """Lock the state for this maintd alone; the lock goes with the process."""
    try:
        owner = os.stat(folder).st_uid
        if os.geteuid() == 0 != owner:  # the service could not open a file that root leaves there
            raise ConfigError(
                f"maintd.state: {folder} is user {owner}'s: say systemctl start maintd,"
                " or run it as that user; root may look with --dry-run"
            )
        handle = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"maintd.state: {folder}: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise Unavailable(f"another maintd is at work with the state in {folder}") from None
    return handle


def _stay_alone(folder: str, lock: int) -> None:
    """Take the lock again if somebody has deleted it. NotMaster: another maintd has it."""
    path = f"{folder}/lock"
    try:
        if os.path.samestat(os.fstat(lock), os.stat(path)):
            return
    except OSError:
        pass  # it is missing, or unreadable
    try:
        fresh = _lock(folder)
    except ConfigError as error:
        raise Unavailable(str(error)) from None
    except Unavailable as error:
        raise NotMaster(str(error)) from None
    os.dup2(fresh, lock, inheritable=False)
    os.close(fresh)
    log.error("lock-replaced path=%s", path)
