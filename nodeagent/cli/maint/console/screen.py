"""Output: tables, facts and lines; with colours on a terminal, else plain.

All of it passes `shown` here, wherever it comes from.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import click

from nodeagent.cli.maint.console.text import Rows, harmless, shown
from nodeagent.cli.terminal import aligned

Json: TypeAlias = dict[str, Any]


class Screen(Protocol):
    """The interface of all outputs."""

    def heading(self, text: str) -> None:
        """Print the title of the next part."""

    def line(self, text: str) -> None:
        """Print one line."""

    def facts(self, rows: Sequence[tuple[str, object]]) -> None:
        """Print facts about one thing, a label and a value a line."""

    def table(self, columns: Sequence[str], rows: Rows, none: str = "") -> None:
        """Print rows below the names of their columns; without rows `none`, if it is given."""


def points(on: Screen, heading: str, texts: Iterable[tuple[str, str | None]]) -> None:
    """Print sentences below a heading, each with its command, ready to copy; nothing without any.

    A command that its sentence has already is not repeated.
    """
    for number, (text, command) in enumerate(texts):
        if not number:
            on.heading(heading)
        on.line(f"- {text}")
        if command and command not in text:
            on.line(f"    {command}")


class PlainScreen:
    """For pipes and files: no colour, no wrapping, one row a line."""

    def heading(self, text: str) -> None:
        click.echo(f"\n{shown(text)}")

    def line(self, text: str) -> None:
        click.echo(shown(text))

    def facts(self, rows: Sequence[tuple[str, object]]) -> None:
        width = max((len(label) for label, _ in rows), default=0) + 2
        for label, value in rows:
            click.echo(f"{label:{width}}{shown(value)}".rstrip())

    def table(self, columns: Sequence[str], rows: Rows, none: str = "") -> None:
        if none and not rows:
            self.line(none)
            return
        cells = [[shown(cell) for cell in row] for row in rows]
        for line in aligned([[column.upper() for column in columns], *cells]):
            click.echo(line)


@dataclass(frozen=True, slots=True)
class ListScreen:
    """Lists for scripts, as of `gnt-*`: only the rows of the table, with the chosen fields.

    `fields` are names of columns, with - for a blank; None is all of them. Without a `separator`
    the columns are aligned.
    """

    fields: tuple[str, ...] | None = None
    headers: bool = True
    separator: str | None = None

    def heading(self, text: str) -> None:
        """Print nothing: it is not a row."""

    def line(self, text: str) -> None:
        """Print nothing: it is not a row."""

    def facts(self, rows: Sequence[tuple[str, object]]) -> None:
        """Print nothing: they are not rows."""

    def table(self, columns: Sequence[str], rows: Rows, none: str = "") -> None:
        """Print the chosen columns, also without rows; a usage error names the possible ones."""
        known = [column.replace(" ", "-") for column in columns]
        chosen = known if self.fields is None else self.fields
        if unknown := [field for field in chosen if field not in known]:
            raise click.UsageError(
                f"-o: there is no field {harmless(unknown[0], 40)!r}; there are {', '.join(known)}"
            )
        places = [known.index(field) for field in chosen]
        cells = [[shown(row[place]) for place in places] for row in rows]
        if self.headers:
            cells = [[known[place].upper() for place in places], *cells]
        between = self.separator
        for line in aligned(cells) if between is None else map(between.join, cells):
            click.echo(line)


_LISTING = f"{__name__}.listing"


def listed_so(context: click.Context, **changes: Any) -> None:
    """Make `screen` return a list for scripts in this run, with these fields of it."""
    context.meta[_LISTING] = replace(context.meta.get(_LISTING, ListScreen()), **changes)


def refuse_list(context: click.Context, option: str) -> None:
    """Raise a usage error if the command line has options of lists beside one without a list."""
    if _LISTING in context.meta:
        raise click.UsageError(
            f"-o, --no-headers and --separator are for tables, and {option} prints none"
        )


_PROGRESS = f"{__name__}.progress"
_REDRAWS = f"{__name__}.redraws"
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def redraw(context: click.Context, *, clears: bool) -> None:
    """Replace all output before by the next, if it `clears` a terminal."""
    context.meta[_REDRAWS] = clears and sys.stdout.isatty()


def _begin(context: click.Context | None) -> None:
    """Prepare for the first output: only now clear the screen, so that nothing flickers."""
    if context is not None and context.meta.pop(_REDRAWS, False):
        sys.stdout.write(_CLEAR)


def screen() -> Screen:
    context = click.get_current_context(silent=True)
    _begin(context)
    if context is not None and _LISTING in context.meta:
        return context.meta[_LISTING]  # type: ignore[no-any-return]
    if not sys.stdout.isatty():
        return PlainScreen()
    from nodeagent.cli.maint.console.colour import ColourScreen

    return ColourScreen()


def emit(value: Any) -> None:
    """Print one JSON document, in ASCII only, so that a terminal obeys none of it."""
    _begin(click.get_current_context(silent=True))
    click.echo(json.dumps(value, indent=2))


class Progress(Protocol):
    def tell(self, text: str, news: object = None) -> None:
        """Show a text; where lines stay, only if its `news` is new (without it the text)."""


class _Lines:
    """Prints a line to standard error for all that is new."""

    def __init__(self, *, quiet: bool) -> None:
        self._last: object = ""
        self._quiet = quiet

    def tell(self, text: str, news: object = None) -> None:
        news = text if news is None else news
        if news != self._last and not self._quiet:
            click.echo(shown(text), err=True)
        self._last = news


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Progress]:
    """Show a line that moves on a terminal; else lines of news, and none if `quiet`.

    Inside another one it is that one.
    """
    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    if (outer := meta.get(_PROGRESS)) is not None:
        yield outer
        return
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield _Lines(quiet=quiet)
        return
    from nodeagent.cli.maint.console.colour import spinning

    with spinning() as spinner:
        meta[_PROGRESS] = spinner
        try:
            yield spinner
        finally:
            del meta[_PROGRESS]
