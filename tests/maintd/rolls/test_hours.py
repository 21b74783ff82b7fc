"""The hours of a roll: their text, and whether it is time."""

from datetime import UTC, datetime

import pytest

from nodeagent.errors import MessageError
from nodeagent.maintd.engine.timezones import read_zone
from nodeagent.maintd.rolls.hours import hours_text, is_within, read_hours
from nodeagent.model.roll import Hours
from nodeagent.model.units import Ms
from tests.maintd.world import NOW

ZURICH = "Europe/Zurich"
ZONE = read_zone(ZURICH, NOW)
EVERY_DAY = tuple(range(7))


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("01:00-05:00", (EVERY_DAY, 60, 300)),
        ("sat,sun 01:00-05:00", ((5, 6), 60, 300)),
        ("Mon-Fri 22:30-04:15", ((0, 1, 2, 3, 4), 1350, 255)),
        ("saturday-monday 00:00-24:00", ((0, 5, 6), 0, 1440)),
        (" sun 02:00-02:00 ", ((6,), 120, 120)),
    ],
)
def test_hours_are_read(text: str, hours: tuple[tuple[int, ...], int, int]) -> None:
    days, begin, end = hours
    found = read_hours(text, ZURICH)
    assert found == Hours(days, begin, end, ZURICH)
    assert read_hours(hours_text(found), ZURICH) == found


@pytest.mark.parametrize(
    "text",
    ["", "sat", "01:00", "25:00-26:00", "sat 1:00-2:00", "b 01:00-02:00", "sat-b 01:00-02:00"],
)
def test_what_is_no_hours(text: str) -> None:
    with pytest.raises(MessageError, match="is not hours of a week"):
        read_hours(text, ZURICH)


@pytest.mark.parametrize(
    ("hours", "moment", "within"),
    [
        # 2026-11-28 is a Saturday; Zurich is an hour ahead of UTC then.
        ("sat 01:30-05:00", "2026-11-28T00:30", True),
        ("sat 01:00-05:00", "2026-11-27T23:59", False),
        ("sat 01:00-05:00", "2026-11-28T03:59", True),
        ("sat 01:00-05:00", "2026-11-28T04:00", False),
        ("fri 22:00-04:00", "2026-11-28T02:59", True),
        ("fri 22:00-04:00", "2026-11-28T03:00", False),
        ("fri 22:00-04:00", "2026-11-27T21:00", True),
        ("fri 22:00-04:00", "2026-11-27T02:00", False),
        ("22:00-04:00", "2026-11-27T02:00", True),
        ("fri 02:00-02:00", "2026-11-27T02:00", True),
        ("sat 00:00-24:00", "2026-11-28T22:59", True),
        ("sat 00:00-24:00", "2026-11-28T23:00", False),
    ],
)
def test_it_is_time(hours: str, moment: str, *, within: bool) -> None:
    assert ZONE is not None
    at = Ms(round(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp() * 1000))
    assert is_within(read_hours(hours, ZURICH), ZONE, at) is within
