"""Long output on a terminal goes through a pager, as git's does."""

import io
import os
import shlex
import sys
from contextlib import suppress
from typing import IO

import click

_OFF, _ON = f"{__name__}.off", f"{__name__}.on"


def unwanted(context: click.Context) -> None:
    """Page nothing."""
    context.meta[_OFF] = True


def wanted(context: click.Context) -> None:
    """Page the output from now on, if it goes to a terminal."""
    context.meta[_ON] = True


def begin(context: click.Context) -> None:
    """Start the pager, at the first output and once; it ends with the command."""
    if not context.meta.pop(_ON, False) or context.meta.get(_OFF) or not sys.stdout.isatty():
        return
    import shutil
    import subprocess

    command = _command()
    if not command or os.environ.get("TERM") == "dumb" or not shutil.which(command[0]):
        return
    # A user who may run this as root by sudo gets no shell from less.
    env = {"LESS": "FRX", "LV": "-c", **os.environ, "LESSSECURE": "1"}
    terminal = sys.stdout
    terminal.flush()
    pager = subprocess.Popen(command, stdin=subprocess.PIPE, env=env)
    assert pager.stdin is not None
    sys.stdout = _ToPager(pager.stdin)

    def end() -> None:
        sys.stdout.close()
        sys.stdout = terminal
        while pager.poll() is None:
            with suppress(KeyboardInterrupt):  # it is the pager's
                pager.wait()

    context.find_root().call_on_close(end)


def _command() -> list[str]:
    """Return the pager, or nothing; by sudo always less."""
    setting = None if "SUDO_USER" in os.environ else os.environ.get("PAGER")
    try:
        words = ["less"] if setting is None else shlex.split(setting)
    except ValueError:  # a quote that is left open
        return []
    return [] if words == ["cat"] else words


class _ToPager(io.TextIOBase):
    """Text for the pager, with terminal codes; a reader who has seen enough may leave."""

    encoding, errors = "utf-8", "backslashreplace"

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe

    def isatty(self) -> bool:
        """Return True, as for the terminal behind it."""
        return True

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with suppress(BrokenPipeError):
            self._pipe.write(text.encode(self.encoding, self.errors))
        return len(text)

    def flush(self) -> None:
        with suppress(BrokenPipeError, ValueError):
            self._pipe.flush()

    def close(self) -> None:
        with suppress(BrokenPipeError):
            self._pipe.close()
