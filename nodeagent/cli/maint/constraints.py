"""gnt-maint constraints: limits on repairs of reported machines, in CKE's words."""

import click

from nodeagent.cli.maint.console.changing import changes
from nodeagent.cli.maint.console.client import Where
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.looking import lists
from nodeagent.cli.maint.console.options import as_json, cli
from nodeagent.cli.maint.console.screen import emit, screen
from nodeagent.cli.maint.control import ask


@cli.group("constraints")
def constraints() -> None:
    """Limit automatic repairs of reported machines."""


@constraints.command("show")
@lists
@as_json
def show(where: Where, *, as_json: bool) -> int:
    """Show all limits: those set here, else those of the settings."""
    reach = where.reach()
    answer = reach.plans("/1/constraints", as_json=as_json)
    if as_json:
        emit(answer["constraints"])
        return 0
    by_hand = set(answer["set"])
    rows = [
        (name, str(value), "set" if name in by_hand else "-")
        for name, value in answer["constraints"].items()
    ]
    screen().table(("constraint", "value", "by hand"), rows)
    return reach.doubtful


@constraints.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("name", shell_complete=complete("constraint"))
@click.argument("value")
@changes
@as_json
def set_one(where: Where, name: str, value: str, *, as_json: bool) -> None:
    """Set a limit; it overrides the settings."""
    body = {"name": name, "value": value}
    done = f"{name} is {value}."
    ask(where.reach(), "POST", "/1/constraints", body, done, as_json=as_json)
