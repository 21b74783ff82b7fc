"""Weekly rules: which days they have, and what moments those are, wherever clocks are changed."""

import zoneinfo
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeagent.errors import MessageError
from nodeagent.maintd.engine.timezones import read_zone, read_zones
from nodeagent.maintd.windows.recurrence import (
    all_days,
    coming,
    day_text,
    days,
    is_day,
    last_day,
    moment_text,
    read_day,
    read_weekly,
    shortest,
    start,
)
from nodeagent.model.series import Weekly, Zone
from nodeagent.model.units import Ms, Seconds
from tests.maintd.windows.zones import ZONES


@cache
def zone(name: str, year: int = 2026) -> Zone:
    found = read_zone(name, Ms(round(datetime(year, 7, 1, tzinfo=UTC).timestamp() * 1000)))
    assert found is not None
    return found


def rule(text: str, first: str, name: str = "UTC", **more: Any) -> Weekly:
    weekdays, minute = read_weekly(text)
    return Weekly(
        weekdays, minute, name, Seconds(7200), date.fromisoformat(first).toordinal(), **more
    )


def texts(found: Weekly, most: int = 6, after: str = "0001-01-01") -> list[str]:
    begin = date.fromisoformat(after).toordinal()
    return [day_text(day) for day in islice(days(found, begin), most)]


# Days.


def test_the_last_day_is_one_of_them_and_those_skipped_count() -> None:
    until = rule("sun 02:00", "2026-11-22", until=date(2026, 12, 6).toordinal())
    assert texts(until) == ["2026-11-22", "2026-11-29", "2026-12-06"]
    three = rule("sun 02:00", "2026-11-22", times=3)
    three = replace(three, skipped=(date(2026, 11, 29).toordinal(),))
    assert texts(three) == ["2026-11-22", "2026-12-06"]
    assert day_text(last_day(until)) == day_text(last_day(three)) == "2026-12-06"
    assert is_day(three, date(2026, 11, 29).toordinal())
    assert not is_day(three, date(2026, 12, 13).toordinal())
    both = replace(until, times=2)
    assert texts(both) == ["2026-11-22", "2026-11-29"]
    assert day_text(last_day(both)) == "2026-11-29"


RULES = st.builds(
    Weekly,
    st.sets(st.integers(0, 6), min_size=1).map(lambda found: tuple(sorted(found))),
    st.integers(0, 1439),
    st.sampled_from(ZONES),
    st.just(7200),
    st.integers(date(2020, 1, 1).toordinal(), date(2027, 1, 1).toordinal()),
    st.integers(1, 5),
    st.just(0) | st.integers(date(2020, 1, 1).toordinal(), date(2029, 1, 1).toordinal()),
    st.just(0) | st.integers(1, 60),
)


def on_its_first_day(found: Weekly) -> Weekly:
    while (found.first - 1) % 7 not in found.weekdays:
        found = replace(found, first=found.first + 1)
    return found


@given(RULES.map(on_its_first_day), st.integers(-400, 4000))
def test_days_are_those_that_counting_one_by_one_finds(found: Weekly, later: int) -> None:
    after = found.first + later
    end = found.first + 12 * 366
    monday = found.first - (found.first - 1) % 7
    slowly = [
        day
        for day in range(found.first, end)
        if (day - 1) % 7 in found.weekdays
        and (day - monday) // 7 % found.every == 0
        and (not found.until or day <= found.until)
    ]
    slowly = slowly[: found.times] if found.times else slowly
    quickly = [day for day in islice(all_days(found, after), 8) if day < end]
    assert quickly == [day for day in slowly if day > after][: len(quickly)]
    if found.until or found.times:
        assert len(quickly) == min(8, sum(day > after for day in slowly))
    assert shortest(found) == min(
        (
            b - a
            for a, b in pairwise(d for d in islice(all_days(replace(found, until=0, times=0)), 20))
        ),
    )


# Moments.


