"""gnt-maint auto-repair: whether what sources report is repaired, and what sabakan is asked."""

from typing import Any

import click

from nodeagent.cli.maint.console.client import Where
from nodeagent.cli.maint.console.files import read
from nodeagent.cli.maint.console.options import as_json, cli
from nodeagent.cli.maint.console.screen import Screen, emit, screen
from nodeagent.cli.maint.console.text import age
from nodeagent.cli.maint.control import ask
from nodeagent.cli.usage import FILE

_PLACE = "/1/queue/auto-repair"
_MOST = 64 * 1024  # bytes of a file; maintd says what is too large
Json = dict[str, Any]


@cli.group("auto-repair")
def auto_repair() -> None:
    """Have repaired what sources such as sabakan report broken.

    (gnt-maint autorepair repairs instances.)
    """


@auto_repair.command("enable")
@as_json
@click.pass_obj
def enable(where: Where, *, as_json: bool) -> int:
    """Make entries of what is reported."""
    done = "Automatic repair is enabled."
    return ask(where.reach(), "POST", f"{_PLACE}/enable", None, done, as_json=as_json)


@auto_repair.command("disable")
@as_json
@click.pass_obj
def disable(where: Where, *, as_json: bool) -> int:
    """Make none any more; those there are, are worked off."""
    done = "Automatic repair is disabled."
    return ask(where.reach(), "POST", f"{_PLACE}/disable", None, done, as_json=as_json)


@auto_repair.command("is-enabled")
@as_json
@click.pass_obj
def is_enabled(where: Where, *, as_json: bool) -> int:
    """Print true or false, which is JSON as well."""
    emit(where.reach().get(_PLACE)["enabled"])
    return 0


@auto_repair.command("set-variables")
@click.argument("file", type=FILE)
@as_json
@click.pass_obj
def set_variables(where: Where, file: str, *, as_json: bool) -> int:
    """Ask sabakan with the variables in FILE, a JSON object (- is standard input)."""
    text, done = read(file, _MOST), "sabakan is asked with these from now on."
    return ask(where.reach(), "POST", f"{_PLACE}/variables", text, done, as_json=as_json)


@auto_repair.command("get-variables")
@as_json
@click.pass_obj
def get_variables(where: Where, *, as_json: bool) -> int:
    """Print what was set, to the byte, which is JSON as well."""
    click.echo(where.reach().get_raw(f"{_PLACE}/variables"), nl=False)
    return 0


@auto_repair.command("show")
@as_json
@click.pass_obj
def show(where: Where, *, as_json: bool) -> int:
    """Show the sources, what they report and how old that is."""
    found = where.reach().get(_PLACE)
    if as_json:
        emit(found)
        return 0
    on = screen()
    on.line(f"Automatic repair is {'enabled' if found['enabled'] else 'disabled'}.")
    if not found["sources"]:
        on.line("There is no source: [sabakan] and [[queue.incidents]] in maintd.toml name them.")
    for source in found["sources"]:
        _show(on, source)
    return 0


def _show(on: Screen, source: Json) -> None:
    machines = source["machines"]
    on.heading(source["name"])
    count = "no machine is reported" if machines is None else f"{len(machines)} machines"
    on.line(f"{count}: {source['why']}" if source["why"] else count)
    if source.get("age") is not None:
        on.line(f"The newest answer that was believed is {age(source['age'])} old.")
    if machines:
        rows = [
            (
                one["address"] or "-",
                one["serial"] or "-",
                one["machine_type"] or "-",
                one["operation"],
                one["domain"] or "-",
                one["why"] or "-",
            )
            for one in machines
        ]
        on.table(("address", "serial", "type", "operation", "domain", "why"), rows)
