"""gnt-maint window: planning when machines will not be there, and telling that they go and come."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import click

from nodeagent.cli.maint import window_series as series
from nodeagent.cli.maint.console.arguments import (
    LASTING,
    MACHINE,
    MACHINES,
    SECOND,
    START,
    as_scheduled,
    machine,
    machine_of,
    owners_of,
    owners_options,
    told_name,
)
from nodeagent.cli.maint.console.client import NotFound, Refused, Stale, Where
from nodeagent.cli.maint.console.options import as_json, cli
from nodeagent.cli.maint.console.screen import emit, progress, screen
from nodeagent.cli.maint.console.text import when

Json = dict[str, Any]
_TRIES = 5  # while others change the schedule too
_BY_NAME = (
    ", and it is repaired all the same if it is reported broken:"
    " only its address, or its serial number, would tell that it is this one"
)


@cli.group()
def window() -> None:
    """Plan maintenance: nodes are emptied before it begins.

    A window is named by any of its machines. A machine is a node's name or an IPv4 address. Windows
    that come again every week are a series, and named series/N.
    """


def _change(where: Where, change: Callable[[Json, Json], None], done: str, *, as_json: bool) -> int:
    """Change the schedule as it is; as often as somebody else has changed it meanwhile.

    `change` is given the schedule, and all that is told of its windows.
    """
    reach = where.reach()
    with progress(quiet=True) as told:
        for turn in range(1, _TRIES + 1):
            calendar = reach.get("/1/windows")
            schedule = calendar["schedule"]
            change(schedule, calendar)
            told.tell("waiting for the round that answers")
            try:
                reach.put("/1/maintenance/schedule", schedule, calendar["version"])
            except Stale:
                if turn == _TRIES:
                    raise
            else:
                break
    return _told(calendar, reach.get("/1/windows"), done, as_json=as_json)


def _told(
    before: Json | None, after: Json, done: str, more: Iterable[str] = (), *, as_json: bool
) -> int:
    """Whatever a window of a series was changed to, the series is not."""
    if as_json:
        emit(after)
        return 0
    if before:
        more = (*more, *series.going_on(before, after), *_idle(before, after))
    for line in (done, *more):
        screen().line(line)
    return 0


def _idle(before: Json, after: Json) -> Iterator[str]:
    """Machines that have come, and that nothing is done for: somebody has mistyped, it may be."""
    known = [as_scheduled(one) for row in before["windows"] for one in row["machines"]]
    there = [(row["duration"], one) for row in after["windows"] for one in row["machines"]]
    for lasting, one in there:
        if as_scheduled(one) in known:
            continue
        if not one["node"]:
            stranger = f"{told_name(one)} is no node of this cluster: nothing is emptied for it"
            yield f"{stranger}{'' if one['ip'] else _BY_NAME}."
        elif lasting is not None and one["overdue"] >= lasting:
            yield f"{told_name(one)}'s window is over already: nothing is emptied for it."


def _find(schedule: Json, calendar: Json, name: str) -> tuple[Json, Json]:
    """The window that a machine is in, and that machine, as the schedule has them."""
    one = as_scheduled(machine_of(calendar, name))
    row = next((row for row in schedule["windows"] if one in row["machine_ids"]), None)
    if row is None:
        raise NotFound(f"{name} is in no window any more")
    return row, one


@window.command()
@MACHINES
@START
@LASTING
@owners_options
@series.rule_options
@as_json
@click.pass_obj
def add(
    where: Where,
    /,
    machines: Sequence[str],
    *,
    start: int | None,
    lasting: int | None,
    policy: str | None,
    deadline: int | None,
    at_deadline: str | None,
    as_json: bool,
    **weekly: Any,
) -> int:
    """Have a window of these machines, once or every week.

    Without a duration one that begins at --start has no end. Those of a series have the time of
    the clocks of its zone, and their next is among the windows once it is near.
    """
    said, owners = series.rule(**weekly), owners_of(policy, deadline, at_deadline)
    if policy is None and owners:
        raise click.UsageError("--deadline and --at-deadline go with --policy")
    if (start is None) == ("weekly" not in said):
        raise click.UsageError("--start or --weekly must be given, and one of them alone")
    if start is None:
        said |= {"owners": owners} if owners else {}
        return _add_series(where, machines, lasting, said, as_json=as_json)
    if said:
        raise click.UsageError(f"--{next(iter(said))} goes with --weekly")
    when_: Json = {"start": {"nanoseconds": start}}
    if lasting is not None:
        when_["duration"] = {"nanoseconds": lasting * SECOND}
    new: Json = {"machine_ids": [machine(name) for name in machines], "unavailability": when_}
    if owners:
        new["owners"] = owners

    def change(schedule: Json, _: Json) -> None:
        schedule.setdefault("windows", []).append(new)

    until = "" if lasting is None else f" until {when(start / SECOND + lasting)}"
    done = f"Planned: {', '.join(machines)} from {when(start / SECOND)}{until}."
    return _change(where, change, done, as_json=as_json)


def _add_series(
    where: Where, machines: Sequence[str], lasting: int | None, said: Json, *, as_json: bool
) -> int:
    if lasting is None:
        raise click.UsageError("--for is missing: each of a series has an end")
    if "never" in (said.get("until"), said.get("times")):
        raise click.UsageError("never is what it is without --until and --times")
    said = {"zone": series.zone_here()} | said
    body = {"machines": list(machines), "duration": lasting, **said}
    after = series.change(where.reach(), "POST", "/1/series", body)
    row = after["series"][-1]
    first = row["next"][0]["local"].replace("T", " ") if row["next"] else "never"
    done = f"Planned: {row['name']}, {row['weekly']} ({row['zone']}), first {first}."
    return _told(None, after, done, series.twins(after, row["name"]), as_json=as_json)


@window.command()
@MACHINE
@START
@LASTING
@series.rule_options
@click.option(
    "--keep",
    metavar="DAY",
    multiple=True,
    callback=series.days,
    help="Have a series on that day after all.",
)
@click.option("--endless", is_flag=True, help="It has no end.")
@click.option("--add", "more", metavar="MACHINE", multiple=True, help="A machine more.")
@click.option("--remove", "less", metavar="MACHINE", multiple=True, help="A machine less.")
@owners_options
@as_json
@click.pass_obj
def edit(
    where: Where,
    /,
    name: str,
    *,
    start: int | None,
    lasting: int | None,
    endless: bool,
    more: Sequence[str],
    less: Sequence[str],
    policy: str | None,
    deadline: int | None,
    at_deadline: str | None,
    as_json: bool,
    **weekly: Any,
) -> int:
    """Change a series, or the window that a machine is in; work that has stopped there goes on.

    What is changed of a window that is one of a series is changed of this one alone.
    """
    rule, said = series.rule(**weekly), owners_of(policy, deadline, at_deadline)
    if series.is_series(name):
        if start is not None or endless:
            raise click.UsageError("--start and --endless are of one window, not of a series")
        body = series.rule(lasting=lasting, add=more, remove=less) | rule
        if not (body or said):
            raise click.UsageError("what is to be changed?")
        reach = where.reach()
        if said:
            there = series.find(reach.get("/1/windows"), name)["owners"]
            body["owners"] = _kept(there, policy) | said
        after = series.change(reach, "POST", series.target(name), body)
        return _told(None, after, f"Changed: {name}.", as_json=as_json)
    if rule:
        raise click.UsageError(f"--{next(iter(rule))} is of a series, and {name} is none")
    if endless and lasting is not None:
        raise click.UsageError("--duration and --endless are two ends: name one")
    if start is None and lasting is None and not (endless or more or less or said):
        raise click.UsageError("what is to be changed?")

    def change(schedule: Json, calendar: Json) -> None:
        row, _ = _find(schedule, calendar, name)
        row["owners"] = _kept(machine_of(calendar, name), policy) | said
        when_, machines = row["unavailability"], row["machine_ids"]
        if start is not None:
            when_["start"] = {"nanoseconds": start}
        if lasting is not None:
            when_["duration"] = {"nanoseconds": lasting * SECOND}
        if endless:
            when_.pop("duration", None)
        for gone in less:
            there, one = _find(schedule, calendar, gone)
            if there is not row:
                raise NotFound(f"{gone} is in another window")
            machines.remove(one)
        machines += [machine(new) for new in more]
        if not machines:
            raise Refused(f"no machine would be left: gnt-maint window cancel {name} instead")

    return _change(where, change, f"Changed: the window of {name}.", as_json=as_json)


def _kept(one: Json, policy: str | None) -> Json:
    """What the owners' answers weigh there now, as far as another policy leaves of it."""
    kept = ("deadline_seconds",) if policy else ("policy", "deadline_seconds", "at_deadline")
    return {key: one[key] for key in kept if key in one}


