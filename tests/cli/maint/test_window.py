"""gnt-maint window beside the screens: names, moments, and what happens meanwhile.

`tests/cli/test_screens.py` has what it shows and refuses.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
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
from tests.maintd.rig import Rig, fleet, mirrored

# The rig's clock is at 2026-11-18, a Wednesday; its time goes by ten seconds a round.
AHEAD, LATER = "2026-11-25T04:00Z", "2026-11-26T04:00Z"


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


def test_a_machine_of_a_name_and_an_address_goes_down_and_comes_up(live: Live) -> None:
    """As Mesos' operators schedule them; it is no node."""
    when = {"start": {"nanoseconds": 1_443_830_400_000_000_000}}
    both = {"hostname": "machine1.example.com", "ip": "10.0.0.1"}
    rows = [{"machine_ids": [both], "unavailability": when}]
    Where(live.socket).reach().put("/1/maintenance/schedule", {"windows": rows})
    for name, change in (("machine1", "down"), ("10.0.0.1", "up")):
        run(live, change, name)
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


def test_the_zone_is_this_places_where_none_is_named(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", ":Australia/Sydney")
    run(live, "add", "n3", "--weekly", "sun 02:00", "--for", "1h")
    assert at(live, "window", "show", "series/1", "--json").json["zone"] == "Australia/Sydney"


def test_a_window_that_is_canceled_ends_the_wait(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(live, "add", "n3", "--start", AHEAD)
    happens: list[Callable[[], object]] = [lambda: run(live, "cancel", "n3")]

    def sleep(_: float) -> None:
        if happens:
            happens.pop()()
        live.tick(60)

    monkeypatch.setattr(time, "sleep", sleep)
    said = run(live, "wait", "n3", code=3)
    assert said.startswith("n3 is in no window any longer.\n")
