"""Reader of time zones from the system's own database (Debian's package tzdata)."""

import re
import zoneinfo
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from zoneinfo import ZoneInfo

from nodeagent.model.units import Ms, Seconds
from nodeagent.model.zone import Change, Zone

_DAY = 86_400
_AGAIN = 3_600_000  # ms between readings of the database: its package may be upgraded
_PAST, _FUTURE = 1, 6  # years around the present one
_LONGEST = 64  # characters; the longest name has 32
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")
# Not places: this host's own zone, and copies with or without leap seconds.
_NO_PLACE = re.compile(r"(localtime|posixrules|Factory|(posix|right)/.*)")


class Zones:
    """Read zones, and cache them for an hour."""

    def __init__(self) -> None:
        self._read_at = 0
        self._known: dict[str, Zone | None] = {}

    def read(self, names: Iterable[str], now: Ms) -> dict[str, Zone]:
        """These zones around now (unix ms), by name; without unknown ones."""
        if not self._read_at <= now < self._read_at + _AGAIN:
            self._read_at, self._known = now, {}
        found: dict[str, Zone] = {}
        for name in names:
            if name not in self._known:
                self._known[name] = read_zone(name, now)
            if (zone := self._known[name]) is not None:
                found[name] = zone
        return found


def read_zone(name: str, now: Ms, past: int = _PAST, future: int = _FUTURE) -> Zone | None:
    """A zone for some years before and after the present one (of unix ms); None if unknown."""
    if len(name) > _LONGEST or not _NAME.fullmatch(name) or _NO_PLACE.fullmatch(name):
        return None
    year = datetime.fromtimestamp(now / 1000, UTC).year
    years = year - past, year + future + 1
    try:
        if (file := _file_of(name)) is not None:
            return _scanned_once(name, file, *years)
        return _scanned(name, ZoneInfo.no_cache(name), *years)
    except (KeyError, ValueError, OSError):  # such as a folder of zones
        return None


def _file_of(name: str) -> bytes | None:
    for folder in zoneinfo.TZPATH:
        with suppress(OSError):
            return Path(folder, name).read_bytes()
    return None


@lru_cache(maxsize=64)
def _scanned_once(name: str, file: bytes, begin: int, end: int) -> Zone:
    """Scan the zone of a file; a file that stays the same is not scanned again."""
    return _scanned(name, ZoneInfo.from_file(BytesIO(file), name), begin, end)


def _scanned(name: str, info: ZoneInfo, begin: int, end: int) -> Zone:
    """A zone's changes from the beginning of one year to that of another, looked for each day."""
    first, last = (Seconds(datetime(at, 1, 1, tzinfo=UTC).timestamp()) for at in (begin, end))
    changes = [_at(info, first)]
    for day in range(first, last, _DAY):
        before = Seconds(day)
        after = _at(info, min(before + _DAY, last))
        if _same(changes[-1], after):
            continue
        changes.append(_first_of(info, before, after))
    return Zone(name, tuple(changes), last)


def _at(info: ZoneInfo, at: Seconds) -> Change:
    there = datetime.fromtimestamp(at, info)
    offset, saving = there.utcoffset(), there.dst()
    assert offset is not None
    summer = saving is not None and saving.total_seconds() > 0
    return Change(at, round(offset.total_seconds()), there.tzname() or "", summer)


def _same(one: Change, other: Change) -> bool:
    return (one.offset, one.name, one.summer) == (other.offset, other.name, other.summer)


def _first_of(info: ZoneInfo, before: Seconds, after: Change) -> Change:
    """The first second with the new state."""
    until = after.at
    while until - before > 1:
        middle = Seconds((before + until) // 2)
        if _same(_at(info, middle), after):
            until = middle
        else:
            before = middle
    return _at(info, until)
