"""Calendars: each window once, and nodes looked at once for all of them."""

import pytest

from nodeagent.maintd.http import calendar, ical
from nodeagent.maintd.http.view import View
from nodeagent.maintd.windows import recurrence
from nodeagent.model.ledger import Ledger
from nodeagent.model.series import Series
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.units import Ms, Nanoseconds, in_ms
from nodeagent.model.window import Mode, Schedule, Scheduled, Unavailability, Window
from tests.maintd.windows.rounds import N3, SUNDAY, ZONES, of, world_of
from tests.maintd.world import NOW


def view(ledger: Ledger, world: Snapshot) -> View:
    return View(NOW, ledger, Observed(world, {}, zones=ZONES))


@pytest.mark.parametrize(
    ("after_start", "first"),
    [
        pytest.param(-1, SUNDAY, id="before it"),
        pytest.param(7199, SUNDAY, id="in its last second"),
        pytest.param(7200, SUNDAY + 7, id="over"),
    ],
)
def test_a_running_occurrence_is_among_the_next(after_start: int, first: int) -> None:
    one = of(["n3"])
    zone = ZONES[one.rule.zone]
    at = in_ms(recurrence.start(one.rule, zone, SUNDAY) + after_start)
    seen = View(at, Ledger(series=(one,)), Observed(world_of(["n3"]), {}, zones=ZONES))
    (row,) = calendar.calendar(seen)["series"]
    assert row["next"][0]["day"] == recurrence.day_text(first)


def exported(one: Series, window: Window) -> bytes:
    there = Scheduled(N3, window.unavailability, Mode.DOWN, Ms(0), "uuid-n3", series=one.number)
    ledger = Ledger(series=(one,), schedule=Schedule((window,)), scheduled=(there,))
    return ical.calendar(view(ledger, world_of(["n3"])))


def test_what_is_down_for_a_day_that_the_rule_has_no_more_is_an_event_of_its_own() -> None:
    window = Window((N3,), Unavailability(Nanoseconds(NOW * 10**6), Nanoseconds(10**12)))
    assert b"RECURRENCE-ID" in exported(of(["n3"], day=SUNDAY, placed=True), window)
    assert b"RECURRENCE-ID" not in exported(of(["n3"], day=SUNDAY - 1, placed=True), window)


@pytest.mark.parametrize(("duration", "ends"), [(0, 0), (10**8, 0), (10**9, 1)])
def test_an_event_does_not_end_when_it_begins(duration: int, ends: int) -> None:
    window = Window((N3,), Unavailability(Nanoseconds(NOW * 10**6), Nanoseconds(duration)))
    text = exported(of(["n6"]), window)
    assert text.count(b"DTEND") == ends
    assert b"without an end" not in text
