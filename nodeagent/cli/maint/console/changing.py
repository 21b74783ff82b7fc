"""Verbs that change something: --dry-run, --yes, and the question on a terminal."""

import sys
from typing import Any

import click

from nodeagent.cli.maint.console.screen import Json, Screen, emit, screen
from nodeagent.cli.usage import together

_DRY, _YES = f"{__name__}.dry_run", f"{__name__}.yes"


def _noted(context: click.Context, option: click.Parameter, value: Any) -> None:
    context.meta[_DRY if option.name == "dry_run" else _YES] = value


changes = together(
    click.option(
        "--dry-run",
        is_flag=True,
        callback=_noted,
        expose_value=False,
        help="Only show what would be done.",
    ),
    click.option(
        "--yes",
        is_flag=True,
        callback=_noted,
        expose_value=False,
        help="Do not ask, even on a terminal.",
    ),
)
"""Give a verb `--dry-run` and `--yes`; `Reach` obeys them at its first change."""


def is_dry() -> bool:
    """Tell whether only a dry run is wanted; a verb without `changes` fails here."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta[_DRY])


def said_yes() -> bool:
    return bool(click.get_current_context().meta.get(_YES))


def may_ask() -> bool:
    """Tell whether a person is there to answer, and wants the question."""
    context = click.get_current_context(silent=True)
    if context is None or context.meta.get(_YES) is not False:
        return False  # a flag answers it, or the verb does not ask
    return not context.params.get("as_json") and sys.stdin.isatty() and sys.stdout.isatty()


def show(would: Json) -> None:
    """Show what maintd would do; the end of a dry run."""
    context = click.get_current_context()
    if context.params.get("as_json"):
        emit(would)
    else:
        on = screen()
        on.line(f"maintd would accept: {would['request']}.")
        for action in would["starts"] or ["start nothing in the next round"]:
            on.line(f"It would {action}.")
        _doubt(on, would)
    context.exit(0)


def confirm(would: Json) -> bool:
    """Ask before work starts, or is released, at once."""
    if not would["at-once"]:
        return True
    on = screen()
    on.line(f"You ask maintd to {would['request']}.")
    for action in would["starts"]:
        on.line(f"It will {action}.")
    _doubt(on, would)
    return click.confirm("Go on?")


def _doubt(on: Screen, would: Json) -> None:
    if doubt := would.get("doubt"):
        on.line(f"This may be incomplete: {doubt}.")
