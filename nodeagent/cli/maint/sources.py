"""gnt-maint sources: repair machines that an inventory reports broken; query sabakan."""

import click

from nodeagent.cli.maint.console.changing import changes
from nodeagent.cli.maint.console.client import Where
from nodeagent.cli.maint.console.files import read
from nodeagent.cli.maint.console.looking import looks
from nodeagent.cli.maint.console.options import as_json, cli
from nodeagent.cli.maint.console.screen import Json, Screen, emit, screen
from nodeagent.cli.maint.console.text import age
from nodeagent.cli.maint.control import ask, asking
from nodeagent.cli.usage import FILE

_PLACE = "/1/queue/sources"
_MOST = 64 * 1024  # bytes read of a file; maintd refuses a larger one


@cli.group("sources")
def sources() -> None:
    """Repair machines that an inventory (sabakan) reports broken.

    (gnt-maint repair repairs instances.)
    """


for _name, _help in (
    ("enable", "Create queue entries from reports."),
    ("disable", "Stop creating entries from reports; existing entries are still processed."),
):
    asking(sources, _name, f"{_PLACE}/{_name}", f"Automatic repair is {_name}d.", _help)


@sources.command("is-enabled")
@as_json
def is_enabled(where: Where, *, as_json: bool) -> None:
    """Print true or false (JSON)."""
    emit(where.reach().get(_PLACE)["enabled"])


@sources.command("set-variables")
@click.argument("file", type=FILE)
@changes
@as_json
def set_variables(where: Where, file: str, *, as_json: bool) -> None:
    """Query sabakan with the variables in FILE, a JSON object (- is standard input)."""
    text, done = read(file, _MOST), "sabakan is asked with these from now on."
    ask(where.reach(), "POST", f"{_PLACE}/variables", text, done, as_json=as_json)


@sources.command("get-variables")
@as_json
def get_variables(where: Where, *, as_json: bool) -> None:
    """Print the stored sabakan query variables (JSON)."""
    click.echo(where.reach().get_raw(f"{_PLACE}/variables"), nl=False)


@sources.command("show")
@looks
@as_json
def show(where: Where, *, as_json: bool) -> int:
    """Show each source, its reports and their age."""
    reach = where.reach()
    answer = reach.plans(_PLACE, as_json=as_json)
    if as_json:
        emit(answer)
        return 0
    on = screen()
    on.line(f"Automatic repair is {'enabled' if answer['enabled'] else 'disabled'}.")
    if not answer["sources"]:
        on.line(
            "No source is configured: [sabakan] and [[queue.incidents]] in maintd.toml name them."
        )
    for source in answer["sources"]:
        _show(on, source)
    return reach.doubtful


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
                machine["address"] or "-",
                machine["serial"] or "-",
                machine["machine_type"] or "-",
                machine["operation"],
                machine["domain"] or "-",
                machine["why"] or "-",
            )
            for machine in machines
        ]
        on.table(("address", "serial", "type", "operation", "domain", "why"), rows)
