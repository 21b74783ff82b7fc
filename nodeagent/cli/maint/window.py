"""gnt-maint window: show and plan maintenance of machines, and report its start and end."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import click

from nodeagent.cli.maint import window_series
from nodeagent.cli.maint.console.arguments import (
    AT,
    LASTING,
    MACHINE,
    MACHINES,
    PLANNED,
    SECOND,
    START,
    as_scheduled,
    machine,
    machine_of,
    owners_options,
    when,
    window_of,
    with_policy,
)
from nodeagent.cli.maint.console.changing import changes
from nodeagent.cli.maint.console.client import NotFound, Refused, Stale, Where
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.looking import lists, looks
from nodeagent.cli.maint.console.nodes import only_nodes
from nodeagent.cli.maint.console.options import as_json, cli
from nodeagent.cli.maint.console.screen import Json, ListScreen, Screen, emit, screen
from nodeagent.cli.maint.console.text import age, is_missed, mode_of, told_name
from nodeagent.cli.maint.offers import answered
from nodeagent.cli.usage import Verb
from nodeagent.model.units import Nanoseconds

_TRIES = 5  # while others change the schedule too
_NO_CHANGE = "what is to be changed?"
_EMPTIES_NOTHING = ", so its window would evacuate nothing (--not-a-node insists)"
_STRANGER = click.option(
    "--not-a-node", "stranger", is_flag=True, help="Allow machines that are not nodes."
)
_VERBS = {
    "propose": Verb(
        "nodeagent.cli.maint.window_propose",
        "Propose windows in which all these nodes, or the whole cluster, can be evacuated.",
    ),
    "wait": Verb(
        "nodeagent.cli.maint.window_wait",
        "Wait until the maintenance of a machine has come so far.",
    ),
}


@cli.group(verbs=_VERBS)
def window() -> None:
    """Plan maintenance; maintd evacuates the nodes first.

    Name a window by any of its machines, and a machine by its node's name or IP address. Weekly
    windows are a series, named series/N.
    """


# Showing windows.


@window.command("list")
@lists
@as_json
def list_(where: Where, *, as_json: bool) -> int:
    """List the windows with the state of their machines, and the series."""
    reach = where.reach()
    calendar = reach.plans("/1/windows", as_json=as_json)
    if as_json:
        emit(calendar)
        return 0
    on = screen()
    rows = [
        (*_span(row), told_name(machine), mode_of(machine), machine["left"], _remark(machine))
        for row in calendar["windows"]
        for machine in row["machines"]
    ]
    rows += [
        ("", "", told_name(machine), mode_of(machine), machine["left"], _remark(machine))
        for machine in calendar["returning"]
    ]
    if rows or isinstance(on, ListScreen):
        on.table(("from", "until", "machine", "mode", "left", "remark"), rows)
    elif not calendar["series"]:
        on.line("No maintenance is planned.")
    if calendar["series"] and not isinstance(on, ListScreen):
        if rows:
            on.heading("Every week")
        on.table(window_series.COLUMNS, [window_series.listed(row) for row in calendar["series"]])
    return reach.doubtful


@window.command()
@MACHINE
@AT
@looks
@as_json
def show(where: Where, name: str, *, at: Nanoseconds | None, as_json: bool) -> int:
    """Show a series, or the window of a machine."""
    reach = where.reach()
    calendar = reach.plans("/1/windows", as_json=as_json)
    if window_series.is_series(name):
        series = window_series.find(calendar, name)
        emit(series) if as_json else window_series.show(screen(), series)
        return reach.doubtful
    row, _ = window_of(calendar, name, at)
    if as_json:
        emit(row)
        return 0
    on = screen()
    start, end = _span(row)
    facts: list[tuple[str, object]] = [("from", start), ("until", end or "no end")]
    if row["series"]:
        facts.append(("of", f"{row['series']}, {row['occurrence']}"))
    on.facts(facts)
    for member in row["machines"]:
        _show(on, member)
    return reach.doubtful


def _show(on: Screen, member: Json) -> None:
    on.heading(told_name(member))
    facts: list[tuple[str, object]] = [
        ("mode", mode_of(member)),
        ("node", member["node"] or "not in this cluster"),
    ]
    if is_missed(member):
        facts.append(("evacuation", "none: the window is over"))
    elif member["mode"] == "draining" and member["begins"] is not None and not member["begun"]:
        facts.append(("evacuation", f"starts at {when(member['begins'])}"))
    if member["begun"]:
        facts += [("found", member["found"]), ("left", member["left"])]
    if member["overdue"]:
        facts.append(("overdue", f"for {age(member['overdue'])}"))
    if member["policy"] != "advisory":
        then = "then it goes on" if member["at_deadline"] == "proceed" else "and it waits on"
        before = age(member["deadline_seconds"])
        facts.append(("policy", f"{member['policy']} until {before} before it starts, {then}"))
    facts += [(f"owner {offer['owner']}", answered(offer)) for offer in member["owners"]]
    facts += [("blocked", why) for why in member["held"]]
    on.facts(facts)


def _span(row: Json) -> tuple[str, str]:
    end = "" if row["duration"] is None else when(row["start"] + row["duration"])
    return when(row["start"]), end


def _remark(member: Json) -> str:
    if member["held"]:
        return "; ".join(member["held"])
    if member["node"] is None:
        return "not a node of this cluster"
    if is_missed(member):
        return "over: maintd evacuates nothing for it"
    if member["mode"] == "draining" and not member["begun"]:
        return f"evacuation starts {when(member['begins'])}"
    return ""


@window.command()
@click.option("--ics", "as_ics", is_flag=True, help="Print iCalendar, for calendar programs.")
@as_json
def export(where: Where, *, as_ics: bool, as_json: bool) -> None:
    """Print all planned windows, for other programs."""
    if as_ics == as_json:
        raise click.UsageError("--ics or --json must be given, and one of them alone")
    reach = where.reach()
    if as_json:
        emit(reach.get("/1/windows"))
    else:
        click.echo(reach.get_raw("/1/maintenance.ics"), nl=False)


# Changing them.


def _change(where: Where, change: Callable[[Json, Json], str], *, as_json: bool) -> None:
    """Change the present schedule; try again if somebody else has changed it meanwhile.

    `change` gets the schedule, and the facts about its windows; it returns what it has done.
    """
    reach = where.reach()
    for turn in range(1, _TRIES + 1):
        calendar = reach.plans("/1/windows", as_json=as_json)
        schedule = calendar["schedule"]
        done = change(schedule, calendar)
        try:
            reach.put("/1/maintenance/schedule", schedule, calendar["version"])
        except Stale:
            if turn == _TRIES:
                raise
        else:
            break
    _report(calendar, reach.plans("/1/windows", as_json=as_json), done, as_json=as_json)


def _report(
    before: Json | None, after: Json, done: str, more: Iterable[str] = (), *, as_json: bool
) -> None:
    """Report a change; a change of one window leaves its series as it is."""
    if as_json:
        emit(after)
        return
    if before:
        more = (*more, *window_series.going_on(before, after), *_idle(before, after))
    for line in (done, *more):
        screen().line(line)


def _idle(before: Json, after: Json) -> Iterator[str]:
    """Yield machines of new windows that maintd does nothing for: perhaps a typing error."""
    known = [place for place, _ in _places(before)]
    for place, member in _places(after):
        if place in known:
            continue
        if not member["node"]:
            text = f"{told_name(member)} is not a node: its window evacuates nothing"
            by_name = ", and protects nothing unless you name it by its address"
            yield f"{text}{'' if member['ip'] else by_name}."
        elif member["over"]:
            yield f"{told_name(member)}'s window is over already: maintd evacuates nothing for it."


def _places(calendar: Json) -> Iterator[tuple[Json, Json]]:
    """Yield each machine of each window: which and when, and the facts about it."""
    for row in calendar["windows"]:
        times = {"start": row["start"], "duration": row["duration"]}
        for member in row["machines"]:
            yield as_scheduled(member) | times, member


def _find(
    schedule: Json, calendar: Json, name: str, at: Nanoseconds | None
) -> tuple[Json, list[str], Json]:
    """Return the window of a machine as the schedule has it, its machines' names, the machine."""
    listed, member = window_of(calendar, name, at)
    mine = as_scheduled(member)
    row = next(
        row
        for row in schedule["windows"]
        if mine in row["machine_ids"] and _starts(row) == listed["start"]
    )
    return row, [told_name(each) for each in listed["machines"]], member


