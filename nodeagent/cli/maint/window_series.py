"""Weekly series of windows: the requests and lists of gnt-maint window."""

import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from nodeagent.cli.maint.console.client import NotFound, Reach
from nodeagent.cli.maint.console.options import Whole, filled
from nodeagent.cli.maint.console.screen import Json, Screen
from nodeagent.cli.maint.console.text import age, harmless, told_name
from nodeagent.cli.usage import together

_PREFIX = "series/"
_ZONES = "/zoneinfo/"
COLUMNS = ("series", "when", "zone", "for", "next", "machines", "remark")


# Options.


def _a_number(context: click.Context, option: click.Parameter, text: str | None) -> Any:
    if text is None or text == "never":
        return text
    if not (text.isascii() and text.isdecimal() and len(text) < 7 and int(text) > 0):
        why = f"{harmless(text, 40)!r} is not a number of times"
        raise click.BadParameter(why, context, option)
    return int(text)


rule_options = together(
    click.option(
        "--weekly",
        metavar="'DAY,... HH:MM'",
        callback=filled,
        help="Repeat every week, as in 'sun 02:00' or 'mon,thu 22:30'.",
    ),
    click.option("--zone", metavar="ZONE", help="Time zone of the series: Europe/Zurich."),
    click.option("--every", metavar="N", type=Whole(1, 520), help="Use only every Nth week."),
    click.option("--from", "begins", metavar="DAY", callback=filled, help="First day."),
    click.option("--until", metavar="DAY", callback=filled, help="Last day; never: no last day."),
    click.option("--times", metavar="N", callback=_a_number, help="Number of windows; never: any."),
)


def rule(**options: Any) -> Json:
    """Return the rule in the options, as maintd reads it."""
    names = {"begins": "from", "lasting": "duration"}
    return {names.get(key, key): value for key, value in options.items() if value not in (None, ())}


def zone_here() -> str:
    """Return this place's time zone by name; a usage error if it is unknown."""
    name = os.environ.get("TZ", "").removeprefix(":")
    if not name:
        try:
            name = os.path.realpath("/etc/localtime").partition(_ZONES)[2]
        except OSError:
            name = ""
    if not name or name.startswith("/"):
        raise click.UsageError("--zone is missing, as in --zone Europe/Zurich")
    return "UTC" if name in ("Etc/UTC", "UCT") else name


# Requests.


def is_series(name: str) -> bool:
    return name.startswith(_PREFIX)


def target(name: str) -> str:
    number = name.removeprefix(_PREFIX)
    if not (number.isascii() and number.isdecimal() and len(number) < 10):
        raise NotFound(f"there is no {name}: see gnt-maint window list")
    return f"/1/series/{int(number)}"


def change(reach: Reach, method: str, where: str, body: Json | None) -> Json:
    """Request a change; return the windows and series after it."""
    reach.change(method, where, body)
    calendar: Json = reach.plans("/1/windows", as_json=False)
    return calendar


def find(calendar: Json, name: str) -> Json:
    rows: list[Json] = calendar["series"]
    for row in rows:
        if row["name"] == name:
            return row
    raise NotFound(f"there is no {name}: see gnt-maint window list")


def going_on(before: Json, after: Json) -> list[str]:
    """Return the series that have lost an occurrence and go on."""
    lines: list[str] = []
    for old in before["series"]:
        new = next((row for row in after["series"] if row["uid"] == old["uid"]), None)
        if new is not None and _planned(old) - _planned(new):
            lines.append(f"{new['name']} goes on; {_next(new) or 'there is no next'}.")
    return lines


def twins(after: Json, name: str) -> Iterator[str]:
    """Yield series with machines of this one at its times: perhaps entered twice."""
    new = find(after, name)
    for old in after["series"]:
        theirs = [told_name(machine) for machine in old["machines"]]
        both = [
            machine_name
            for machine in new["machines"]
            if (machine_name := told_name(machine)) in theirs
        ]
        if old is not new and both and _times(old) & _times(new):
            why = f"{old['name']} has {', '.join(both)} at the same times"
            yield f"{why}: one of them is enough (gnt-maint window cancel {name})."


def _times(row: Json) -> set[tuple[int, int]]:
    return {
        (occurrence["start"], occurrence["end"])
        for occurrence in row["next"]
        if not occurrence["skipped"]
    }


def _planned(row: Json) -> set[tuple[str, str]]:
    return {
        (told_name(machine), machine["planned"])
        for machine in row["machines"]
        if machine["planned"]
    }


def _next(row: Json) -> str:
    coming = next((occurrence for occurrence in row["next"] if not occurrence["skipped"]), None)
    return f"next: {local(coming)}" if coming else ""


# Output.


def listed(row: Json) -> tuple[object, ...]:
    coming = next((occurrence for occurrence in row["next"] if not occurrence["skipped"]), None)
    return (
        row["name"],
        _when(row),
        row["zone"],
        age(row["duration"]),
        local(coming) if coming else "",
        ", ".join(told_name(machine) for machine in row["machines"]),
        _remark(row),
    )


def _remark(row: Json) -> str:
    if row["trouble"]:
        return str(row["trouble"])
    late = [machine["late"] for machine in row["machines"] if machine["late"]]
    waits = [occurrence for occurrence in late if not occurrence["missed"]]
    if waits:
        return f"{waits[0]['day']} waits: {waits[0]['why']}"
    return "" if row["next"] else "over"


def show(on: Screen, row: Json) -> None:
    on.facts(
        [
            ("when", f"{_when(row)} ({row['zone']})"),
            ("for", age(row["duration"])),
            ("from", row["from"]),
            *([("until", row["until"])] if row["until"] else []),
            *([("times", row["times"])] if row["times"] else []),
            ("asked by", row["who"]),
            *([("trouble", row["trouble"])] if row["trouble"] else []),
        ]
    )
    on.heading("Next")
    on.table(
        ("day", "from", "until", ""),
        [
            (
                occurrence["day"],
                local(occurrence),
                local(occurrence, "local_end"),
                _state(occurrence),
            )
            for occurrence in row["next"]
        ],
    )
    on.heading("Machines")
    on.table(
        ("machine", "planned", "remark"),
        [
            (told_name(machine), machine["planned"] or "", _late(machine["late"]))
            for machine in row["machines"]
        ],
    )


def _when(row: Json) -> str:
    weeks = "" if row["every"] == 1 else f", every {row['every']} weeks"
    return f"{row['weekly']}{weeks}"


def local(occurrence: Json, key: str = "local") -> str:
    """Return a time on the clocks of the series' own zone, in the notation of all times."""
    return f"{datetime.fromisoformat(occurrence[key]):%Y-%m-%d %H:%M:%S %z}"


def _state(occurrence: Json) -> str:
    return "skipped" if occurrence["skipped"] else "planned" if occurrence["planned"] else ""


def _late(late: Json | None) -> str:
    if late is None:
        return ""
    return f"{late['day']} {'missed' if late['missed'] else 'waits'}: {late['why']}"
