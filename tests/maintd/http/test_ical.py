"""The calendar as iCalendar, read by a parser that is not ours."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import icalendar
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeagent.maintd.engine.timezones import read_zone
from nodeagent.maintd.http import ical
from nodeagent.maintd.http.view import View
from nodeagent.maintd.windows.recurrence import coming, days
from nodeagent.model.ledger import Ledger
from nodeagent.model.roll import Phase, Roll, RollNode, Terms
from nodeagent.model.series import Member, Series, Weekly, Zone
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.units import Ms, Nanoseconds, Seconds
from nodeagent.model.window import Machine, Mode, Schedule, Scheduled, Unavailability, Window
from tests import needs
from tests.maintd.windows.zones import ZONES

rrule = needs.module("dateutil.rrule")

NOW = Ms(round(datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp() * 1000))
SUNDAY = date(2026, 11, 22).toordinal()
CACHE: dict[str, Zone] = {}


def zone(name: str) -> Zone:
    if name not in CACHE:
        found = read_zone(name, NOW)
        assert found is not None
        CACHE[name] = found
    return CACHE[name]


def view(ledger: Ledger, *nodes: str) -> View:
    there = {name: Node(name, f"uuid-{name}", "") for name in nodes}
    names = {one.rule.zone for one in ledger.series}
    zones = {name: zone(name) for name in names}
    return View(NOW, ledger, Observed(Snapshot("cluster.example", there), {}, zones=zones))


def planned(*windows: Window, **more: Any) -> Ledger:
    placed = {
        member.machine: one.number
        for one in more.get("series", ())
        for member in one.members
        if member.placed
    }
    scheduled = tuple(
        Scheduled(
            machine, window.unavailability, Mode.DRAINING, Ms(0), series=placed.get(machine, 0)
        )
        for window in windows
        for machine in window.machines
    )
    return Ledger(schedule=Schedule(windows), scheduled=scheduled, **more)


def weekly(**more: Any) -> Weekly:
    return replace(Weekly((6,), 120, "Europe/Zurich", Seconds(7200), SUNDAY), **more)


def day(text: str) -> int:
    return date.fromisoformat(text).toordinal()


def events(text: bytes) -> list[Any]:
    return list(icalendar.Calendar.from_ical(text.decode()).walk("VEVENT"))


def read_zone_of(component: Any) -> Any:
    """The zone as the component says it, whatever the system knows of that name."""
    asked = "lookup_tzid" in inspect.signature(component.to_tz).parameters  # not so in Debians
    return component.to_tz(lookup_tzid=False) if asked else component.to_tz()


def lines(text: bytes) -> Iterator[bytes]:
    assert text.endswith(b"\r\n")
    for line in text[:-2].split(b"\r\n"):
        assert b"\n" not in line
        assert b"\r" not in line
        assert len(line) <= 75, line
        line.decode()  # no letter is cut
        yield line


def test_a_window_is_an_event_in_utc() -> None:
    at = datetime(2026, 11, 25, 4, tzinfo=UTC)
    when = Unavailability(Nanoseconds(round(at.timestamp()) * 10**9), Nanoseconds(5400 * 10**9))
    (event,) = events(ical.calendar(view(planned(Window((Machine("n3"), Machine("n4")), when)))))
    assert event.decoded("dtstart") == at
    assert event.decoded("dtend") == at + timedelta(minutes=90)
    assert event.decoded("dtstamp") == datetime.fromtimestamp(NOW / 1000, UTC)
    assert event["summary"] == "Maintenance: n3, n4"
    assert event["description"] == "n3: draining\nn4: draining"


def test_a_window_without_an_end_or_from_before_the_epoch_is_one_too() -> None:
    when = Unavailability(Nanoseconds(-10 * 10**9))
    (event,) = events(ical.calendar(view(planned(Window((Machine("n3"),), when)))))
    assert event.decoded("dtstart") == datetime(1969, 12, 31, 23, 59, 50, tzinfo=UTC)
    assert "dtend" not in event
    assert event["summary"] == "Maintenance: n3, without an end"


def test_an_event_keeps_its_id_as_long_as_it_is_the_same_window() -> None:
    when = Unavailability(Nanoseconds(10**18), Nanoseconds(10**12))
    first = planned(Window((Machine("n3"), Machine("n4")), when))
    again = planned(Window((Machine("N4"), Machine("n3")), replace(when, duration=None)))
    other = planned(Window((Machine("n3"),), when))
    ids = [events(ical.calendar(view(one)))[0]["uid"] for one in (first, again, other)]
    assert ids[0] == ids[1] != ids[2]


def test_a_series_is_one_event_with_its_rule_and_the_days_it_skips() -> None:
    rule = weekly(weekdays=(2, 6), every=2, skipped=(SUNDAY + 10,))
    one = Series(1, "uid-1", "root", rule, (Member(Machine("n3")),))
    (event,) = events(ical.calendar(view(Ledger(series=(one,)), "n3")))
    assert event["uid"] == "uid-1"
    assert event["rrule"] == {
        "FREQ": ["WEEKLY"],
        "INTERVAL": [2],
        "WKST": ["MO"],
        "BYDAY": ["WE", "SU"],
    }
    assert event["dtstart"].params["tzid"] == "Europe/Zurich"
    assert event.decoded("dtstart").isoformat()[:16] == "2026-11-22T02:00"
    assert event.decoded("duration") == timedelta(hours=2)
    assert [each.dt.isoformat()[:16] for each in event["exdate"].dts] == ["2026-12-02T02:00"]


LATEST = weekly(zone="Etc/GMT+12", minute=1439)


@pytest.mark.parametrize(
    ("rule", "until"),
    [
        pytest.param(weekly(until=day("2026-12-06")), "20261206T130000Z", id="its last day"),
        pytest.param(weekly(times=3), "20261206T130000Z", id="a number of days"),
        pytest.param(
            weekly(until=day("2026-11-30"), times=3), "20261130T130000Z", id="what comes first"
        ),
        pytest.param(
            replace(LATEST, until=day("9999-12-30")), "99991231T235900Z", id="the last that is one"
        ),
        pytest.param(replace(LATEST, until=day("9999-12-31")), None, id="the last of all: none"),
        pytest.param(weekly(), None, id="none"),
    ],
)
def test_a_series_ends_between_its_last_day_and_the_next(rule: Weekly, until: str | None) -> None:
    one = Series(1, "uid-1", "root", rule, (Member(Machine("n3")),))
    (event,) = events(ical.calendar(view(Ledger(series=(one,)), "n3")))
    assert "COUNT" not in event["rrule"]
    ends = re.findall("UNTIL=([^;]*)", event["rrule"].to_ical().decode())
    assert ends == ([] if until is None else [until])


def test_an_occurrence_that_is_a_window_replaces_that_day_s() -> None:
    members = tuple(Member(Machine(name), SUNDAY, placed=True) for name in ("n3", "n4"))
    one = Series(1, "uid-1", "root", weekly(), members)
    moved = Unavailability(Nanoseconds((NOW // 1000 + 86_400) * 10**9), Nanoseconds(3600 * 10**9))
    windows = (
        Window((Machine("n3"),), moved),
        Window((Machine("n4"),), replace(moved, duration=Nanoseconds(7200 * 10**9))),
    )
    text = ical.calendar(view(planned(*windows, series=(one,)), "n3", "n4"))
    series, replaced, other = events(text)
    assert series["uid"] == replaced["uid"] == "uid-1"
    assert other["uid"] != "uid-1", "one event replaces another, not two"
    assert "rrule" not in replaced
    assert replaced.decoded("recurrence-id").isoformat()[:16] == "2026-11-22T02:00"
    assert replaced.decoded("dtstart") == datetime(2026, 11, 19, 12, tzinfo=UTC)
    assert "recurrence-id" not in other


def test_a_series_whose_zone_is_not_known_is_left_out() -> None:
    one = Series(1, "uid-1", "root", weekly(zone="Mars/Olympus"), (Member(Machine("n3")),))
    seen = View(NOW, Ledger(series=(one,)), Observed(Snapshot("c", {}), {}))
    assert events(ical.calendar(seen)) == []


RULES = st.builds(
    Weekly,
    st.sets(st.integers(0, 6), min_size=1).map(lambda found: tuple(sorted(found))),
    st.integers(0, 1439),
    st.sampled_from([name for name in ZONES if name != "Pacific/Apia"]),
    st.just(3600),
    st.just(SUNDAY),
    st.integers(1, 4),
    st.just(0) | st.integers(SUNDAY, SUNDAY + 400),
    st.just(0) | st.integers(1, 40),
)


@settings(max_examples=20)
@given(RULES, st.sets(st.integers(0, 30)))
def test_another_reader_of_rules_finds_the_same_moments(rule: Weekly, skip: set[int]) -> None:
    """The rule, its end, what is skipped and the zone as it is written, all read by others."""
    rule = replace(rule, weekdays=tuple(sorted({*rule.weekdays, 6})))
    every = list(islice(days(rule), 31))
    rule = replace(rule, skipped=tuple(sorted(every[n] for n in skip if n < len(every))))
    one = Series(1, "uid-1", "root", rule, (Member(Machine("n3")),))
    text = ical.calendar(view(Ledger(series=(one,)), "n3"))
    list(lines(text))
    found = icalendar.Calendar.from_ical(text.decode())
    (event,) = found.walk("VEVENT")
    (written,) = found.walk("VTIMEZONE")
    there = read_zone_of(written)
    first = event.decoded("dtstart").replace(tzinfo=there)
    parsed = rrule.rrulestr(event["rrule"].to_ical().decode(), dtstart=first)
    exdates = event.get("exdate", [])
    gone = {
        each.dt.replace(tzinfo=None)
        for dates in (exdates if isinstance(exdates, list) else [exdates])
        for each in dates.dts
    }
    every_time = (at.replace(tzinfo=None) for at in islice(parsed, 80))
    theirs = [at for at in every_time if at not in gone][:40]
    ours = list(islice(coming(rule, zone(rule.zone), Seconds(0)), len(theirs)))
    assert [date.toordinal(at) for at in theirs] == [day for day, _ in ours]
    for at, (_, moment) in zip(theirs, ours, strict=True):
        shown = datetime.fromtimestamp(moment, UTC).astimezone(there).replace(tzinfo=None)
        # Later only where clocks never show the time.
        assert shown == at or (shown - at <= timedelta(hours=1) and _is_never_shown(at, rule.zone))


def _is_never_shown(at: datetime, name: str) -> bool:
    there = at.replace(tzinfo=ZoneInfo(name))
    return there.astimezone(UTC).astimezone(ZoneInfo(name)).replace(tzinfo=None) != at


NAMES: list[list[str]] = [
    ["n3", "a,b;c:d", "back\\slash", '"quoted"'],
    ["a\r\nDTEND:19700101T000000Z", "b\nEND:VEVENT", "c\rd", "e\u2028f\u0085g"],
    ["\x00\x07\x1b[2J\x7f", "\u202egnp.exe", "n\u0301" * 40],
    ["x" * 255, "ü" * 255, "漢" * 255, "😀" * 255],
    [f"node{number}.example.org" for number in range(30)],
]


def test_whatever_machines_are_called_lines_are_well_formed() -> None:
    for names in NAMES:
        when = Unavailability(Nanoseconds(10**18), Nanoseconds(10**12))
        text = ical.calendar(view(planned(Window(tuple(map(Machine, names)), when))))
        assert list(lines(text))
        shown = ["".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in n) for n in names]
        told = "\n".join(f"{name}: draining" for name in shown)
        unfolded = text.decode().replace("\r\n ", "")
        (written,) = re.findall("\r\nDESCRIPTION:(.*)\r\n", unfolded)
        assert re.sub(r"\\(.)", lambda each: "\n" if each[1] == "n" else each[1], written) == told
        (event,) = events(text)
        assert str(event["summary"]).startswith("Maintenance: ")


@pytest.mark.parametrize("over", [False, True])
def test_a_roll_is_an_event_until_its_expected_end(*, over: bool) -> None:
    hour = 3_600_000
    done = RollNode("u1", "n1", Phase.DONE, since=NOW, left_at=Ms(NOW - hour))
    roll = Roll(7, "ada", Ms(NOW - hour), Terms("reboot-node"), (done, RollNode("u2", "n2")))
    if over:
        roll = replace(roll, over_at=NOW)
    (event,) = events(ical.calendar(view(Ledger(roll=roll))))
    began = datetime(2026, 11, 18, 11, tzinfo=UTC)
    assert event.decoded("dtstart") == began
    assert event.decoded("dtend") == began + timedelta(hours=1 if over else 2)
    assert event["summary"] == "Rolling maintenance: reboot-node, 1 of 2 nodes done"
    assert "n2: waiting" in event["description"]
