"""The `maintd` command: assemble the master's daemon, and run it."""

import asyncio
import fcntl
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from typing import NoReturn

import click

from nodeagent import service
from nodeagent.cli import exits, usage
from nodeagent.cli.maintd_check import check_config
from nodeagent.cluster.backend import Cluster
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.cluster.ganeti.mastership import Mastership
from nodeagent.cluster.ganeti.rapi import Rapi, RapiCluster
from nodeagent.errors import ConfigError, Corrupt, NodeAgentError, NotMaster, Unavailable, in_words
from nodeagent.maintd.balancing.inputs import stock_of
from nodeagent.maintd.balancing.search_thread import Adviser
from nodeagent.maintd.daemon import Maintd
from nodeagent.maintd.engine import absence
from nodeagent.maintd.engine.measure import Measuring
from nodeagent.maintd.engine.orders import Orders
from nodeagent.maintd.engine.poll import poll, remember
from nodeagent.maintd.engine.round import Conduct, Engine
from nodeagent.maintd.http.listen import listening
from nodeagent.maintd.http.readers import Readers
from nodeagent.maintd.http.routes import Api
from nodeagent.maintd.notices.outbox import Outbox
from nodeagent.maintd.owners.webhook import Webhooks
from nodeagent.maintd.queue.inventory import Inventory
from nodeagent.maintd.settings import DEFAULT_FILE, Settings, load, needing_restart
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.envelope import Key
from nodeagent.protocol.look import Look, Seen
from nodeagent.secret import read_password, read_private
from nodeagent.store.anew import set_aside
from nodeagent.store.sqlite import SqliteStore

log = logging.getLogger(__name__)


def _die(error: Exception) -> NoReturn:
    usage.die("maintd", error)


cli = usage.head(
    "maintd",
    "Maintenance daemon: drain, evacuate and repair nodes that report faults.",
    DEFAULT_FILE,
    "maintd.conf.d",
)


cli.add_command(check_config)


@cli.command("check-master")
@click.pass_obj
def check_master(config: str) -> None:
    """End with 1 where Ganeti's files name another master.

    Reads local files only, and queries no node.
    """
    try:
        settings = load(config, owner=os.geteuid())
        _ask_files(settings)
    except NotMaster as error:
        _not_here(settings)
        # Not 11: the unit counts that as success, which to systemd means that the condition holds.
        _die(error)
    except NodeAgentError as error:  # `run` ends with it, if it matters
        click.echo(f"maintd: {error}", err=True)


def _ask_files(settings: Settings) -> None:
    """Raise NotMaster if Ganeti's files name another master; over RAPI they do not matter."""
    where = settings.cluster
    if where.backend == "luxi":
        files = Mastership(lambda: files.own_name(), name=where.node, folder=where.ganeti)
        files.check()


@cli.command()
@click.option("--dry-run", is_flag=True, help="Decide and show; save and submit nothing.")
@click.option("--no-voting", is_flag=True, help="Do not let the nodes vote on the master.")
@click.option("--yes-do-it", is_flag=True, help="Confirm --no-voting.")
@click.pass_obj
def run(config: str, *, dry_run: bool, no_voting: bool, yes_do_it: bool) -> None:
    """Serve until SIGTERM. Ends with 11 if this node is not the master."""
    if no_voting and not yes_do_it:
        raise click.UsageError("--no-voting lets two masters act at once: add --yes-do-it")
    try:
        settings = load(config, owner=os.geteuid())
        service.log_to_stderr(settings.maintd.log)
        asyncio.run(serve(settings, config, dry=dry_run, voting=not no_voting))
    except NotMaster as error:
        if not dry_run:
            _not_here(settings)
        # To systemd an end before READY is a failure, whatever the exit code.
        service.notify("READY=1", "STATUS=not the master")
        click.echo(f"maintd: not master, exiting: {error}", err=True)
        sys.exit(exits.NOT_MASTER)
    except (NodeAgentError, OSError) as error:
        _die(error)


