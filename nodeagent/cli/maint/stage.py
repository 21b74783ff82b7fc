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
    answer = reach.get("/1/stage")
    if as_json:
        emit(answer)
        return 0
    _show(screen(), answer)
    return reach.doubtful


def _show(on: Screen, answer: Json) -> None:
    on.heading(f"Stage: {answer['stage']}")
    for line in _elsewhere(answer):
        on.line(line)
    since, now = answer["since"], answer["now"]
    lately = f"in the last {age(now - since)}" if since and now - since >= 60 else "so far"
    would = {name: _times(answer["would"][name]) for name in STAGES}
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
        [_row(proposal, now) for proposal in answer["proposals"]],
        "Nothing so far. What waits for another reason: gnt-maint held.",
    )
    for line in _next(answer):
        on.line(line)


def _elsewhere(answer: Json) -> Iterator[str]:
    """Name the nodes that are at another stage than the cluster."""
    by_stage: dict[str, list[str]] = {}
    for node in answer["otherwise"]:
        by_stage.setdefault(node["stage"], []).append(node["node"])
    for name in STAGES:
        if nodes := by_stage.get(name):
            yield f"At {name}: {some_of(nodes)}."


def _times(would: Mapping[str, int]) -> str:
    return ", ".join(f"{what} {counted(count, 'time', 'times')}" for what, count in would.items())


def _row(proposal: Json, now: float) -> tuple[object, ...]:
    return (
        proposal["what"],
        proposal["name"],
        f"{age(now - proposal['at'])} ago",
        proposal["times"],
        "yes" if proposal["open"] else "no",
        proposal["started"],
        proposal["taken-back"],
        proposal["by-person"],
        proposal["passed"],
    )


def _next(answer: Json) -> Iterator[str]:
    """Say what is in the way of the next stage, and how to set it."""
    wanted = answer["next"]
    if wanted is None:
        return
    obstacles = answer["in-the-way"]
    if obstacles:
        yield f"In the way of {wanted}:"
        yield from (f"- {obstacle['reason']}" for obstacle in obstacles)
    else:
        yield f"Nothing is in the way of {wanted}."
    yield (
        f"To go on: gnt-cluster add-tags {_TAG}{wanted}; for a part, gnt-group add-tags or"
        " gnt-node add-tags. Then remove the old tag of this name."
    )
