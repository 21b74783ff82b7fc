"""gnt-maint evacuate: a person wants a node out of service, until it is done."""

import click

from nodeagent.cli.maint.console.arguments import NODE, TIMEOUT
from nodeagent.cli.maint.console.changing import changes
from nodeagent.cli.maint.console.client import Reach, Where
from nodeagent.cli.maint.console.nodes import found_node, full_name
from nodeagent.cli.maint.console.options import as_json, cli, filled
from nodeagent.cli.maint.console.screen import Json, emit, screen
from nodeagent.cli.maint.console.text import age
from nodeagent.cli.maint.wait import EXIT_OTHERWISE, EXIT_TIMEOUT, watch_node

_STOPS = ("evacuation-stopped", "put-back-by-others")  # kinds that waiting does not end


@cli.command()
@NODE
@click.option("--why", required=True, metavar="TEXT", callback=filled, help="Tell others why.")
@click.option("--offline", is_flag=True, help="Mark the node offline once it is empty.")
@click.option("--wait", "waits", is_flag=True, help="Wait until the node is evacuated.")
@TIMEOUT
@changes
@as_json
def evacuate(
    where: Where,
    node: str,
    why: str,
    timeout: int | None,
    *,
    offline: bool,
    waits: bool,
    as_json: bool,
) -> int:
    """Take NODE out of service: drain and evacuate it.

    maintd keeps the node so, with your reason beside it, until you run gnt-maint done NODE. If a
    move failed, run the command again to go on.

    With --wait exit code 0 if the node is evacuated, 1 if it is wanted no more or cannot be
    evacuated, 4 if the time ran out.
    """
    if timeout is not None and not waits:
        raise click.UsageError("--timeout goes with --wait")
    reach = where.reach()
    node = full_name(reach, node)
    body = {"why": why, "offline": "yes"} if offline else {"why": why}
    reach.change("POST", f"/1/nodes/{node}/evacuate", body)
    node_state, code = found_node(reach, node), 0
    if not as_json:
        then = ", then marks it offline" if offline else ""
        screen().line(f"maintd drains and evacuates {node}{then}.")
        screen().line(f"Once it may return, run gnt-maint done {node}.")
    if waits:
        node_state, code = _wait(reach, node_state, timeout)
        if not as_json:
            screen().line(_end(node_state, code, timeout or 0))
    if as_json:
        emit(node_state)
    return code


def _is_there(node: Json) -> bool:
    """Tell whether a node is as it was wanted."""
    empty = not (node["instances"] or node["mirrors"])
    state = "offline" if node["wanted"] and node["wanted"]["offline"] else "drained"
    return empty and node["state"] in (state, "offline")


def _wait(reach: Reach, node: Json, timeout: int | None) -> tuple[Json, int]:
    node, in_time = watch_node(
        reach,
        node,
        timeout,
        is_over=lambda watched: _is_there(watched) or watched["wanted"] is None,
        meanwhile=lambda watched: (
            f"{watched['name']}: {watched['instances']} primary,"
            f" {watched['mirrors']} secondary instances left"
        ),
        stops=_STOPS,
    )
    if not in_time:
        return node, EXIT_TIMEOUT
    return node, 0 if _is_there(node) else EXIT_OTHERWISE


def _end(node: Json, code: int, timeout: int) -> str:
    name = node["name"]
    if code == EXIT_TIMEOUT:
        return f"{name} is not evacuated within {age(timeout)}; see gnt-maint why {name}"
    if code:
        return f"{name} is {node['state']}: nobody wants it evacuated any more"
    return f"{name} is {node['state']} and empty."