def _not_here(settings: Settings) -> None:
    """Record that another node is the master: the ledger here will not know its maintd's work.

    Over RAPI there is one maintd, wherever the master is.
    """
    if settings.cluster.backend == "luxi":
        try:
            absence.mark(settings.maintd.state)
        except OSError as error:
            click.echo(f"maintd: maintd.state: {in_words(error)}", err=True)


async def serve(settings: Settings, config: str, *, dry: bool, voting: bool = True) -> None:
    """Run the daemon. NotMaster: this node is not the master, or not any more."""
    # First of all: on other nodes keys may be unreadable, and state is not ours.
    with suppress(Unavailable, ConfigError):
        _ask_files(settings)
    lock = None if dry else _lock(settings.maintd.state)
    stop = asyncio.Event()
    vote = voting and settings.maintd.vote
    alone = None if lock is None else partial(_stay_alone, settings.maintd.state, lock)
    voting_or_not = replace(settings, maintd=replace(settings.maintd, vote=vote))
    maintd = assemble(voting_or_not, dry=dry, alone=alone)
    service.on_signals(stop, lambda: _reload(maintd, config, settings))
    try:
        await asyncio.to_thread(maintd.engine.conduct.check_master)
    except Unavailable as error:  # luxid may just be starting; every round asks again
        log.warning("master-unknown why=%r", str(error))
    beat = asyncio.create_task(service.keep_alive(maintd.alive))
    place = settings.maintd.socket, _address(settings)
    api = Api(maintd, settings.http.users, readers=Readers(settings.http.read, place[1]))
    try:
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(listening(api, *place, settings.http))
            except Unavailable as error:
                if not dry:  # it runs beside the daemon
                    raise
                log.warning("not-listening why=%r", str(error))
            service.notify("READY=1", "STATUS=serving")
            await maintd.run(stop)
    finally:
        service.notify("STOPPING=1")
        beat.cancel()
        if lock is not None:
            os.close(lock)


def assemble(
    settings: Settings, *, dry: bool = False, alone: Callable[[], None] | None = None
) -> Maintd:
    """Build the daemon's parts for production; `alone` checks that no other uses its state."""
    cluster, conduct = _cluster(settings, dry=dry)
    if alone is not None:
        conduct = replace(conduct, check_master=partial(_check, alone, conduct.check_master))
    state = settings.maintd.state
    conduct = replace(
        conduct, away=lambda: absence.marked(state), back=lambda: absence.unmark(state)
    )
    key, certificate = _key(settings), _certificate(settings)
    poll_settings = settings.poll

    genuine: dict[str, Seen] = {}

    async def look(snapshot: Snapshot) -> Mapping[str, Look]:
        nonlocal genuine
        looks = await poll(snapshot, key, poll_settings, _now, genuine)
        genuine = remember(genuine, looks, snapshot)
        return looks

    required = poll_settings.require_node_keys
    orders = Orders(key, certificate, poll_settings.port, poll_settings.tls, _now, required)
    store = _store(state, dry=dry, alone=alone)
    measure = Measuring(
        poll_settings, lambda: {name: seen.report.tls for name, seen in genuine.items()}, _now
    )
    adviser = Adviser(
        lambda s, qs: stock_of(cluster, s, {q.group for q in qs}), measure, room=cluster.capacity
    )
    inventory = Inventory(settings.sabakan, _now)
    webhooks = Webhooks(settings.webhooks, _now)
    engine = Engine(
        *(store, cluster, orders, look, settings.policy, _now, conduct),
        adviser=adviser,
        inventory=inventory,
        webhooks=webhooks,
        outbox=Outbox(settings.targets, _now),
    )
    # Questions to Ganeti, the poll, and the submissions: a request waits at most so long.
    slowest = 900.0 + poll_settings.total + 3 * cluster.grace
    return Maintd(engine, store, settings.maintd.every, _now, slowest=slowest)


