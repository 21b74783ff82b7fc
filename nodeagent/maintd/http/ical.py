"""The windows, series and the roll as iCalendar (RFC 5545), for calendars of people. Pure.

A series is one event with its rule, the days it skips, and the rules of its zone. An occurrence
that is a window already replaces its day with its present state. All else is in UTC.
"""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from uuid import NAMESPACE_URL, uuid5

from icalendar import Calendar, Event, Timezone, TimezoneDaylight, TimezoneStandard

from nodeagent.maintd.http.calendar import Windows
from nodeagent.maintd.http.view import View
from nodeagent.maintd.planning.departures import returns_at
from nodeagent.maintd.planning.names import Names
from nodeagent.maintd.planning.times import moment
from nodeagent.maintd.windows import recurrence
from nodeagent.model.roll import Phase
from nodeagent.model.series import Series, Weekly, Zone
from nodeagent.model.units import Ms, Seconds, in_seconds
from nodeagent.model.window import NANOSECONDS, Mode, Scheduled, Window

KIND = "text/calendar; charset=utf-8"
_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_SHOWN = 20  # machines in a title
_HALF_A_DAY = 43_200  # seconds


def calendar(view: View) -> bytes:
    observed = view.observed
    written = Calendar()
    written.add("version", "2.0")
    written.add("prodid", "-//nodeagent//maintd//EN")
    written.add("calscale", "GREGORIAN")
    written.add("x-wr-calname", _text(f"{observed.snapshot.cluster}: maintenance"))
    known = [series for series in view.ledger.series if series.rule.zone in observed.zones]
    for name in sorted({series.rule.zone for series in known}):
        written.add_component(_zone(observed.zones[name]))
    names = Names(observed.snapshot)
    events = [_series(series, names, observed.zones[series.rule.zone]) for series in known]
    windows = _windows(view, {series.name: series for series in known})
    for event in (*events, *windows, *_roll(view)):
        event.add("dtstamp", moment(in_seconds(view.at)))
        event.add("categories", "MAINTENANCE")
        written.add_component(event)
    text: bytes = written.to_ical()
    return text


