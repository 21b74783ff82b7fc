"""The fencing of a node in words: its stage, its next step, and the fate of its instances."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from nodeagent.cli.maint.console.arguments import when
from nodeagent.cli.maint.console.screen import Json, Screen

_NAMED = 5  # nodes by name


def fencing_facts(fencing: Json) -> list[tuple[str, object]]:
    """Return name and text of each line about a node's fencing."""
    rows: list[tuple[str, object]] = [
        ("Fencing", f"{fencing['stage']} since {when(fencing['at'])}")
    ]
    rows.append(("Because", fencing["why"]))
    if fencing["failure"]:
        tries = f"{fencing['failures']} in a row: " if fencing["failures"] else ""
        rows.append(("Failure", f"{tries}{fencing['failure']}"))
    if fencing["next"]:
        rows.append(("Next step", f"{fencing['next']}, {_moment(fencing['next-at'])}"))
    return rows


def _moment(at: float | None) -> str:
    return "as soon as maintd can" if at is None else f"at {when(at)}"


def show_fates(on: Screen, fates: Sequence[Json]) -> None:
    """Show the instances of a fenced node, if it has any."""
    if fates:
        on.heading("Its instances")
        on.table(("instance", "state", "why"), [_fate_row(fate) for fate in fates])


def _fate_row(fate: Json) -> tuple[str, str, str]:
    on = {"restarted": " on ", "restarting": " on "}.get(fate["state"], "")
    return (
        fate["instance"],
        f"{fate['state']}{on}{fate['on']}" if on else fate["state"],
        fate["why"],
    )


def fenced_nodes(nodes: Iterable[Json]) -> Iterator[tuple[str, object]]:
    """Yield a line for each node that is being fenced, or is fenced; the first ones by name."""
    fenced = [node for node in nodes if node["fencing"]]
    for node in fenced[:_NAMED]:
        fencing = node["fencing"]
        line = f"{node['name']}: {fencing['stage']} since {when(fencing['at'])}"
        counts = Counter(fate["state"] for fate in fencing["instances"])
        each = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        line += f"; instances: {each}" if each else ""
        yield "Fencing", f"{line}; gnt-maint why {node['name']}"
    if len(fenced) > _NAMED:
        yield "Fencing", f"and {len(fenced) - _NAMED} more: gnt-maint nodes"
