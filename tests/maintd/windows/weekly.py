"""Rigs with weekly series, and the moments of their occurrences."""

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

from nodeagent.maintd.engine.round import Round
from nodeagent.model.snapshot import Instance, Node
from nodeagent.model.units import Seconds
from nodeagent.model.window import Machine
from nodeagent.model.wish import AddSeries
from tests.maintd.rig import QUICK, Rig, ask, fleet, mirrored

HOUR = 3600
WEDNESDAY = datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()
AHEAD = QUICK.window_ahead / 1000
SUNDAYS = [datetime(2026, 11, day, 1, tzinfo=UTC).timestamp() for day in (22, 29)]  # 02:00 there


def rig(nodes: list[Node] | None = None, instances: list[Instance] | None = None) -> Rig:
    one = Rig(nodes or fleet(), instances or mirrored(("n3", "n4"), ("n5", "n3")))
    one.time = WEDNESDAY
    return one


def add(one: Rig, *names: str, **more: Any) -> str:
    """Every Sunday at 02:00, for two hours."""
    asked = AddSeries(tuple(map(Machine, names)), (6,), 120, "Europe/Zurich", Seconds(2 * HOUR))
    return ask(one, replace(asked, **more))


def at(one: Rig, moment: float) -> Round:
    """The round at a moment, with one every six hours before it."""
    while one.time + 6 * HOUR < moment:
        one.tick(6 * HOUR)
    return one.tick(moment - one.time)


def planned(one: Rig) -> list[tuple[list[str], float]]:
    """The windows: machines, and when they begin."""
    return [
        ([str(machine) for machine in window.machines], window.unavailability.start / 1e9)
        for window in one.ledger.schedule.windows
    ]


def day(text: str) -> int:
    return date.fromisoformat(text).toordinal()
