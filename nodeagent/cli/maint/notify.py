"""gnt-maint notify: the sinks of notifications, and a test of them."""

import time

import click

from nodeagent.cli.maint.console.changing import changes
from nodeagent.cli.maint.console.client import Reach, Refused, Where
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.looking import lists
from nodeagent.cli.maint.console.options import JSON, Verbs, as_json, cli, duration, filled
from nodeagent.cli.maint.console.screen import Json, emit, progress, screen
from nodeagent.cli.maint.console.text import age
from nodeagent.cli.maint.console.waiting import looks_at

_PLACE = "/1/notify"


@cli.group("notify", cls=Verbs, invoke_without_command=True)
@lists
@JSON
@click.pass_context
def notify(context: click.Context, *, as_json: bool) -> None:
    """List the sinks of notifications and their state.

    [[notify]] in maintd.toml names them.
    """
    if context.invoked_subcommand is not None:
        return
    where: Where = context.obj
    _show(where.reach().get(_PLACE), as_json=as_json)


@notify.command()
@click.argument("name", required=False, callback=filled, shell_complete=complete("sink"))
@click.option(
    "--timeout",
    metavar="DURATION",
    callback=duration,
    default="150s",
    show_default=True,
    help="Time limit: 90s, 10m.",
)
@changes
@as_json
def test(where: Where, name: str | None, *, timeout: int, as_json: bool) -> None:
    """Send a test message to sink NAME, or to all, and tell how it went.

    Exit code 2: a sink failed, or did not answer in time.
    """
    name, reach = name or "", where.reach()
    asked = reach.get("/1/round")["now"]
    reach.change("POST", f"{_PLACE}/test", {"name": name})
    with progress(quiet=as_json) as on:
        on.tell("waiting for delivery")
        sinks = _ended(reach, name, asked, timeout)
    _show(sinks, as_json=as_json)
    if bad := [sink["name"] for sink in sinks if not _arrived(sink, asked)]:
        raise Refused(f"not delivered: {', '.join(bad)}")


def _ended(reach: Reach, name: str, asked: float, timeout: int) -> list[Json]:
    """Return the sinks once each has delivered or failed, or the time is over."""
    tested: list[Json] = []
    for sinks in looks_at(lambda seconds: reach.get(_PLACE, seconds), timeout):
        tested = [sink for sink in sinks if name in ("", sink["name"])]
        if all(_arrived(sink, asked) or sink["why"] for sink in tested):
            break
    return tested


def _arrived(sink: Json, asked: float) -> bool:
    return not sink["why"] and (sink["delivered"] or 0) >= asked


def _show(sinks: list[Json], *, as_json: bool) -> None:
    if as_json:
        emit(sinks)
        return
    rows = [
        (
            sink["name"],
            sink["kind"],
            str(sink["waiting"]),
            age(max(0.0, time.time() - sink["delivered"])) if sink["delivered"] else "-",
            f"failed {sink['tries']} times: {sink['why']}" if sink["why"] else "ok",
        )
        for sink in sinks
    ]
    none = "There are no sinks: [[notify]] in maintd.toml names them."
    screen().table(("sink", "kind", "waiting", "delivered", "state"), rows, none)
