"""gnt-maint rolling: groups of nodes that can be rebooted together, as hroller finds them."""

from typing import TYPE_CHECKING

import click

from nodeagent.cli.maint.console.client import Refused, Where
from nodeagent.cli.maint.console.cluster_source import (
    GROUP,
    LUXI,
    OFFLINE,
    OWN_MEMORY,
    TEXT_DATA,
    check,
    known,
    named,
    names,
)
from nodeagent.cli.maint.console.options import as_json, cli
from nodeagent.cli.maint.console.screen import Json, emit, screen
from nodeagent.cli.maint.console.text import harmless

if TYPE_CHECKING:
    from nodeagent.placement.cluster.cluster import Cluster, Known
    from nodeagent.placement.evacuate.rolling import Batch, Rolling


@cli.command(short_help="Find groups of nodes that can be rebooted together.")
@TEXT_DATA
@LUXI
@GROUP
@OFFLINE
@click.option(
    "--node-tags", metavar="TAG,...", callback=names, help="Only nodes with one of these tags."
)
@click.option(
    "--skip-non-redundant", "skip", is_flag=True, help="Skip nodes of non-redundant ones."
)
@click.option(
    "--ignore-non-redundant", "ignore", is_flag=True, help="Ignore non-redundant instances."
)
@click.option(
    "--offline-maintenance", "shut_down", is_flag=True, help="Shut down all instances first."
)
@OWN_MEMORY
@click.option("--force", "-f", is_flag=True, help="Continue without a known master.")
@as_json
def rolling(
    where: Where,
    *,
    text_data: str | None,
    luxi: str | None,
    group: str | None,
    offline: tuple[str, ...],
    node_tags: tuple[str, ...],
    skip: bool,
    ignore: bool,
    shut_down: bool,
    static_kvm_node_memory: int,
    force: bool,
    as_json: bool,
) -> None:
    """Find groups of nodes that can be rebooted together.

    All instances of a group can be migrated off it at once; those without redundancy go where the
    table says. Changes nothing. To reboot them, run gnt-maint roll; to plan windows, gnt-maint
    window propose.
    """
    from nodeagent.placement.cluster.cluster import Group
    from nodeagent.placement.evacuate.rolling import Wanted, roll
    from nodeagent.placement.layout.layout import lay_out
    from nodeagent.placement.layout.rules import Rules

    check(where, text_data, luxi)
    stock = known(where, text_data, luxi, static_kvm_node_memory)
    cluster = stock.cluster
    _one_master(cluster, force=force)
    off = named("-O", "node", offline, [node.name for node in cluster.nodes])
    layout = lay_out(cluster, Group("", ""), Rules(offline=off))
    for why in stock.doubts.values():
        click.echo(harmless(f"gnt-maint: {why}: it is in no group"), err=True)
    wanted = Wanted(group, frozenset(node_tags) or None, shut_down, skip, ignore)
    document = _document(stock, roll(layout, wanted))
    if as_json:
        emit(document)
    else:
        _show(document)


def _one_master(cluster: "Cluster", *, force: bool) -> None:
    masters = [node.name for node in cluster.nodes if node.master]
    if len(masters) > 1:
        raise Refused(f"several nodes are the master: {', '.join(masters)}")
    if not masters:
        why = "no node is said to be the master, which has to be the last one"
        if not force:
            raise Refused(f"{why}: --force goes on without")
        click.echo(f"gnt-maint: {why}", err=True)


def _document(stock: "Known", rolling: "Rolling") -> Json:
    cluster = stock.cluster
    return {
        "groups": [_batch(cluster, batch) for batch in rolling.batches if batch.nodes],
        "ways": {name: len(classes) for name, classes in rolling.coloured.items()},
        "doubts": dict(stock.doubts),
    }


def _batch(cluster: "Cluster", batch: "Batch") -> Json:
    return {
        "nodes": [cluster.nodes[index].name for index in batch.nodes],
        "moves": [
            {"instance": cluster.instances[instance].name, "to": cluster.nodes[target].name}
            for instance, target in batch.relocations
        ],
    }


def _show(document: Json) -> None:
    rows = [
        (
            number,
            ",".join(group["nodes"]),
            ", ".join(f"{move['instance']} to {move['to']}" for move in group["moves"]) or "-",
        )
        for number, group in enumerate(document["groups"], 1)
    ]
    screen().table(("group", "nodes", "moves"), rows)
