"""gnt-maint agents: the agents' node keys, and trust in a new one after a reinstallation."""

import sys

import click

from nodeagent.cli.maint.console.arguments import NODE
from nodeagent.cli.maint.console.changing import changes, is_dry, said_yes
from nodeagent.cli.maint.console.client import Refused, Where
from nodeagent.cli.maint.console.looking import lists
from nodeagent.cli.maint.console.nodes import full_name
from nodeagent.cli.maint.console.options import JSON, Verbs, as_json, cli
from nodeagent.cli.maint.console.screen import Json, emit, screen
from nodeagent.cli.maint.console.text import harmless
from nodeagent.cli.maint.control import ask


@cli.group(cls=Verbs, invoke_without_command=True)
@lists
@JSON
@click.pass_context
def agents(context: click.Context, *, as_json: bool) -> None:
    """List the agents with the keys they sign with.

    maintd pins each node to the first key it shows, by a tag, and trusts no other key.
    """
    if context.invoked_subcommand is not None:
        return
    where: Where = context.obj
    answer = where.reach().get("/1/agents")
    if as_json:
        emit(answer)
        return
    rows = [
        (
            agent["name"],
            agent["state"].replace("-", " "),
            _short(agent["key"]),
            ", ".join(map(_short, agent["pinned"])) or "-",
            agent["software"] or "-",
            agent["why"] or "",
        )
        for agent in answer
    ]
    screen().table(("node", "state", "key", "pinned", "version", "remark"), rows)


def _short(key: str | None) -> str:
    return f"{key[:16]}…" if key else "-"


@agents.command()
@NODE
@changes
@as_json
def trust(where: Where, node: str, *, as_json: bool) -> None:
    """Pin NODE to the key that it shows now.

    Use this after reinstalling its agent. Compare the key first: NODE's runner logs it at each
    start, as node-key fingerprint=….
    """
    reach = where.reach()
    node = full_name(reach, node)
    matching: list[Json] = [agent for agent in reach.get("/1/agents") if agent["name"] == node]
    if not matching:
        raise Refused(f"{node} is not a node of this cluster: see gnt-maint agents")
    key, pinned = matching[0]["key"], matching[0]["pinned"]
    if not key:
        why = matching[0]["why"] or "maintd does not ask its agent"
        raise Refused(f"{node} shows no key that could be trusted: {why}")
    if not as_json:
        on = screen()
        on.facts([("Node", node), ("Shows the key", key), ("Pinned to", ", ".join(pinned) or "-")])
    if not (said_yes() or is_dry()):
        if as_json or not sys.stdin.isatty():
            raise Refused(
                f"nothing was changed: compare the key {key} with the one that the runner on"
                f" {node} logs, then run gnt-maint agents trust --yes {harmless(node)}"
            )
        click.confirm(f"Is this the key that the runner on {harmless(node)} logs?", abort=True)
    done = f"maintd pins {node} to this key. Reports with another one are not believed."
    ask(reach, "POST", f"/1/agents/{node}/trust", {"key": key}, done, as_json=as_json)
