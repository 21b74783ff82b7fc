"""Weekly series over whole rounds: their occurrences become windows, one after another."""

from datetime import UTC, datetime
from itertools import pairwise

from nodeagent.model.window import Schedule
from nodeagent.model.wish import SetSchedule
from tests.maintd.rounds import ticks
from tests.maintd.windows.rounds import down, up
from tests.maintd.windows.weekly import AHEAD, DAY, HOUR, SUNDAYS, WEDNESDAY, add, at, planned, rig


def test_an_occurrence_becomes_a_window_in_time_and_after_it_the_next() -> None:
    one = rig()
    assert add(one, "n3", "n6") == ""
    assert planned(one) == []
    at(one, SUNDAYS[0] - AHEAD - 1)
    assert planned(one) == []
    at(one, SUNDAYS[0] - AHEAD)
    assert planned(one) == [(["n3", "n6"], SUNDAYS[0])], "one window of both"
    at(one, SUNDAYS[0] + 600)
    assert one.cluster.nodes["n3"].drained, "emptied before it began"
    down(one, "n3", "n6")
    ticks(one, 10, 60)
    assert one.cluster.nodes["n3"].offline
    up(one, "n3", "n6")
    assert planned(one) == []
    at(one, SUNDAYS[0] + 2 * HOUR)
    assert one.cluster.nodes["n3"].in_service, "as it was found"
    at(one, SUNDAYS[1] - AHEAD)
    assert planned(one) == [(["n3", "n6"], SUNDAYS[1])]


def test_between_two_nights_the_node_is_back_in_service() -> None:
    """Though the next is near as soon as one is over."""
    one = rig()
    one.time = WEDNESDAY - 4 * HOUR
    add(one, "n3", weekdays=tuple(range(7)))
    nights = [datetime(2026, 11, night, 1, tzinfo=UTC).timestamp() for night in (19, 20, 21)]
    assert planned(one) == [(["n3"], nights[0])]
    for tonight, next_one in pairwise(nights):
        at(one, tonight + HOUR)
        assert one.cluster.nodes["n3"].drained
        if tonight == nights[0]:
            down(one, "n3")
            ticks(one, 5, 60)
            up(one, "n3")
        at(one, tonight + 2 * HOUR)
        ticks(one, 10, 60)
        assert one.cluster.nodes["n3"].in_service
        assert planned(one) == [(["n3"], next_one)]


def test_what_a_clock_that_was_ahead_has_dealt_with_is_yet_to_come() -> None:
    one = rig()
    add(one, "n3")
    one.skew = 400 * DAY
    one.tick()
    one.skew = 0
    assert one.ledger.schedule.windows[0].unavailability.start_ms > one.now() + 399 * DAY * 1000
    one.wish(SetSchedule(Schedule()))  # somebody sees that, and cancels it
    one.tick()
    one.tick(DAY)
    begins = [w.unavailability.start_ms - one.now() for w in one.ledger.schedule.windows]
    assert len(begins) == 1
    assert begins[0] < 8 * DAY * 1000
