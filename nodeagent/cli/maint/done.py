"""gnt-maint done: a node is repaired; close its incidents and put it back as it was."""

import click

from nodeagent.cli.maint.console.arguments import NODE, TIMEOUT, when
from nodeagent.cli.maint.console.changing import changes
from nodeagent.cli.maint.console.client import Reach, Where
from nodeagent.cli.maint.console.nodes import found_node, full_name
from nodeagent.cli.maint.console.options import as_json, cli
from nodeagent.cli.maint.console.screen import Json, emit, screen
from nodeagent.cli.maint.console.text import age
from nodeagent.cli.maint.wait import EXIT_OTHERWISE, EXIT_TIMEOUT, watch_node

_STATES = {"online": "in service"}
_STOPS = ("return-contradicted", "return-failed")  # kinds that waiting does not end


@cli.command()
@NODE
@click.option("--force", is_flag=True, help="Do not wait until the node proves to be healthy.")
@click.option("--keep-drained", is_flag=True, help="Leave the node drained.")
@click.option("--keep-offline", is_flag=True, help="Leave the node offline.")
@click.option("--wait", "waits", is_flag=True, help="Wait until the node is back.")
@TIMEOUT
@changes
@as_json
def done(
    where: Where,
    node: str,
    timeout: int | None,
    *,
    force: bool,
    keep_drained: bool,
    keep_offline: bool,
    waits: bool,
    as_json: bool,
) -> int:
    """Close the ended incidents of NODE: it is repaired.

    maintd puts the node back as it was before the incidents and removes their tags. On a fenced
    node it first runs the check for stale instances, which --force does not skip. It brings an
    offline node back drained first. The node takes instances once its agent has reported Ok for a
    while (return-after), and once the command return-check has succeeded there, if one is set.

    With --wait exit code 0 if the node is back, 1 if it is left otherwise or its agent reports a
    fault, 4 if the time ran out.
    """
    if keep_drained and keep_offline:
        raise click.UsageError("--keep-drained and --keep-offline contradict each other")
    if timeout is not None and not waits:
        raise click.UsageError("--timeout goes with --wait")
    reach = where.reach()
    node = full_name(reach, node)
    body = {"force": "yes"} if force else {}
    if keep_drained or keep_offline:
        body["keep"] = "drained" if keep_drained else "offline"
    reach.change("POST", f"/1/nodes/{node}/done", body)
    node_state, code = found_node(reach, node), 0
    if not as_json:
        screen().line(_words(node_state, force=force))
    if waits:
        node_state, code = _wait(reach, node_state, timeout)
        if not as_json:
            screen().line(_end(node_state, code, timeout or 0))
    if as_json:
        emit(node_state)
    return code


def _words(node: Json, *, force: bool) -> str:
    """Return the sentence about the next steps."""
    name, back = node["name"], node["returning"]
    state = _STATES.get(node["state"], node["state"])
    if back is None and node["out-for"]:
        return f"Your request is over; {name} stays {state} for {', '.join(node['out-for'])}."
    if back is None:
        return f"{name} is {state}; its incidents are closed."
    if node["fencing"] is not None and back["to"] != "offline":
        return f"{name} is fenced: maintd first runs the check for stale instances there."
    if back["to"] != "in service" or state == "in service":
        return f"{name} is left {back['to']}; its incidents are closed."
    if force:
        return f"{name} returns to service at once."
    if back["at"] is not None:
        return (
            f"{name} returns at {when(back['at'])} if it stays healthy; until then it is drained."
        )
    first = "brought back drained first" if state == "offline" else "drained"
    return f"{name} is {first}; it returns once it has reported Ok for {age(back['after'])}."


def _wait(reach: Reach, node: Json, timeout: int | None) -> tuple[Json, int]:
    wanted = node["returning"]["to"] if node["returning"] else None
    node, in_time = watch_node(
        reach,
        node,
        timeout,
        is_over=lambda watched: watched["returning"] is None,
        meanwhile=lambda watched: f"{watched['name']} is {watched['state']}",
        stops=_STOPS,
    )
    if not in_time:
        return node, EXIT_TIMEOUT
    state = _STATES.get(node["state"], node["state"])
    return node, 0 if wanted in (None, state) else EXIT_OTHERWISE


def _end(node: Json, code: int, timeout: int) -> str:
    state = _STATES.get(node["state"], node["state"])
    if code == EXIT_TIMEOUT:
        late = f"not back within {age(timeout)}; see gnt-maint why {node['name']}"
        return f"{node['name']} is {state}: {late}"
    if code:
        return f"{node['name']} is {state}: it was changed meanwhile"
    return f"{node['name']} is {state}."
