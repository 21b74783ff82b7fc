"""Text for terminals and pipes: aligned columns, harmless foreign text, the settings of a node."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nodeagent.settings import Settings


def read(config: str) -> "Settings":
    """Read settings as the runner does at a start, tags above them; say if these are ignored."""
    from nodeagent.agent.ssconf import settings_to_start_with

    settings = settings_to_start_with(config)
    if settings.tags_ignored:
        click.echo(f"nodeagent: tags ignored: {settings.tags_ignored}", err=True)
    return settings


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line for each row, its cells padded to the widths of their columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def table(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> None:
    """Print these columns of rows below their names; foreign text is shown, not obeyed."""
    cells = [[shown(str(row[column])) for column in columns] for row in rows]
    for line in aligned([[column.upper() for column in columns], *cells]):
        click.echo(line)


def shown(text: str) -> str:
    """Return foreign text with its control characters shown."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