def _starts(row: Json) -> float:
    """Return the start of a window of the schedule as `/1/windows` has it, in unix seconds."""
    return float(row["unavailability"]["start"]["nanoseconds"] / 1_000_000 / 1000)


_OWNERS = owners_options("Stop waiting for owners this long before the start [0s].")


@window.command()
@MACHINES
@START
@LASTING
@_OWNERS
@window_series.rule_options
@_STRANGER
@changes
@as_json
def add(
    where: Where,
    /,
    machines: Sequence[str],
    *,
    start: int | None,
    lasting: int | None,
    owners: Json,
    stranger: bool,
    as_json: bool,
    **weekly: Any,
) -> None:
    """Add a window for these machines, once or every week.

    A window with --start and no duration has no end. A series follows local time in its zone; its
    next window is listed once it is near.
    """
    rule, owners = window_series.rule(**weekly), with_policy(owners)
    if (start is None) == ("weekly" not in rule):
        raise click.UsageError("--start or --weekly must be given, and one of them alone")
    if start is None:
        rule |= {"owners": owners} if owners else {}
        _add_series(where, machines, lasting, rule, as_json=as_json)
        return
    if rule:
        raise click.UsageError(f"--{next(iter(rule))} goes with --weekly")
    wanted = [machine(name) for name in machines]
    if not stranger:
        only_nodes(where.reach(), machines, else_do=_EMPTIES_NOTHING)
    when_: Json = {"start": {"nanoseconds": start}}
    if lasting is not None:
        when_["duration"] = {"nanoseconds": lasting * SECOND}
    new: Json = {"machine_ids": wanted, "unavailability": when_}
    if owners:
        new["owners"] = owners

    def change(schedule: Json, _: Json) -> str:
        schedule.setdefault("windows", []).append(new)
        until = "" if lasting is None else f" until {when(start / SECOND + lasting)}"
        return f"Planned: {', '.join(machines)} from {when(start / SECOND)}{until}."

    _change(where, change, as_json=as_json)


