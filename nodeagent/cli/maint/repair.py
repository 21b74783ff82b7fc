"""gnt-maint autorepair: one pass of auto-repair, now."""

import fcntl
import gc
import math
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from nodeagent.cli.maint.console.client import Absent, NotFound, Refused, Unreachable, Where
from nodeagent.cli.maint.console.options import as_json, cli
from nodeagent.cli.maint.console.screen import emit
from nodeagent.cli.maint.console.text import harmless
from nodeagent.cli.usage import SOCKET
from nodeagent.errors import NodeAgentError

if TYPE_CHECKING:
    from nodeagent.maintd.autorepair.one_pass import Pass

Json = dict[str, Any]
EXIT_FAULT = 1
DELAY = 10.0  # seconds, as harep's


luxi_socket = click.option(
    "--luxi",
    metavar="SOCKET",
    type=SOCKET,
    help="Ganeti's LUXI socket; by default as it is set.",
)


def _finite(_: click.Context, option: click.Parameter, value: float | None) -> float | None:
    # Less than none is none: harep takes it so.
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value:g} is no number of seconds", param=option)
    return value


@cli.command()
@click.option(
    "--mode",
    type=click.Choice(("compatible", "safe")),
    default="safe",
    help="As harep does it, or as it was designed (the default).",
)
@luxi_socket
@click.option(
    "--job-delay",
    metavar="SECONDS",
    type=float,
    callback=_finite,
    help="Compatible: what each repair waits first, so that its tag can be set; 10.",
)
@click.option("--reason", metavar="TEXT", help="Compatible: what is written into the jobs.")
@click.option(
    "--at-most",
    "most",
    metavar="N",
    type=click.IntRange(min=1),
    help="Safe: so many instances are repaired at once; 10. The others wait for a later pass.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@as_json
@click.pass_obj
def autorepair(
    where: Where,
    *,
    mode: str,
    luxi: str | None,
    job_delay: float | None,
    reason: str | None,
    most: int | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Repair broken instances as far as their tags allow it.

    One pass, now, on the master node. It needs no maintd, and refuses where one repairs
    instances itself.
    """
    if where.url is not None:
        raise click.UsageError("--url is another machine: a pass is made on the master node itself")
    gc.disable()  # a pass makes millions of small things, lets none go, and ends
    if mode == "safe" and reason is not None:
        raise click.UsageError("--reason goes with --mode compatible: a repair's id is the reason")
    if mode == "safe" and job_delay is not None:
        raise click.UsageError("--job-delay goes with --mode compatible: a repair sets its own tag")
    if mode == "compatible" and most is not None:
        raise click.UsageError("--at-most goes with --mode safe: harep repairs all there is")
    try:
        taken = _left_by_maintd(where, dry=dry_run)
        with _alone(luxi_path(where, luxi), dry=dry_run) as path:
            if mode == "compatible":
                told = reason or "gnt-maint autorepair called"
                delay = DELAY if job_delay is None else job_delay
                return _compatible(path, delay, told, dry=dry_run, as_json=as_json)
            return _safe(path, taken, most, dry=dry_run, as_json=as_json)
    except NodeAgentError as error:  # whatever it is: as with harep, cron is told 1
        raise Refused(str(error)) from None


def _compatible(path: str, delay: float, reason: str, *, dry: bool, as_json: bool) -> int:
    from nodeagent.autorepair.compatible import Options
    from nodeagent.cli.maint.harep_run import perform
    from nodeagent.cluster.ganeti.luxi import Luxi

    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line) if as_json else click.echo(line)

    with closing(Luxi(path)) as luxi:
        why = perform(luxi, Options(delay, dry), reason, say)
    if as_json:
        emit({"mode": "compatible", "dry-run": dry, "lines": lines, "stopped": why})
    if why is not None:
        raise Refused(why.rstrip())
    return 0


def _safe(path: str, taken: dict[str, str], most: int | None, *, dry: bool, as_json: bool) -> int:
    from nodeagent.cluster.ganeti.backend import GanetiCluster
    from nodeagent.maintd.autorepair.one_pass import AT_MOST, one_pass

    with closing(GanetiCluster(path)) as cluster:
        done = one_pass(cluster, unix_ms, dry=dry, taken=taken, most=most or AT_MOST)
    told = _told(done, dry=dry)
    if as_json:
        emit(told)
    else:
        _show(told)
    refused = any(job["refused"] for job in (*told["jobs"], *told["expired"]))
    return EXIT_FAULT if refused or done.trouble else 0


def _told(done: "Pass", *, dry: bool) -> Json:
    """A pass as one JSON document."""
    from nodeagent.cluster.backend import Accepted, NotTaken
    from nodeagent.model.action import Guarded, describe

    def answered(answer: object) -> Json:
        return {
            "job": answer.job if isinstance(answer, Accepted) else None,
            "refused": answer.why if isinstance(answer, NotTaken) else None,
        }

    jobs = [
        {
            "instance": one.instance,
            "repair": one.repair,
            "repairs": isinstance(one.action, Guarded),
            "action": describe(one.action),
            "why": one.why,
            **answered(answer),
        }
        for one, answer in done.repairs
    ]
    return {
        "mode": "safe",
        "dry-run": dry,
        "jobs": jobs,
        "withdrawn": [
            {"job": str(ran.job), "instance": ran.instance, "why": why, "canceled": canceled}
            for ran, why, canceled in done.withdrawn
        ],
        "expired": [{"action": describe(r), **answered(a)} for r, a in done.expired],
        "held": [{"instance": name, "why": why} for name, why in done.plan.held],
        "trouble": [{"instance": name, "why": why} for name, why in done.trouble],
        "counts": dict(sorted(done.plan.counts.items())),
    }


def _show(told: Json) -> None:
    from nodeagent.autorepair.compatible import summary

    for job in told["jobs"]:
        what = "Executing repair" if job["repairs"] else "Changing tags"
        click.echo(harmless(f"{what} on {job['instance']}: {job['why']}"))
        click.echo(harmless(f">>> {job['action']}{_answered(job)}"))
    for job in told["withdrawn"]:
        late = ", but it has begun" if job["canceled"] is False else ""
        click.echo(harmless(f"Canceling job {job['job']}: {job['why']}{late}"))
    for job in told["expired"]:
        click.echo(harmless(f"Removing an expired suspension: {job['action']}{_answered(job)}"))
    for one in told["held"]:
        click.echo(harmless(f"Not repairing {one['instance']}: {one['why']}"))
    for line in summary(told["counts"]):
        click.echo(line)


def _answered(job: Json) -> str:
    if job["refused"]:
        return f" not taken: {job['refused']}"
    return f" as job {job['job']}" if job["job"] else ""


def _left_by_maintd(where: Where, *, dry: bool) -> dict[str, str]:
    """What is left to maintd; a dry run does nothing, and says that another would be refused."""
    try:
        return _asked_of_maintd(where)
    except Refused as error:
        if not dry:
            raise
        told = f"gnt-maint: without --dry-run it is refused: {error.format_message()}"
        click.echo(told, err=True)
        return {}


def _asked_of_maintd(where: Where) -> dict[str, str]:
    """The nodes that are not ours to repair from, by name with the reason: maintd's incidents'.

    Refused where maintd repairs instances itself: two get in each other's way, and a maintd in
    doubt is one.
    """
    try:
        reach = where.reach()
        match reach.get("/1/autorepair", seconds=10.0):
            case {"mode": "off"}:
                incidents = reach.get("/1/status", seconds=10.0)
            case {"mode": str(mode)}:
                raise Refused(f"maintd repairs instances itself (mode {harmless(mode, 20)})")
            case _:
                raise Unreachable("its answer makes no sense")
    except (Absent, NotFound):  # there is none, or one that cannot
        return {}
    except Unreachable as error:
        raise Refused(f"whether maintd repairs instances itself is not known: {error}") from None
    return {
        one["node-name"]: f"maintd's incident {one['uuid']} is about {one['node-name']}"
        for one in incidents
        if one["repair-status"] in _UNSETTLED
    }


_UNSETTLED = ("noted", "pending", "failed")


def luxi_path(where: Where, given: str | None) -> str:
    """Where Ganeti is asked: as the command line says, the daemon's settings, or by default."""
    from nodeagent.cluster.ganeti.luxi import SOCKET

    if given is not None:
        return given
    settings = where.settings()
    return SOCKET if settings is None else settings.cluster.luxi


@contextmanager
def _alone(path: str, *, dry: bool) -> Iterator[str]:
    """One pass at a time on a socket: the lock is on its folder, and goes with the process."""
    if dry:
        yield path
        return
    try:
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refused("another pass of gnt-maint autorepair is under way") from None
    else:
        yield path
    finally:
        os.close(folder)


def unix_ms() -> int:
    """What time it is."""
    return time.time_ns() // 1_000_000
