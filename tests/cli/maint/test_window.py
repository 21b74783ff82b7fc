"""gnt-maint window, against a whole coordinator at a real socket."""

import json
import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from nodeagent.cli.gnt_maint import cli
from nodeagent.cli.maint import window
from nodeagent.cli.maint.console import arguments
from nodeagent.cli.maint.console.client import Where
from nodeagent.maintd.http import series as http_series
from nodeagent.model.action import MovePrimary
from nodeagent.model.window import Machine
from tests.cli.live import Live
from tests.maintd.rig import Rig, fleet, mirrored


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    opened = Live(Rig(fleet(), mirrored(("n3", "n4"))), tmp_path)
    yield opened
    opened.close()


def run(live: Live, *words: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, ["--socket", live.socket, "window", *words])
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def calendar(live: Live) -> Any:
    return json.loads(run(live, "list", "--json"))


def machines(live: Live) -> list[list[str]]:
    rows = calendar(live)["schedule"].get("windows", [])
    return [[m.get("hostname") or m["ip"] for m in row["machine_ids"]] for row in rows]


# The rig's clock is at 2026-11-18.
AHEAD, LATER = "2026-11-25T04:00Z", "2026-11-26T04:00Z"


def test_from_planning_to_coming_up(live: Live) -> None:
    assert run(live, "list") == "No maintenance is planned.\n"
    said = run(live, "add", "n3", "127.0.0.4", "--start", AHEAD, "--duration", "2h")
    assert said.startswith("Planned: n3, 127.0.0.4 from 2026-11-25 ")
    run(live, "add", "n5", "--start", LATER)
    assert machines(live) == [["n3", "127.0.0.4"], ["n5"]]
    head, first, second, third = run(live, "list").splitlines()
    assert head.split() == ["FROM", "UNTIL", "MACHINE", "MODE", "LEFT", "REMARK"]
    assert [first.split()[6:9], second.split()[6:9]] == [
        ["n3", "planned", "1"],
        ["n4", "planned", "1"],
    ]
    assert "evacuation starts 2026-11-25" in first
    assert third.split()[3:5] == ["n5", "planned"]
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
    assert "run gnt-maint window edit n3 with another --start or --for" in row


def test_a_machine_is_meant_by_its_node_s_name_its_address_or_its_own(live: Live) -> None:
    run(live, "add", "127.0.0.4", "--start", AHEAD)
    run(live, "add", "n5", "--start", LATER)
    assert "planned" in run(live, "show", "n4")
    run(live, "edit", "N4", "--duration", "1h")
    run(live, "down", "n4")
    assert [m["mode"] for row in calendar(live)["windows"] for m in row["machines"]] == [
        "down",
        "draining",
    ]
    run(live, "up", "n4")
    assert machines(live) == [["n5"]]


def test_a_machine_of_a_name_and_an_address_goes_down_and_comes_up(live: Live) -> None:
    """As Mesos' operators schedule them; it is no node."""
    when_ = {"start": {"nanoseconds": 1_443_830_400_000_000_000}}
    both = {"hostname": "machine1.example.com", "ip": "10.0.0.1"}
    rows = [{"machine_ids": [both], "unavailability": when_}]
    Where(live.socket).reach().put("/1/maintenance/schedule", {"windows": rows})
    for name, change in (("machine1", "down"), ("10.0.0.1", "up")):
        run(live, change, name)
    assert machines(live) == []


def test_an_empty_name_is_nobody_and_a_short_one_not_two(live: Live) -> None:
    run(live, "add", "127.0.0.4", "--start", AHEAD)
    run(live, "add", "m1.a.example.org", "m1.b.example.org", "--start", LATER, "--not-a-node")
    for verb in (("cancel", ""), ("show", ""), ("down", ""), ("edit", "n4", "--remove", "")):
        assert "the name of a machine is empty" in run(live, *verb, code=2)
    said = run(live, "cancel", "m1", code=1)
    assert "m1 is short for m1.a.example.org and m1.b.example.org" in said
    assert "n4 is in no window" not in run(live, "show", "n4")
    assert "127 is in no window" in run(live, "cancel", "127", code=1)
    assert len(machines(live)) == 2


