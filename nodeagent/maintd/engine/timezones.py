"""Reader of time zones from the system's own database (Debian's package tzdata)."""

import re
from bisect import bisect_left
from collections.abc import Iterable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from nodeagent.model.series import Change, Zone
from nodeagent.model.units import Ms, Seconds

_WEEK = 7 * 86_400  # seconds; no zone changes its clocks and back within one
_PAST, _FUTURE = 1, 6  # years around the present one
_LONGEST = 64  # characters; the longest name has 32
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")
# Not places: this host's own zone, and copies with or without leap seconds.
_NO_PLACE = re.compile(r"(localtime|posixrules|Factory|(posix|right)/.*)")


def read_zones(names: Iterable[str], now: Ms) -> dict[str, Zone]:
    """These zones around now (unix ms), by name; without unknown ones."""
    zones = (read_zone(name, now) for name in names)
    return {zone.name: zone for zone in zones if zone is not None}


def read_zone(name: str, now: Ms) -> Zone | None:
    """A zone for some years before and after the present one (of unix ms); None if unknown."""
    if len(name) > _LONGEST or not _NAME.fullmatch(name) or _NO_PLACE.fullmatch(name):
        return None
    try:
        # Not from ZoneInfo's cache: the database may be newer than this process.
        info = ZoneInfo.no_cache(name)
    except (KeyError, ValueError, OSError):  # such as a folder of zones
        return None
    year = datetime.fromtimestamp(now / 1000, UTC).year
    return _scanned(name, info, year - _PAST, year + _FUTURE + 1)


def _scanned(name: str, info: ZoneInfo, begin: int, end: int) -> Zone:
    """A zone's changes from the beginning of one year to that of another."""
    first, last = (Seconds(datetime(at, 1, 1, tzinfo=UTC).timestamp()) for at in (begin, end))
    changes = [_at(info, first)]
    for week in range(first, last, _WEEK):
        after = _at(info, Seconds(min(week + _WEEK, last)))
        if not _same(changes[-1], after):
            changes.append(_first_like(info, after, Seconds(week)))
    return Zone(name, tuple(changes), last)


def _at(info: ZoneInfo, at: Seconds) -> Change:
    moment = datetime.fromtimestamp(at, info)
    offset, saving = moment.utcoffset(), moment.dst()
    assert offset is not None
    summer = saving is not None and saving.total_seconds() > 0
    return Change(at, round(offset.total_seconds()), moment.tzname() or "", summer)


def _same(change: Change, other: Change) -> bool:
    """Whether clocks show the same after both."""
    return (change.offset, change.name, change.summer) == (other.offset, other.name, other.summer)


def _first_like(info: ZoneInfo, after: Change, begin: Seconds) -> Change:
    """The first second since `begin` with the state of `after`."""
    seconds = range(after.at - begin)
    place = bisect_left(seconds, True, key=lambda n: _same(_at(info, begin + n), after))
    return _at(info, begin + place)
