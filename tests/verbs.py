"""The verbs of a command of ours, and the text of the manual pages that tell of them."""

import re
from pathlib import Path

import click

MANUALS = Path(__file__).resolve().parents[1] / "docs/man"


def plain(roff: str) -> str:
    """A manual page's text without what only marks it."""
    words = re.sub(r"\\f[A-Z]|^\.[A-Z]+ ?", "", roff, flags=re.MULTILINE)
    bare = words.replace('" "', "").replace('"', "").replace("\\", "")
    return re.sub(r" +(?=[ ,.])", "", bare)


def manual(page: str) -> str:
    return plain((MANUALS / page).read_text())


def verbs_of(command: click.Command) -> dict[str, click.Command]:
    """Return the commands directly below this one, also those imported only as they are used."""
    if not isinstance(command, click.Group):
        return {}
    context = click.Context(command)
    found = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return {name: verb for name, verb in found.items() if verb is not None}
