"""For the audit trail: the person at the terminal, and the command as it was typed."""

import os
import pwd
import shlex
from collections.abc import Sequence
from urllib.parse import quote

import click

_MOST = 2000  # characters of a header
_COMMAND = f"{__name__}.command"
_NOBODY = 2**32 - 1  # the kernel's word for a process that no login has begun


def typed(context: click.Context, words: Sequence[str]) -> None:
    """Remember the verb and its arguments."""
    context.meta[_COMMAND] = shlex.join(words)


def headers(*, local: bool) -> list[tuple[str, str]]:
    """The headers of a request that changes something; over the network the user says who."""
    context = click.get_current_context(silent=True)
    command = context.meta.get(_COMMAND, "") if context else ""
    found = [("Nodeagent-Command", quote(command, safe=" /=:,+'")[:_MOST])] if command else []
    if local and (login := login_name()):
        found.append(("Nodeagent-Login", quote(login)))
    return found


def login_name(path: str = "/proc/self/loginuid") -> str:
    """The user who logged in, which no sudo changes; else sudo's word; "" if nobody knows."""
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
