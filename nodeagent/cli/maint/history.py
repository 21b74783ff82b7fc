"""gnt-maint history: past events, and new ones as they come."""

import json
from collections.abc import Sequence
from typing import Any, NoReturn
from urllib.parse import urlencode

import click

from nodeagent.cli.maint.console.arguments import SECOND, past_moment, when
from nodeagent.cli.maint.console.client import NotFound, Reach, Where
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.looking import again_and_again, lists
from nodeagent.cli.maint.console.nodes import full_name
from nodeagent.cli.maint.console.options import Whole, as_json, beginning, cli, is_whole, one_of
from nodeagent.cli.maint.console.screen import Json, Screen, emit, refuse_list, screen
from nodeagent.cli.maint.console.text import seconds_of, short
from nodeagent.model.event_kinds import word_of
from nodeagent.model.short_name import means

_MOST = 1000  # events of one answer


def back(
    context: click.Context, option: click.Parameter, text: str | None
) -> tuple[int, bool] | None:
    """A callback: seconds, and whether they count back from now; else they are unix seconds."""
    if text is None:
        return None
    if (seconds := seconds_of(text)) is not None:
        return seconds, True
    at = past_moment(context, option, text)
    return None if at is None else (at // SECOND, False)


@cli.command()
@click.option(
    "--incident",
    metavar="NODE|UUID",
    callback=beginning,
    shell_complete=complete("incident"),
    help="Show only this incident, or that of this node.",
)
@click.option(
    "--node", metavar="NODE", shell_complete=complete("node"), help="Show only this node."
)
@click.option(
    "--group",
    metavar="NAME",
    shell_complete=complete("group"),
    help="Show only the nodes of this group.",
)
@click.option(
    "--since",
    metavar="DURATION|TIME",
    callback=back,
    help="Show this long back, or from then on: 2h, 22:00, yesterday, 'sat 22:00', 2026-11-22.",
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
    node: str | None,
    group: str | None,
    since: tuple[int, bool] | None,
    limit: int,
    *,
    follow: bool,
    as_json: bool,
) -> None:
    """Show past events, the newest last.

    Of a node with several incidents --incident NODE is the newest, and --node NODE is all that
    happened there. With --follow an event is one line, or with --json one line of JSON.
    """
    reach = where.reach()
    names = _nodes(reach, node, group)
    asked: dict[str, object] = {"limit": _MOST if names is not None else limit}
    if incident is not None:
        asked["incident"] = incident if is_whole(incident) else find_known(reach, incident)
    if since is not None:
        seconds, ago = since
        asked["since"] = max(0, round(reach.get("/1/round")["now"] - seconds)) if ago else seconds
    if follow:
        _follow(reach, asked, names, as_json=as_json)
    events = _of(reach.get(f"/1/history?{urlencode(asked)}"), names)[-limit:]
    if as_json:
        emit(events)
    elif events:
        event_table(screen(), events)
    else:
        screen().line("No events.")


def _nodes(reach: Reach, node: str | None, group: str | None) -> set[str] | None:
    """Return the nodes to show; None for all, and what belongs to no node."""
    if node is not None and group is not None:
        raise click.UsageError("--node and --group: name one")
    if node is not None:
        return {full_name(reach, node)}
    if group is None:
        return None
    names = {member["name"] for member in reach.get("/1/nodes") if member["group"] == group}
    if not names:
        raise NotFound(f"there is no group {group} with nodes: see gnt-maint groups")
    return names


def _of(events: list[Json], names: set[str] | None) -> list[Json]:
    return [event for event in events if names is None or event["node"] in names]


def _follow(
    reach: Reach, asked: dict[str, object], names: set[str] | None, *, as_json: bool
) -> NoReturn:
    shown: list[Json] = []  # of the newest moment: others of it may still come
    refuse_list(click.get_current_context(), "--follow")

    def more() -> None:
        nonlocal shown
        events = reach.get(f"/1/history?{urlencode(asked)}")
        for event in events:
            if event in shown or not _of([event], names):
                continue
            if as_json:
                click.echo(json.dumps(event))
            else:
                about = f"{event['node']} " if event["node"] else ""
                word = word_of(event["kind"])
                screen().line(f"{when(event['at'])}  {word:<16}  {about}{event['text']}")
        if events:
            at = events[-1]["at"]
            shown = [event for event in events if event["at"] == at]
            asked.update(since=f"{at:.6f}", limit=1000)

    again_and_again(more)


def find_known(reach: Any, prefix: str) -> str:
    """Find an incident like `find`, also in the history; of a node the newest."""
    past: dict[str, Json] = {}
    for event in reach.get("/1/history?limit=1000"):
        if event["incident"]:
            known = past.setdefault(event["incident"], {"node-name": ""})
            known |= {"uuid": event["incident"], "repair-status": "canceled"}
            known |= {"node-name": event["node"] or known["node-name"]}  # not all name a node
    incidents = past | {incident["uuid"]: incident for incident in reach.get("/1/status")}
    of_node = [uuid for uuid, incident in incidents.items() if means(prefix, incident["node-name"])]
    # The beginning of an id is its time.
    return max(of_node) if of_node else one_of(prefix, [*incidents.values()])


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
