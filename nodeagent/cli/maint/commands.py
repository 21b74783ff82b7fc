"""gnt-maint commands: which node runs which commands, and which nodes differ from their group."""

from collections.abc import Iterator, Sequence

import click

from nodeagent.cli.maint.console.client import Reach, Refused, Where
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.looking import looks
from nodeagent.cli.maint.console.nodes import full_name
from nodeagent.cli.maint.console.options import as_json, cli, filled
from nodeagent.cli.maint.console.screen import Json, Screen, emit, screen
from nodeagent.cli.maint.console.text import POLLED, age, counted, harmless

_NAMED = 5  # nodes whose commands are unknown, by name
_VARIANTS = 5  # of one command
_DIGITS = 8  # shown of a digest; --json has all
_STATES = {
    "runs": "runs",
    "missing": "no such file",
    "file-refused": "file refused",
    "folder-refused": "folder refused",
    "interpreter-refused": "interpreter refused",
    "disabled": "repairs disabled",
    "absent": "not there",
}
_SAYS_WHY = "`nodeagent commands` on a node says why it refuses a file."


@cli.command()
@click.argument(
    "nodes", nargs=-1, metavar="[NODE]...", callback=filled, shell_complete=complete("node")
)
@click.option(
    "--group",
    metavar="GROUP",
    callback=filled,
    shell_complete=complete("group"),
    help="Show only this group.",
)
@click.option(
    "--differing", is_flag=True, help="Show only commands that are not everywhere the same."
)
@looks
@as_json
def commands(
    where: Where, nodes: tuple[str, ...], *, group: str | None, differing: bool, as_json: bool
) -> None:
    """Show which node runs which commands, and which nodes differ.

    For each group: on how many nodes a command runs, the digest of its file (SHA-256), its slowest
    last run and the last verdicts. A node differs if it has something else than more than half of
    the nodes of its group whose commands are known. With NODE, all commands of that node.
    """
    reach = where.reach()
    if nodes:
        if group is not None:
            raise click.UsageError("name nodes, or a group with --group")
        documents = [_of_node(reach, name) for name in nodes]
        if differing:
            documents = [_only_differing(document) for document in documents]
    else:
        documents = _of_groups(reach.get("/1/commands"), group)
        if differing:
            documents = [
                {**g, "commands": [c for c in g["commands"] if c["others"]]} for g in documents
            ]
    if as_json:
        emit(documents)
        return
    on, now = screen(), reach.get("/1/round")["now"]
    for document in documents:
        if nodes:
            _show_node(on, document, now)
        else:
            _show_group(on, document, now, differing=differing)


def _of_node(reach: Reach, name: str) -> Json:
    node_commands: Json = reach.get(f"/1/nodes/{full_name(reach, name)}/commands")
    return node_commands


def _only_differing(node: Json) -> Json:
    return {**node, "commands": [c for c in node["commands"] if c["differs"] != []]}


def _of_groups(groups: list[Json], only: str | None) -> list[Json]:
    if only is None:
        return groups
    chosen = [group for group in groups if group["group"] == only]
    if not chosen:
        raise Refused(f"{harmless(only, 80)} is not a group with nodes: see gnt-maint groups")
    return chosen


def _show_group(on: Screen, group: Json, now: float, *, differing: bool) -> None:
    unknown, rows = group["unknown"], group["commands"]
    known = group["nodes"] - len(unknown)
    head = f"Group {group['group']}: {_nodes(group['nodes'])}"
    on.heading(f"{head}, the commands of {known} are known" if unknown else head)
    if unknown:
        on.line(f"Unknown: {_unknown(unknown)}")
    if not known:
        return
    same = "All these nodes have the same commands."
    on.table(
        ("command", "kind", "runs on", "digest", "slowest", "last verdicts"),
        [_row(command) for command in rows],
        same if differing else "They have no commands.",
    )
    if others := [row for command in rows for row in _others(command, known, now)]:
        on.heading("Nodes that differ")
        on.table(("command", "difference", "nodes"), others)
    elif rows and not differing:
        on.line(same)
    if any(
        map(
            _is_refused,
            (v for command in rows for v in (command["usual"] or {}, *command["others"])),
        )
    ):
        on.line(_SAYS_WHY)


