"""gnt-maint rolling: groups of nodes that can be rebooted together, in hroller's words."""

from typing import TYPE_CHECKING

import click

from nodeagent.cli.maint.console.client import Refused, Where
from nodeagent.cli.maint.console.files import save as write_file
from nodeagent.cli.maint.console.options import as_json, cli
from nodeagent.cli.maint.console.screen import Json, emit
from nodeagent.cli.maint.console.text import harmless
from nodeagent.cli.maint.hbal.options import (
    GROUP,
    LUXI,
    OFFLINE,
    OWN_MEMORY,
    TEXT_DATA,
    VERSION,
    known,
    named,
    names,
)
from nodeagent.cli.usage import FILE

if TYPE_CHECKING:
    from nodeagent.placement.cluster.cluster import Cluster
    from nodeagent.placement.cluster.from_ganeti import Known
    from nodeagent.placement.evacuate.rolling import Batch, Rolling

_ENDLESS = 10**9  # characters


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
@click.option("--one-step-only", "first", is_flag=True, help="Print only the first group.")
@click.option("--print-moves", "moves", is_flag=True, help="Print moves of non-redundant ones.")
@click.option("--no-headers", is_flag=True, help="Print no header line.")
@OWN_MEMORY
@click.option("--save", "-S", metavar="FILE", type=FILE, help="Write the cluster to FILE.original.")
@VERSION
@click.option("--force", "-f", is_flag=True, help="Continue without a known master.")
@click.option("--verbose", "-v", count=True, help="Compare algorithms; twice: graph.")
@click.option("--quiet", "-q", count=True, help="Print less.")
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
    first: bool,
    moves: bool,
    no_headers: bool,
    static_kvm_node_memory: int,
    save: str | None,
    force: bool,
    verbose: int,
    quiet: int,
    as_json: bool,
) -> None:
    """Find groups of nodes that can be rebooted together, and print them as hroller does.

    All instances of a group can be migrated off it at once. Changes nothing. To schedule windows
    see gnt-maint window propose.
    """
    from nodeagent.cli.maint.hbal import hroller_lines
    from nodeagent.placement.cluster.cluster import Group
    from nodeagent.placement.cluster.textfile import write
    from nodeagent.placement.evacuate.rolling import Wanted, roll
    from nodeagent.placement.layout.layout import lay_out
    from nodeagent.placement.layout.rules import Rules

    if where.url is not None and text_data is None:
        raise click.UsageError("--url is elsewhere, and the cluster that is asked is here")
    if text_data is not None and luxi is not None:
        raise click.UsageError("-t and -L are two clusters: name one")
    stock = known(where, text_data, luxi, static_kvm_node_memory)
    cluster = stock.cluster
    _one_master(cluster, force=force)
    off = named("-O", "node", offline, [node.name for node in cluster.nodes])
    layout = lay_out(cluster, Group("", ""), Rules(offline=off))
    for why in stock.doubts.values():
        click.echo(harmless(f"gnt-maint: {why}: it is in no group"), err=True)
    if save:
        write_file(f"{save}.original", write(cluster).encode())
        told = f"The cluster state before hroller run has been written to file '{save}.original'"
        click.echo(harmless(told), err=True)
    wanted = Wanted(group, frozenset(node_tags) or None, shut_down, skip, ignore)
    found = roll(layout, wanted)
    if as_json:
        emit(_told(stock, found))
        return
    verbosity = 1 + verbose - quiet
    for line in hroller_lines.lines(
        cluster, found, verbosity, header=not no_headers, first=first, moves=moves
    ):
        click.echo(harmless(line, _ENDLESS))


def _one_master(cluster: "Cluster", *, force: bool) -> None:
    masters = [node.name for node in cluster.nodes if node.master]
    if len(masters) > 1:
        raise Refused(f"several nodes are the master: {', '.join(masters)}")
    if not masters:
        why = "no node is said to be the master, which has to be the last one"
        if not force:
            raise Refused(f"{why}: --force goes on without")
        click.echo(f"gnt-maint: {why}", err=True)


def _told(stock: "Known", found: "Rolling") -> Json:
    cluster = stock.cluster
    return {
        "groups": [_batch(cluster, batch) for batch in found.batches if batch.nodes],
        "ways": {name: len(classes) for name, classes in found.coloured.items()},
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
