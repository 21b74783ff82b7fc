"""Windows of nodes, in ms from now."""

from dataclasses import replace

from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Machine, Mode, Schedule, Scheduled, Unavailability, Window
from tests.maintd.world import NOW

HOUR = 3_600_000
DAY = 24 * HOUR


def ahead(ms: int) -> Ms:
    return Ms(NOW + ms)


def window(name: str, start: int, end: int | None, **members: object) -> Scheduled:
    lasts = None if end is None else Nanoseconds((end - start) * 10**6)
    when = Unavailability(Nanoseconds((NOW + start) * 10**6), lasts)
    planned = Scheduled(Machine(name), when, Mode.DRAINING, NOW, f"uuid-{name}")
    return replace(planned, **members)  # type: ignore[arg-type]


def in_windows(*several: Scheduled, **members: object) -> Ledger:
    """The ledger whose schedule is these."""
    schedule = Schedule(tuple(Window((one.machine,), one.when) for one in several))
    return Ledger(scheduled=several, schedule=schedule, **members)  # type: ignore[arg-type]
