"""A balancing for people, programs and shells: one document, its table, its commands."""

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from shlex import quote

from nodeagent.cli.maint.console.screen import Json, screen
from nodeagent.cli.maint.console.text import counted, harmless
from nodeagent.placement.balance.search import Plan
from nodeagent.placement.balance.state import Step
from nodeagent.placement.layout.layout import Layout, Place
from nodeagent.placement.layout.moves import commands, copied
from nodeagent.placement.layout.node import Filled
from nodeagent.placement.layout.score import COMPONENTS, components, least

_ACTIONS = {
    "migrate": "migrate",
    "failover": "fail over",
    "replace-disks": "replace the secondary node",
}
_HEAD = """\
#!/bin/sh
# {moves} in group {group}: the score {initial} becomes {final}.
# Made by gnt-maint balance. Ctrl-C ends the script; the running job finishes.
set -e
"""


def document(plan: Plan, after: Layout, search: Json) -> Json:
    """Return the plan with facts of the search; memory and disk in MiB."""
    before = plan.layout
    return {
        "group": before.group.name,
        **search,
        "score": {
            "initial": _number(plan.initial),
            "final": _number(plan.final),
            "least": _number(least(before)),
        },
        "components": list(_components(before, after)),
        "copies-gib": round(plan.copied, 3),
        "moves": list(_moves(plan)),
        "nodes": [
            {
                "name": old.host.name,
                "offline": old.host.offline,
                "before": _node(old),
                "after": _node(new),
            }
            for old, new in zip(before.group_nodes(), after.group_nodes(), strict=True)
        ],
    }


def show(balancing: Json) -> None:
    """Print the document: the group, a move a line, and the result."""
    on, moves, nodes, score = screen(), balancing["moves"], balancing["nodes"], balancing["score"]
    none = (
        "Well balanced: nothing to do."
        if balancing["well-balanced"]
        else "No move lowers the score."
    )
    more = "; more time may find more" if balancing["hurried"] else ""
    on.facts(
        [
            ("group", balancing["group"]),
            ("nodes", len(nodes)),
            ("instances", sum(node["before"]["instances"] for node in nodes)),
            ("N+1 fails on", counted(_failing(nodes, "before"), "node", "nodes")),
            ("initial score", _shown(score["initial"])),
        ]
    )
    on.line("")
    on.table(
        ("job set", "instance", "from", "to", "score", "actions"),
        [
            (
                move["job-set"],
                move["instance"],
                _nodes(move["from"]),
                _nodes(move["to"]),
                _shown(move["score"]),
                actions(move["commands"]),
            )
            for move in moves
        ],
        none=none,
    )
    on.line("")
    on.facts(
        [
            ("final score", _shown(score["final"])),
            ("N+1 fails on", counted(_failing(nodes, "after"), "node", "nodes")),
            ("moves", len(moves)),
            ("to copy", f"{balancing['copies-gib']:.1f} GiB"),
            ("searched for", f"{balancing['seconds']:.1f} s{more}"),
        ]
    )


def actions(commands: Iterable[str]) -> str:
    """Return what `gnt-instance` commands do, in words."""
    return ", ".join(_ACTIONS[command.split()[1]] for command in commands)


def script(balancing: Json) -> str:
    """Return the document's commands as a shell script; those of one job set may run together."""
    moves, score = balancing["moves"], balancing["score"]
    lines = [
        _HEAD.format(
            moves=counted(len(moves), "move", "moves"),
            group=harmless(balancing["group"]),
            initial=_shown(score["initial"]),
            final=_shown(score["final"]),
        )
    ]
    begun = 0
    for move in moves:
        if move["job-set"] != begun:
            begun = move["job-set"]
            lines.append(f"echo 'job set {begun}'\n")
        lines += [f"{command}\n" for command in move["commands"]]
    return "".join(lines)


def _components(before: Layout, after: Layout) -> Iterator[Json]:
    """Yield nothing if no node is online: there is no score then."""
    values = components(before.group_nodes()), components(after.group_nodes())
    for part, old, new in zip(COMPONENTS, *values, strict=False):
        yield {
            "name": part.name,
            "weight": part.weight,
            "initial": _number(old),
            "final": _number(new),
        }


def _moves(plan: Plan) -> Iterator[Json]:
    layout = plan.layout
    for number, steps in enumerate(_job_sets(plan.steps), 1):
        for step in steps:
            move = step.move
            target = layout.nodes[move.target].host.name if move.target >= 0 else ""
            yield {
                "instance": layout.cluster.instances[move.instance].name,
                "action": move.kind.value.format(target),
                "from": _place(layout, step.before),
                "to": _place(layout, step.after),
                "score": _number(step.score),
                "copies-gib": round(copied(layout.demands[move.instance], move.kind), 3),
                "job-set": number,
                "commands": [_quoted(command) for command in commands(layout, move)],
            }


def _job_sets(steps: Sequence[Step]) -> list[list[Step]]:
    """Group the steps into sets without a common node; each starts as early as it can."""
    jobs: list[list[Step]] = []
    touched: set[int] = set()
    for step in reversed(steps):
        nodes = {*step.before[:2], *step.after[:2]} - {-1}
        if jobs and not nodes & touched:
            jobs[-1].append(step)
            touched |= nodes
        else:
            jobs.append([step])
            touched = nodes
    return [job[::-1] for job in reversed(jobs)]


def _quoted(command: str) -> str:
    """Quote each word for a shell; show control characters, which no name of Ganeti's has."""
    words = (quote(harmless(word)) for word in command.split(" "))
    return f"gnt-instance {' '.join(words)}"


def _place(layout: Layout, place: Place) -> Json:
    names = [layout.nodes[index].host.name if index >= 0 else None for index in place[:2]]
    return {"primary": names[0], "secondary": names[1]}


def _node(node: Filled) -> Json:
    return {
        "instances": node.primaries,
        "mirrors": node.secondaries,
        "free-memory": node.present.memory,
        "reserved-memory": node.reserved,
        "survives-another": not node.failing,
        "free-disk": node.present.disk,
        "vcpus": node.present.cpus,
    }


def _number(value: float) -> float | None:
    """Return a number; None for infinity and NaN, which JSON lacks."""
    return value if isfinite(value) else None


def _failing(nodes: Sequence[Json], when: str) -> int:
    """Count the online nodes that could not take over if another node failed."""
    return sum(not (node["offline"] or node[when]["survives-another"]) for node in nodes)


def _nodes(place: Json) -> str:
    return ":".join(filter(None, (place["primary"], place["secondary"])))


def _shown(score: float | None) -> str:
    return "-" if score is None else f"{score:.4f}"