@pytest.mark.parametrize(
    ("name", "local", "shown"),
    [
        # Never shown: as if the clocks had not been changed yet.
        ("Europe/Zurich", "2026-03-29 02:30", "2026-03-29T03:30:00+02:00"),
        ("Pacific/Apia", "2011-12-30 02:00", "2011-12-31T02:00:00+14:00"),
        # Shown twice: the first.
        ("Europe/Zurich", "2026-10-25 02:30", "2026-10-25T02:30:00+02:00"),
        ("Europe/Zurich", "2026-10-25 03:00", "2026-10-25T03:00:00+01:00"),
        ("Asia/Pyongyang", "2015-08-14 23:45", "2015-08-14T23:45:00+09:00"),
        # Rules that change: summer time for good; Ramadan.
        ("Europe/Istanbul", "2016-11-06 03:30", "2016-11-06T03:30:00+03:00"),
        ("Asia/Kolkata", "2026-03-29 02:30", "2026-03-29T02:30:00+05:30"),
    ],
)
def test_local_times_that_are_none_or_two_have_one_meaning(
    name: str, local: str, shown: str
) -> None:
    then = datetime.fromisoformat(local)
    here = zone(name, then.year)
    at = here.moment(Seconds(round(then.replace(tzinfo=UTC).timestamp())))
    assert moment_text(here, at) == shown


@settings(max_examples=300)
@given(
    st.sampled_from(ZONES),
    st.datetimes(datetime(2025, 1, 1), datetime(2031, 12, 1)),  # noqa: DTZ001 it is local
)
def test_moments_are_as_the_database_s_own_reader_has_them(name: str, local: datetime) -> None:
    local = local.replace(microsecond=0)
    seconds = round(local.replace(tzinfo=UTC).timestamp())
    assert zone(name).moment(Seconds(seconds)) == round(
        local.replace(tzinfo=ZoneInfo(name), fold=0).timestamp()
    )


def test_what_has_begun_is_not_to_come_and_what_is_beyond_the_table_is_not_known() -> None:
    here = zone("Europe/Zurich")
    found = rule("sun 02:30", "2026-11-22", "Europe/Zurich")
    first = start(found, here, found.first)
    assert next(coming(found, here, first - 1)) == (found.first, first)
    assert next(coming(found, here, first)) == (found.first + 7, first + 7 * 86_400)
    assert next(coming(found, here, first - 1, after=found.first))[0] == found.first + 7
    *_, last = coming(found, here, first)
    assert here.until - 8 * 86_400 < last[1] < here.until
    far = replace(found, first=found.first + 7 * 1000)
    assert list(coming(far, here, first)) == []


# Words.


@pytest.mark.parametrize("text", ["Saturday 22:00", "saturday 22:00", "sat 22:00"])
def test_a_day_may_be_written_out(text: str) -> None:
    assert read_weekly(text) == ((5,), 22 * 60)


def test_order_and_case_do_not_matter() -> None:
    assert read_weekly(" Wed,MON 09:05 ") == ((0, 2), 545)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sun",
        "02:00",
        "sun 24:00",
        "sun 2:00",
        "sun 02:60",
        "sol 02:00",
        "sun,sun 02:00",
        "sun,,mon 02:00",
        "sun 02:00 mon",
        "sun\n02:00",
        "sun \u0660\u0662:00",
    ],
)
def test_what_is_no_time_of_a_week(text: str) -> None:
    with pytest.raises(MessageError, match="is not a time of a week: write 'sun 02:00'"):
        read_weekly(text)


@pytest.mark.parametrize(
    "text", ["", "2026-02-29", "2026-2-1", "20260201", "2026-W05-1", "\u0662026-01-01"]
)
def test_what_is_no_day(text: str) -> None:
    with pytest.raises(MessageError, match="is not a day: write 2026-11-22"):
        read_day(text)


# The database.


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Europe",
        "Europe/Zürich",
        "../etc/passwd",
        "/etc/passwd",
        "Europe/../UTC",
        "localtime",
        "right/Europe/Zurich",
        "posix/UTC",
        "Mars/Olympus",
        "zone.tab",
        "a\0b",
        "A" * 5000,
    ],
)
def test_what_is_no_zone(name: str) -> None:
    assert read_zone(name, Ms(0)) is None


def test_a_zone_is_what_its_file_says_now(tmp_path: Path) -> None:
    """As after an upgrade of the package tzdata."""

    def file(name: str) -> bytes:
        return next(p for root in zoneinfo.TZPATH if (p := Path(root, name)).exists()).read_bytes()

    here, tokyo = file("Europe/Zurich"), file("Asia/Tokyo")
    now = Ms(1_800_000_000_000)
    zoneinfo.reset_tzpath([tmp_path / "none", tmp_path])
    try:
        (tmp_path / "Here").write_bytes(here)
        names = [{change.name for change in read_zones(["Here"], now)["Here"].changes}]
        (tmp_path / "Here").write_bytes(tokyo)
        names += [{change.name for change in read_zones(["Here"], now)["Here"].changes}]
    finally:
        zoneinfo.reset_tzpath()
    assert names == [{"CET", "CEST"}, {"JST"}]
