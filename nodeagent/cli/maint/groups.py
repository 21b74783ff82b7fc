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
    answer = reach.plans("/1/balance", as_json=as_json)
    if as_json:
        emit(answer)
        return 0
    now = reach.get("/1/round")["now"]
    rows = [
        (
            group["group"],
            "on" if group["on"] else "off",
            _scores(group),
            len(group["moves"]),
            group["under-way"],
            "; ".join(_why(group, now)) or "-",
        )
        for group in answer
    ]
    screen().table(("group", "balancing", "score", "moves", "jobs", "what"), rows)
    return reach.doubtful


def _scores(group: Json) -> str:
    if group["score"] is None:
        return "-"
    score = f"{group['score']:.4f}"
    return f"{score} -> {group['final']:.4f}" if group["moves"] else score


def _why(group: Json, now: float) -> Iterator[str]:
    """Yield the reasons, the most urgent first."""
    if halted := group["halted"]:
        yield f"{halted['why']}: remove the tag {halted['tag']}"
    if asked := group["asked"]:
        moves = "as is advised" if asked["left"] is None else f"{len(asked['left'])} moves left"
        yield f"asked for by {asked['who']} {age(now - asked['at'])} ago, {moves}"
    if not group["halted"]:
        yield from group["held"]
    if group["doubt"]:
        yield str(group["doubt"])