@pytest.mark.parametrize("name", ["nod4", "10.9.9.3", "n33"])
def test_a_machine_that_is_no_node_is_refused(live: Live, name: str) -> None:
    why = (
        f"{name} is not a node of this cluster, so its window would evacuate nothing:"
        " see gnt-maint nodes, or insist with --not-a-node"
    )
    assert run(live, "add", "n3", name, "--start", AHEAD, code=1) == f"Error: {why}\n"
    assert machines(live) == []
    run(live, "add", "n3", "--start", AHEAD)
    assert run(live, "edit", "n3", "--add", name, code=1) == f"Error: {why}\n"
    run(live, "edit", "n3", "--add", name, "--not-a-node")
    assert machines(live) == [["n3", name]]


def test_who_is_no_node_is_told(live: Live) -> None:
    force = "--not-a-node"
    said = run(live, "add", "n3", "nod4", "--start", AHEAD, "--for", "2h", force)
    assert re.fullmatch(
        r"Planned: n3, nod4 from 2026-11-2.* until 2026-11-2.*\.", said.splitlines()[0]
    )
    assert said.splitlines()[1:] == [
        "nod4 is not a node: its window evacuates nothing, and protects nothing unless you name"
        " it by its address."
    ]
    said = run(live, "add", "10.9.9.3", "--start", AHEAD, force)
    assert said.splitlines()[1:] == ["10.9.9.3 is not a node: its window evacuates nothing."]
    assert run(live, "edit", "n3", "--for", "1h") == "Changed: the window of n3.\n"
    said = run(live, "edit", "n3", "--remove", "n3", "--remove", "nod4", code=1)
    assert "no machine would be left: gnt-maint window cancel n3 instead" in said


def test_what_is_over_already_is_told(live: Live) -> None:
    said = run(live, "add", "n3", "--start", "2025-11-25", "--for", "2h")
    assert said.splitlines()[1:] == [
        "n3's window is over already: maintd evacuates nothing for it."
    ]


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
    at = datetime.fromisoformat(then).timestamp()
    context, option = click.Context(cli), click.Option(["--start"])
    assert arguments.moment(context, option, text) == at * 10**9


@pytest.mark.parametrize("name", ["series/1", " ", "a b", ""])
def test_what_cannot_be_a_machine_s_name(live: Live, name: str) -> None:
    """A machine that is named as a series is would not be found again."""
    assert "is not a name of a machine" in run(live, "add", name, "--start", AHEAD, code=2)
    assert machines(live) == []


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
    assert run(live, "cancel", "n6") == (
        "Canceled: the window of n6. n4 and n5 stay in it: gnt-maint window cancel --whole n4 ends"
        " it.\n"
    )
    assert machines(live) == [["n4", "n5"]], "it was not named"
    assert run(live, "cancel", "--whole", "n5") == "Canceled: the window of n4 and n5.\n"
    assert machines(live) == []
    run(live, "add", "n3", "--start", AHEAD)
    assert run(live, "cancel", "n3") == "Canceled: the window of n3.\n"
    assert machines(live) == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("down", "n3"), "n3 is in no window"),
        (("add", "n3", "n3", "--start", "now"), "n3 is in the schedule more than once"),
        (("cancel", "n3"), "n3 is in no window"),
        (("show", "n3"), "n3 is in no window"),
        (("edit", "n3", "--endless"), "n3 is in no window"),
    ],
)
def test_what_is_refused_says_why(live: Live, words: tuple[str, ...], why: str) -> None:
    assert why in run(live, *words, code=1)
    assert machines(live) == []


@pytest.mark.parametrize(
    "words",
    [
        ("add", "n3"),
        ("add", "--start", "now"),
        ("add", "n3", "--start", "someday"),
        ("add", "n3", "--start", "+1"),
        ("edit", "n3"),
        ("edit", "n3", "--duration", "1h", "--endless"),
    ],
)
def test_a_wrong_command_line(live: Live, words: tuple[str, ...]) -> None:
    run(live, *words, code=2)


