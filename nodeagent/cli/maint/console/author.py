"""For the audit trail: the person at the terminal, and the command as it was typed."""

import os
import pwd
import shlex
from collections.abc import Sequence

import click

from nodeagent.cli.maint.console.text import harmless

_MOST = 2000  # characters of a header
_COMMAND = f"{__name__}.command"
_NOBODY = 2**32 - 1  # the kernel's value for a process without a login


def typed(context: click.Context, words: Sequence[str]) -> None:
    """Remember the verb and its arguments."""
    context.meta[_COMMAND] = shlex.join(words)


def headers(*, local: bool) -> list[tuple[str, str]]:
    """Return the headers of a change; over the network the HTTP user names the person.

    UsageError: the command line has bytes of another encoding, as a Latin-1 terminal sends them.
    """
    from urllib.parse import quote

    context = click.get_current_context(silent=True)
    command = context.meta.get(_COMMAND, "") if context else ""
    try:
        command.encode()
    except UnicodeEncodeError:
        raise click.UsageError(f"the command line is not UTF-8: {harmless(command, 200)}") from None
    fields = [("Nodeagent-Command", quote(command, safe=" /=:,+'")[:_MOST])] if command else []
    if local and (login := login_name()):
        fields.append(("Nodeagent-Login", quote(login, errors="replace")))
    return fields


def login_name(path: str = "/proc/self/loginuid") -> str:
    """Return the user who logged in, which sudo keeps; else sudo's word; "" if unknown."""
    try:
        with open(path, encoding="ascii") as file:
            uid = int(file.read())
    except (OSError, ValueError):
        uid = _NOBODY
    if uid in (0, _NOBODY):
        return os.environ.get("SUDO_USER", "")
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid-{uid}"
