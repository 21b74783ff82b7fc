"""Arguments of gnt-maint: times, machines, and options that several verbs share."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, TypeVar, cast

import click

from nodeagent.cli.maint.console.client import NotFound, Refused, Where
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.options import duration, filled
from nodeagent.cli.maint.console.text import harmless, seconds_of, told_name
from nodeagent.cli.usage import SOCKET, together
from nodeagent.model.address import is_address, one_form
from nodeagent.model.short_name import meant
from nodeagent.model.units import Nanoseconds

F = TypeVar("F", bound=Callable[..., Any])
Json = dict[str, Any]
SECOND = 10**9  # nanoseconds
_LAST = 2**63 // SECOND  # the schedule's nanoseconds have 64 bits
_CLOCK = re.compile(r"(?:([A-Za-z]+)(?: |$))?(?:([01]?[0-9]|2[0-3]):([0-5][0-9]))?")
_DATES = "2026-11-22T22:00 or 2026-11-22T22:00Z"
_TO_COME = f"now, +2h, 22:00, tomorrow, 'tomorrow 22:00', saturday, 'sat 22:00', {_DATES}"
_OVER = f"2h, 22:00, today, yesterday, 'yesterday 22:00', saturday, 'sat 22:00', {_DATES}"
_MACHINE = re.compile(r"[^\s/]+")  # a name with a slash would be a series, and never be found again


def moment(context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """Read a time to come, in nanoseconds since the epoch; a callback."""
    if text is None:
        return None
    now = datetime.now(UTC).timestamp()
    seconds = seconds_of(text[1:]) if text.startswith("+") else None
    if seconds is not None and now + seconds < _LAST:
        return round((now + seconds) * SECOND)
    nanoseconds = None if text.startswith("+") else _time(context, option, text, 1)
    if nanoseconds is None:
        raise click.BadParameter(_no_time(text, _TO_COME), context, option)
    return nanoseconds


def past_moment(context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """Read a time that is over, in nanoseconds since the epoch; a callback."""
    if text is None:
        return None
    nanoseconds = _time(context, option, text, -1)
    if nanoseconds is None:
        raise click.BadParameter(_no_time(text, _OVER), context, option)
    return nanoseconds


def length(context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """Read how long a window or a pause lasts, in seconds; a callback."""
    seconds = duration(context, option, text)
    if seconds == 0:
        raise click.BadParameter(f"{text} is too short: write 1s or longer", context, option)
    return seconds


def _no_time(text: str, forms: str) -> str:
    return f"{harmless(text, 40)!r} is not a time: write {forms}"


def _time(context: click.Context, option: click.Parameter, text: str, way: int) -> int | None:
    """Read `now`, a time by the clock (see `_on_clock`), or a date; None for other texts."""
    if text == "now":
        return round(datetime.now(UTC).timestamp() * SECOND)
    try:
        moment = _on_clock(text, way) or datetime.fromisoformat(text)
        why, seconds = _no_moment(moment), round(moment.timestamp())
    except (ValueError, OverflowError):  # not a date, or in a year that no clock shows
        return None
    if why:
        raise click.BadParameter(f"{text}: {why}", context, option)
    if 0 < seconds < _LAST:
        return seconds * SECOND
    why = f"{harmless(text, 40)!r} is not a time between 1970 and 2262"
    raise click.BadParameter(why, context, option)


def _on_clock(text: str, way: int) -> datetime | None:
    """Return when clocks here show 22:00 next, also on a day such as `tomorrow` or `sat`.

    `way` is 1; with -1 it is when they showed it last, also `yesterday`. A day alone means its
    first minute. None if the text is not such a time.
    """
    match = _CLOCK.fullmatch(text)
    if not text or match is None:
        return None
    now = datetime.now()  # noqa: DTZ005
    day, hour, minute = (match[1] or "").lower(), int(match[2] or 0), int(match[3] or 0)
    at = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    if day == "today":
        return at
    if day == ("tomorrow" if way > 0 else "yesterday"):
        return at + timedelta(days=way)
    turn = 1
    if day:
        from nodeagent.maintd.planning.times import weekday_of

        if (weekday := weekday_of(day)) is None:
            return None
        turn = 7
        at += timedelta(days=way * (way * (weekday - now.weekday()) % 7))
    there = at > now if way > 0 else at <= now
    return at if there else at + timedelta(days=way * turn)


def _no_moment(moment: datetime) -> str:
    """Say why a local time without a zone is ambiguous or skipped: clocks change twice a year."""
    if moment.tzinfo is not None:
        return ""
    first, second = (moment.replace(fold=fold).timestamp() for fold in (0, 1))
    if first == second:
        return ""
    exists = datetime.fromtimestamp(first, UTC).astimezone().replace(tzinfo=None) == moment
    why = "the clock shows it twice" if exists else "the clock never shows it"
    return f"{why}: add the zone, as in +01:00"


def machine(text: str) -> Json:
    """Return a machine as the schedule has it; a usage error for an impossible name."""
    if not _MACHINE.fullmatch(text):
        raise click.UsageError(f"{harmless(text, 40)!r} is not a name of a machine, nor an address")
    return {"ip": text} if is_address(text) else {"hostname": text}


def machine_of(calendar: Json, name: str) -> Json:
    """Return the machine of that name in one of its windows, from the answer of `/1/windows`.

    The name is its host name, its address or its node's name; or the part before the first dot of
    one of these. NotFound; Refused: several match.
    """
    return _windows_of(calendar, name)[0][1]


def window_of(calendar: Json, name: str, at: Nanoseconds | None) -> tuple[Json, Json]:
    """Return the window of the machine of that name, and the machine in it.

    If it is in several, `at` (nanoseconds) is a time within the window. Else as `machine_of`.
    """
    windows = _windows_of(calendar, name)
    if at is not None:
        windows = [
            (row, machine_row) for row, machine_row in windows if _lasts_at(row, at / SECOND)
        ]
        if not windows:
            raise NotFound(f"{name} is in no window at {when(at / SECOND)}")
    if len(windows) > 1:
        starts = [when(row["start"]) for row, _ in windows]
        several = f"{name} is in windows from {' and '.join(starts)}"
        raise Refused(f"{several}: choose one by a time in it, such as --at '{starts[0]}'")
    return windows[0]


def most_urgent(calendar: Json, name: str) -> tuple[Json, Json]:
    """Return the window that a machine is down for, or else would go down for, and the machine.

    Else as `machine_of`.
    """

    def urgency(pair: tuple[Json, Json]) -> tuple[bool, bool, float]:
        row, machine_row = pair
        return machine_row["mode"] != "down", not machine_row["begun"], row["start"]

    return min(_windows_of(calendar, name), key=urgency)


def _windows_of(calendar: Json, name: str) -> list[tuple[Json, Json]]:
    """Return the windows of one machine, with the machine in each, by their start."""
    if not name:  # an empty variable of a script names nobody
        raise click.UsageError("the name of a machine is empty")
    rows = [(row, machine) for row in calendar["windows"] for machine in row["machines"]]
    address, hosts = one_form(name.lower()), [host for _, each in rows for host in _hosts(each)]
    called = set(meant(name, hosts))
    windows = [
        (row, machine_row)
        for row, machine_row in rows
        if called.intersection(_hosts(machine_row)) or machine_row["ip"] == address
    ]
    if not windows:
        raise NotFound(f"{name} is in no window: see gnt-maint window list")
    machines = dict.fromkeys(told_name(machine_row) for _, machine_row in windows)
    if len(machines) > 1:
        raise Refused(f"{name} is short for {' and '.join(machines)}")
    return windows


def _lasts_at(row: Json, at: float) -> bool:
    """Check whether a window lasts at a time (unix seconds), to the second."""
    if int(row["start"]) > at:
        return False
    return row["duration"] is None or at < row["start"] + row["duration"]


def _hosts(machine_row: Json) -> tuple[str, ...]:
    return machine_row["hostname"].lower(), (machine_row["node"] or "").lower()


def as_scheduled(machine_row: Json) -> Json:
    """Return a reported machine as the schedule has it."""
    return {key: machine_row[key] for key in ("hostname", "ip") if machine_row[key]}


START = click.option(
    "--start",
    metavar="TIME",
    callback=moment,
    help="Start: now, +2h, 22:00, tomorrow, saturday, 'sat 22:00', 2026-11-22T22:00.",
)
AT = click.option(
    "--at",
    metavar="TIME",
    callback=moment,
    help="Choose the window of this time, where the machine is in several.",
)
LASTING = click.option(
    "--duration", "--for", "lasting", metavar="DURATION", callback=length, help="Length."
)


def _machines(kind: str) -> Callable[[F], F]:
    return click.argument(
        "machines",
        nargs=-1,
        required=True,
        metavar="MACHINE...",
        shell_complete=complete(kind),
    )


NODE = click.argument("node", callback=filled, shell_complete=complete("node"))
TIMEOUT = click.option(
    "--timeout", metavar="DURATION", callback=duration, help="Time limit: 90s, 10m, 2h."
)
MACHINES, PLANNED = _machines("node"), _machines("window")
MACHINE = click.argument("name", metavar="MACHINE|SERIES", shell_complete=complete("window"))


def owners_options(until: str) -> Callable[[F], F]:
    """Give a verb the options for the weight of owners' answers; `until` is help of the deadline.

    The verb gets them as `owners`: the settings that are given, as the schedule has them under
    `/1/`.
    """
    options = together(
        click.option(
            "--policy",
            type=click.Choice(["advisory", "veto", "require-accept"]),
            help="How owners' answers count: advisory (default), veto, require-accept.",
        ),
        click.option("--deadline", metavar="DURATION", callback=duration, help=until),
        click.option(
            "--at-deadline",
            type=click.Choice(["hold", "proceed"]),
            help="With require-accept: after the deadline keep waiting (default), or proceed.",
        ),
    )

    def decorate(verb: F) -> F:
        @wraps(verb)
        def run(
            *args: Any,
            policy: str | None,
            deadline: int | None,
            at_deadline: str | None,
            **others: Any,
        ) -> Any:
            settings = {"policy": policy, "deadline_seconds": deadline, "at_deadline": at_deadline}
            owners = {key: value for key, value in settings.items() if value is not None}
            return verb(*args, owners=owners, **others)

        return options(cast(F, run))

    return decorate


def with_policy(owners: Json) -> Json:
    """Return the settings of new maintenance; a usage error if they lack the policy."""
    if owners and "policy" not in owners:
        raise click.UsageError("--deadline and --at-deadline go with --policy")
    return owners


def when(moment: float) -> str:
    """Return a moment in local time, with its offset."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(moment))
    except (OverflowError, ValueError, OSError):  # not in any year that a clock knows
        return f"unix second {moment:.0f}"


luxi_socket = click.option(
    "--luxi",
    metavar="SOCKET",
    type=SOCKET,
    help="Ganeti's LUXI socket [from maintd's settings].",
)


def luxi_path(where: Where, given: str | None) -> str:
    """Return the path of Ganeti's socket: by command line, the daemon's settings or default."""
    from nodeagent.cluster.ganeti.luxi import SOCKET

    if given is not None:
        return given
    settings = where.settings()
    return SOCKET if settings is None else settings.cluster.luxi
