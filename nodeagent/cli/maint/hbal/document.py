"""A balancing as one JSON document. Pure."""

from collections.abc import Iterator
from math import isfinite
from typing import Any

from nodeagent.cli.maint.hbal.lines import jobsets, shell
from nodeagent.placement.balance.search import Plan
from nodeagent.placement.layout.layout import Layout, Place
from nodeagent.placement.layout.moves import copied
from nodeagent.placement.layout.node import Filled
from nodeagent.placement.layout.score import COMPONENTS, components, least

Json = dict[str, Any]


def told(plan: Plan, after: Layout, search: Json) -> Json:
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


def _components(before: Layout, after: Layout) -> Iterator[Json]:
    """Yield nothing if no node is online: there is no score then."""
    found = components(before.group_nodes()), components(after.group_nodes())
    for part, old, new in zip(COMPONENTS, *found, strict=False):
        yield {
            "name": part.name,
            "weight": part.weight,
            "initial": _number(old),
            "final": _number(new),
        }


def _moves(plan: Plan) -> Iterator[Json]:
    layout = plan.layout
    for number, steps in enumerate(jobsets(plan.steps), 1):
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
                "commands": list(shell(layout, step)),
            }


def _place(layout: Layout, place: Place) -> Json:
    names = [layout.nodes[index].host.name if index >= 0 else None for index in place[:2]]
    return {"primary": names[0], "secondary": names[1]}


def _node(node: Filled) -> Json:
    return {
        "instances": node.primaries,
        "mirrors": node.secondaries,
        "free-memory": node.free_memory,
        "reserved-memory": node.reserved,
        "survives-another": not node.failing,
        "free-disk": node.free_disk,
        "vcpus": node.used_cpus,
    }


def _number(value: float) -> float | None:
    """Return a number; None for infinity and NaN, which JSON lacks."""
    return value if isfinite(value) else None
