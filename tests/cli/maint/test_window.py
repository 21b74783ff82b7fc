"""gnt-maint window: what it does. `tests/cli/test_screens.py` has what it shows and refuses."""

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import pytest

from nodeagent.cli.gnt_maint import cli
from nodeagent.cli.maint import window
from nodeagent.cli.maint.console import arguments
from nodeagent.cli.maint.console.client import Where
from nodeagent.maintd.http import parse
from nodeagent.model.action import MovePrimary
from nodeagent.model.units import Nanoseconds
from nodeagent.model.window import Machine
from tests.cli.live import Live
from tests.cli.run import at, said
from tests.maintd.rig import Rig, fleet, mirrored

# The rig's clock is at 2026-11-18, a Wednesday; its time goes by ten seconds a round.
AHEAD, LATER = "2026-11-25T04:00Z", "2026-11-26T04:00Z"
SUNDAYS = ("add", "n3", "n5", "--weekly", "sun 02:00", "--for", "2h", "--zone", "Europe/Zurich")


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    opened = Live(Rig(fleet(), mirrored(("n3", "n4"))), tmp_path)
    yield opened
    opened.close()


def run(live: Live, *words: str, code: int = 0) -> str:
    return said(live, "window", *words, code=code)


def calendar(live: Live) -> Any:
    return at(live, "window", "list", "--json").json


def machines(live: Live) -> list[list[str]]:
    rows = calendar(live)["schedule"].get("windows", [])
    return [[m.get("hostname") or m["ip"] for m in row["machine_ids"]] for row in rows]


# One window.


def test_from_planning_to_coming_up(live: Live) -> None:
    run(live, "add", "n3", "127.0.0.4", "--start", AHEAD, "--duration", "2h")
    run(live, "add", "n5", "--start", LATER)
    assert machines(live) == [["n3", "127.0.0.4"], ["n5"]]
    run(live, "down", "n3")
    live.tick(60, times=8)
    assert live.rig.cluster.nodes["n3"].offline
    assert "down" in run(live, "show", "n3")
    run(live, "up", "n3")
    live.tick(60, times=4)
    assert live.rig.cluster.nodes["n3"].in_service
    assert machines(live) == [["127.0.0.4"], ["n5"]]


def test_the_list_shows_every_reason_of_a_machine(live: Live) -> None:
    live.rig.cluster.fails = lambda action: isinstance(action, MovePrimary) and "disk broken"
    run(live, "add", "n3", "--start", "2026-11-18T00:00Z")
    assert "overdue" not in run(live, "list"), "it was planned a moment ago"
    live.tick(60, times=11)
    (_, row) = run(live, "list").splitlines()
    assert "overdue: n3 is still draining" in row
    assert "the maintenance window of n3 has stopped: job" in row


def test_a_machine_is_meant_by_its_nodes_name_its_address_or_its_own(live: Live) -> None:
    run(live, "add", "127.0.0.4", "--start", AHEAD)
    run(live, "add", "n5", "--start", LATER)
    run(live, "edit", "N4", "--duration", "1h")
    run(live, "down", "n4")
    modes = [m["mode"] for row in calendar(live)["windows"] for m in row["machines"]]
    assert modes == ["down", "draining"]
    run(live, "up", "n4")
    assert machines(live) == [["n5"]]


def test_a_machine_of_a_name_and_an_address_goes_down_and_comes_up(live: Live) -> None:
    """As Mesos' operators schedule them; it is no node."""
    when = {"start": {"nanoseconds": 1_443_830_400_000_000_000}}
    both = {"hostname": "machine1.example.com", "ip": "10.0.0.1"}
    rows = [{"machine_ids": [both], "unavailability": when}]
    Where(live.socket).reach().put("/1/maintenance/schedule", {"windows": rows})
    for name, change in (("machine1", "down"), ("10.0.0.1", "up")):
        run(live, change, name)
    assert machines(live) == []


def test_a_short_name_is_of_one_machine(live: Live) -> None:
    run(live, "add", "127.0.0.4", "--start", AHEAD)
    run(live, "add", "m1.a.example.org", "m1.b.example.org", "--start", LATER, "--not-a-node")
    told = run(live, "cancel", "m1", code=1)
    assert "m1 is short for m1.a.example.org and m1.b.example.org" in told
    assert "127 is in no window" in run(live, "cancel", "127", code=1)
    assert len(machines(live)) == 2


