"""gnt-maint what-if: show where instances would go, without a change."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from nodeagent.cli.maint.console.arguments import luxi_socket
from nodeagent.cli.maint.console.client import Where
from nodeagent.cli.maint.console.cluster_source import TEXT_DATA, known, leaving, named
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.options import as_json, cli, filled
from nodeagent.cli.maint.console.screen import Json, emit, screen

if TYPE_CHECKING:
    from nodeagent.placement.cluster.cluster import Known
    from nodeagent.placement.evacuate.evacuate import Evacuation, Way

EXIT_NO_ROOM = 2


@cli.group("what-if")
def what_if() -> None:
    """Show whether and how something could be done. Changes nothing.

    What would happen if a node died shows gnt-maint drill NODE.
    """


@what_if.command()
@click.argument(
    "nodes",
    metavar="NODE...",
    nargs=-1,
    required=True,
    callback=filled,
    shell_complete=complete("node"),
)
@TEXT_DATA
@luxi_socket
@click.option(
    "--ignore-soft-errors", "ignore_soft", is_flag=True, help="Allow possible but unwise moves."
)
@as_json
def evacuate(
    where: Where,
    nodes: Sequence[str],
    *,
    text_data: str | None,
    luxi: str | None,
    ignore_soft: bool,
    as_json: bool,
) -> int:
    """Show whether these nodes can be evacuated together, and where each instance would go.

    Without FILE queries Ganeti and its nodes; run that on the master node. Exit code 2 if any
    instance would stay.
    """
    from nodeagent.model.departure import ranks
    from nodeagent.placement.cluster.leaving import in_words
    from nodeagent.placement.evacuate import evacuate as placement
    from nodeagent.placement.layout.rules import Rules

    if elsewhere := where.elsewhere:
        raise click.UsageError(f"{elsewhere} is another machine: ask on the master node itself")
    if text_data is not None and luxi is not None:
        raise click.UsageError("-t and --luxi are two clusters: name one")
    stock = known(where, text_data, luxi)
    node_names = [node.name for node in stock.cluster.nodes]
    chosen = named("NODE", "node", nodes, node_names)
    names = [name for name in node_names if name in chosen]
    soon = leaving(where, text_data, luxi)
    rules = Rules(ignore_soft=ignore_soft, leaving=ranks(soon, node_names))
    evacuation = placement.evacuate(stock.cluster, names, rules, stock.doubts)
    targets = {node_names[at] for way in evacuation.ways for at in set(way.after[:2]) - {-1}}
    document = {
        **_document(evacuation, names, stock),
        "leave-soon": list(in_words(sorted(targets), soon)),
    }
    if as_json:
        emit(document)
    else:
        _show(document)
    return 0 if evacuation.complete else EXIT_NO_ROOM


def _document(evacuation: "Evacuation", names: Sequence[str], stock: "Known") -> Json:
    from nodeagent.placement.evacuate.evacuate import failing

    staying, instances = evacuation.staying(), evacuation.before.cluster.instances
    nodes = [filled.host.name for filled in evacuation.before.nodes]
    before, after = failing(evacuation.before, staying), failing(evacuation.after, staying)
    room = [evacuation.after.nodes[index] for index in staying]
    unmoved = [
        {
            "instance": instances[instance].name,
            "nodes": [nodes[at] for at in evacuation.after.places[instance][:2] if at >= 0],
            "why": why,
        }
        for instance, why in evacuation.left.items()
    ]
    return {
        "nodes": list(names),
        "fits": evacuation.complete,
        "moves": [_way(evacuation, way) for way in evacuation.ways],
        "left": sorted(unmoved, key=lambda row: str(row["instance"])),
        "room": [
            {
                "node": node.host.name,
                "free-memory": node.present.memory,
                "reserved-memory": node.reserved,
                "free-disk": node.present.disk,
                "n+1": node.host.name not in after,
                "n+1-before": node.host.name not in before,
            }
            for node in room
        ],
        "crowded": [
            {
                "node": evacuation.after.nodes[index].host.name,
                "spindles": evacuation.after.nodes[index].present.pressure,
                "limit": evacuation.after.nodes[index].host.spindle_limit,
            }
            for index in evacuation.crowded()
        ],
        "doubts": [{"node": name, "why": why} for name, why in sorted(stock.doubts.items())],
    }


def _way(evacuation: "Evacuation", way: "Way") -> Json:
    from nodeagent.placement.layout.moves import commands

    layout = evacuation.before
    steps = [step for move in way.moves for step in commands(layout, move)]
    nodes = [filled.host.name for filled in layout.nodes]
    return {
        "instance": layout.cluster.instances[way.instance].name,
        "from": [nodes[at] for at in way.before[:2] if at >= 0],
        "to": [nodes[at] for at in way.after[:2] if at >= 0],
        "commands": [f"gnt-instance {step}" for step in steps],
    }


def _show(document: Json) -> None:
    from nodeagent.cli.maint.balancing.report import actions

    on, moves, unmoved = screen(), document["moves"], document["left"]
    for doubt in document["doubts"]:
        on.line(f"In doubt, and no target: {doubt['why']}.")
    if moves:
        on.heading("It would move")
        rows = [
            (
                move["instance"],
                ":".join(move["from"]),
                ":".join(move["to"]),
                actions(move["commands"]),
            )
            for move in moves
        ]
        on.table(("instance", "from", "to", "how"), rows)
    if unmoved:
        on.heading("It would leave")
        stay = [(row["instance"], ":".join(row["nodes"]), row["why"]) for row in unmoved]
        on.table(("instance", "nodes", "why"), stay)
    if document["room"]:
        on.heading("Room on the nodes that stay, then; in MiB")
        on.table(
            ("node", "free memory", "of it reserved", "free disk", "N+1"),
            [
                (
                    node["node"],
                    node["free-memory"],
                    node["reserved-memory"],
                    node["free-disk"],
                    "holds" if node["n+1"] else "fails" if node["n+1-before"] else "fails, as now",
                )
                for node in document["room"]
            ],
        )
    for words in document["leave-soon"]:
        on.line(f"{words}: what goes there will move again.")
    for node in document["crowded"]:
        on.line(
            f"{node['node']} would exceed its group's spindle ratio: {node['spindles']} spindles in"
            f" use, {node['limit']:g} allowed. Ganeti moves instances there all the same; show the"
            " ratio with: gnt-group info."
        )
    on.line("")
    names = ", ".join(document["nodes"])
    if document["fits"]:
        on.line(f"It fits: {names} would be empty." if moves else f"{names}: nothing is there.")
    else:
        count = len(unmoved)
        on.line(f"It does not fit: {count} instance{'s' * (count > 1)} would be left on {names}.")