def _address(settings: Settings) -> str:
    """Return a numeric address; "master" is the one that goes with the cluster's master."""
    if settings.http.address != "master":
        return settings.http.address
    path = f"{settings.cluster.ganeti}/ssconf_master_ip"
    address = _read(path).decode(errors="replace").strip()
    try:
        return str(ip_address(address))
    except ValueError:
        raise ConfigError(f'http.address "master": {path} holds no address') from None


def _cluster(settings: Settings, *, dry: bool) -> tuple[Cluster, Conduct]:
    where = settings.cluster
    if where.backend == "rapi":
        rapi = _rapi(settings)
        me = rapi.master()
        conduct = Conduct(me, lambda: _same_master(rapi, me), settings.maintd.vote)
        return rapi, replace(conduct, oldest=settings.poll.oldest, dry=dry)
    luxi = GanetiCluster(where.luxi, grace=where.grace or 300.0)
    mastership = Mastership(luxi.master, name=where.node, folder=where.ganeti)
    conduct = Conduct(mastership.own_name(), mastership.check, settings.maintd.vote)
    return luxi, replace(conduct, oldest=settings.poll.oldest, dry=dry)


def _rapi(settings: Settings) -> RapiCluster:
    where = settings.cluster
    try:
        password = read_password(where.password)
    except ConfigError as error:
        raise ConfigError(f"cluster.password {error}") from None
    host, _, port = where.rapi.rpartition(":")
    rapi = Rapi(host.strip("[]"), where.user, password, where.ca, port=int(port))
    return RapiCluster(rapi, grace=where.grace or 120.0)


def _same_master(cluster: Cluster, before: str) -> None:
    if (now := cluster.master()) != before:
        raise NotMaster(f"the master is {now} now, and was {before} when maintd started")


def _check(*checks: Callable[[], None]) -> None:
    for check in checks:
        check()


def _store(folder: str, *, dry: bool, alone: Callable[[], None] | None = None) -> SqliteStore:
    path = f"{folder}/ledger.sqlite"
    if dry and not os.path.exists(path):
        return SqliteStore(":memory:")
    try:
        return _readable(SqliteStore(path, alone=alone))
    except Corrupt as error:
        if dry:
            raise
        aside = set_aside(path, _now())
        log.error("ledger-corrupt why=%r aside=%s", str(error), aside)  # noqa: TRY400
        return SqliteStore(path, alone=alone)  # empty: tags and jobs rebuild it


def _readable(store: SqliteStore) -> SqliteStore:
    """Return a store whose rows are readable too; Corrupt names an unreadable one."""
    try:
        store.load()
        store.wishes()
    except NodeAgentError:
        store.close()
        raise
    return store


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


def _reload(maintd: Maintd, config: str, began: Settings) -> None:
    """Reload policy and rhythm at SIGHUP; keep the old ones if the new are wrong.

    It logs changes from `began` that need a restart.
    """
    try:
        settings = load(config, owner=os.geteuid())
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


def _key(settings: Settings) -> Key:
    return Key(_of_ganeti(settings, settings.maintd.key, "hmac.key"))


def _certificate(settings: Settings) -> bytes:
    return _of_ganeti(settings, settings.maintd.certificate, "client.pem")


def _of_ganeti(settings: Settings, path: str, name: str) -> bytes:
    """Read a file of Ganeti's, which may belong to a user of Ganeti's."""
    return read_private(path or _secret(settings, name), any_owner=True)


def _secret(settings: Settings, name: str) -> str:
    """Return the secret's path: systemd's own copy for us (LoadCredential=), else Ganeti's."""
    given = os.path.join(os.environ.get("CREDENTIALS_DIRECTORY", ""), name)
    if os.path.isabs(given) and os.path.exists(given):
        return given
    return f"{settings.cluster.ganeti}/{name}"


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(1024 * 1024)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def _now() -> Ms:
    return Ms(time.time_ns() // 1_000_000)


def main() -> None:
    usage.run(cli, "maintd")


if __name__ == "__main__":
    main()
