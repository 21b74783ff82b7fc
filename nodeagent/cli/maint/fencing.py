"""The fencing of a node in words: its stage, its next step, and the fate of its instances."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from nodeagent.cli.maint.console.arguments import when

Json = dict[str, Any]
_NAMED = 5  # nodes by name


def fencing_facts(one: Json) -> list[tuple[str, object]]:
    """Return name and text of each line about a node's fencing."""
    rows: list[tuple[str, object]] = [("Fencing", f"{one['stage']} since {when(one['at'])}")]
    rows.append(("Because", one["why"]))
    if one["failure"]:
        tries = f"{one['failures']} in a row: " if one["failures"] else ""
        rows.append(("Failure", f"{tries}{one['failure']}"))
    if one["next"]:
        rows.append(("Next step", f"{one['next']}, {_moment(one['next-at'])}"))
    return rows


def _moment(at: float | None) -> str:
    return "as soon as maintd can" if at is None else f"at {when(at)}"


def fate_row(one: Json) -> tuple[str, str, str]:
    """Return the row of an instance of a fenced node."""
    on = {"restarted": " on ", "restarting": " on "}.get(one["state"], "")
    return one["instance"], f"{one['state']}{on}{one['on']}" if on else one["state"], one["why"]


def fenced_nodes(nodes: Iterable[Json]) -> Iterator[tuple[str, object]]:
    """Yield a line for each node that is being fenced, or is fenced; the first ones by name."""
    found = [node for node in nodes if node["fencing"]]
    for node in found[:_NAMED]:
        one = node["fencing"]
        told = f"{node['name']}: {one['stage']} since {when(one['at'])}"
        counts = Counter(fate["state"] for fate in one["instances"])
        each = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        told += f"; instances: {each}" if each else ""
        yield "Fencing", f"{told}; gnt-maint why {node['name']}"
    if len(found) > _NAMED:
        yield "Fencing", f"and {len(found) - _NAMED} more: gnt-maint nodes"
