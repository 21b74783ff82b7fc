"""gnt-maint cancel, retry, pause, resume: asking for something, which a round then grants."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from nodeagent.cli.maint.console.client import Body, Reach, Refused, Unreachable, Where
from nodeagent.cli.maint.console.options import UUID, as_json, beginning, cli, complete_uuid, find
from nodeagent.cli.maint.console.screen import emit, progress, screen

F = TypeVar("F", bound=Callable[..., Any])


def ask(reach: Reach, method: str, target: str, body: Body, done: str, *, as_json: bool) -> int:
    """Ask maintd for it; when a round has granted it say so, or print the answer as JSON."""
    with progress(quiet=True) as told:
        told.tell("waiting for the round that answers")
        said = reach.change(method, target, body)
    if as_json:
        emit(said)
    else:
        screen().line(done)
    return 0


@cli.command()
@UUID
@as_json
@click.pass_obj
def cancel(where: Where, uuid: str, *, as_json: bool) -> int:
    """Do nothing more for an incident. What was done stays done."""
    reach = where.reach()
    uuid = find(reach, uuid)
    done = f"{uuid} is canceled; what was done stays as it is, and jobs under way end."
    return ask(reach, "DELETE", f"/1/incidents/{uuid}", None, done, as_json=as_json)


@cli.command()
@UUID
@as_json
@click.pass_obj
def retry(where: Where, uuid: str, *, as_json: bool) -> int:
    """Let go of jobs that cannot be found any more.

    The incident goes on from what is seen.
    """
    reach = where.reach()
    uuid = find(reach, uuid)
    done = f"{uuid} does not wait for its lost jobs any more."
    return ask(reach, "POST", f"/1/incidents/{uuid}/retry", None, done, as_json=as_json)


def _place_options(function: F) -> F:
    for option in (
        click.option(
            "--incident",
            metavar="UUID",
            callback=beginning,
            shell_complete=complete_uuid,
            help="One incident.",
        ),
        click.option("--group", metavar="NAME", help="The nodes of a group."),
        click.option(
            "--node", metavar="NAME", help="One node, by its name or what is before the first dot."
        ),
        click.option("--cluster", is_flag=True, help="Everything; so if nothing is named."),
    ):
        function = option(function)
    return function


def _place(
    reach: Reach, node: str | None, group: str | None, incident: str | None
) -> tuple[dict[str, str], str]:
    """What to send, and how to call it."""
    if node is not None:
        node = full_name(reach, node)
        return {"scope": "node", "node": node}, f"node {node}"
    if group is not None:
        return {"scope": "group", "group": group}, f"group {group}"
    if incident is not None:
        uuid = find(reach, incident)
        return {"scope": "incident", "incident": uuid}, f"incident {uuid}"
    return {"scope": "cluster"}, "the cluster"


def full_name(reach: Reach, node: str) -> str:
    """Ganeti's name of a node; what is short for none is for the round to refuse."""
    try:
        names: list[str] = [one["name"] for one in reach.get("/1/nodes")]
    except Unreachable:  # it can be noted before the first round
        return node
    found = [name for name in names if name.partition(".")[0] == node]
    if node in names or not found:
        return node
    if len(found) > 1:
        raise Refused(f"{node} is short for {' and '.join(found)}")
    return found[0]


def _one_place(*places: object) -> None:
    if sum(map(bool, places)) > 1:
        raise click.UsageError("name one place at a time")
    if any(place == "" for place in places):
        raise click.UsageError("the name of a place is empty")


@cli.command()
@_place_options
@click.option("--why", metavar="TEXT", default="", help="What to tell those who ask.")
@as_json
@click.pass_obj
def pause(
    where: Where,
    *,
    cluster: bool,
    node: str | None,
    group: str | None,
    incident: str | None,
    why: str,
    as_json: bool,
) -> int:
    """Begin nothing new there. What is under way ends."""
    _one_place(cluster, node, group, incident)
    reach = where.reach()
    body, place = _place(reach, node, group, incident)
    done = f"Paused: {place}. Jobs under way end; see gnt-maint held."
    if why:
        body["why"] = why
    return ask(reach, "POST", "/1/pause", body, done, as_json=as_json)


@cli.command()
@_place_options
@click.option("--storm", is_flag=True, help="Reset the storm brake, and resume no pause.")
@click.option(
    "--ledger", is_flag=True, help="Go on with what was planned before another master was there."
)
@as_json
@click.pass_obj
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
) -> int:
    """Take back a pause, the storm brake, or a doubt about plans."""
    _one_place(cluster, node, group, incident, storm, ledger)
    reach = where.reach()
    if storm:
        done = "The storm brake is reset."
        return ask(reach, "POST", "/1/storm/reset", None, done, as_json=as_json)
    if ledger:
        done = "What is planned goes on."
        return ask(reach, "POST", "/1/ledger/resume", None, done, as_json=as_json)
    body, place = _place(reach, node, group, incident)
    return ask(reach, "POST", "/1/resume", body, f"Resumed: {place}.", as_json=as_json)
