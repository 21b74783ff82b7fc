"""gnt-maint window beside the screens: names, moments, and what happens meanwhile.

`tests/cli/test_screens.py` has what it shows and refuses.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest

from nodeagent.cli.maint import window
from nodeagent.cli.maint.console import arguments
from nodeagent.cli.maint.console.client import Where
from nodeagent.maintd.http import parse
from nodeagent.model.units import Nanoseconds
from nodeagent.model.window import Machine
from tests.cli.live import Live
from tests.cli.run import at, said

# The rig's clock is at 2026-11-18, a Wednesday; its time goes by ten seconds a round.
AHEAD, LATER = "2026-11-25T04:00Z", "2026-11-26T04:00Z"


def run(quiet: Live, *words: str, code: int = 0) -> str:
    return said(quiet, "window", *words, code=code)


def calendar(quiet: Live) -> Any:
    return at(quiet, "window", "list", "--json").json


def machines(quiet: Live) -> list[list[str]]:
    rows = calendar(quiet)["schedule"].get("windows", [])
    return [[m.get("hostname") or m["ip"] for m in row["machine_ids"]] for row in rows]


def test_a_machine_of_a_name_and_an_address_goes_down_and_comes_up(quiet: Live) -> None:
    """As Mesos' operators schedule them; it is no node."""
    when = {"start": {"nanoseconds": 1_443_830_400_000_000_000}}
    both = {"hostname": "machine1.example.com", "ip": "10.0.0.1"}
    rows = [{"machine_ids": [both], "unavailability": when}]
    Where(quiet.socket).reach().put("/1/maintenance/schedule", {"windows": rows})
    for name, change in (("machine1", "down"), ("10.0.0.1", "up")):
        run(quiet, change, name)
    assert machines(quiet) == []


def test_somebody_else_changes_the_schedule_meanwhile(
    quiet: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change is made to what is there now: nobody's window is lost."""
    find, first = window._find, [True]

    def find_late(schedule: Any, calendar: Any, name: str, at: Nanoseconds | None) -> Any:
        if first:
            first.pop()
            run(quiet, "add", "n5", "--start", LATER)
        return find(schedule, calendar, name, at)

    run(quiet, "add", "n3", "--start", AHEAD)
    monkeypatch.setattr(window, "_find", find_late)
    run(quiet, "edit", "n3", "--duration", "1h")
    assert machines(quiet) == [["n3"], ["n5"]]
    assert calendar(quiet)["windows"][0]["duration"] == 3600


def test_a_window_of_the_past_is_told_also_of_a_machine_that_is_in_another(quiet: Live) -> None:
    past = ("n3", "--start", "2020-01-02T00:00Z", "--for", "1h")
    told = "n3's window is over already: maintd evacuates nothing for it."
    run(quiet, "add", "n3", "--start", AHEAD)
    assert told in run(quiet, "add", *past)
    assert "over: maintd evacuates nothing for it" in run(quiet, "list")
    shown = run(quiet, "show", "n3", "--at", "2020-01-02T00:30Z")
    assert "evacuation  none: the window is over" in shown
    assert told not in run(quiet, "add", "n3", "--start", LATER), "it was told before"


@pytest.mark.parametrize("address", ["10.0.0.3", "2001:db8::3", "::1"])
def test_a_machine_is_named_by_either_kind_of_address(address: str) -> None:
    assert arguments.machine(address) == {"ip": address}
    assert parse.machine(address) == Machine(ip=address)
    assert arguments.machine("n3.example.com") == {"hostname": "n3.example.com"}
    calendar = {"windows": [{"machines": [{"hostname": "", "ip": address, "node": None}]}]}
    assert arguments.machine_of(calendar, address.upper())["ip"] == address


def test_the_zone_is_this_places_where_none_is_named(
    quiet: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", ":Australia/Sydney")
    run(quiet, "add", "n3", "--weekly", "sun 02:00", "--for", "1h")
    assert at(quiet, "window", "show", "series/1", "--json").json["zone"] == "Australia/Sydney"


def test_a_window_that_is_canceled_ends_the_wait(
    quiet: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(quiet, "add", "n3", "--start", AHEAD)
    happens: list[Callable[[], object]] = [lambda: run(quiet, "cancel", "n3")]

    def sleep(_: float) -> None:
        if happens:
            happens.pop()()
        quiet.tick(60)

    monkeypatch.setattr(time, "sleep", sleep)
    said = run(quiet, "wait", "n3", code=3)
    assert said.startswith("n3 is in no window any longer.\n")