@pytest.mark.parametrize("name", ["nod4", "10.9.9.3"])
def test_a_machine_that_is_no_node_must_be_insisted_on(live: Live, name: str) -> None:
    run(live, "add", "n3", name, "--start", AHEAD, code=1)
    assert machines(live) == []
    run(live, "add", "n3", "--start", AHEAD)
    run(live, "edit", "n3", "--add", name, code=1)
    run(live, "edit", "n3", "--add", name, "--not-a-node")
    assert machines(live) == [["n3", name]]


def test_edit_and_cancel(live: Live) -> None:
    run(live, "add", "n3", "n4", "--start", AHEAD, "--duration", "2h")
    run(live, "edit", "n4", "--start", LATER, "--endless", "--remove", "n3", "--add", "n6")
    (row,) = calendar(live)["windows"]
    assert [m["hostname"] for m in row["machines"]] == ["n4", "n6"]
    assert row["duration"] is None
    assert row["start"] == datetime.fromisoformat(LATER).timestamp()
    run(live, "edit", "n4", "--duration", "30m")
    assert calendar(live)["windows"][0]["duration"] == 1800
    run(live, "edit", "n4", "--add", "n5")
    run(live, "cancel", "n6")
    assert machines(live) == [["n4", "n5"]], "it was not named"
    assert run(live, "cancel", "--whole", "n5") == "Canceled: the window of n4 and n5.\n"
    assert machines(live) == []


