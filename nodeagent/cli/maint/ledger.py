"""gnt-maint ledger: where maintd's ledger is kept, and to save it, put it back, or remove it."""

import json
import os
import sys
from typing import TYPE_CHECKING

import click

from nodeagent.cli.maint.console.arguments import luxi_path
from nodeagent.cli.maint.console.changing import changes, is_dry, said_yes
from nodeagent.cli.maint.console.client import (
    Absent,
    InDoubt,
    Reach,
    Refused,
    Unreachable,
    Where,
    parsed,
)
from nodeagent.cli.maint.console.files import read, save
from nodeagent.cli.maint.console.looking import lists
from nodeagent.cli.maint.console.options import JSON, Verbs, as_json, cli
from nodeagent.cli.maint.console.screen import Json, emit, screen
from nodeagent.cli.maint.console.text import age
from nodeagent.cli.maint.control import ask
from nodeagent.cli.usage import FILE
from nodeagent.errors import Corrupt, Unavailable

if TYPE_CHECKING:
    from nodeagent.cluster.ganeti.backend import GanetiCluster

_PLACE = "/1/ledger"
_MOST = 16 * 1024 * 1024  # bytes of a file; the rule's ledger has no more


@cli.group("ledger", cls=Verbs, invoke_without_command=True)
@lists
@JSON
@click.pass_context
def ledger(context: click.Context, *, as_json: bool) -> None:
    """Show where maintd's ledger is kept, save it, put it back.

    The ledger is all that maintd remembers: incidents, windows, queue, pauses, owners' answers.
    """
    if context.invoked_subcommand is not None:
        return
    where: Where = context.obj
    answer = where.reach().get("/1/round")
    kept, now = answer["ledger"], answer["now"]
    if as_json:
        emit(kept)
    elif answer["standby"]:
        who = f"{answer['standby']}, and tells it; gnt-maint ledger show tells what is here"
        screen().facts([("Standby", who)])
    else:
        screen().facts(list(_facts(kept, now)))


def _facts(kept: Json, now: float) -> list[tuple[str, object]]:
    rule = kept["rule"]
    if rule["number"]:
        saved = f"save {rule['number']} of {rule['writer']}, {age(max(0, now - rule['at']))} ago"
        saved += f", {rule['bytes'] / 1024:.1f} KiB"
    else:
        saved = "none that can be read" if rule["bytes"] else "none yet"
    rows: list[tuple[str, object]] = [
        ("Ganeti", saved),
        ("Rule", f"gnt-filter info {kept['uuid']}" if kept["uuid"] else "unknown"),
        (
            "Here",
            f"save {kept['number']}, {kept['file']}{_seen(kept)}" if kept["number"] else "none yet",
        ),
    ]
    if since := kept["behind-since"]:
        why = kept["why"] or "it has not been written yet"
        rows.append(("Behind", f"for {age(max(0, now - since))}: {why}"))
    return rows


def _seen(kept: Json) -> str:
    """Say why this node has later saves, where nothing is behind."""
    only_seen = kept["rule"]["number"] not in (None, kept["number"]) and not kept["behind-since"]
    return "; the later ones only saw the same again" if only_seen else ""


@ledger.command("show")
@as_json
def show(where: Where, *, as_json: bool) -> None:
    """Print the ledger (JSON). Where maintd does not answer, the one that this node's Ganeti has.

    Root on any master candidate can read that one.
    """
    try:
        text = where.reach().shown_raw(_PLACE)
    except (Absent, InDoubt) as error:  # it does not run, or is a standby
        if where.elsewhere:  # the Ganeti of this machine may be another one
            raise
        text = _of_ganeti(where, error).encode()
    click.echo(json.dumps(parsed(text), indent=2, ensure_ascii=False))