def _add_series(
    where: Where, machines: Sequence[str], lasting: int | None, rule: Json, *, as_json: bool
) -> None:
    if lasting is None:
        raise click.UsageError("--for is missing: each of a series has an end")
    if "never" in (rule.get("until"), rule.get("times")):
        raise click.UsageError("never is what it is without --until and --times")
    rule = {"zone": window_series.zone_here()} | rule
    body = {"machines": list(machines), "duration": lasting, **rule}
    after = window_series.change(where.reach(), "POST", "/1/series", body)
    row = after["series"][-1]
    first = window_series.local(row["next"][0]) if row["next"] else "never"
    done = f"Planned: {row['name']}, {row['weekly']} ({row['zone']}), first {first}."
    _report(None, after, done, window_series.twins(after, row["name"]), as_json=as_json)


@window.command()
@MACHINE
@AT
@START
@LASTING
@window_series.rule_options
@click.option(
    "--keep",
    metavar="DAY",
    multiple=True,
    help="Restore a canceled day of a series.",
)
@click.option("--endless", is_flag=True, help="Remove the end.")
@click.option(
    "--add",
    "more",
    metavar="MACHINE",
    multiple=True,
    shell_complete=complete("node"),
    help="Add this machine.",
)
@_STRANGER
@click.option(
    "--remove",
    "less",
    metavar="MACHINE",
    multiple=True,
    shell_complete=complete("window"),
    help="Remove this machine.",
)
@_OWNERS
@changes
@as_json
def edit(
    where: Where,
    /,
    name: str,
    *,
    at: Nanoseconds | None,
    start: int | None,
    lasting: int | None,
    endless: bool,
    more: Sequence[str],
    less: Sequence[str],
    owners: Json,
    stranger: bool,
    as_json: bool,
    **weekly: Any,
) -> None:
    """Change a series, or the window of a machine; stopped work there continues.

    A change of one window of a series does not change the series.
    """
    rule = window_series.rule(**weekly)
    if window_series.is_series(name):
        if start is not None or endless or at is not None:
            raise click.UsageError("--at, --start and --endless are of one window, not of a series")
        body = window_series.rule(lasting=lasting, add=more, remove=less) | rule
        _edit_series(where, name, body, owners, as_json=as_json)
        return
    if rule:
        raise click.UsageError(f"--{next(iter(rule))} is of a series, and {name} is not a series")
    if endless and lasting is not None:
        raise click.UsageError("--duration and --endless are two ends: name one")
    if start is None and lasting is None and not (endless or more or less or owners):
        raise click.UsageError(_NO_CHANGE)
    if more and not stranger:
        only_nodes(where.reach(), more, else_do=_EMPTIES_NOTHING)

    def change(schedule: Json, calendar: Json) -> str:
        row, _, member = _find(schedule, calendar, name, at)
        row["owners"] = _owners(member, owners)
        when_ = row["unavailability"]
        if start is not None:
            when_["start"] = {"nanoseconds": start}
        if lasting is not None:
            when_["duration"] = {"nanoseconds": lasting * SECOND}
        if endless:
            when_.pop("duration", None)
        _change_machines(row["machine_ids"], [machine_of(calendar, gone) for gone in less], more)
        if not row["machine_ids"]:
            raise Refused(f"no machine would be left: gnt-maint window cancel {name} instead")
        return f"Changed: the window of {name}."

    _change(where, change, as_json=as_json)


