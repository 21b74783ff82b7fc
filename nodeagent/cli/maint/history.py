"""gnt-maint history: past events, and new ones as they come."""

import json
from collections.abc import Sequence
from typing import Any, NoReturn
from urllib.parse import urlencode

import click

from nodeagent.cli.maint.console.arguments import when
from nodeagent.cli.maint.console.client import Reach, Where
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.looking import again_and_again, lists
from nodeagent.cli.maint.console.options import (
    Whole,
    as_json,
    beginning,
    cli,
    duration,
    is_whole,
    one_of,
)
from nodeagent.cli.maint.console.screen import Json, ListScreen, Screen, emit, screen
from nodeagent.cli.maint.console.text import short
from nodeagent.model.event_kinds import word_of


@cli.command()
@click.option(
    "--incident",
    metavar="NODE|UUID",
    callback=beginning,
    shell_complete=complete("incident"),
    help="Show only this incident, or that of this node.",
)
@click.option(
    "--since", metavar="DURATION", callback=duration, help="Show this long back: 90s, 10m, 2h."
)
@click.option(
    "--limit",
    metavar="N",
    type=Whole(1, 1000),
    default=100,
    show_default=True,
    help="Show the newest N events, at most 1000.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on with new events, until Ctrl-C.")
@lists
@as_json
def history(
    where: Where,
    incident: str | None,
    since: int | None,
    limit: int,
    *,
    follow: bool,
    as_json: bool,
) -> None:
    """Show past events, the newest last.

    With --follow an event is one line, or with --json one line of JSON.
    """
    reach = where.reach()
    asked: dict[str, object] = {"limit": limit}
    if incident is not None:
        asked["incident"] = incident if is_whole(incident) else _find_known(reach, incident)
    if since is not None:
        asked["since"] = max(0, round(reach.get("/1/round")["now"] - since))
    if follow:
        _follow(reach, asked, as_json=as_json)
    found = reach.get(f"/1/history?{urlencode(asked)}")
    if as_json:
        emit(found)
    elif found:
        event_table(screen(), found)
    else:
        screen().line("No events.")


def _follow(reach: Reach, asked: dict[str, object], *, as_json: bool) -> NoReturn:
    told: list[Json] = []  # of the newest moment: others of it may still come

    if isinstance(screen(), ListScreen):
        raise click.UsageError("--follow prints lines: leave out the options of lists")

    def more() -> None:
        nonlocal told
        found = reach.get(f"/1/history?{urlencode(asked)}")
        for event in found:
            if event in told:
                continue
            if as_json:
                click.echo(json.dumps(event))
            else:
                about = f"{event['node']} " if event["node"] else ""
                word = word_of(event["kind"])
                screen().line(f"{when(event['at'])}  {word:<16}  {about}{event['text']}")
        if found:
            at = found[-1]["at"]
            told = [event for event in found if event["at"] == at]
            asked.update(since=f"{at:.6f}", limit=1000)

    again_and_again(more)


def _find_known(reach: Any, prefix: str) -> str:
    """Find an incident like `find`, also in the history."""
    past = {
        e["incident"]: {"uuid": e["incident"], "node-name": e["node"], "repair-status": "canceled"}
        for e in reach.get("/1/history?limit=1000")
        if e["incident"]
    }
    return one_of(prefix, [*(past | {i["uuid"]: i for i in reach.get("/1/status")}).values()])


def event_table(on: Screen, events: Sequence[Json], *, about_one: bool = False) -> None:
    if about_one:
        rows: list[tuple[object, ...]] = [
            (when(e["at"]), word_of(e["kind"]), job_of(e), e["text"]) for e in events
        ]
        on.table(("time", "what", "job", "text"), rows)
        return
    names = short(e["incident"] for e in events if e["incident"])
    rows = [
        (
            when(e["at"]),
            word_of(e["kind"]),
            e["node"] or "-",
            names.get(e["incident"], "-"),
            job_of(e),
            e["text"],
        )
        for e in events
    ]
    on.table(("time", "what", "node", "incident", "job", "text"), rows)


def job_of(of: Json) -> str:
    if of["job"] is not None:
        return str(of["job"])
    return "order" if of["order"] else "-"