def _others(command: Json, known: int, now: float) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each variant but the usual one; of many, only the largest."""
    others = command["others"]
    limit = _VARIANTS if len(others) > _VARIANTS + 1 else len(others)
    for other in others[:limit]:
        yield command["name"], _difference(command, other, known, now), _names(other["nodes"])
    if remaining := others[limit:]:
        count = sum(len(other["nodes"]) for other in remaining)
        yield command["name"], f"{len(remaining)} other variants: --json", _nodes(count)


def _is_refused(variant: Json) -> bool:
    return str(variant.get("state")).endswith("-refused")


def _nodes(count: int) -> str:
    return counted(count, "node", "nodes")


def _unknown(nodes: Sequence[Json]) -> str:
    named = [f"{node['node']} ({_why_unknown(node)})" for node in nodes[:_NAMED]]
    more = f" and {len(nodes) - _NAMED} more: --json" if len(nodes) > _NAMED else ""
    return f"{', '.join(named)}{more}"


def _why_unknown(node: Json) -> str:
    return str(POLLED.get(node["look"]) or node["why"] or node["look"])


def _row(command: Json) -> tuple[object, ...]:
    kinds = [variant["kind"] for variant in (command["usual"], *command["others"]) if variant]
    slowest = command["slowest"]
    return (
        command["name"],
        next(filter(None, kinds), "-"),
        command["runs-on"],
        _usual(command["usual"]),
        _lasting(slowest["seconds"]) if slowest else "-",
        ", ".join(f"{count} {word}" for word, count in command["verdicts"].items()) or "-",
    )


def _usual(usual: Json | None) -> str:
    if usual is None:
        return "no majority"
    return "-" if usual["state"] == "absent" else _file(usual)


def _file(variant: Json) -> str:
    """Return the digest of its file, or why it does not run."""
    return _short(variant["digest"]) if variant["state"] == "runs" else _state(variant)


def _state(variant: Json) -> str:
    return str(_STATES.get(variant["state"], variant["state"]))


def _short(digest: str | None) -> str:
    return (digest or "")[:_DIGITS]


def _lasting(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else age(seconds)


def _difference(command: Json, other: Json, known: int, now: float) -> str:
    usual = command["usual"]
    if usual is None:
        count, telling = len(other["nodes"]), _telling(command["others"])
        return f"{count} of {known}: {_whole(other, telling)}"
    differences = "; ".join(_member(name, other, usual) for name in other["differs"])
    return differences + (_since(other["nodes"], now) if "digest" in other["differs"] else "")


def _telling(variants: Sequence[Json]) -> list[str]:
    """Name the members that tell these variants apart, besides their digests."""
    running = [variant for variant in variants if variant["state"] == "runs"]
    return [
        name
        for name in ("kind", "timeout", "settings")
        if len({variant[name] for variant in running}) > 1
    ]


def _whole(variant: Json, telling: Sequence[str]) -> str:
    """Describe a command that is not compared with a usual one."""
    if variant["state"] != "runs":
        return _file(variant)
    return ", ".join([f"digest {_file(variant)}", *(_described(name, variant) for name in telling)])


def _described(name: str, variant: Json) -> str:
    if name == "settings":
        return f"settings {_short(variant['settings'])}" if variant["settings"] else "no settings"
    return f"timeout {variant['timeout']:g} s" if name == "timeout" else str(variant["kind"])


def _member(name: str, variant: Json, usual: Json) -> str:
    """Describe one member that differs from the usual one."""
    if name == "extra":
        return "most nodes lack it"
    if name in ("absent", "state"):
        return _state(variant)
    if name == "digest":
        return f"digest {_short(variant['digest'])}"
    usually = f"{usual['timeout']:g} s" if name == "timeout" else _described(name, usual)
    return f"{_described(name, variant)} instead of {usually}"


def _since(nodes: Sequence[Json], now: float) -> str:
    """Tell since when they have their digest, if that is known of them."""
    known = [node["since"] for node in nodes if node["since"] is not None]
    return f" for {age(now - max(known))}" if known else ""


def _names(nodes: Sequence[Json]) -> str:
    return ", ".join(node["name"] for node in nodes)


def _show_node(on: Screen, node: Json, now: float) -> None:
    on.heading(f"{node['node']}, group {node['group']}")
    if node["unknown"]:
        why = _why_unknown({"look": node["unknown"], "why": node["why"]})
        on.line(f"Its commands are unknown: {why}.")
        return
    on.table(
        ("command", "kind", "digest", "since", "last run", "took", "verdict", "difference"),
        [
            (
                command["name"],
                command["kind"] or command["use"],
                _file(command),
                _age(command["since"], now),
                _age(command["at"], now),
                "-" if command["seconds"] is None else _lasting(command["seconds"]),
                command["verdict"] or "-",
                "; ".join(_of_group(command)),
            )
            for command in node["commands"]
        ],
        "It has no commands.",
    )
    if any(map(_is_refused, node["commands"])):
        on.line(_SAYS_WHY)


def _age(at: float | None, now: float) -> str:
    return "-" if at is None else age(now - at)


def _of_group(command: Json) -> Iterator[str]:
    """Yield the differences of a node's command from most nodes of its group."""
    if command["differs"] is None:
        yield "no majority in its group"
        return
    for name in command["differs"]:
        if name in ("digest", "state"):
            yield f"most have {_file(command['usual'])}"
        elif name == "absent":
            yield "most nodes have it"
        else:
            yield _member(name, command, command["usual"])