def _text(value: str) -> str:
    """A text without unprintable characters."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in value)


def _add_local(event: Event, name: str, rule: Weekly, day: int) -> None:
    at = datetime.combine(date.fromordinal(day), time(*divmod(rule.minute, 60)))
    event.add(name, at, parameters={"TZID": rule.zone})


def _tell(event: Event, machines: Sequence[str], more: str, about: str) -> None:
    shown = ", ".join(machines[:_SHOWN])
    if len(machines) > _SHOWN:
        shown += f" and {len(machines) - _SHOWN} more"
    event.add("summary", _text(f"Maintenance: {shown}{more}"))
    event.add("description", _text(about))


# Events.


def _series(series: Series, names: Names, zone: Zone) -> Event:
    rule, event = series.rule, Event()
    event.add("uid", series.uid)
    _add_local(event, "dtstart", rule, rule.first)
    event.add("duration", timedelta(seconds=rule.seconds))
    parts = {"freq": "weekly", "interval": rule.every, "wkst": "MO"}
    parts["byday"] = [_DAYS[day] for day in rule.weekdays]
    if (last := recurrence.last_day(rule)) < recurrence.LAST_DAY:
        # Whatever becomes of the zone until then, it is after the last day's and before the next.
        parts["until"] = moment(Seconds(recurrence.start(rule, zone, last) + _HALF_A_DAY))
    event.add("rrule", parts)
    for day in rule.skipped:
        _add_local(event, "exdate", rule, day)
    nodes = (names.node(member.machine) for member in series.members)
    nodes_or_machines = [
        member.machine if node is None or isinstance(node, str) else node.name
        for member, node in zip(series.members, nodes, strict=True)
    ]
    machines = [str(machine) for machine in nodes_or_machines]
    about = f"{series.name}: {recurrence.weekly_text(rule)} ({rule.zone})"
    _tell(event, machines, "", about + "\n" + ", ".join(machines))
    return event


def _windows(view: View, series: dict[str, Series]) -> Iterator[Event]:
    windows = Windows(view)
    nodes = {node.uuid: node.name for node in view.observed.snapshot.nodes.values()}
    replaced: set[tuple[str, int]] = set()
    for window in view.ledger.schedule.windows:
        place = windows.occurrence(window)
        event = _window(window, windows.machines(window), nodes)
        weekly = series.get(place[0]) if place else None
        # One event replaces a day's; machines with other times get events of their own. An
        # occurrence that started before the rule was changed is on no day of it any more.
        if (
            weekly is not None
            and place is not None
            and place not in replaced
            and recurrence.is_day(weekly.rule, place[1])
        ):
            replaced.add(place)
            event.add("uid", weekly.uid)
            _add_local(event, "recurrence-id", weekly.rule, place[1])
        else:
            event.add("uid", _uid(window))
        yield event


def _uid(window: Window) -> str:
    """An id that stays the same as long as its machines and its start do."""
    keys = sorted(machine.key for machine in window.machines)
    return str(uuid5(NAMESPACE_URL, f"maintd:window:{window.unavailability.start}:{keys}"))


def _window(window: Window, machines: Sequence[Scheduled], nodes: dict[str, str]) -> Event:
    when, event = window.unavailability, Event()
    start = when.start // (NANOSECONDS * 1000)
    event.add("dtstart", moment(Seconds(start)))
    if when.duration is not None:
        end = (when.start + when.duration) // (NANOSECONDS * 1000)
        # An event without an end ends at its start; an end at the start is invalid.
        if end > start:
            event.add("dtend", moment(Seconds(end)))
    names = [nodes.get(scheduled.node, str(scheduled.machine)) for scheduled in machines]
    down = sum(scheduled.mode is Mode.DOWN for scheduled in machines)
    more = f" ({down} of {len(names)} down)" if down else ""
    rows = [
        f"{name}: {scheduled.mode.value}" for name, scheduled in zip(names, machines, strict=True)
    ]
    _tell(
        event, names, more + (", without an end" if when.duration is None else ""), "\n".join(rows)
    )
    return event


def _roll(view: View) -> Iterator[Event]:
    """The rolling maintenance, until the end that is expected; the last one until its end."""
    roll = view.ledger.roll
    if roll is None:
        return
    event, cluster = Event(), view.observed.snapshot.cluster
    event.add("uid", str(uuid5(NAMESPACE_URL, f"maintd:roll:{cluster}:{roll.number}")))
    event.add("dtstart", moment(in_seconds(roll.at)))
    back = returns_at(roll, view.at)
    end = roll.over_at or max(back.values(), default=Ms(0))
    if end > roll.at:
        event.add("dtend", moment(in_seconds(end)))
    done = sum(roll_node.phase is Phase.DONE for roll_node in roll.nodes)
    progress = f"{roll.terms.command}, {done} of {len(roll.nodes)} nodes done"
    event.add("summary", _text(f"Rolling maintenance: {progress}"))
    rows = [f"{roll_node.name}: {roll_node.phase.value}" for roll_node in roll.nodes]
    event.add("description", _text("\n".join(rows)))
    yield event


# Zones.


def _zone(zone: Zone) -> Timezone:
    """The known years of a zone: each change of its clocks."""
    written = Timezone()
    written.add("tzid", zone.name)
    before = zone.changes[0].offset
    for change in zone.changes:
        # The first one holds for all the years before, too.
        local = Seconds(0) if change is zone.changes[0] else change.at + before
        observance = TimezoneDaylight() if change.summer else TimezoneStandard()
        observance.add("dtstart", moment(local).replace(tzinfo=None))
        observance.add("tzoffsetfrom", timedelta(seconds=before))
        observance.add("tzoffsetto", timedelta(seconds=change.offset))
        observance.add("tzname", _text(change.name))
        written.add_component(observance)
        before = change.offset
    return written
