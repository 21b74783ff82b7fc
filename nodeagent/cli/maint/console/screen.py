"""What is written: tables, facts and lines; with colours where a terminal is, else plain.

Whatever is shown passes `harmless` here, wherever it comes from.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import click

from nodeagent.cli.maint.console.text import harmless

Rows = Sequence[Sequence[object]]


class Screen(Protocol):
    """Where things are shown."""

    def heading(self, text: str) -> None:
        """What comes next."""

    def line(self, text: str) -> None:
        """One line."""

    def facts(self, rows: Sequence[tuple[str, object]]) -> None:
        """What something is, a label and a value a line."""

    def table(self, columns: Sequence[str], rows: Rows) -> None:
        """Rows below the names of their columns."""


class PlainScreen:
    """For pipes and files: no colour, no wrapping, one row a line."""

    def heading(self, text: str) -> None:
        click.echo(f"\n{harmless(text)}")

    def line(self, text: str) -> None:
        click.echo(harmless(text))

    def facts(self, rows: Sequence[tuple[str, object]]) -> None:
        width = max((len(label) for label, _ in rows), default=0) + 2
        for label, value in rows:
            click.echo(f"{label:{width}}{harmless(value)}".rstrip())

    def table(self, columns: Sequence[str], rows: Rows) -> None:
        cells = [[harmless(cell) for cell in row] for row in rows]
        widths = [max([len(c), *(len(row[i]) for row in cells)]) for i, c in enumerate(columns)]
        for row in [[c.upper() for c in columns], *cells]:
            padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            click.echo("  ".join(padded).rstrip())


def screen() -> Screen:
    """The one for where standard output goes."""
    if not sys.stdout.isatty():
        return PlainScreen()
    from nodeagent.cli.maint.console.colour import ColourScreen

    return ColourScreen()


def emit(value: Any) -> None:
    """One JSON document; nothing in it but ASCII, so nothing for a terminal to obey."""
    click.echo(json.dumps(value, indent=2))


class Progress(Protocol):
    """Shows how far something is."""

    def tell(self, text: str) -> None: ...


class _Lines:
    """One line to standard error whenever there is something new."""

    def __init__(self, *, quiet: bool) -> None:
        self._last = ""
        self._quiet = quiet

    def tell(self, text: str) -> None:
        if text != self._last and not self._quiet:
            click.echo(harmless(text), err=True)
        self._last = text


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Progress]:
    """A line that moves on a terminal; else lines of what is new, and none if `quiet`."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield _Lines(quiet=quiet)
        return
    from nodeagent.cli.maint.console.colour import spinning

    with spinning() as spinner:
        yield spinner