@window.command()
@MACHINE
@click.option(
    "--on",
    metavar="DAY",
    multiple=True,
    callback=series.days,
    help="Only what is to be on that day of a series.",
)
@as_json
@click.pass_obj
def cancel(where: Where, name: str, *, on: Sequence[str], as_json: bool) -> int:
    """Cancel a series, or the window that a machine is in; its nodes are put back as they were.

    Of a window that is one of a series this one alone; the series goes on.
    """
    if series.is_series(name):
        ways: tuple[str, Json | None] = ("POST", {"skip": list(on)}) if on else ("DELETE", None)
        after = series.change(where.reach(), ways[0], series.target(name), ways[1])
        what = f"{name} on {', '.join(on)}; it goes on" if on else name
        return _told(None, after, f"Canceled: {what}.", as_json=as_json)
    if on:
        raise click.UsageError(f"--on is of a series, and {name} is none")

    def change(schedule: Json, calendar: Json) -> None:
        row, _ = _find(schedule, calendar, name)
        schedule["windows"].remove(row)

    return _change(where, change, f"Canceled: the window of {name}.", as_json=as_json)


def _tell_modes(where: Where, path: str, names: Sequence[str], done: str, *, as_json: bool) -> int:
    reach = where.reach()
    before = reach.get("/1/windows")
    with progress(quiet=True) as told:
        told.tell("waiting for the round that answers")
        reach.put(path, [as_scheduled(machine_of(before, name)) for name in names])
    return _told(before, reach.get("/1/windows"), done, as_json=as_json)


@window.command()
@MACHINES
@as_json
@click.pass_obj
def down(where: Where, machines: Sequence[str], *, as_json: bool) -> int:
    """Begin the maintenance: these nodes are taken offline as soon as they are empty."""
    done = f"Going down: {', '.join(machines)}; see gnt-maint window list."
    return _tell_modes(where, "/machine/down", machines, done, as_json=as_json)


@window.command()
@MACHINES
@as_json
@click.pass_obj
def up(where: Where, machines: Sequence[str], *, as_json: bool) -> int:
    """End the maintenance: these nodes are put back as they were, and leave their window."""
    done = f"Coming up: {', '.join(machines)}."
    return _tell_modes(where, "/machine/up", machines, done, as_json=as_json)
