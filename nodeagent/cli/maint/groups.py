"""gnt-maint groups: show how evenly each group is used, and what maintd does about it."""

from collections.abc import Iterator

from nodeagent.cli.maint.console.client import Where
from nodeagent.cli.maint.console.looking import lists
from nodeagent.cli.maint.console.options import as_json, cli
from nodeagent.cli.maint.console.screen import Json, emit, screen
from nodeagent.cli.maint.console.text import age


@cli.command()
@lists
@as_json
def groups(where: Where, *, as_json: bool) -> int:
    """List the groups: balancing, and what blocks it."""
    reach = where.reach()
    found = reach.plans("/1/balance", as_json=as_json)
    if as_json:
        emit(found)
        return 0
    now = reach.get("/1/round")["now"]
    rows = [
        (
            one["group"],
            "on" if one["on"] else "off",
            _scores(one),
            len(one["moves"]),
            one["under-way"],
            "; ".join(_why(one, now)) or "-",
        )
        for one in found
    ]
    screen().table(("group", "balancing", "score", "moves", "jobs", "what"), rows)
    return reach.doubtful


def _scores(one: Json) -> str:
    if one["score"] is None:
        return "-"
    told = f"{one['score']:.4f}"
    return f"{told} -> {one['final']:.4f}" if one["moves"] else told


def _why(one: Json, now: float) -> Iterator[str]:
    """Yield the reasons, the most urgent first."""
    if halted := one["halted"]:
        yield f"{halted['why']}: remove the tag {halted['tag']}"
    if asked := one["asked"]:
        left = "as is advised" if asked["left"] is None else f"{len(asked['left'])} moves left"
        yield f"asked for by {asked['who']} {age(now - asked['at'])} ago, {left}"
    if not one["halted"]:
        yield from one["held"]
    if one["doubt"]:
        yield str(one["doubt"])
