"""Four weeks of maintenance, day by day in UTC, as the status page shows them. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from nodeagent.maintd.planning.times import moment
from nodeagent.maintd.windows.recurrence import EPOCH

Json = dict[str, Any]
WEEKS = 4
MOST = 4  # entries of a day
_DAY = 86_400
_NAMES = 2  # machines in an entry
_TOLD = 20  # machines in a title
KINDS = {
    "planned": "of a series, no window yet",
    "window": "planned",
    "begun": "being evacuated",
    "down": "down",
    "late": "overdue",
    "skipped": "canceled",
}


@dataclass(frozen=True, slots=True)
class DayEntry:
    """A window or an occurrence on one day: its short text, and its full title."""

    kind: str
    time: str
    machines: str
    title: str


@dataclass(frozen=True, slots=True)
class Day:
    """One day; `label` is its name beside others, `alone` without. `more` entries are not shown."""

    iso: str
    label: str
    alone: str
    is_today: bool
    is_past: bool
    entries: tuple[DayEntry, ...]
    more: int


@dataclass(frozen=True, slots=True)
class Span:
    """A period from start to end (unix seconds; None: without an end)."""

    start: float
    end: float | None
    kind: str
    machines: tuple[str, ...]
    about: str


def weeks(calendar: Json, roll: Json | None, at: float) -> list[list[Day]]:
    """The weeks from Monday of the present one on; `at` is in unix seconds."""
    today = int(at // _DAY) + EPOCH
    monday = today - (today - 1) % 7
    spans = sorted(
        (
            span
            for span in (*spans_of(calendar), *_turns(roll, at))
            if span.start < (monday - EPOCH + 7 * WEEKS) * _DAY
        ),
        key=lambda span: (span.start, span.machines),
    )
    return [
        [_day(monday + 7 * week + place, today, spans) for place in range(7)]
        for week in range(WEEKS)
    ]


def spans_of(calendar: Json) -> Iterator[Span]:
    """The windows, and occurrences of series that are not windows yet."""
    for row in calendar["windows"]:
        end = None if row["duration"] is None else row["start"] + row["duration"]
        names = tuple(machine_name(machine) for machine in row["machines"])
        about = f", {row['series']}" if row["series"] else ""
        yield Span(row["start"], end, kind_of(row), names, about)
    for row in calendar["series"]:
        names = tuple(machine_name(machine) for machine in row["machines"])
        for occurrence in row["next"]:
            if not occurrence["planned"]:
                kind = "skipped" if occurrence["skipped"] else "planned"
                yield Span(occurrence["start"], occurrence["end"], kind, names, f", {row['name']}")


def _turns(roll: Json | None, at: float) -> Iterator[Span]:
    """The rolling maintenance, until the end that is expected, or now."""
    if roll is not None:
        kind = "late" if roll["state"] == "stopped" else "begun"
        end = roll["over-at"] or roll["returns-at"] or at
        names = tuple(node["name"] for node in roll["nodes"])
        yield Span(roll["at"], end, kind, names, f", roll of {roll['command']}")


def kind_of(row: Json) -> str:
    """A window's state: the most urgent of its machines' states."""
    machines = row["machines"]
    if any(machine["overdue"] for machine in machines):
        return "late"
    if any(machine["mode"] == "down" for machine in machines):
        return "down"
    return "begun" if any(machine["begun"] for machine in machines) else "window"


def machine_name(machine: Json) -> str:
    return str(machine["node"] or machine["hostname"] or machine["ip"])


def _day(day: int, today: int, spans: Sequence[Span]) -> Day:
    begin = (day - EPOCH) * _DAY
    spans_of_day = [span for span in spans if _is_on(span, begin)]
    shown = tuple(_entry(span, begin) for span in spans_of_day[:MOST])
    when = date.fromordinal(day)
    label = f"{when.day}"
    if when.day == 1 or day in (today, today - (today - 1) % 7):
        label += f" {_MONTHS[when.month - 1]}"
    alone = f"{_DAYS[when.weekday()]} {when.day} {_MONTHS[when.month - 1]}"
    more = len(spans_of_day) - len(shown)
    return Day(when.isoformat(), label, alone, day == today, day < today, shown, more)


# In English, like the rest of the page, whatever the daemon's locale.
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _is_on(span: Span, begin: float) -> bool:
    if span.start >= begin + _DAY:
        return False
    end = span.start + 1 if span.end == span.start else span.end
    return end is None or end > begin


def _entry(span: Span, begin: float) -> DayEntry:
    names = [name.partition(".")[0] or name for name in span.machines]
    if any(name.replace(".", "").isdecimal() for name in span.machines):
        names = list(span.machines)  # addresses
    shown = ", ".join(names[:_NAMES])
    if len(names) > _NAMES:
        shown += f" +{len(names) - _NAMES}"
    until = "without an end" if span.end is None else f"until {_stamp(span.end)}"
    full_names = ", ".join(span.machines[:_TOLD])
    if len(span.machines) > _TOLD:
        full_names += f" and {len(span.machines) - _TOLD} more"
    title = f"{full_names}: {_stamp(span.start)} {until} UTC, {KINDS[span.kind]}"
    return DayEntry(span.kind, _time(span, begin), shown, title + span.about)


def _time(span: Span, begin: float) -> str:
    """The part of a window on a day: it may have started before, and continue after it."""
    from_before = span.start < begin
    goes_on = span.end is None or span.end > begin + _DAY
    if from_before and goes_on:
        return "all day"
    if from_before:
        assert span.end is not None
        return f"to {_clock(span.end)}"
    return f"from {_clock(span.start)}" if goes_on else _clock(span.start)


def _clock(seconds: float) -> str:
    return moment(seconds).strftime("%H:%M")


def _stamp(seconds: float) -> str:
    return moment(seconds).replace(microsecond=0, tzinfo=None).isoformat(" ", "minutes")


# Windows below the weeks.


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    state: str


def stages(machine: Json, state: str, *, begun: bool) -> list[Stage]:
    """Stages of a machine in a window; `state` is its node's; `begun`: the window has begun."""
    out = state in ("drained", "offline")
    down, empty = machine["mode"] == "down", machine["begun"] and not machine["left"]
    to_move = f" ({machine['left']} to move)" if machine["left"] else ""
    rows = [
        ("drained", "drain", machine["begun"] and out),
        ("evacuated", f"evacuate{to_move}", empty),
        ("down", "take down", down and state == "offline"),
    ]
    machine_stages: list[Stage] = []
    due = machine["begun"] or down
    for done_name, doing, done in rows:
        if done:
            machine_stages.append(Stage(done_name, "done"))
        elif due and all(stage.state == "done" for stage in machine_stages):
            waits = done_name == "down" and not down and not begun
            machine_stages.append(
                Stage(doing, "todo" if waits else "stopped" if machine["held"] else "now")
            )
        else:
            machine_stages.append(Stage(doing, "todo"))
    return [*machine_stages, Stage("up", "todo")]
