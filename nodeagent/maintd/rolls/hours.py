"""The hours of a week in which nodes may begin: their text, and whether it is time. Pure."""

import re
from datetime import UTC, datetime

from nodeagent.errors import MessageError
from nodeagent.maintd.planning.times import WEEKDAYS, weekday_of
from nodeagent.model.roll import Hours
from nodeagent.model.series import Zone
from nodeagent.model.units import Ms, Seconds, in_seconds
from nodeagent.protocol.canonical import printable

_TIME = r"([01][0-9]|2[0-3]):([0-5][0-9])"
_FORM = re.compile(rf"(?:([a-z]+(?:[,-][a-z]+)*) )?{_TIME}-(?:{_TIME}|24:00)")
_DAY = 24 * 60  # minutes


def read_hours(text: str, zone: str) -> Hours:
    """Read `sat,sun 01:00-05:00`, `mon-fri 22:00-04:00` or `01:00-05:00`, or raise MessageError."""
    match = _FORM.fullmatch(text.strip().lower())
    days = _weekdays(match[1]) if match else None
    if match is None or not days:
        why = "is not hours of a week: write 'sat,sun 01:00-05:00', 'mon-fri 22:00-04:00' or"
        raise MessageError(f"{printable(text[:60])} {why} '01:00-05:00'")
    begin = int(match[2]) * 60 + int(match[3])
    end = int(match[4]) * 60 + int(match[5]) if match[4] else _DAY
    return Hours(days, begin, end, zone)


def _weekdays(text: str | None) -> tuple[int, ...]:
    """Return the weekdays that a text names, all without one; none if it is wrong."""
    if text is None:
        return tuple(range(len(WEEKDAYS)))
    weekdays = set[int]()
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = weekday_of(first), weekday_of(last or first)
        if begin is None or end is None:
            return ()
        days = (end - begin) % len(WEEKDAYS) + 1
        weekdays.update((begin + after) % len(WEEKDAYS) for after in range(days))
    return tuple(sorted(weekdays))


def hours_text(hours: Hours) -> str:
    """Format hours so that `read_hours` can read them."""
    every_day = len(hours.weekdays) == len(WEEKDAYS)
    days = "" if every_day else ",".join(WEEKDAYS[day] for day in hours.weekdays) + " "
    return f"{days}{_minute(hours.begin)}-{_minute(hours.end)}"


def _minute(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def is_within(hours: Hours, zone: Zone, now: Ms) -> bool:
    """Check whether a node may begin at this moment."""
    seconds = in_seconds(now)
    local = datetime.fromtimestamp(seconds + zone.offset(Seconds(seconds)), UTC)
    minute, today = local.hour * 60 + local.minute, local.weekday()
    if hours.begin < hours.end:
        return today in hours.weekdays and hours.begin <= minute < hours.end
    yesterday = (today - 1) % len(WEEKDAYS)
    evening = today in hours.weekdays and minute >= hours.begin
    return evening or (yesterday in hours.weekdays and minute < hours.end)
