"""The commands of nodes over HTTP: `/1/commands`, and `/1/nodes/NODE/commands`."""

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

from nodeagent.maintd.http.context import Context
from nodeagent.maintd.http.fleet.compare import (
    Compared,
    NodeCommands,
    commands_of,
    compare,
    differences,
)
from nodeagent.maintd.http.status import Json
from nodeagent.maintd.http.view import View
from nodeagent.model.units import Ms
from nodeagent.protocol.commands import Command, LastRun, State
from nodeagent.web.exchange import ANY_NAME, Answer, Request, Response, Route

_ABSENT = "absent"


def routes(context: Context) -> tuple[Route, ...]:
    """The routes of the nodes' commands."""

    def of_node(request: Request) -> Answer:
        name = request.segments[2]

        def build(view: View) -> Response:
            document = node_commands(view, name)
            missing = f"there is no node {name}: see gnt-maint nodes"
            return Response.json(document) if document is not None else Response.error(404, missing)

        return context.share(f"commands {name}", build, request)

    return (
        Route("GET", ("1", "commands"), context.telling("commands", group_commands)),
        Route("GET", ("1", "nodes", ANY_NAME, "commands"), of_node),
    )


def group_commands(view: View) -> list[Json]:
    """Every group with its commands: how many nodes run each, and which nodes differ."""
    return [_group_json(name, nodes) for name, nodes in sorted(_groups(view).items())]


def _group_json(name: str, nodes: Mapping[str, NodeCommands]) -> Json:
    runs = _runs(nodes)
    return {
        "group": name,
        "nodes": len(nodes),
        "unknown": [
            {"node": node, "look": commands.unknown, "why": commands.why or None}
            for node, commands in nodes.items()
            if commands.unknown
        ],
        "commands": [_compared_json(row, runs) for row in compare(nodes)],
    }


def node_commands(view: View, name: str) -> Json | None:
    """All commands of one node, also those that only most others of its group have."""
    node = view.observed.snapshot.nodes.get(name)
    if node is None:
        return None
    group = _group_name(view, node.group)
    nodes = _groups(view, node.group)[group]
    commands = nodes[name]
    return {
        "node": name,
        "group": group,
        "unknown": commands.unknown or None,
        "why": commands.why or None,
        "commands": [] if commands.unknown else _rows(name, nodes),
    }


def _rows(name: str, nodes: Mapping[str, NodeCommands]) -> list[Json]:
    commands = nodes[name]
    runs = dict(zip(commands.commands, commands.runs, strict=True))
    rows = []
    for row in compare(nodes):
        key, usual = (row.use, row.name), row.usual
        command = commands.commands.get(key)
        if command is None and (usual is None or usual.command is None):
            continue
        rows.append(
            {
                "name": row.name,
                "use": row.use,
                **_command_json(command),
                **_run_json(runs.get(key, LastRun())),
                "differs": None if usual is None else list(differences(command, usual.command)),
                "usual": None if usual is None else _command_json(usual.command),
            }
        )
    return rows


def _groups(view: View, only: str | None = None) -> dict[str, dict[str, NodeCommands]]:
    """Return the commands of nodes by the names of group and node; of all groups or of one."""
    groups: dict[str, dict[str, NodeCommands]] = {}
    for node in view.observed.snapshot.nodes.values():
        if only in (None, node.group):
            group = groups.setdefault(_group_name(view, node.group), {})
            group[node.name] = commands_of(view.looks.get(node.name))
    return groups


def _group_name(view: View, uuid: str) -> str:
    group = view.observed.snapshot.groups.get(uuid)
    return group.name if group is not None else uuid


_Runs: TypeAlias = Mapping[tuple[str, str], Mapping[str, LastRun]]  # by command, by node


def _runs(nodes: Mapping[str, NodeCommands]) -> _Runs:
    runs: dict[tuple[str, str], dict[str, LastRun]] = {}
    for name, commands in nodes.items():
        for key, run in zip(commands.commands, commands.runs, strict=True):
            runs.setdefault(key, {})[name] = run
    return runs


def _compared_json(row: Compared, all_runs: _Runs) -> Json:
    runs = all_runs[row.use, row.name]
    variants = row.others if row.usual is None else (row.usual, *row.others)
    usual = row.usual.command if row.usual is not None else None
    verdicts = Counter(run.verdict for run in runs.values() if run.verdict)
    return {
        "name": row.name,
        "use": row.use,
        "runs-on": sum(
            len(each.nodes)
            for each in variants
            if each.command is not None and each.command.state == State.RUNS
        ),
        "verdicts": dict(sorted(verdicts.items())),
        "slowest": _slowest(runs),
        "usual": None
        if row.usual is None
        else {**_command_json(usual), "nodes": len(row.usual.nodes)},
        "others": [
            {
                **_command_json(other.command),
                "differs": None if row.usual is None else list(differences(other.command, usual)),
                "nodes": [
                    {"name": node, **_run_json(runs.get(node, LastRun()))} for node in other.nodes
                ],
            }
            for other in row.others
        ],
    }


def _slowest(runs: Mapping[str, LastRun]) -> Json | None:
    timed = [(run.took, node) for node, run in runs.items() if run.took is not None]
    if not timed:
        return None
    took, node = max(timed)
    return {"node": node, "seconds": took / 1000}


def _command_json(command: Command | None) -> Json:
    if command is None:
        return {
            "kind": None,
            "state": _ABSENT,
            "digest": None,
            "timeout": None,
            "settings": None,
        }
    return {
        "kind": command.kind,
        "state": command.state,
        "digest": command.digest or None,
        "timeout": command.timeout / 1000,
        "settings": command.settings or None,
    }


def _run_json(run: LastRun) -> Json:
    return {
        "since": _seconds(run.since),
        "verdict": run.verdict,
        "seconds": _seconds(run.took),
        "at": _seconds(run.at),
    }


def _seconds(ms: Ms | None) -> float | None:
    return None if ms is None else ms / 1000
