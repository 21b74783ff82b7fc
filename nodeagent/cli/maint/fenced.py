"""gnt-maint fenced: a person has cut the power of a node that no power control reaches."""

import click

from nodeagent.cli.maint.console.arguments import NODE
from nodeagent.cli.maint.console.changing import changes
from nodeagent.cli.maint.console.client import Where
from nodeagent.cli.maint.console.nodes import full_name
from nodeagent.cli.maint.console.options import as_json, cli
from nodeagent.cli.maint.control import ask


@cli.command()
@NODE
@click.option(
    "--i-have-pulled-the-plug",
    "pulled",
    is_flag=True,
    required=True,
    help="Confirm that the node has no power: you have seen it.",
)
@changes
@as_json
def fenced(where: Where, node: str, *, pulled: bool, as_json: bool) -> None:
    """Tell maintd that you have cut the power of NODE.

    It is for a node whose power control cannot prove it.

    maintd marks the node offline and, with dead-nodes restart, starts its instances elsewhere. If
    the node still runs, their data are lost: pull its plugs first. maintd refuses this while
    anything of the node answers, and while another node cannot tell whether DRBD disks are
    connected to it.
    """
    if not pulled:
        raise click.UsageError("cut the power of the node first")
    reach = where.reach()
    name = full_name(reach, node)
    body = {"pulled-the-plug": "yes"}
    done = f"maintd takes {name} as fenced: see gnt-maint why {name}."
    ask(reach, "POST", f"/1/nodes/{name}/fenced", body, done, as_json=as_json)
