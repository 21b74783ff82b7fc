"""The days of a weekly rule, and their start times. Pure."""

import re
from collections.abc import Iterator
from datetime import date, timedelta, timezone
from itertools import takewhile

from nodeagent.errors import MessageError
from nodeagent.maintd.planning.times import WEEKDAYS, moment, weekday_of
from nodeagent.model.series import Weekly, Zone
from nodeagent.model.units import Seconds
from nodeagent.protocol.canonical import printable

EPOCH = date(1970, 1, 1).toordinal()
LAST_DAY = date(9999, 12, 31).toordinal()
_DAY = 86_400
_WHEN = re.compile(r"([a-z]+(?:,[a-z]+)*) ([01][0-9]|2[0-3]):([0-5][0-9])")


def read_weekly(text: str) -> tuple[tuple[int, ...], int]:
    """The weekdays and the minute of `sun 02:00` or `mon,thu 22:30`, or MessageError."""
    match = _WHEN.fullmatch(text.strip().lower())
    days = [weekday_of(name) for name in match[1].split(",")] if match else []
    if match is None or None in days or len(set(days)) < len(days):
        why = "is not a time of a week: write 'sun 02:00' or 'mon,thu 22:30'"
        raise MessageError(f"{printable(text[:60])} {why}")
    return tuple(sorted(day for day in days if day is not None)), int(match[2]) * 60 + int(match[3])


def weekly_text(rule: Weekly) -> str:
    """Format a rule so that `read_weekly` can read it."""
    names = ",".join(WEEKDAYS[day] for day in rule.weekdays)
    return f"{names} {rule.minute // 60:02}:{rule.minute % 60:02}"


def day_text(day: int) -> str:
    """A day as people write it: 2026-11-22."""
    return date.fromordinal(day).isoformat()


def read_day(text: str) -> int:
    """Read a day in the format of `day_text`, or raise MessageError."""
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        try:
            return date.fromisoformat(text).toordinal()
        except ValueError:
            pass
    raise MessageError(f"{printable(text[:60])} is not a day: write 2026-11-22")


# Days.


def _monday(day: int) -> int:
    """The Monday of the week of a day."""
    return day - (day - 1) % 7  # the first of January of the year 1 is a Monday


def earlier_week(day: int, every: int, before: int) -> int:
    """The Monday of a week before a day that is a multiple of `every` weeks from another day's."""
    monday, step = _monday(day), 7 * every
    return monday - step * (max(0, monday - before) // step + 1)


def last_day(rule: Weekly) -> int:
    """The last day that it can have; LAST_DAY if it never ends."""
    until = rule.until or LAST_DAY
    if not rule.times:
        return until
    monday = _monday(rule.first)
    before_first = sum(monday + weekday < rule.first for weekday in rule.weekdays)
    weeks, place = divmod(before_first + rule.times - 1, len(rule.weekdays))
    return min(until, monday + 7 * rule.every * weeks + rule.weekdays[place])


def all_days(rule: Weekly, after: int = 0) -> Iterator[int]:
    """Its days after one, in order, including the skipped ones."""
    first, last = max(rule.first, after + 1), last_day(rule)
    monday, step = _monday(rule.first), 7 * rule.every
    monday += (first - monday) // step * step
    for week in range(monday, last + 1, step):
        for weekday in rule.weekdays:
            if first <= week + weekday <= last:
                yield week + weekday


def days(rule: Weekly, after: int = 0) -> Iterator[int]:
    """Its days after one, in order, without the skipped ones."""
    skipped = set(rule.skipped)
    return (day for day in all_days(rule, after) if day not in skipped)


def is_day(rule: Weekly, day: int) -> bool:
    return day == next(all_days(rule, day - 1), None)


def shortest(rule: Weekly) -> int:
    """The fewest days from one to the next."""
    ends = (*rule.weekdays[1:], rule.weekdays[0] + 7 * rule.every)
    return min(later - day for day, later in zip(rule.weekdays, ends, strict=True))


# Moments.


def start(rule: Weekly, zone: Zone, day: int) -> Seconds:
    return zone.moment(Seconds((day - EPOCH) * _DAY + rule.minute * 60))


def passed(rule: Weekly, zone: Zone | None, now: Seconds) -> int:
    """The number of its days, also skipped ones, that have started; of a rule with an end.

    Where the zone is unknown, a day of UTC has started.
    """
    today = now // _DAY + EPOCH

    def has_started(day: int) -> bool:
        return day <= today if zone is None else start(rule, zone, day) <= now

    return sum(1 for _ in takewhile(has_started, all_days(rule)))


def coming(rule: Weekly, zone: Zone, now: Seconds, after: int = 0) -> Iterator[tuple[int, Seconds]]:
    """The days after one that start later than now (unix s), with times while the zone is known."""
    # Midnight differs by less than a day between zones, and a change of it may leave out a day.
    for day in days(rule, max(after, now // _DAY + EPOCH - 3)):
        at = start(rule, zone, day)
        if at >= zone.until:
            return
        if at > now:
            yield day, at


def today(zone: Zone, now: Seconds) -> int:
    """Return the zone's day; `now` is unix seconds."""
    return (now + zone.offset(now)) // _DAY + EPOCH


def moment_text(zone: Zone, at: Seconds) -> str:
    """A moment as clocks there show it, with its offset: 2026-11-22T02:00:00+01:00."""
    local_zone = timezone(timedelta(seconds=zone.offset(at)))
    return moment(at).astimezone(local_zone).isoformat()
