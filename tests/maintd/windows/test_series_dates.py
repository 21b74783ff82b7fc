"""Days of weekly series: begun later, skipped, dealt with."""

from dataclasses import replace
from datetime import date
from time import process_time
from typing import Any

import pytest

from nodeagent.maintd.windows import occurrences, series
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.series import Series
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms, Seconds
from nodeagent.model.wish import AddSeries, EditSeries
from tests.maintd.windows.rounds import DAY, HOUR, N3, RULE, SUNDAY, ZONES, of, plan, rig, world_of
from tests.maintd.world import NOW


def edited(one: Series, **more: Any) -> Series | str:
    observed = Observed(world_of(["n3"]), {}, zones=ZONES)
    after = series.grant(Ledger(series=(one,)), EditSeries(1, **more), ("w", "root"), observed, NOW)
    return after if isinstance(after, str) else after.series[0]


def test_a_series_that_is_to_begin_in_spring_does_so_at_another_time_too() -> None:
    spring = date(2027, 3, 7).toordinal()
    changed = edited(of(["n3"], rule=replace(RULE, first=spring)), minute=180)
    assert not isinstance(changed, str)
    assert changed.rule.first == spring
    for first in (SUNDAY - 70, SUNDAY):
        begun = edited(of(["n3"], rule=replace(RULE, first=first)), weekdays=(5, 6))
        assert not isinstance(begun, str)
        assert begun.rule.first == SUNDAY - 1, "its next may be earlier"


def test_skipped_days_are_forgotten_after_a_year_and_no_more_than_a_thousand() -> None:
    old, late = SUNDAY - 7 * 53, SUNDAY - 7 * 51
    rule = replace(RULE, first=SUNDAY - 7 * 60, skipped=(old, late))
    gone = of(["n3"], rule=rule, day=SUNDAY - 7, placed=True)
    observed = Observed(world_of(["n3"]), {}, zones=ZONES)
    after = occurrences.advance(
        Ledger(series=(gone,)), observed, Policy(window_ahead=Ms(0)), NOW
    ).ledger
    assert after.series[0].rule.skipped == (late,)
    most = replace(RULE, skipped=tuple(SUNDAY + 7 * n for n in range(series.MOST_SKIPPED)))
    why = edited(of(["n3"], rule=most), skip=(SUNDAY + 7 * series.MOST_SKIPPED,))
    assert why == "of a series 1000 days are skipped at most"


def test_what_a_clock_that_was_ahead_has_dealt_with_is_yet_to_come() -> None:
    one = rig()
    one.wish(AddSeries((N3,), (6,), 120, "Europe/Zurich", Seconds(2 * HOUR)))
    one.tick()
    one.skew = 400 * DAY
    one.tick()
    one.skew = 0
    assert one.ledger.schedule.windows[0].unavailability.start_ms > one.now() + 399 * DAY * 1000
    plan(one)  # somebody sees that, and cancels it
    one.tick(DAY)
    begins = [w.unavailability.start_ms - one.now() for w in one.ledger.schedule.windows]
    assert len(begins) == 1
    assert begins[0] < 8 * DAY * 1000


@pytest.mark.measures
def test_series_of_all_machines_are_planned_in_a_moment() -> None:
    names = [f"n{n}" for n in range(3000)]
    many = tuple(of(names[n * 1000 : n * 1000 + 1000], n + 1) for n in range(3))
    observed = Observed(world_of(names), {}, zones=ZONES)
    began = process_time()
    done = occurrences.advance(
        Ledger(series=many), observed, Policy(window_ahead=Ms(8 * DAY * 1000)), NOW
    )
    took = process_time() - began
    assert [len(window.machines) for window in done.ledger.schedule.windows] == [1000] * 3
    assert took < 1.0
