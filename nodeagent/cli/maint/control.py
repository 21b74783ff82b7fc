"""gnt-maint cancel, retry, pause, resume: requests that the next round answers."""

import time

import click

from nodeagent.cli.maint.console.arguments import SECOND, length, moment, when
from nodeagent.cli.maint.console.changing import changes
from nodeagent.cli.maint.console.client import Body, NotFound, Reach, Unreachable, Where
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.nodes import full_name
from nodeagent.cli.maint.console.options import UUID, as_json, beginning, cli, find
from nodeagent.cli.maint.console.screen import emit, screen
from nodeagent.cli.maint.console.text import harmless, remedied
from nodeagent.cli.usage import together


def ask(reach: Reach, method: str, target: str, body: Body, done: str, *, as_json: bool) -> None:
    """Send a request to maintd; once a round has accepted it say so, or print the JSON."""
    answer = reach.change(method, target, body)
    if as_json:
        emit(answer)
    else:
        screen().line(done)


def asking(group: click.Group, name: str, target: str, done: str, text: str) -> None:
    """Add a verb that requests one thing from maintd; `text` is its help."""

    @group.command(name, help=text)
    @changes
    @as_json
    def verb(where: Where, *, as_json: bool) -> None:
        ask(where.reach(), "POST", target, None, done, as_json=as_json)


@cli.command()
@UUID
@click.option(
    "--undrain",
    is_flag=True,
    help="Put its node back into service, if maintd took it out of service.",
)
@changes
@as_json
def cancel(where: Where, uuid: str, *, undrain: bool, as_json: bool) -> None:
    """Stop working on an incident. Its node stays as it is."""
    reach = where.reach()
    uuid = find(reach, uuid)
    name = next((i["node-name"] for i in reach.get("/1/status") if i["uuid"] == uuid), "its node")
    target = f"/1/incidents/{uuid}?undrain=yes" if undrain else f"/1/incidents/{uuid}"
    done = f"Incident {uuid} of {name} is canceled. Running jobs finish; nothing is undone."
    if undrain:
        done = f"Incident {uuid} is canceled; {name} returns to service once its jobs have ended."
    ask(reach, "DELETE", target, None, done, as_json=as_json)
    if not (undrain or as_json):
        _tell_where_its_node_stays(reach, uuid)


def _tell_where_its_node_stays(reach: Reach, uuid: str) -> None:
    """Say that the node stays out of service, and how to put it back; a failure is ignored."""
    try:
        name = reach.get(f"/1/incidents/{uuid}")["node-name"]
        node = next(node for node in reach.get("/1/nodes") if node["name"] == name)
        held = [reason for reason in reach.get("/1/held") if reason["node"] == name]
    except (Unreachable, NotFound, StopIteration):
        return
    if node["state"] == "online":
        return
    stays = [remedied(reason) for reason in held if reason["kind"] == "stays"]
    screen().line(stays[0] if stays else f"{name} stays {node['state']}: gnt-maint why {name}")


@cli.command()
@UUID
@changes
@as_json
def retry(where: Where, uuid: str, *, as_json: bool) -> None:
    """Stop waiting for lost jobs and continue.

    The incident continues from the current state of the cluster.
    """
    reach = where.reach()
    uuid = find(reach, uuid)
    done = f"{uuid} no longer waits for lost jobs."
    ask(reach, "POST", f"/1/incidents/{uuid}/retry", None, done, as_json=as_json)


_place_options = together(
    click.option("--cluster", is_flag=True, help="The whole cluster (the default)."),
    click.option(
        "--node",
        metavar="NAME",
        shell_complete=complete("node"),
        help="One node, by its full or short name.",
    ),
    click.option(
        "--group", metavar="NAME", shell_complete=complete("group"), help="The nodes of a group."
    ),
    click.option(
        "--incident",
        metavar="UUID",
        callback=beginning,
        shell_complete=complete("incident"),
        help="One incident.",
    ),
)


def _place(
    reach: Reach, node: str | None, group: str | None, incident: str | None
) -> tuple[dict[str, str], str]:
    """Return the place to send, and its name for people."""
    if node is not None:
        node = full_name(reach, node)
        return {"scope": "node", "node": node}, f"node {node}"
    if group is not None:
        return {"scope": "group", "group": group}, f"group {group}"
    if incident is not None:
        uuid = find(reach, incident)
        return {"scope": "incident", "incident": uuid}, f"incident {uuid}"
    return {"scope": "cluster"}, "the cluster"


def _tell_doubt(reach: Reach) -> None:
    """Say why plans waited, and which ledger they go on with; a failure is ignored."""
    try:
        why = reach.get("/1/round")["outdated"]
    except (Unreachable, NotFound):
        return
    if why:
        click.echo(f"gnt-maint: until now: {harmless(why)}", err=True)


def _one_place(*places: object) -> None:
    if sum(map(bool, places)) > 1:
        raise click.UsageError("name one place at a time")
    if any(place == "" for place in places):
        raise click.UsageError("the name of a place is empty")


@cli.command()
@_place_options
@click.option("--why", metavar="TEXT", default="", help="Reason, shown to everybody.")
@click.option("--for", "lasting", metavar="DURATION", callback=length, help="Resume after this.")
@click.option(
    "--until",
    metavar="TIME",
    callback=moment,
    help="Resume then: +2h, 22:00, tomorrow, saturday, 'sat 22:00', 2026-11-22T22:00.",
)
@click.option("--force", is_flag=True, help="Replace a pause that exists already.")
@changes
@as_json
def pause(
    where: Where,
    *,
    cluster: bool,
    node: str | None,
    group: str | None,
    incident: str | None,
    why: str,
    lasting: int | None,
    until: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Start no new work there; running jobs finish.

    Without --for or --until the pause lasts until gnt-maint resume.
    """
    _one_place(cluster, node, group, incident)
    if lasting is not None and until is not None:
        raise click.UsageError("--for and --until are two ends: name one")
    end = round(time.time()) + lasting if lasting is not None else until and until / SECOND
    reach = where.reach()
    body, place = _place(reach, node, group, incident)
    ends = f" until {when(end)}" if end else ""
    done = f"Paused: {place}{ends}. Running jobs finish; see gnt-maint held."
    if end:
        body["until"] = f"{end:.0f}"
    if why:
        body["why"] = why
    if force:
        body["force"] = "yes"
    ask(reach, "POST", "/1/pause", body, done, as_json=as_json)


@cli.command()
@_place_options
@click.option("--storm", is_flag=True, help="Reset the storm brake; leave pauses as they are.")
@click.option(
    "--ledger", is_flag=True, help="Continue plans made before another node was the master."
)
@changes
@as_json
def resume(
    where: Where,
    *,
    cluster: bool,
    node: str | None,
    group: str | None,
    incident: str | None,
    storm: bool,
    ledger: bool,
    as_json: bool,
) -> None:
    """Remove a pause, reset the storm brake, or confirm old plans."""
    _one_place(cluster, node, group, incident, storm, ledger)
    reach = where.reach()
    if storm:
        done = "The storm brake is reset."
        ask(reach, "POST", "/1/storm/reset", None, done, as_json=as_json)
        return
    if ledger:
        _tell_doubt(reach)
        done = "Planned work continues."
        ask(reach, "POST", "/1/ledger/resume", None, done, as_json=as_json)
        return
    body, place = _place(reach, node, group, incident)
    ask(reach, "POST", "/1/resume", body, f"Resumed: {place}.", as_json=as_json)
