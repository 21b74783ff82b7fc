"""`maintd store`: copy the ledger, for a backup, an older nodeagent, or another kind of store."""

import fcntl
import os
from contextlib import closing

import click

from nodeagent.cli import usage
from nodeagent.cli.maintd_etcd import open_etcd
from nodeagent.errors import ConfigError, NodeAgentError, Unavailable, in_words
from nodeagent.maintd.settings import Settings, load
from nodeagent.store import copies, moving, tables
from nodeagent.store.sqlite import SqliteStore

_KINDS = ("sqlite", "etcd")


@click.group("store", subcommand_metavar="COMMAND [ARGS]...")
def store() -> None:
    """Copy the ledger to a file or another store."""


@store.command("copy")
@click.option(
    "--from",
    "source",
    type=click.Choice(_KINDS),
    help="Copy the ledger of this store (default: the one that [store] names).",
)
@click.option(
    "--to",
    required=True,
    type=usage.FILE,
    metavar="FILE|sqlite|etcd",
    help="Write this new file, or move the ledger to this store; stop maintd first.",
)
@click.option(
    "--form",
    type=click.IntRange(tables.BEFORE, tables.FORM),
    default=tables.FORM,
    show_default=True,
    help="Write the form that an older nodeagent reads; stop maintd first.",
)
@click.pass_obj
def copy(config: str, source: str | None, to: str, form: int) -> None:
    """Copy the ledger into a new file, complete and checked, or into another store.

    Into a file it works beside a running maintd, unless you want an older form.
    """
    try:
        settings = load(config, owner=os.geteuid())
        kind = source or settings.store.backend
        if kind == to:
            raise click.UsageError(f"--from and --to are both {to}")
        if form != tables.FORM and (kind == "etcd" or to in _KINDS):
            raise click.UsageError("--form is for a copy from SQLite to a file")
        if "etcd" in (kind, to) and not settings.store.endpoints:
            raise ConfigError("store.endpoints is missing: the addresses of etcd's members")
        if form != tables.FORM or to in _KINDS:
            _check_stopped(settings.maintd.state)
        _copy(settings, kind, to, form)
    except NodeAgentError as error:
        usage.die("maintd", error)
    click.echo(f"{to}: ok")


def _copy(settings: Settings, kind: str, to: str, form: int) -> None:
    folder = settings.maintd.state
    path = f"{folder}/ledger.sqlite"
    if to == "etcd":
        if not os.path.exists(path):
            raise Unavailable(f"{path} does not exist: there is nothing to copy")
        with (
            closing(SqliteStore(path, reading=True)) as source,
            closing(open_etcd(settings.store)) as target,
        ):
            moving.into_etcd(source, target)
    elif kind == "etcd":
        with closing(open_etcd(settings.store, reading=True)) as origin:
            moving.into_file(origin, path if to == "sqlite" else to, folder)
    else:
        copies.copy(path, to, form)


def _check_stopped(folder: str) -> None:
    """Raise Unavailable if maintd is running: what it saves next would be missing."""
    try:
        lock = os.open(f"{folder}/lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Unavailable(in_words(error)) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Unavailable(
            "maintd is running, and the copy would miss what it does next:"
            " run systemctl stop maintd first"
        ) from None
    finally:
        os.close(lock)
