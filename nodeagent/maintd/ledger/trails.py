"""Read the reason trail of one of our jobs: its incident, its number, its node. Pure."""

import sys
from collections.abc import Sequence

from nodeagent.model.action import Guarded, Retag, RunCommand
from nodeagent.model.incident import CANCELED_TAG
from nodeagent.model.ledger import Outcome, Trail
from nodeagent.model.purpose import parse


def newest_of_others(trails: Sequence[Trail]) -> int:
    """The newest number of a job, except instances' repairs: cron may run these beside maintd."""
    read = (parse(trail.reason) for trail in trails)
    return max((number or 0 for served, number in read if not served.repair), default=0)


def newest_of_each(trails: Sequence[Trail]) -> dict[str, int]:
    """The newest number of each incident; a running job is newer than any ledger."""
    newest: dict[str, int] = {}
    for trail in trails:
        served, number = parse(trail.reason)
        number = sys.maxsize if trail.result.outcome is Outcome.RUNNING else number or 0
        newest[served.incident] = max(number, newest.get(served.incident, 0))
    return newest


def only_cancels(trail: Trail) -> bool:
    """Check whether the job only tags incidents as canceled."""
    action = trail.action
    tags = action.add if isinstance(action, Retag) else ()
    return bool(tags) and all(tag.startswith(CANCELED_TAG) for tag in tags)


def node_of(trail: Trail) -> str | None:
    action = trail.action
    if action is None:
        return None
    if isinstance(action, RunCommand):
        return action.node
    if isinstance(action, Guarded):
        return action.then.node
    return getattr(action, "node", None) or getattr(action, "name", None)
