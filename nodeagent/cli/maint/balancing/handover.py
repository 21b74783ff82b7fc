"""Hand moves over to maintd, and follow them until they are done.

maintd makes them in their order. Moves without a common node run together. maintd gives way to more
urgent work, and ends at the first failure.
"""

from collections.abc import Callable

from nodeagent.cli.maint.console.client import Reach, Refused
from nodeagent.cli.maint.console.screen import Json, Progress
from nodeagent.cli.maint.console.waiting import looks_at
from nodeagent.maintd.http.parse import MOST_MOVES
from nodeagent.model.snapshot import Snapshot
from nodeagent.placement.balance.search import Plan
from nodeagent.placement.layout.layout import Layout, Place

_FEW = 5  # names shown


def ready(reach: Reach, seen: Callable[[], Snapshot]) -> None:
    """Raise Refused if maintd there is passive, or works on another cluster."""
    this, here = reach.get("/1/round"), seen().cluster
    if this["cluster"] != here:
        raise Refused(f"maintd manages cluster {this['cluster']}, but this is cluster {here}")
    if this["dry-run"]:
        raise Refused("maintd is on a dry run, and moves nothing")


def hand_over(reach: Reach, plan: Plan) -> None:
    """Give maintd the moves; return once a round has taken them up, else Refused."""
    if len(plan.steps) > MOST_MOVES:
        raise Refused(f"maintd takes {MOST_MOVES} moves at once: -l {MOST_MOVES}")
    moves = {"group": plan.layout.group.name, "moves": [*_moves(plan)]}
    reach.change("POST", "/1/balance", moves)


def follow(
    reach: Reach, plan: Plan, after: Layout, seen: Callable[[], Snapshot], on: Progress
) -> None:
    """Return once every instance is at its target, as `seen` shows; else Refused."""
    _follow(reach, plan.layout.group.name, len(plan.steps), on)
    _check(plan, after, seen())


def stop(reach: Reach, group: str | None) -> str:
    """Start no more of it; return the group's name, which a single group may leave out."""
    if group is None:
        names = [row["group"] for row in reach.get("/1/balance")]
        if len(names) != 1:
            raise Refused(f"name one group of {', '.join(names)}: -G")
        group = str(names[0])
    reach.change("POST", "/1/balance/stop", {"group": group})
    return group


def _moves(plan: Plan) -> list[Json]:
    layout = plan.layout
    return [
        {
            "instance": layout.cluster.instances[step.move.instance].name,
            "from": _spot(layout, step.before),
            "to": _spot(layout, step.after),
        }
        for step in plan.steps
    ]


def _spot(layout: Layout, place: Place) -> list[str]:
    return [layout.nodes[index].host.name for index in place[:2] if index >= 0]


def _follow(reach: Reach, group: str, count: int, on: Progress) -> None:
    for groups in looks_at(lambda seconds: reach.get("/1/balance", seconds), tell=on.tell):
        status = next((row for row in groups if row["group"] == group), None)
        if status is None:
            raise Refused(f"group {group} is gone")
        if halted := status["halted"]:
            raise Refused(f"{halted['why']}: to go on, remove the tag {halted['tag']} from {group}")
        asked, under_way = status["asked"], status["under-way"]
        if asked is None and not under_way:
            if ended := status.get("given-up"):
                raise Refused(ended)
            return
        remaining = len(asked["left"] or ()) if asked else 0
        waits = "" if under_way else _waits(reach, status["held"])
        on.tell(f"{count - remaining} of {count} moves started, {under_way} jobs running{waits}")


def _waits(reach: Reach, held: list[str]) -> str:
    """Say what it waits for, if known."""
    why = held[0] if held else reach.get("/1/round")["idle"]
    return f", {why}" if why else ""


def _check(plan: Plan, after: Layout, snapshot: Snapshot) -> None:
    """Check that all are at their targets: somebody may have ended it, or moved them on."""
    moved = sorted({step.move.instance for step in plan.steps})
    instances = plan.layout.cluster.instances
    elsewhere = [
        instances[index].name
        for index in moved
        if _nodes(snapshot, instances[index].name) != _spot(after, after.places[index])
    ]
    if elsewhere:
        few = ", ".join(elsewhere[:_FEW]) + (" and others" if len(elsewhere) > _FEW else "")
        count = f"{len(elsewhere)} of {len(moved)} instances"
        raise Refused(f"{count} are not where they were to be: {few}")


def _nodes(snapshot: Snapshot, name: str) -> list[str | None]:
    instance = snapshot.instances.get(name)
    if instance is None:
        return []
    return (
        [instance.primary] if instance.secondary is None else [instance.primary, instance.secondary]
    )
