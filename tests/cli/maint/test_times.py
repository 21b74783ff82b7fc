"""Times that a person types: of a time to come the next, of one that is over the last."""

import time
from datetime import datetime
from typing import Any

import click
import pytest

from nodeagent.cli.gnt_maint import cli
from nodeagent.cli.maint.console import arguments
from nodeagent.cli.maint.history import back


def set_clock(monkeypatch: pytest.MonkeyPatch, now: str) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> "Clock":
            return cls.fromisoformat(now).replace(tzinfo=tz)

    monkeypatch.setattr(arguments, "datetime", Clock)


@pytest.mark.parametrize(
    ("now", "text", "then"),
    [
        ("2026-11-22T21:00", "yesterday", "2026-11-21T00:00"),
        ("2026-11-22T21:00", "Yesterday 22:00", "2026-11-21T22:00"),
        ("2026-11-22T21:00", "today", "2026-11-22T00:00"),
        ("2026-11-22T21:00", "today 9:30", "2026-11-22T09:30"),
        ("2026-11-22T21:00", "22:00", "2026-11-21T22:00"),
        ("2026-11-22T22:00", "22:00", "2026-11-22T22:00"),
        ("2027-01-01T00:01", "0:05", "2026-12-31T00:05"),
        ("2027-01-01T00:01", "yesterday", "2026-12-31T00:00"),
        ("2026-11-18T11:00", "sat 22:00", "2026-11-14T22:00"),
        ("2026-11-18T11:00", "wednesday", "2026-11-18T00:00"),
        ("2026-11-18T11:00", "wed 12:00", "2026-11-11T12:00"),
        ("2026-11-22T21:00", "2026-11-01", "2026-11-01T00:00"),
        ("2026-11-22T21:00", "2026-11-01 10:00", "2026-11-01T10:00"),
    ],
)
def test_the_past_is_the_last_such_time(
    monkeypatch: pytest.MonkeyPatch, now: str, text: str, then: str
) -> None:
    set_clock(monkeypatch, now)
    context, option = click.Context(cli), click.Option(["--since"])
    at = round(datetime.fromisoformat(then).timestamp())
    assert back(context, option, text) == (at, False)


def test_a_duration_counts_back() -> None:
    context, option = click.Context(cli), click.Option(["--since"])
    assert back(context, option, "2h") == (7200, True)
    assert back(context, option, None) is None


@pytest.mark.parametrize(
    "text", ["+2h", "tomorrow", "tomorrow 22:00", "soon", "", "yesterday 25:00"]
)
def test_what_is_no_past_time_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a time: write 2h, 22:00, today, yest"):
        back(click.Context(cli), click.Option(["--since"]), text)


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
    set_clock(monkeypatch, now)
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
        **dict.fromkeys(
            (*nowhere, "yesterday 22:00", "+2x", "+", "sat 25:00", ""), "is not a time"
        ),
    }.items():
        with pytest.raises(click.BadParameter, match=why):
            moment(text)