def test_somebody_else_changes_the_schedule_meanwhile(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change is made to what is there now: nobody's window is lost."""
    find, first = window._find, [True]

    def find_late(schedule: Any, calendar: Any, name: str, at: Nanoseconds | None) -> Any:
        if first:
            first.pop()
            run(live, "add", "n5", "--start", LATER)
        return find(schedule, calendar, name, at)

    run(live, "add", "n3", "--start", AHEAD)
    monkeypatch.setattr(window, "_find", find_late)
    run(live, "edit", "n3", "--duration", "1h")
    assert machines(live) == [["n3"], ["n5"]]
    assert calendar(live)["windows"][0]["duration"] == 3600


@pytest.mark.parametrize("address", ["10.0.0.3", "2001:db8::3", "::1"])
def test_a_machine_is_named_by_either_kind_of_address(address: str) -> None:
    assert arguments.machine(address) == {"ip": address}
    assert parse.machine(address) == Machine(ip=address)
    assert arguments.machine("n3.example.com") == {"hostname": "n3.example.com"}
    calendar = {"windows": [{"machines": [{"hostname": "", "ip": address, "node": None}]}]}
    assert arguments.machine_of(calendar, address.upper())["ip"] == address


# Times.


def moment(text: str) -> int | None:
    return arguments.moment(click.Context(cli), click.Option(["--start"]), text)


@pytest.mark.parametrize(
    ("now", "text", "then"),
    [
        ("2026-11-22T21:00", "22:00", "2026-11-22T22:00"),
        ("2026-11-22T22:00", "22:00", "2026-11-23T22:00"),
        ("2026-12-31T23:59", "0:05", "2027-01-01T00:05"),
        ("2026-11-22T21:00", "tomorrow", "2026-11-23T00:00"),
        ("2026-11-22T21:00", "tomorrow 22:00", "2026-11-23T22:00"),
        ("2026-11-18T11:00", "sat 22:00", "2026-11-21T22:00"),
        ("2026-11-18T11:00", "Saturday", "2026-11-21T00:00"),
        ("2026-11-21T21:00", "sat 22:00", "2026-11-21T22:00"),
        ("2026-11-21T22:00", "saturday 22:00", "2026-11-28T22:00"),
    ],
)
def test_a_time_of_day_is_the_next_one(
    monkeypatch: pytest.MonkeyPatch, now: str, text: str, then: str
) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> "Clock":
            return cls.fromisoformat(now).replace(tzinfo=tz)

    monkeypatch.setattr(arguments, "datetime", Clock)
    assert moment(text) == datetime.fromisoformat(then).timestamp() * 10**9


def test_times_of_this_place_are_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    assert moment("2026-07-01T12:00") == moment("2026-07-01T10:00Z")
    assert moment("2026-12-01T12:00") == moment("2026-12-01T11:00Z")
    assert moment("2026-10-25T02:30+01:00") == moment("2026-10-25T01:30Z")
    nowhere = ("0001-01-01", "1969-12-31", "9999-12-31T23:59", "2500-01-01T00:00Z", "+999999999d")
    for text, why in {
        "2026-10-25T02:30": "the clock shows it twice",
        "2026-03-29T02:30": "the clock never shows it",
        **dict.fromkeys((*nowhere, "someday", "sat 25:00", ""), "is not a time"),
    }.items():
        with pytest.raises(click.BadParameter, match=why):
            moment(text)


# Every week.


def series(live: Live) -> Any:
    return at(live, "window", "show", "series/1", "--json").json


def to(live: Live, moment: str) -> None:
    """Let time pass until then."""
    live.tick(datetime.fromisoformat(moment).timestamp() - live.rig.time)


def test_both_ends_of_its_times_are_told_by_the_clocks_of_its_zone(live: Live) -> None:
    """Over a change of the clocks, and wherever one looks from."""
    words = ("--for", "2h", "--zone", "Europe/Zurich", "--from", "2027-03-28")
    run(live, "add", "n3", "--weekly", "sun 01:30", *words)
    told = "2027-03-28  2027-03-28 01:30:00 +0100  2027-03-28 04:30:00 +0200"
    assert told in run(live, "show", "series/1")


def test_days_of_a_series_are_canceled_and_kept(live: Live) -> None:
    run(live, *SUNDAYS)
    told = run(live, "cancel", "series/1", "--on", "2026-11-29", "--on", "2026-12-06")
    assert told == "Canceled: series/1 on 2026-11-29, 2026-12-06; it goes on.\n"
    assert [one["skipped"] for one in series(live)["next"]][:4] == [False, True, True, False]
    run(live, "edit", "series/1", "--keep", "2026-11-29")
    assert series(live)["skipped"] == ["2026-12-06"]


def test_a_series_is_changed(live: Live) -> None:
    run(live, *SUNDAYS, "--every", "2", "--times", "5", "--until", "2027-01-31")
    found = series(live)
    assert (found["every"], found["times"], found["until"]) == (2, 5, "2027-01-31")
    assert len(found["next"]) == 5
    words = ("--weekly", "mon,thu 22:30", "--for", "1h", "--zone", "UTC", "--every", "1")
    more = ("--times", "never", "--until", "never", "--add", "n2", "--remove", "n5")
    assert run(live, "edit", "series/1", *words, *more) == "Changed: series/1.\n"
    found = series(live)
    assert [one["local"] for one in found["next"][:2]] == [
        "2026-11-19T22:30:00+00:00",
        "2026-11-23T22:30:00+00:00",
    ]
    assert (found["duration"], found["times"], found["until"]) == (3600, None, None)
    assert [one["node"] for one in found["machines"]] == ["n3", "n2"]


def test_the_zone_is_this_places_where_none_is_named(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", ":Australia/Sydney")
    run(live, "add", "n3", "--weekly", "sun 02:00", "--for", "1h")
    assert series(live)["zone"] == "Australia/Sydney"


def test_export(live: Live) -> None:
    run(live, *SUNDAYS)
    text = run(live, "export", "--ics")
    assert text.startswith("BEGIN:VCALENDAR")
    assert "\nRRULE:" in text
    assert at(live, "window", "export", "--json").json == calendar(live)


# A machine in several windows.


def test_which_of_several_windows_is_meant_is_said_by_a_time_in_it(live: Live) -> None:
    run(live, "add", "n3", "n4", "--start", AHEAD, "--duration", "2h")
    run(live, "add", "n3", "--start", LATER, "--duration", "2h")
    assert machines(live) == [["n3", "n4"], ["n3"]]
    for words in (("show", "n3"), ("cancel", "n3"), ("edit", "n3", "--duration", "1h")):
        told = run(live, *words, code=1)
        assert "n3 is in windows from" in told
        assert "with --at" in told
    assert "is in no window at" in run(live, "cancel", "n3", "--at", "2026-11-25T08:00Z", code=1)
    run(live, "edit", "n3", "--at", "2026-11-25T05:00Z", "--duration", "1h")
    assert [row["duration"] for row in calendar(live)["windows"]] == [3600, 7200]
    assert "n4 stays in it" in run(live, "cancel", "n3", "--at", AHEAD)
    assert machines(live) == [["n4"], ["n3"]]
