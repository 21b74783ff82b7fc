"""gnt-maint wait: wait until an incident reaches a status, or another end."""

from collections.abc import Callable, Collection

import click

from nodeagent.cli.maint.console.arguments import TIMEOUT
from nodeagent.cli.maint.console.client import NotFound, Reach, Refused, Where
from nodeagent.cli.maint.console.nodes import found_node
from nodeagent.cli.maint.console.options import UUID, as_json, cli, find
from nodeagent.cli.maint.console.screen import Json, emit, progress, screen
from nodeagent.cli.maint.console.text import age, status_of
from nodeagent.cli.maint.console.waiting import looks_at

EXIT_OTHERWISE = 1
EXIT_FAILED = 2
EXIT_CANCELED = 3
EXIT_TIMEOUT = 4
EXIT_FORGOTTEN = 5
_ENDS = {"failed": EXIT_FAILED, "canceled": EXIT_CANCELED, "forgotten": EXIT_FORGOTTEN}


@cli.command()
@UUID
@TIMEOUT
@click.option(
    "--for",
    "wanted",
    type=click.Choice(["pending", "completed", "failed", "canceled", "closed", "forgotten"]),
    default="completed",
    show_default=True,
    help="Status to wait for.",
)
@as_json
def wait(where: Where, uuid: str, timeout: int | None, wanted: str, *, as_json: bool) -> int:
    """Wait until an incident is completed.

    Meanwhile shows what blocks the incident. If another incident supersedes it, waits for that one.

    Exit code 0 if the incident reached the status, 2 if it failed, 3 if it was canceled, 5 if it
    was closed, 1 if it ended otherwise, 4 if the time ran out, 69 if maintd did not answer for
    two minutes.
    """
    reach = where.reach()
    uuid, wanted = find(reach, uuid), "forgotten" if wanted == "closed" else wanted
    incident, code = _wait(reach, uuid, wanted, timeout)
    if as_json:
        emit(incident)
    else:
        screen().line(f"{uuid} {_end(incident, code, wanted, timeout or 0)}")
    return code


def _wait(reach: Reach, uuid: str, wanted: str, timeout: int | None) -> tuple[Json, int]:
    def look(seconds: float) -> Json:
        try:
            answer: Json = reach.get(f"/1/incidents/{uuid}", seconds)
        except NotFound:
            if not incident:  # it never was there
                raise
            return {"uuid": uuid, "repair-status": "forgotten"}
        return answer

    incident: Json = {}
    with progress() as on:

        def unheard(why: str) -> None:
            on.tell(f"{uuid[:18]} {why}")

        for incident in looks_at(look, timeout, unheard):
            if wanted != "forgotten" and incident.get("superseded-by"):
                uuid = incident["superseded-by"]  # it goes on under another name
            code = _code(incident["repair-status"], wanted)
            if code is not None:
                return incident, code
            if timeout != 0:  # else its end says the same
                on.tell(_words(incident), _news(incident))
    return incident, EXIT_TIMEOUT


def _code(status: str, wanted: str) -> int | None:
    """Return the exit code once the incident has ended, or has the wanted status."""
    if status == wanted or (wanted == "pending" and status == "completed"):
        return 0
    if wanted == "forgotten" or status in ("noted", "pending", "superseded"):
        return None
    return _ENDS.get(status, EXIT_OTHERWISE)


def _end(incident: Json, code: int, wanted: str, timeout: int) -> str:
    if code == EXIT_TIMEOUT:
        return (
            f"not {status_of({'repair-status': wanted})} within {age(timeout)}: {_words(incident)}"
        )
    text = status_of(incident)
    if incident.get("why"):
        text += f": {incident['why']}"
    if incident["repair-status"] == "completed" and incident["waits"]:
        text += f"; {incident['waits'][-1]}"
    return text


def _words(incident: Json) -> str:
    waits, jobs = incident["waits"], len(incident["jobs"]) + len(incident["orders"])
    running = sum(1 for intent in incident["intents"] if intent["state"] == "submitted")
    more = f", and {len(waits) - 1} more" if len(waits) > 1 else ""
    what = f"{waits[0]}{more}" if waits else "the next round"
    done = f"{jobs - running} of {jobs} jobs done; " if jobs else ""
    then = what if incident["repair-status"] == "completed" else f"waiting for {what}"
    return f"{incident['node-name']} {status_of(incident)}: {done}{then}"


def _news(incident: Json) -> object:
    """Return the parts of an incident that do not count down."""
    kinds = [reason["kind"] for reason in incident["reasons"]]
    states = [intent["state"] for intent in incident["intents"]]
    return incident["repair-status"], kinds, states, incident["jobs"], incident["orders"]


def watch_node(
    reach: Reach,
    node: Json,
    timeout: int | None,
    *,
    is_over: Callable[[Json], bool],
    meanwhile: Callable[[Json], str],
    stops: Collection[str],
) -> tuple[Json, bool]:
    """Watch a node until something is over there; return it, and whether it was in time.

    `meanwhile` is told where nothing blocks it; `stops` are the kinds of reasons that waiting does
    not end, and that are refusals.
    """
    name = node["name"]

    def look(_: float) -> tuple[Json, list[Json]]:
        return found_node(reach, name), [h for h in reach.get("/1/held") if h["node"] == name]

    if is_over(node):
        return node, True
    with progress() as on:
        for node, held in looks_at(look, timeout, lambda why: on.tell(f"{name}: {why}")):
            if held:
                on.tell(held[0]["reason"], held[0]["kind"])  # it may count down
            else:
                on.tell(meanwhile(node))
            if ends := [h["reason"] for h in held if h["kind"] in stops]:
                raise Refused(ends[0])
            if is_over(node):
                return node, True
    return node, False