def test_somebody_else_changes_the_schedule_meanwhile(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change is made to what is there now: nobody's window is lost."""
    find, first = window._find, [True]

    def find_late(schedule: Any, calendar: Any, name: str) -> Any:
        if first:
            first.pop()
            run(live, "add", "n5", "--start", LATER)
        return find(schedule, calendar, name)

    run(live, "add", "n3", "--start", AHEAD)
    monkeypatch.setattr(window, "_find", find_late)
    run(live, "edit", "n3", "--duration", "1h")
    assert machines(live) == [["n3"], ["n5"]]
    assert calendar(live)["windows"][0]["duration"] == 3600


def at(text: str) -> int | None:
    return arguments.moment(click.Context(click.Command("x")), click.Option(["--start"]), text)


def test_times_of_this_place_are_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert at("2026-07-01T12:00") == at("2026-07-01T10:00Z")
        assert at("2026-12-01T12:00") == at("2026-12-01T11:00Z")
        with pytest.raises(click.BadParameter, match="the clock shows it twice"):
            at("2026-10-25T02:30")
        with pytest.raises(click.BadParameter, match="the clock never shows it"):
            at("2026-03-29T02:30")
        assert at("2026-10-25T02:30+01:00") == at("2026-10-25T01:30Z")
        for none in (
            "0001-01-01",
            "1969-12-31",
            "9999-12-31T23:59",
            "2500-01-01T00:00Z",
            "someday",
            "sat 25:00",
            "",
        ):
            with pytest.raises(click.BadParameter, match="is not a time"):
                at(none)
        with pytest.raises(click.BadParameter, match="is not a time"):
            at("+999999999d")
    finally:
        monkeypatch.undo()
        time.tzset()


# Every week. The rig's clock is at 2026-11-18, a Wednesday; its time goes by ten seconds a round.

SUNDAYS = ("add", "n3", "n5", "--weekly", "sun 02:00", "--for", "2h", "--zone", "Europe/Zurich")


def series(live: Live) -> Any:
    return json.loads(run(live, "show", "series/1", "--json"))


def to(live: Live, moment: str) -> None:
    """Let time pass until then."""
    live.tick(datetime.fromisoformat(moment).timestamp() - live.rig.time)


def test_a_series_from_planning_to_its_end(live: Live) -> None:
    said = run(live, *SUNDAYS)
    assert said == (
        "Planned: series/1, sun 02:00 (Europe/Zurich), first 2026-11-22 02:00:00 +0100.\n"
    )
    head, row = run(live, "list").splitlines()
    assert head.split() == ["SERIES", "WHEN", "ZONE", "FOR", "NEXT", "MACHINES", "REMARK"]
    assert row.split() == [
        *("series/1", "sun", "02:00", "Europe/Zurich", "2", "h"),
        *("2026-11-22", "02:00:00", "+0100", "n3,", "n5"),
    ]
    to(live, "2026-11-20T02:00Z")
    assert machines(live) == [["n3", "n5"]]
    (window_,) = calendar(live)["windows"]
    assert (window_["series"], window_["occurrence"]) == ("series/1", "2026-11-22")
    assert "of     series/1, 2026-11-22" in run(live, "show", "n3")
    shown = run(live, "show", "series/1")
    assert "when      sun 02:00 (Europe/Zurich)\n" in shown
    assert "2026-11-22  2026-11-22 02:00:00 +0100" in shown
    assert "n5       2026-11-22" in shown
    assert run(live, "cancel", "n3").startswith("Canceled: the window of n3. n5 stays in it: ")
    live.tick(60, times=2)
    assert machines(live) == [["n5"]], "the series does not plan it again"
    assert run(live, "cancel", "n5") == (
        "Canceled: the window of n5.\nseries/1 goes on; next: 2026-11-29 02:00:00 +0100.\n"
    )
    assert series(live)["skipped"] == ["2026-11-22"]
    assert run(live, "cancel", "series/1") == "Canceled: series/1.\n"
    assert run(live, "list") == "No maintenance is planned.\n"


def test_a_series_that_is_entered_twice_is_told(live: Live) -> None:
    run(live, *SUNDAYS)
    here, sundays = ("--zone", "UTC", "--for"), ("--weekly", "sun 01:00")
    _, told = run(live, "add", "n6", "127.0.0.3", *sundays, *here, "2h").splitlines()
    assert told == (
        "series/1 has n3 at the same times: one of them is enough (gnt-maint window cancel"
        " series/2)."
    )
    for words in (
        ("n4", *sundays, *here, "2h"),
        ("n5", *sundays, *here, "1h"),
        ("n5", "--weekly", "sat 01:00", *here, "2h"),
    ):
        assert run(live, "add", *words).count("\n") == 1


def test_both_ends_of_its_times_are_told_by_the_clocks_of_its_zone(live: Live) -> None:
    """Over a change of the clocks, and wherever one looks from."""
    words = ("--for", "2h", "--zone", "Europe/Zurich", "--from", "2027-03-28")
    run(live, "add", "n3", "--weekly", "sun 01:30", *words)
    line = next(row for row in run(live, "show", "series/1").splitlines() if "2027-03-28  " in row)
    assert line.split()[1:] == [
        "2027-03-28",
        "01:30:00",
        "+0100",
        "2027-03-28",
        "04:30:00",
        "+0200",
    ]


def test_days_of_a_series_are_canceled_and_kept(live: Live) -> None:
    run(live, *SUNDAYS)
    said = run(live, "cancel", "series/1", "--on", "2026-11-29", "--on", "2026-12-06")
    assert said == "Canceled: series/1 on 2026-11-29, 2026-12-06; it goes on.\n"
    assert [one["skipped"] for one in series(live)["next"]][:4] == [False, True, True, False]
    assert "2026-11-29 02:00:00 +0100" in run(live, "show", "series/1")
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


def test_the_zone_is_this_place_s_where_none_is_named(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", ":Australia/Sydney")
    run(live, "add", "n3", "--weekly", "sun 02:00", "--for", "1h")
    assert series(live)["zone"] == "Australia/Sydney"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("add", "n3"), "--start or --weekly must be given, and one of them alone"),
        ((*SUNDAYS, "--start", "now"), "--start or --weekly must be given"),
        (("add", "n3", "--weekly", "sun 02:00"), "--for is missing"),
        (("add", "n3", "--weekly", "sun 2:00", "--for", "1h"), "is not a time of a week: write"),
        (("add", "n3", "--start", "now", "--zone", "UTC"), "--zone goes with --weekly"),
        ((*SUNDAYS, "--until", "soon"), "is not a day: write 2026-11-22"),
        ((*SUNDAYS, "--times", "0"), "'0' is not a number of times"),
        (("edit", "series/1"), "what is to be changed?"),
        (("edit", "series/1", "--endless"), "--start and --endless are of one window"),
        (
            ("edit", "n3", "--weekly", "sun 02:00"),
            "--weekly is of a series, and n3 is not a series",
        ),
        (("cancel", "n3", "--on", "2026-11-22"), "--on is of a series, and n3 is not a series"),
        (("export",), "--ics or --json must be given, and one of them alone"),
    ],
)
def test_what_is_no_command_line_of_a_series(live: Live, words: tuple[str, ...], why: str) -> None:
    assert why in run(live, *words, code=2)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("show", "series/7"), "there is no series/7"),
        (("cancel", "series/x"), "there is no series/x"),
        (("edit", "series/7", "--for", "1h"), "there is no series/7"),
        (("cancel", "series/1", "--on", "2026-11-23"), "has no occurrence on 2026-11-23"),
        ((*SUNDAYS[:2], "n77", *SUNDAYS[3:]), "machine n77 is not a node of this cluster"),
        ((*SUNDAYS, "--zone", "Mars/Olympus"), "time zone Mars/Olympus is unknown here"),
    ],
)
def test_what_is_refused_of_a_series(live: Live, words: tuple[str, ...], why: str) -> None:
    run(live, *SUNDAYS)
    assert why in run(live, *words, code=1)


def test_export(live: Live) -> None:
    run(live, *SUNDAYS)
    text = run(live, "export", "--ics")
    assert text.startswith(("BEGIN:VCALENDAR\r\n", "BEGIN:VCALENDAR\n"))
    (rule,) = (line for line in text.splitlines() if line.startswith("RRULE:"))
    parts = rule.removeprefix("RRULE:").split(";")
    assert sorted(parts) == ["BYDAY=SU", "FREQ=WEEKLY", "INTERVAL=1", "WKST=MO"]
    assert json.loads(run(live, "export", "--json")) == calendar(live)


@pytest.mark.parametrize("address", ["10.0.0.3", "2001:db8::3", "::1"])
def test_a_machine_is_named_by_either_kind_of_address(address: str) -> None:
    assert arguments.machine(address) == {"ip": address}
    assert http_series.machine(address) == Machine(ip=address)
    assert arguments.machine("n3.example.com") == {"hostname": "n3.example.com"}
    calendar = {"windows": [{"machines": [{"hostname": "", "ip": address, "node": None}]}]}
    assert arguments.machine_of(calendar, address.upper())["ip"] == address
