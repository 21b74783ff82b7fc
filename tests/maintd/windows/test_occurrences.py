"""Weekly series over whole rounds: their occurrences become windows, one after another."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import Any

import pytest

from nodeagent.maintd.engine.round import Round
from nodeagent.maintd.ledger.history import tell
from nodeagent.model.event import Detail
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.series import Member
from nodeagent.model.snapshot import Instance, Node
from nodeagent.model.units import Nanoseconds, Seconds
from nodeagent.model.window import Machine, Mode, Schedule, Unavailability, Window
from nodeagent.model.wish import AddSeries, BringUp, EditSeries, EndSeries, SetSchedule, TakeDown
from nodeagent.store.codec import decode, encode
from tests.maintd.decided import kinds
from tests.maintd.rig import QUICK, Rig, fleet, mirrored

HOUR, DAY = 3600, 86_400
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
    return refused(one, replace(asked, **more))


def edit(one: Rig, number: int = 1, **more: Any) -> str:
    return refused(one, EditSeries(number, **more))


def refused(one: Rig, asked: Any) -> str:
    wish = one.wish(asked)
    return one.tick(1).decision.refused.get(wish, "")


def at(one: Rig, moment: float) -> Round:
    """The round at a moment, with the ones each hour before it."""
    while one.time + HOUR < moment:
        one.tick(HOUR)
    return one.tick(moment - one.time)


def planned(one: Rig) -> list[tuple[list[str], float]]:
    """The windows: machines, and when they begin."""
    return [
        ([str(machine) for machine in window.machines], window.unavailability.start / 1e9)
        for window in one.ledger.schedule.windows
    ]


def members(one: Rig, number: int = 1) -> dict[str, Member]:
    found = next(series for series in one.ledger.series if series.number == number)
    return {str(member.machine): member for member in found.members}


SUNDAY = "series/1 of 2026-11-22"


def waits(done: Round) -> list[Reason]:
    return [h.why for h in done.decision.held if h.why.kind is Kind.SERIES_WAITS]


def day(text: str) -> int:
    return date.fromisoformat(text).toordinal()


def down(one: Rig, *names: str) -> None:
    assert not refused(one, TakeDown(tuple(map(Machine, names))))


def up(one: Rig, *names: str) -> None:
    assert not refused(one, BringUp(tuple(map(Machine, names))))


# From one to the next.


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
    for _ in range(10):
        one.tick(60)
    assert one.cluster.nodes["n3"].offline
    up(one, "n3", "n6")
    assert planned(one) == []
    at(one, SUNDAYS[0] + 2 * HOUR)
    assert one.cluster.nodes["n3"].in_service, "as it was found"
    at(one, SUNDAYS[1] - AHEAD)
    assert planned(one) == [(["n3", "n6"], SUNDAYS[1])]


def test_who_was_never_taken_down_is_let_go_at_the_end() -> None:
    one = rig()
    add(one, "n3")
    at(one, SUNDAYS[0] + 2 * HOUR - 1)
    assert planned(one) == [(["n3"], SUNDAYS[0])]
    assert one.cluster.nodes["n3"].drained
    at(one, SUNDAYS[0] + 2 * HOUR)
    assert planned(one) == []
    for _ in range(5):
        one.tick(60)
    assert one.cluster.nodes["n3"].in_service
    at(one, SUNDAYS[1] - AHEAD)
    assert planned(one) == [(["n3"], SUNDAYS[1])]


def test_between_two_nights_the_node_is_back_in_service() -> None:
    """Though the next is near as soon as one is over."""
    one = rig()
    one.time = WEDNESDAY - 4 * HOUR
    add(one, "n3", weekdays=tuple(range(7)))
    nights = [datetime(2026, 11, day, 1, tzinfo=UTC).timestamp() for day in (19, 20, 21)]
    assert planned(one) == [(["n3"], nights[0])]
    for tonight, next_one in pairwise(nights):
        at(one, tonight + HOUR)
        assert one.cluster.nodes["n3"].drained
        if tonight == nights[0]:
            down(one, "n3")
            for _ in range(5):
                one.tick(60)
            up(one, "n3")
        at(one, tonight + 2 * HOUR)
        for _ in range(10):
            one.tick(60)
        assert one.cluster.nodes["n3"].in_service
        assert planned(one) == [(["n3"], next_one)]


def test_windows_keep_their_time_of_the_clock_when_summer_ends_and_begins() -> None:
    one = rig()
    one.time = datetime(2026, 10, 20, tzinfo=UTC).timestamp()
    add(one, "n3", minute=150)
    found = []
    while one.time < datetime(2027, 4, 6, tzinfo=UTC).timestamp():
        one.tick(6 * HOUR)
        found += [start for _, start in planned(one) if start not in found]
    hours = {datetime.fromtimestamp(start, UTC).strftime("%m-%d %H:%M") for start in found}
    assert "10-25 00:30" in hours, "shown twice: the first"
    assert {"11-01 01:30", "03-21 01:30"} <= hours
    assert "03-28 01:30" in hours, "never shown: as if it were winter still, 03:30 of summer"
    assert "04-04 00:30" in hours
    assert len(found) == 24


def test_a_large_node_is_planned_earlier_than_others() -> None:
    large = Instance("huge", "n3", "n4", disk=12 * 2**20, memory=100)
    one = rig(instances=[large])
    add(one, "n3", "n6", begins=day("2026-12-20"))
    sunday = datetime(2026, 12, 20, 1, tzinfo=UTC).timestamp()
    at(one, sunday - 7 * DAY)
    assert planned(one) == [(["n3"], sunday)]
    at(one, sunday - AHEAD)
    assert planned(one) == [(["n3", "n6"], sunday)], "the other joins its window"


def test_a_series_ends_after_its_times_or_its_last_day() -> None:
    one = rig()
    add(one, "n3", times=1)
    add(one, "n6", until=day("2026-11-22"))
    at(one, SUNDAYS[0] - HOUR)
    assert {start for _, start in planned(one)} == {SUNDAYS[0]}
    assert len(planned(one)) == 2
    at(one, SUNDAYS[1] + HOUR)
    assert planned(one) == []


def test_nothing_that_has_begun_is_planned() -> None:
    one = rig()
    one.time = SUNDAYS[0]
    add(one, "n3")
    one.tick()
    assert planned(one) == []
    at(one, SUNDAYS[1] - AHEAD)
    assert planned(one) == [(["n3"], SUNDAYS[1])]


def test_a_maintd_that_slept_over_an_occurrence_goes_on_with_the_next() -> None:
    one = rig()
    add(one, "n3")
    one.time = SUNDAYS[0] + 3 * HOUR
    one.tick()
    assert planned(one) == []
    one.time = SUNDAYS[1] - HOUR
    one.tick()
    assert planned(one) == [(["n3"], SUNDAYS[1])]


# What an operator does to one occurrence.


def schedule(one: Rig, *windows: Window) -> None:
    assert not refused(one, SetSchedule(Schedule(windows)))


def test_a_schedule_without_an_occurrence_cancels_that_one_and_the_series_lives() -> None:
    one = rig()
    add(one, "n3", "n6")
    at(one, SUNDAYS[0] - DAY)
    schedule(one)
    one.tick()
    assert planned(one) == []
    assert one.ledger.series[0].rule.skipped == (day("2026-11-22"),)
    at(one, SUNDAYS[0] + DAY)
    assert planned(one) == []
    at(one, SUNDAYS[1] - AHEAD)
    assert planned(one) == [(["n3", "n6"], SUNDAYS[1])]


def test_one_machine_can_be_spared_an_occurrence() -> None:
    one = rig()
    add(one, "n3", "n6")
    at(one, SUNDAYS[0] - DAY)
    (window,) = one.ledger.schedule.windows
    schedule(one, replace(window, machines=(Machine("n6"),)))
    one.tick()
    assert planned(one) == [(["n6"], SUNDAYS[0])]
    assert one.ledger.series[0].rule.skipped == ()


def test_a_moved_occurrence_stays_where_it_was_moved_to_however_its_machine_is_spelt() -> None:
    one = rig()
    add(one, "n3")
    at(one, SUNDAYS[0] - DAY)
    later = Unavailability(Nanoseconds(round((SUNDAYS[0] + DAY) * 1e9)), Nanoseconds(HOUR * 10**9))
    schedule(one, Window((Machine("N3", "127.0.0.3"),), later))
    at(one, SUNDAYS[0] + DAY + HOUR - 1)
    assert planned(one) == [(["N3 127.0.0.3"], SUNDAYS[0] + DAY)]
    at(one, SUNDAYS[0] + DAY + HOUR)
    assert planned(one) == []
    at(one, SUNDAYS[1] - AHEAD)
    assert planned(one) == [(["n3"], SUNDAYS[1])]


def test_a_day_that_is_skipped_is_no_window_and_one_that_is_kept_after_all_is() -> None:
    one = rig()
    add(one, "n3")
    at(one, SUNDAYS[0] - DAY)
    assert edit(one, skip=(day("2026-11-22"), day("2026-11-29"))) == ""
    assert planned(one) == [], "the window goes too"
    assert one.ledger.series[0].rule.skipped == (day("2026-11-22"), day("2026-11-29"))
    assert edit(one, keep=(day("2026-11-22"),)) == ""
    assert planned(one) == [(["n3"], SUNDAYS[0])]
    at(one, SUNDAYS[1] - HOUR)
    assert planned(one) == []


def test_who_is_down_already_cannot_be_skipped() -> None:
    one = rig()
    add(one, "n3")
    at(one, SUNDAYS[0])
    down(one, "n3")
    assert edit(one, skip=(day("2026-11-22"),)) == ""
    assert planned(one) == [(["n3"], SUNDAYS[0])], "down until somebody says it is up"


# What is in the way.


def test_who_is_down_still_keeps_its_next_waiting_and_nothing_is_forced() -> None:
    one = rig()
    add(one, "n3", "n6")
    at(one, SUNDAYS[0])
    down(one, "n3", "n6")
    up(one, "n6")
    done = at(one, SUNDAYS[1] - AHEAD)
    assert kinds(h for h in done.decision.held if h.why.kind is Kind.SERIES_WAITS) == [
        (Kind.SERIES_WAITS, "series/1 of 2026-11-29"),
        (Kind.DOWN_STILL, "n3"),
    ]
    assert planned(one) == [(["n3"], SUNDAYS[0]), (["n6"], SUNDAYS[1])]
    up(one, "n3")
    for _ in range(5):
        one.tick(60)
    assert planned(one) == [(["n6", "n3"], SUNDAYS[1])], "in time after all"


def test_what_could_not_be_planned_before_it_begins_is_missed() -> None:
    one = rig()
    add(one, "n3")
    at(one, SUNDAYS[0])
    down(one, "n3")
    at(one, SUNDAYS[1] + 60)
    assert members(one)["n3"].late == day("2026-11-29")
    still = because(Kind.DOWN_STILL, "n3", day="2026-11-22")
    assert members(one)["n3"].why == str(still)
    up(one, "n3")
    one.tick()
    assert planned(one) == [], "it has begun already"


def test_a_machine_in_another_window_waits_for_that() -> None:
    one = rig()
    far = Unavailability(Nanoseconds(round((WEDNESDAY + 60 * DAY) * 1e9)))
    schedule(one, Window((Machine(ip="127.0.0.3"),), far))
    add(one, "n3")
    done = at(one, SUNDAYS[0] - DAY)
    other = because(Kind.OTHER_WINDOW, "n3", which="which has no end")
    assert waits(done) == [because(Kind.SERIES_WAITS, SUNDAY, why=other)]
    schedule(one)
    one.tick()
    assert planned(one) == [(["n3"], SUNDAYS[0])]


def test_of_two_series_the_earlier_window_comes_first() -> None:
    one = rig()
    add(one, "n3")
    add(one, "N3", weekdays=(5,))
    done = at(one, SUNDAYS[0] - DAY - HOUR)
    assert planned(one) == [(["N3"], SUNDAYS[0] - DAY)]
    assert kinds(done.decision.held) == [(Kind.SERIES_WAITS, SUNDAY), (Kind.OTHER_WINDOW, "n3")]
    at(one, SUNDAYS[0] - DAY + 4 * HOUR)
    assert planned(one) == [(["n3"], SUNDAYS[0])]


def test_a_node_that_has_left_the_cluster_is_told_and_the_others_go_on() -> None:
    one = rig()
    add(one, "n3", "n6")
    one.cluster.remove_node("n6")
    done = at(one, SUNDAYS[0] - DAY)
    assert kinds(done.decision.held) == [(Kind.SERIES_WAITS, SUNDAY), (Kind.NO_SUCH_NODE, "n6")]
    assert planned(one) == [(["n3"], SUNDAYS[0])]


def test_a_zone_that_is_gone_is_told() -> None:
    one = rig()
    add(one, "n3")
    found = one.ledger.series[0]
    gone = replace(found, rule=replace(found.rule, zone="Mars/Olympus"))
    one.engine._remember(replace(one.ledger, series=(gone,)))
    whys = kinds(one.tick().decision.held)
    assert whys == [(Kind.SERIES_WAITS, "series/1"), (Kind.NO_TIME_ZONE, "series/1")]


# What may be asked for.


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"zone": "Europe/Zürich"}, "time zone Europe/Zürich is unknown here"),
        ({"seconds": 30}, "a window lasts 60 s at least"),
        (
            {"seconds": 7 * DAY},
            "from the end of one to the beginning of the next there must be 2 h at least",
        ),
        ({"until": 1}, "it ends before its first time, on 2026-11-22"),
        ({"begins": day("2050-01-01")}, "it would begin too far in the future"),
        ({"times": 10**6}, "a series ends after 10000 times at most"),
        ({"machines": ()}, "the list has no machine"),
        ({"machines": (Machine("n77"),)}, "machine n77 is not a node of this cluster"),
        (
            {"machines": (Machine("n3"), Machine(ip="127.0.0.3"))},
            "machine 127.0.0.3 is in the list as n3 already",
        ),
    ],
)
def test_what_is_refused(more: dict[str, Any], why: str) -> None:
    one = rig()
    assert add(one, **{"machines": (Machine("n3"),), **more}) == why
    assert one.ledger.series == ()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"number": 7}, "there is no series/7"),
        ({"skip": (day("2026-11-23"),)}, "series/1 has no occurrence on 2026-11-23"),
        ({"keep": (day("2026-11-15"),)}, "series/1 has no occurrence on 2026-11-15"),
        ({"add": (Machine(ip="127.0.0.3"),)}, "machine 127.0.0.3 is in series/1 already"),
        ({"remove": (Machine("n6"),)}, "machine n6 is not in series/1"),
        ({"remove": (Machine("n3"),)}, "no machine would be left: cancel series/1 instead"),
        ({"zone": "Nowhere"}, "time zone Nowhere is unknown here"),
        ({"until": day("2026-11-01")}, "it ends before its first time, on 2026-11-22"),
    ],
)
def test_what_cannot_be_changed(more: dict[str, Any], why: str) -> None:
    one = rig()
    add(one, "n3")
    before = one.ledger.series
    assert edit(one, **more) == why
    assert one.ledger.series == before


def test_another_rule_plans_anew_what_has_not_begun() -> None:
    one = rig()
    add(one, "n3", "n6")
    at(one, SUNDAYS[0] - DAY)
    assert edit(one, weekdays=(0,), add=(Machine("n5"),), remove=(Machine("n6"),)) == ""
    assert planned(one) == [(["n3", "n5"], SUNDAYS[0] + DAY)]
    assert edit(one, weekdays=(6,)) == ""
    assert planned(one) == [(["n3", "n5"], SUNDAYS[0])], "earlier again"


def test_what_has_begun_goes_on_under_another_rule() -> None:
    one = rig()
    add(one, "n3", "n6")
    at(one, SUNDAYS[0] + HOUR)
    down(one, "n3")
    assert edit(one, weekdays=(0,)) == ""
    assert (["n3", "n6"], SUNDAYS[0]) in planned(one)
    up(one, "n3")
    at(one, SUNDAYS[0] + 5 * HOUR)
    assert planned(one) == [(["n3", "n6"], SUNDAYS[0] + DAY)]


def test_a_series_that_is_ended_takes_its_window_along_but_not_who_is_down() -> None:
    one = rig()
    add(one, "n3", "n6")
    at(one, SUNDAYS[0])
    down(one, "n3")
    assert refused(one, EndSeries(1)) == ""
    assert not one.ledger.series
    assert planned(one) == [(["n3"], SUNDAYS[0])]
    assert [s.mode for s in one.ledger.scheduled if str(s.machine) == "n3"] == [Mode.DOWN]
    add(one, "n6")
    assert one.ledger.series[0].name == "series/2", "its number is not used again"


# What is remembered and told.


def test_a_restart_forgets_nothing_and_plans_nothing_twice() -> None:
    one = rig()
    add(one, "n3", every=2, times=9)
    at(one, SUNDAYS[0] - DAY)
    before = one.ledger
    assert decode(Ledger, encode(before)) == before
    one.crash()
    one.tick()
    assert one.ledger.series == before.series
    assert planned(one) == [(["n3"], SUNDAYS[0])]


def test_a_ledger_from_before_series_is_read() -> None:
    import json

    document = json.loads(encode(Ledger()))
    del document["series"], document["last_series"]
    assert decode(Ledger, json.dumps(document)) == Ledger()


def test_what_becomes_of_occurrences_is_history() -> None:
    one = rig()
    add(one, "n3", "n6")

    def told() -> list[tuple[str, Mapping[str, Detail]]]:
        before = one.ledger
        done = one.tick(1).decision
        events = tell(before, done.ledger, done, None, one.now())
        return [(e.kind, e.details) for e in events if e.kind.startswith("occurrence")]

    one.time = SUNDAYS[0] - AHEAD
    both = {"series": "series/1", "day": "2026-11-22", "machines": ("n3", "n6")}
    assert told() == [("occurrence-planned", both)]
    one.wish(SetSchedule(Schedule()))
    assert told() == [("occurrence-over", both)]