@ledger.command("export")
@click.argument("file", type=FILE)
@as_json
def export(where: Where, file: str, *, as_json: bool) -> None:
    """Write the ledger to FILE (JSON), for `gnt-maint ledger import`."""
    raw = where.reach().shown_raw(_PLACE)
    number = parsed(raw)["number"]
    save(file, raw, 0o600)
    if as_json:
        emit({"file": file, "number": number})
    else:
        screen().line(f"{file}: save {number}")


@ledger.command("import")
@click.argument("file", type=FILE)
@changes
@as_json
def put_back(where: Where, file: str, *, as_json: bool) -> None:
    """Put back what is planned, queued and paused from FILE, while the cluster is paused.

    It then waits for gnt-maint resume --ledger. Jobs that run must end before. What maintd knows of
    nodes and incidents stays as it is.
    """
    done = (
        "The plans are replaced. Check gnt-maint window list, queue list and balance; then run"
        " gnt-maint resume --ledger and gnt-maint resume."
    )
    body = {"rule": _packed(read(file, _MOST), file)}
    ask(where.reach(), "POST", _PLACE, body, done, as_json=as_json)


def _packed(raw: bytes, file: str) -> str:
    """Pack an exported ledger as the rule has it; Refused: the file has no ledger."""
    from nodeagent.store.carried import decoded, pack

    try:
        return pack(decoded(raw.decode()))
    except UnicodeDecodeError as error:
        raise Refused(f"{file}: not UTF-8 at byte {error.start}") from None
    except Corrupt as error:
        raise Refused(f"{file}: {error}") from None


@ledger.command("forget")
@changes
@as_json
def forget(where: Where, *, as_json: bool) -> None:
    """Remove the ledger from Ganeti's configuration, on the master, with maintd stopped.

    For when nodeagent is removed. The one on this node's disk stays.
    """
    if elsewhere := where.elsewhere:
        raise click.UsageError(f"{elsewhere} is another machine: run it on the master node itself")
    if _answers(where.reach()):
        raise Refused("maintd runs, and would write it again: run systemctl stop maintd first")
    cluster = _cluster(where)
    try:
        kept = cluster.ledger_rule() is not None
        if kept and not is_dry():
            _confirm()
            cluster.remove_ledger_rule()
    except Unavailable as error:
        raise Unreachable(f"{error}: ask as root on the master") from None
    if as_json:
        emit({"removed": kept and not is_dry()})
    elif not kept:
        screen().line("Ganeti's configuration has no ledger.")
    elif is_dry():
        screen().line("It would remove the ledger from Ganeti's configuration.")
    else:
        screen().line("Ganeti's configuration has no ledger any more.")


def _confirm() -> None:
    if said_yes():
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refused("a new master will know of nothing planned: add --yes")
    if not click.confirm("A new master will know of nothing planned. Remove it?"):
        raise Refused("nothing was changed")


def _answers(reach: Reach) -> bool:
    try:
        reach.get("/1/round")
    except Absent:
        return False
    except click.ClickException:
        return True
    return True


def _cluster(where: Where) -> "GanetiCluster":
    from nodeagent.cluster.ganeti.backend import GanetiCluster

    return GanetiCluster(luxi_path(where, None))


def _of_ganeti(where: Where, absent: Absent | InDoubt) -> str:
    """Return the ledger in this node's copy of Ganeti's configuration, as JSON."""
    from nodeagent.cluster.ganeti import configuration
    from nodeagent.model.ganeti import GANETI_FOLDER
    from nodeagent.store.carried import document, unpack

    settings = where.settings()
    folder = GANETI_FOLDER if settings is None else settings.cluster.ganeti
    path = os.path.join(folder, "config.data")
    try:
        text = configuration.ledger_rule(path)
        if text is None:
            raise Refused(f"{absent.format_message()}; and {path} has no ledger")
        ledger_json = document(unpack(text))
    except Unavailable as error:
        raise Unreachable(f"{absent.format_message()}; and {error}") from None
    except Corrupt as error:
        raise Unreachable(f"{absent.format_message()}; and {path}: {error}") from None
    click.echo(f"gnt-maint: maintd has none to show: this is from {path}", err=True)
    return ledger_json
