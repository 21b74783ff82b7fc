"""Parts that the verbs of `nodeagent` share: exit codes, reading the settings, writing lines."""

from typing import Any, NoReturn

import click

from nodeagent.cli import usage
from nodeagent.settings import Settings


def die(error: Exception) -> NoReturn:
    """Say why in one line, and end."""
    usage.die("nodeagent", error)


def read(config: str) -> Settings:
    """Read settings as the runner does at a start, tags above them; say if these are ignored."""
    from nodeagent.agent.ssconf import settings_to_start_with

    settings = settings_to_start_with(config)
    if settings.tags_ignored:
        click.echo(f"nodeagent: tags ignored: {settings.tags_ignored}", err=True)
    return settings


def table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    """Print rows as aligned columns; show foreign control characters, do not obey them."""
    cells = [[shown(str(row[column])) for column in columns] for row in rows]
    widths = [max([len(c), *(len(row[i]) for row in cells)]) for i, c in enumerate(columns)]
    for row in [[c.upper() for c in columns], *cells]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


def shown(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
