"""gnt-maint repair: one pass of auto-repair, now."""

import gc
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from nodeagent.cli import exits
from nodeagent.cli.maint.console.arguments import luxi_path, luxi_socket
from nodeagent.cli.maint.console.changing import changes, is_dry, may_ask
from nodeagent.cli.maint.console.client import Absent, Refused, Unreachable, Where
from nodeagent.cli.maint.console.options import as_json, cli
from nodeagent.cli.maint.console.screen import Json, emit
from nodeagent.cli.maint.console.text import harmless
from nodeagent.clocks import unix_ms
from nodeagent.errors import NodeAgentError, Unavailable
from nodeagent.folder import locked_folder

if TYPE_CHECKING:
    from nodeagent.cli.maint.harep_run import Options
    from nodeagent.cluster.ganeti.backend import GanetiCluster
    from nodeagent.maintd.autorepair.one_pass import Pass
    from nodeagent.model.snapshot import Snapshot

DELAY = 10.0  # seconds, as harep's


def _finite(_: click.Context, option: click.Parameter, value: float | None) -> float | None:
    # A negative delay counts as none: harep takes it so.
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value:g} is not a number of seconds", param=option)
    return value


@cli.command()
@click.option(
    "--mode",
    type=click.Choice(("compatible", "safe")),
    default="safe",
    help="Repair exactly as harep does, or safely (the default).",
)
@luxi_socket
@click.option(
    "--job-delay",
    metavar="SECONDS",
    type=float,
    callback=_finite,
    help="Compatible: delay before each repair, to let its tag be set [10].",
)
@click.option("--reason", metavar="TEXT", help="Compatible: reason written into the jobs.")
@click.option(
    "--at-most",
    "most",
    metavar="N",
    type=click.IntRange(min=1),
    help="Safe: repair at most N instances at once [10]; the rest wait for a later pass.",
)
@changes
@as_json
def repair(
    where: Where,
    *,
    mode: str,
    luxi: str | None,
    job_delay: float | None,
    reason: str | None,
    most: int | None,
    as_json: bool,
) -> int:
    """Repair broken instances as far as their tags allow.

    Makes one pass, now, on the master node. Needs no maintd, and refuses where maintd repairs
    instances itself. On a terminal a safe pass first shows its repairs, and asks.
    """
    dry_run = is_dry()
    if elsewhere := where.elsewhere:
        raise click.UsageError(
            f"{elsewhere} is another machine: a pass is made on the master node itself"
        )
    gc.disable()  # a pass makes millions of small objects, frees none, and ends
    if mode == "safe" and reason is not None:
        raise click.UsageError("--reason goes with --mode compatible: a repair's id is the reason")
    if mode == "safe" and job_delay is not None:
        raise click.UsageError("--job-delay goes with --mode compatible: a repair sets its own tag")
    if mode == "compatible" and most is not None:
        raise click.UsageError("--at-most goes with --mode safe: harep repairs all there is")
    from nodeagent.cluster.ganeti.backend import GanetiCluster
    from nodeagent.maintd.autorepair.one_pass import SAFE, one_pass

    try:
        taken, ours = _left_by_maintd(where, dry=dry_run)
        path = luxi_path(where, luxi)
        with _alone(path, dry=dry_run), closing(GanetiCluster(path)) as cluster:
            why = _paused(cluster, mode)
            if why and not dry_run:
                return _not_now(why, mode, as_json=as_json)
            if why:
                click.echo(f"gnt-maint: without --dry-run nothing is done: {why}", err=True)
            if mode == "compatible":
                from nodeagent.cli.maint.harep_run import Options

                delay = DELAY if job_delay is None else job_delay
                options = Options(delay, reason or "gnt-maint repair called", dry_run)
                return _compatible(cluster.snapshot(), path, options, as_json=as_json)
            most = most or SAFE.repairs
            make = partial(one_pass, cluster, unix_ms, taken=taken, ours=ours, most=most)
            if not dry_run and may_ask() and not _agreed(make(dry=True)):
                raise Refused("nothing was changed")
            return _safe(make(dry=dry_run), dry=dry_run, as_json=as_json)
    except NodeAgentError as error:  # any error: as with harep, cron gets 1
        raise Refused(str(error)) from None


def _paused(cluster: "GanetiCluster", mode: str) -> str:
    """Say why no pass runs while Ganeti's watcher is paused, or return "".

    Harep does not ask: without an answer the compatible mode goes on and prints harep's own
    message.
    """
    from nodeagent.maintd.autorepair.jobs import why_paused

    try:
        return str(why_paused(cluster.watcher_paused(), unix_ms()) or "")
    except Unavailable:
        if mode == "compatible":
            return ""
        raise


def _not_now(why: str, mode: str, *, as_json: bool) -> int:
    """Say why a pass does nothing; the person who paused it knows, so cron gets no failure."""
    if as_json:
        emit({"mode": mode, "dry-run": False, "paused": why})
    else:
        click.echo(why)
    return 0


def _compatible(snapshot: "Snapshot", path: str, options: "Options", *, as_json: bool) -> int:
    from nodeagent.cli.maint.harep_run import Stopped, run
    from nodeagent.cluster.ganeti.luxi import Luxi

    lines: list[str] = []
    say = lines.append if as_json else click.echo
    stopped: Stopped | None = None
    with closing(Luxi(path)) as luxi:
        try:
            for line in summary(run(snapshot, luxi, options, say)):
                say(line)
        except Stopped as error:
            stopped = error
    if as_json:
        why = None if stopped is None else str(stopped)
        emit({"mode": "compatible", "dry-run": options.dry, "lines": lines, "stopped": why})
    if stopped is not None:
        raise stopped
    return 0