def _edit_series(where: Where, name: str, body: Json, owners: Json, *, as_json: bool) -> None:
    if not (body or owners):
        raise click.UsageError(_NO_CHANGE)
    reach = where.reach()
    if owners:
        present = window_series.find(reach.plans("/1/windows", as_json=as_json), name)["owners"]
        body["owners"] = _owners(present, owners)
    after = window_series.change(reach, "POST", window_series.target(name), body)
    _report(None, after, f"Changed: {name}.", as_json=as_json)


def _change_machines(machine_ids: list[Json], less: Iterable[Json], more: Iterable[str]) -> None:
    """Take the machines of `less` out of a window of the schedule, and put `more` into it."""
    for member in less:
        if as_scheduled(member) not in machine_ids:
            raise NotFound(f"{told_name(member)} is in another window")
        machine_ids.remove(as_scheduled(member))
    machine_ids += [machine(name) for name in more]


def _owners(present: Json, changed: Json) -> Json:
    """Return the weight of owners' answers; another policy keeps only the present deadline."""
    other = "policy" in changed
    kept = ("deadline_seconds",) if other else ("policy", "deadline_seconds", "at_deadline")
    return {key: present[key] for key in kept if key in present} | changed


@window.command()
@MACHINE
@AT
@click.option(
    "--on",
    metavar="DAY",
    multiple=True,
    help="Cancel only this day of a series.",
)
@click.option("--whole", is_flag=True, help="Cancel the window for all its machines.")
@changes
@as_json
def cancel(
    where: Where,
    name: str,
    *,
    at: Nanoseconds | None,
    on: Sequence[str],
    whole: bool,
    as_json: bool,
) -> None:
    """Cancel a series, or the window of a machine, and put its nodes back into service.

    Other machines stay in the window, unless --whole is given. If you cancel one window of a
    series, the series continues.
    """
    if window_series.is_series(name):
        if whole or at is not None:
            raise click.UsageError("--at and --whole are of one window, not of a series")
        _cancel_series(where, name, on, as_json=as_json)
        return
    if on:
        raise click.UsageError(f"--on is of a series, and {name} is not a series")

    def change(schedule: Json, calendar: Json) -> str:
        row, names, member = _find(schedule, calendar, name, at)
        staying = [] if whole else [each for each in names if each != told_name(member)]
        if not staying:
            schedule["windows"].remove(row)
            return f"Canceled: the window of {_listed(names)}."
        row["machine_ids"].remove(as_scheduled(member))
        verb = "stays" if len(staying) == 1 else "stay"
        command = f"gnt-maint window cancel --whole {staying[0]}"
        return (
            f"Canceled: the window of {told_name(member)}."
            f" {_listed(staying)} {verb} in it: {command} ends it."
        )

    _change(where, change, as_json=as_json)


def _cancel_series(where: Where, name: str, days: Sequence[str], *, as_json: bool) -> None:
    reach, target = where.reach(), window_series.target(name)
    if days:
        after = window_series.change(reach, "POST", target, {"skip": list(days)})
        done = f"Canceled: {name} on {', '.join(days)}; it goes on."
    else:
        after = window_series.change(reach, "DELETE", target, None)
        done = f"Canceled: {name}."
    _report(None, after, done, as_json=as_json)


def _listed(names: Sequence[str]) -> str:
    """Write `n1, n3 and n5`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _tell_modes(where: Where, path: str, names: Sequence[str], done: str, *, as_json: bool) -> None:
    reach = where.reach()
    before = reach.plans("/1/windows", as_json=as_json)
    reach.put(path, [as_scheduled(machine_of(before, name)) for name in names])
    _report(before, reach.plans("/1/windows", as_json=as_json), done, as_json=as_json)


@window.command()
@PLANNED
@changes
@as_json
def down(where: Where, machines: Sequence[str], *, as_json: bool) -> None:
    """Start the maintenance: take these nodes offline as soon as they are evacuated."""
    done = f"Going down: {', '.join(machines)}; see gnt-maint window list."
    _tell_modes(where, "/machine/down", machines, done, as_json=as_json)


@window.command()
@PLANNED
@changes
@as_json
def up(where: Where, machines: Sequence[str], *, as_json: bool) -> None:
    """End the maintenance: put these nodes back into service and remove them from their window."""
    done = f"Coming up: {', '.join(machines)}."
    _tell_modes(where, "/machine/up", machines, done, as_json=as_json)
