"""gnt-maint stage: how far maintd goes by itself, what it would have done, and what is next."""

from collections.abc import Iterator, Mapping

from nodeagent.cli.maint.console.client import Where
from nodeagent.cli.maint.console.looking import lists
from nodeagent.cli.maint.console.options import as_json, cli
from nodeagent.cli.maint.console.screen import Json, Screen, emit, screen
from nodeagent.cli.maint.console.text import age, counted
from nodeagent.model.asked import some_of
from nodeagent.model.stage import STAGES

_TAG = "maintd:stage:"
_MEANS = {
    "observe": "judges all, does nothing",
    "advise": "asks people to do it",
    "drain": "drains nodes that request an evacuation, and asks for the rest",
    "full": "does everything",
}


@cli.command()
@lists
@as_json
def stage(where: Where, *, as_json: bool) -> int:
    """Show how far maintd goes by itself, and would have gone.

    observe, advise, drain and full are the stages of a cluster, a group or a node; the nearest tag
    maintd:stage:STAGE counts, else the setting. People's own orders are never limited.
    """
    reach = where.reach()
    found = reach.get("/1/stage")
    if as_json:
        emit(found)
        return 0
    _show(screen(), found)
    return reach.doubtful


def _show(on: Screen, found: Json) -> None:
    on.heading(f"Stage: {found['stage']}")
    for line in _elsewhere(found):
        on.line(line)
    since, now = found["since"], found["now"]
    lately = f"in the last {age(now - since)}" if since and now - since >= 60 else "so far"
    would = {name: _times(found["would"][name]) for name in STAGES}
    on.facts([(name, f"{_MEANS[name]}; {lately}: {would[name] or 'nothing'}") for name in STAGES])
    on.heading("What maintd wanted to do")
    columns = (
        "what",
        "where",
        "newest",
        "times",
        "now",
        "started",
        "taken back",
        "by hand",
        "passed",
    )
    on.table(
        columns,
        [_row(proposal, now) for proposal in found["proposals"]],
        "Nothing so far. What waits for another reason: gnt-maint held.",
    )
    for line in _next(found):
        on.line(line)


def _elsewhere(found: Json) -> Iterator[str]:
    """Name the nodes that are at another stage than the cluster."""
    by_stage: dict[str, list[str]] = {}
    for one in found["otherwise"]:
        by_stage.setdefault(one["stage"], []).append(one["node"])
    for name in STAGES:
        if nodes := by_stage.get(name):
            yield f"At {name}: {some_of(nodes)}."


def _times(would: Mapping[str, int]) -> str:
    return ", ".join(f"{what} {counted(count, 'time', 'times')}" for what, count in would.items())


def _row(one: Json, now: float) -> tuple[object, ...]:
    return (
        one["what"],
        one["name"],
        f"{age(now - one['at'])} ago",
        one["times"],
        "yes" if one["open"] else "no",
        one["started"],
        one["taken-back"],
        one["by-person"],
        one["passed"],
    )


def _next(found: Json) -> Iterator[str]:
    """Say what is in the way of the next stage, and how to set it."""
    wanted = found["next"]
    if wanted is None:
        return
    obstacles = found["in-the-way"]
    if obstacles:
        yield f"In the way of {wanted}:"
        yield from (f"- {obstacle['reason']}" for obstacle in obstacles)
    else:
        yield f"Nothing is in the way of {wanted}."
    yield (
        f"To go on: gnt-cluster add-tags {_TAG}{wanted}; for a part, gnt-group add-tags or"
        " gnt-node add-tags. Then remove the old tag of this name."
    )