def summary(counts: Mapping[str, int]) -> list[str]:
    """Count the instances in each state, in harep's words."""
    rule = "---------------------"
    lines = [f"{word}: {number}" for word, number in sorted(counts.items()) if number]
    return [rule, "Instance status count", rule, *lines]


def _agreed(would: "Pass") -> bool:
    """Show a pass and ask whether to make it, if it changes something."""
    document = _document(would, dry=True)
    if not (document["jobs"] or document["withdrawn"] or document["expired"]):
        return True
    _show(document)
    return click.confirm("Go on?")


def _safe(done: "Pass", *, dry: bool, as_json: bool) -> int:
    document = _document(done, dry=dry)
    if as_json:
        emit(document)
    else:
        _show(document)
    refused = any(job["refused"] for job in (*document["jobs"], *document["expired"]))
    return exits.FAULT if refused or document["trouble"] else 0


def _document(done: "Pass", *, dry: bool) -> Json:
    """Return a pass as one JSON document."""
    from nodeagent.autorepair.jobs import instance_of
    from nodeagent.cluster.backend import Accepted, NotTaken
    from nodeagent.model.action import Guarded, describe
    from nodeagent.model.ledger import Intent

    def answered(intent: Intent) -> Json:
        answer = done.answers.get(intent.id)
        return {
            "job": answer.job if isinstance(answer, Accepted) else None,
            "refused": answer.why if isinstance(answer, NotTaken) else None,
        }

    return {
        "mode": "safe",
        "dry-run": dry,
        "jobs": [
            {
                "instance": instance_of(intent.action),
                "repair": intent.purpose.repair,
                "repairs": isinstance(intent.action, Guarded),
                "action": describe(intent.action),
                "why": why,
                **answered(intent),
            }
            for intent, why in done.plan.jobs
        ],
        "withdrawn": [
            {"job": job, "instance": instance, "why": why, "canceled": canceled}
            for job, instance, why, canceled in done.withdrawn
        ],
        "expired": [
            {"action": describe(intent.action), **answered(intent)} for intent in done.expired
        ],
        "held": [{"instance": name, "why": str(why)} for name, why in done.plan.blocked.items()],
        "trouble": [{"instance": name, "why": why} for name, why in done.trouble],
        "counts": dict(sorted(done.plan.counts.items())),
    }


def _show(document: Json) -> None:
    for job in document["jobs"]:
        what = "Executing repair" if job["repairs"] else "Changing tags"
        click.echo(harmless(f"{what} on {job['instance']}: {job['why']}"))
        click.echo(harmless(f">>> {job['action']}{_answered(job)}"))
    for job in document["withdrawn"]:
        late = ", but it runs already" if job["canceled"] is False else ""
        click.echo(harmless(f"Canceling job {job['job']}: {job['why']}{late}"))
    for job in document["expired"]:
        click.echo(harmless(f"Removing an expired suspension: {job['action']}{_answered(job)}"))
    for held in document["held"]:
        click.echo(harmless(f"Not repairing {held['instance']}: {held['why']}"))
    for line in summary(document["counts"]):
        click.echo(line)


def _answered(job: Json) -> str:
    if job["refused"]:
        return f" not taken: {job['refused']}"
    return f" as job {job['job']}" if job["job"] else ""


def _left_by_maintd(where: Where, *, dry: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Return the nodes left to maintd; a dry run only warns that a real one would be refused."""
    try:
        return _asked_of_maintd(where)
    except Refused as error:
        if not dry:
            raise
        warning = f"gnt-maint: without --dry-run it is refused: {error.format_message()}"
        click.echo(warning, err=True)
        return {}, {}


def _asked_of_maintd(where: Where) -> tuple[dict[str, str], dict[str, str]]:
    """Ask maintd for the nodes to leave alone, by name with the reason: its incidents' nodes.

    Second come the nodes that maintd took out of service for an incident that is closed. Refused if
    maintd repairs instances itself: the two disturb each other, and a maintd in doubt counts.
    """
    try:
        reach = where.reach()
        match reach.get("/1/autorepair", seconds=10.0):
            case {"mode": "off"}:
                incidents = reach.get("/1/status", seconds=10.0)
                nodes = reach.get("/1/nodes", seconds=10.0)
            case {"mode": str(mode)}:
                raise Refused(f"maintd repairs instances itself (mode {harmless(mode, 20)})")
            case _:
                raise Unreachable("its answer makes no sense")
    except Absent:  # no maintd runs here
        return {}, {}
    except Unreachable as error:
        raise Refused(f"it is unknown whether maintd repairs instances itself: {error}") from None
    taken = {
        incident["node-name"]: f"maintd's incident {incident['uuid']} is about"
        f" {incident['node-name']}"
        for incident in incidents
        if incident["repair-status"] in _UNSETTLED
    }
    ours = {node["name"]: node["stranded"] for node in nodes if node["stranded"]}
    return taken, ours


_UNSETTLED = ("noted", "pending", "failed")


@contextmanager
def _alone(path: str, *, dry: bool) -> Iterator[None]:
    """Allow one pass at a time on a socket: lock its folder until the process ends."""
    with ExitStack() as lock:
        try:
            if not dry:
                lock.enter_context(locked_folder(os.path.dirname(path) or "."))
        except BlockingIOError:
            raise Refused("another pass of gnt-maint repair is running") from None
        except OSError as error:
            hint = "; it takes the master node with luxid running"
            raise Refused(f"{path}: {error.strerror}{hint}") from None
        yield
