"""When a window begins, and when what it does is overdue."""

from dataclasses import replace

import pytest

from nodeagent.maintd.windows import schedule as windows_schedule
from nodeagent.maintd.windows.timing import overdue
from nodeagent.model.action import Drain
from nodeagent.model.ledger import Intent, Ledger, Outcome, Result
from nodeagent.model.purpose import OfWindow
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Mode, Schedule, Scheduled, Unavailability, Window
from nodeagent.model.wish import SetSchedule
from tests.maintd.windows.rounds import N3
from tests.maintd.world import NOW


@pytest.mark.parametrize(
    ("planned", "mode", "now", "late"),
    [
        pytest.param(-86_400, Mode.DRAINING, 60, 60, id="planned a day before"),
        pytest.param(0, Mode.DRAINING, 5, 0, id="planned to start now"),
        pytest.param(0, Mode.DRAINING, 660, 60, id="and not empty after ten minutes"),
        pytest.param(-300, Mode.DRAINING, 360, 60, id="planned five minutes before"),
        pytest.param(0, Mode.DOWN, 3660, 60, id="down past its end"),
        pytest.param(0, Mode.DOWN, 3600, 0, id="down until its end"),
    ],
)
def test_a_window_is_late_after_its_start_and_a_margin_for_its_evacuation(
    planned: int, mode: Mode, now: int, late: int
) -> None:
    """Seconds from the start of a window of an hour."""
    interval = Unavailability(Nanoseconds(NOW * 10**6), Nanoseconds(3600 * 10**9))
    there = Scheduled(N3, interval, mode, Ms(NOW + planned * 1000), "uuid-n3")
    assert overdue(there, Ms(NOW + now * 1000)) == late * 1000
    if mode is Mode.DOWN:
        endless = replace(there, when=replace(interval, duration=None))
        assert overdue(endless, Ms(NOW + now * 1000)) == 0


def test_another_interval_lets_go_of_a_lost_job() -> None:
    first, other = (
        Schedule((Window((N3,), Unavailability(Nanoseconds(n * 10**9))),)) for n in (1, 2)
    )
    lost = Intent("1", OfWindow("uuid-n3"), "n3", Drain("n3"), "7")
    when = first.windows[0].unavailability
    there = Scheduled(N3, when, Mode.DRAINING, Ms(0), "uuid-n3", begun=True)
    before = Ledger(intents=(lost,), schedule=first, scheduled=(there,))
    world = Snapshot("c", {"n3": Node("n3", "uuid-n3", "")})
    observed = Observed(world, {}, results={"1": Result(Outcome.LOST)})
    for schedule, kept in ((first, (lost,)), (other, ())):
        after = windows_schedule.grant(before, SetSchedule(schedule), observed, NOW)
        assert not isinstance(after, str)
        assert after.intents == kept
