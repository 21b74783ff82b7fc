"""The windows and series as iCalendar (RFC 5545), for calendars of people. Pure.

A series is one event with its rule, the days it skips, and the rules of its zone; its occurrences
that are windows already replace that day's by what they are now. All else is in UTC.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from uuid import NAMESPACE_URL, uuid5

from nodeagent.maintd.http import series as almanac
from nodeagent.maintd.http.status import View
from nodeagent.maintd.windows import recurrence as weekly
from nodeagent.maintd.windows.schedule import Identity, Names
from nodeagent.model.series import Series, Weekly
from nodeagent.model.window import NANOSECONDS, Mode, Scheduled, Window
from nodeagent.model.zone import Change, Zone

KIND = "text/calendar; charset=utf-8"
_OCTETS = 75  # of a line, without what ends it
_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_SHOWN = 20  # machines in a title


def calendar(view: View) -> bytes:
    """One calendar of everything that is planned."""
    observed, series = view.observed, view.ledger.series
    stamp = f"DTSTAMP:{_utc(view.at // 1000)}"
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//nodeagent//maintd//EN",
        "CALSCALE:GREGORIAN",
        f"X-WR-CALNAME:{_text(f'{observed.snapshot.cluster}: maintenance')}",
    ]
    zones = [observed.zones[name] for name in sorted({one.rule.zone for one in series})
             if name in observed.zones]  # fmt: skip
    known = [one for one in series if one.rule.zone in observed.zones]
    for zone in zones:
        lines += _zone(zone)
    names = Names(observed.snapshot)
    for one in known:
        lines += ["BEGIN:VEVENT", f"UID:{one.uid}", stamp, *_series(one, names), "END:VEVENT"]
    for event in _windows(view, {one.name: one for one in known}, names):
        lines += ["BEGIN:VEVENT", *event, stamp, "END:VEVENT"]
    return b"".join(_folded(line) for line in (*lines, "END:VCALENDAR"))


# Lines.


def _folded(line: str) -> bytes:
    """A content line: at most 75 octets, what is longer goes on after a blank; no letter is cut."""
    pieces, room = [""], _OCTETS
    for character in line:
        size = len(character.encode("utf-8", "replace"))
        if size > room:
            pieces.append("")
            room = _OCTETS - 1
        pieces[-1] += character
        room -= size
    return "\r\n ".join(pieces).encode("utf-8", "replace") + b"\r\n"


def _text(value: str) -> str:
    """A value of the type TEXT; what cannot be printed has no place in one."""
    shown = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in value)
    for plain in ("\\", ";", ","):
        shown = shown.replace(plain, "\\" + plain)
    return shown.replace("\n", "\\n")


def _utc(seconds: int) -> str:
    return f"{_moment(seconds)}Z"


def _moment(seconds: int) -> str:
    """Seconds since 1970-01-01 as the date and time they are, wherever that is."""
    then = datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds)
    return f"{then.year:04}{then:%m%dT%H%M%S}"


def _local(rule: Weekly, day: int) -> str:
    then = date.fromordinal(day)
    minutes = f"{rule.minute // 60:02}{rule.minute % 60:02}00"
    return f"TZID={rule.zone}:{then.year:04}{then:%m%d}T{minutes}"


def _title(machines: Sequence[str], more: str = "") -> str:
    shown = ", ".join(machines[:_SHOWN])
    if len(machines) > _SHOWN:
        shown += f" and {len(machines) - _SHOWN} more"
    return f"SUMMARY:{_text(f'Maintenance: {shown}{more}')}"


# Events.


def _series(one: Series, names: Names) -> Iterator[str]:
    rule = one.rule
    yield f"DTSTART;{_local(rule, rule.first)}"
    yield f"DURATION:PT{rule.seconds}S"
    parts = ["FREQ=WEEKLY", f"INTERVAL={rule.every}", "WKST=MO"]
    parts.append("BYDAY=" + ",".join(_DAYS[day] for day in rule.weekdays))
    # Of days there is a number, wherever their midnights are.
    if rule.until or rule.times:
        parts.append(f"COUNT={weekly.count(rule)}")
    yield "RRULE:" + ";".join(parts)
    for day in rule.skipped:
        yield f"EXDATE;{_local(rule, day)}"
    nodes = (names.node(member.machine) for member in one.members)
    said = [
        member.machine if node is None or isinstance(node, str) else node.name
        for member, node in zip(one.members, nodes, strict=True)
    ]
    machines = [str(machine) for machine in said]
    yield _title(machines)
    about = f"{one.name}: {weekly.weekly_text(rule)} ({rule.zone})"
    yield f"DESCRIPTION:{_text(about + chr(10) + ', '.join(machines))}"
    yield "CATEGORIES:MAINTENANCE"


def _windows(view: View, series: dict[str, Series], names: Names) -> Iterator[list[str]]:
    of = almanac.placed(view)
    known = {one.machine.key: one for one in view.ledger.scheduled}
    nodes = {node.uuid: node.name for node in view.observed.snapshot.nodes.values()}
    replaced: set[tuple[str, int]] = set()
    for window in view.ledger.schedule.windows:
        place = _occurrence(window, of, names)
        event = list(_window(window, [known[m.key] for m in window.machines], nodes))
        one = series.get(place[0]) if place else None
        # One event replaces a day's; where machines were given other times, the rest are others.
        # What had begun when the rule was changed is on no day of it any more.
        if (
            one is not None
            and place is not None
            and place not in replaced
            and weekly.is_day(one.rule, place[1])
        ):
            replaced.add(place)
            yield [f"UID:{one.uid}", f"RECURRENCE-ID;{_local(one.rule, place[1])}", *event]
        else:
            yield [f"UID:{_uid(window)}", *event]


def _occurrence(
    window: Window, of: dict[Identity, tuple[str, int]], names: Names
) -> tuple[str, int] | None:
    found = (of.get(names.identity(machine)) for machine in window.machines)
    return next(filter(None, found), None)


def _uid(window: Window) -> str:
    """The same as long as its machines and its beginning are."""
    keys = sorted(machine.key for machine in window.machines)
    return str(uuid5(NAMESPACE_URL, f"maintd:window:{window.unavailability.start}:{keys}"))


def _window(window: Window, machines: Sequence[Scheduled], nodes: dict[str, str]) -> Iterator[str]:
    when = window.unavailability
    start = when.start // (NANOSECONDS * 1000)
    yield f"DTSTART:{_utc(start)}"
    if when.duration is not None:
        end = (when.start + when.duration) // (NANOSECONDS * 1000)
        # An event without an end is over when it begins; one that ends then is none.
        yield from [f"DTEND:{_utc(end)}"] if end > start else []
    said = [nodes.get(one.node, str(one.machine)) for one in machines]
    down = sum(one.mode is Mode.DOWN for one in machines)
    more = f" ({down} of {len(said)} down)" if down else ""
    yield _title(said, more + (", without an end" if when.duration is None else ""))
    rows = [f"{name}: {one.mode.value}" for name, one in zip(said, machines, strict=True)]
    yield f"DESCRIPTION:{_text(chr(10).join(rows))}"
    yield "CATEGORIES:MAINTENANCE"


# Zones.


def _zone(zone: Zone) -> Iterator[str]:
    """As far as the zone is known, each kind of change with the times at which it is made."""
    yield "BEGIN:VTIMEZONE"
    yield f"TZID:{zone.name}"
    first, *changes = zone.changes
    yield from _observance(first, first.offset, ["19700101T000000"])
    kinds: dict[tuple[int, int, str, bool], list[tuple[Change, str]]] = {}
    before = first.offset
    for change in changes:
        key = before, change.offset, change.name, change.summer
        kinds.setdefault(key, []).append((change, _moment(change.at + before)))
        before = change.offset
    for (was, *_), made in kinds.items():
        yield from _observance(made[0][0], was, [at for _, at in made])
    yield "END:VTIMEZONE"


def _observance(change: Change, was: int, times: Iterable[str]) -> Iterator[str]:
    kind = "DAYLIGHT" if change.summer else "STANDARD"
    first, *more = times
    yield f"BEGIN:{kind}"
    yield f"DTSTART:{first}"
    yield from (f"RDATE:{at}" for at in more)
    yield f"TZOFFSETFROM:{_offset(was)}"
    yield f"TZOFFSETTO:{_offset(change.offset)}"
    yield f"TZNAME:{_text(change.name)}"
    yield f"END:{kind}"


def _offset(seconds: int) -> str:
    sign, left = "-" if seconds < 0 else "+", abs(seconds)
    rest = f"{left % 60:02}" if left % 60 else ""
    return f"{sign}{left // 3600:02}{left % 3600 // 60:02}{rest}"
