"""Files that verbs read and write."""

import os
import stat
import sys
from contextlib import suppress

from nodeagent.cli.maint.console.client import Refused


def read(path: str, limit: int) -> bytes:
    """Return the first `limit` bytes of a file or standard input (-); Refused if unreadable."""
    try:
        if path == "-":
            return sys.stdin.buffer.read(limit)
        with open(path, "rb") as file:
            return file.read(limit)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None


def save(path: str, raw: bytes, mode: int = 0o666) -> None:
    """Write a file whole or not at all; write to a device or a pipe directly."""
    try:
        if _is_special(path):
            with open(path, "wb") as file:
                file.write(raw)
        else:
            _replace(path, raw, mode)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None


def _is_special(path: str) -> bool:
    with suppress(FileNotFoundError):
        return not stat.S_ISREG(os.stat(path).st_mode)
    return False


def _replace(path: str, raw: bytes, mode: int) -> None:
    path = os.path.realpath(path)
    fresh = f"{path}.{os.getpid()}"
    with suppress(FileNotFoundError):  # of a process that was killed
        os.unlink(fresh)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
        os.rename(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise
