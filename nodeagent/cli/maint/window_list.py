"""gnt-maint window list, show and export: show planned windows and their state."""

import click

from nodeagent.cli.maint import window_series
from nodeagent.cli.maint.console.arguments import AT, MACHINE, when, window_of
from nodeagent.cli.maint.console.client import Where
from nodeagent.cli.maint.console.looking import lists, looks
from nodeagent.cli.maint.console.options import as_json
from nodeagent.cli.maint.console.screen import Json, ListScreen, Screen, emit, screen
from nodeagent.cli.maint.console.text import age, told_name
from nodeagent.cli.maint.offers import answered
from nodeagent.cli.maint.window import window


@window.command("list")
@lists
@as_json
def list_(where: Where, *, as_json: bool) -> int:
    """List the windows with the state of their machines, and the series."""
    reach = where.reach()
    told = reach.plans("/1/windows", as_json=as_json)
    if as_json:
        emit(told)
        return 0
    on = screen()
    rows = [
        (*_span(row), told_name(one), mode_of(one), one["left"], _remark(one))
        for row in told["windows"]
        for one in row["machines"]
    ]
    rows += [
        ("", "", told_name(one), mode_of(one), one["left"], _remark(one))
        for one in told["returning"]
    ]
    if rows or isinstance(on, ListScreen):
        on.table(("from", "until", "machine", "mode", "left", "remark"), rows)
    elif not told["series"]:
        on.line("No maintenance is planned.")
    if told["series"] and not isinstance(on, ListScreen):
        if rows:
            on.heading("Every week")
        on.table(window_series.COLUMNS, [window_series.listed(row) for row in told["series"]])
    return reach.doubtful


@window.command()
@MACHINE
@AT
@looks
@as_json
def show(where: Where, name: str, *, at: int | None, as_json: bool) -> int:
    """Show a series, or the window of a machine."""
    reach = where.reach()
    told = reach.plans("/1/windows", as_json=as_json)
    if window_series.is_series(name):
        one = window_series.find(told, name)
        emit(one) if as_json else window_series.show(screen(), one)
        return reach.doubtful
    row, _ = window_of(told, name, at)
    if as_json:
        emit(row)
        return 0
    on = screen()
    start, end = _span(row)
    facts: list[tuple[str, object]] = [("from", start), ("until", end or "no end")]
    if row["series"]:
        facts.append(("of", f"{row['series']}, {row['occurrence']}"))
    on.facts(facts)
    for one in row["machines"]:
        _show(on, one)
    return reach.doubtful


def mode_of(one: Json) -> str:
    """The mode for people: Mesos calls a window draining from the day on that it is planned."""
    planned = one["mode"] == "draining" and not one["begun"] and not one["started"]
    return "planned" if planned else str(one["mode"])


def _show(on: Screen, one: Json) -> None:
    on.heading(told_name(one))
    facts: list[tuple[str, object]] = [
        ("mode", mode_of(one)),
        ("node", one["node"] or "not in this cluster"),
    ]
    if one["mode"] == "draining" and one["begins"] is not None and not one["begun"]:
        facts.append(("evacuation", f"starts at {when(one['begins'])}"))
    if one["begun"]:
        facts += [("found", one["found"]), ("left", one["left"])]
    if one["overdue"]:
        facts.append(("overdue", f"for {age(one['overdue'])}"))
    if one["policy"] != "advisory":
        then = "then it goes on" if one["at_deadline"] == "proceed" else "and it waits on"
        before = age(one["deadline_seconds"])
        facts.append(("policy", f"{one['policy']} until {before} before it starts, {then}"))
    facts += [(f"owner {offer['owner']}", answered(offer)) for offer in one["owners"]]
    facts += [("blocked", why) for why in one["held"]]
    on.facts(facts)


def _span(row: Json) -> tuple[str, str]:
    end = "" if row["duration"] is None else when(row["start"] + row["duration"])
    return when(row["start"]), end


def _remark(one: Json) -> str:
    if one["held"]:
        return "; ".join(one["held"])
    if one["node"] is None:
        return "not a node of this cluster"
    if one["mode"] == "draining" and not one["begun"]:
        return f"evacuation starts {when(one['begins'])}"
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
