"""Create a database: private, set aside, or written again after it was deleted or replaced.

The copy is complete on disk before the foreign file is set aside, and takes its place last. If a
kill comes in between, the next start finds either the old name or the finished copy.
"""

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress

from nodeagent.errors import Corrupt, Unavailable
from nodeagent.model.units import Ms

_LOGS = ("-wal", "-shm", "-journal")


def mark(path: str) -> tuple[int, ...] | None:
    """Return a mark that changes when others delete, replace or overwrite a file; None if absent.

    While the database is ours alone, only we move the contents of the log into the file.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def finished(path: str) -> str:
    """Return the name of a finished copy before it takes its place."""
    return f"{path}.anew"


def copy(
    path: str,
    old: sqlite3.Connection,
    is_right: Callable[[sqlite3.Connection], bool],
    build: Callable[[sqlite3.Connection], None],
) -> None:
    """Write a copy of the readable rest of `old`, or, if that is not right, of our memory."""
    half = f"{path}.half"
    _remove(half)
    with closing(sqlite3.connect(half, isolation_level=None)) as fresh:
        try:
            old.backup(fresh)
            good = fresh.execute("PRAGMA quick_check(1)").fetchone() == ("ok",) and is_right(fresh)
        except sqlite3.Error:
            good = False
        fresh.execute("PRAGMA journal_mode=DELETE")
    if not good:
        _remove(half)
        with closing(sqlite3.connect(half, isolation_level=None)) as fresh:
            build(fresh)
    handle = os.open(half, os.O_RDONLY)
    try:
        os.fchmod(handle, 0o600)
        os.fsync(handle)
    finally:
        os.close(handle)
    os.rename(half, finished(path))
    sync_folder(path)


def put_aside(path: str, there: str, logs: Iterable[str] = _LOGS) -> None:
    """Rename a database and its logs.

    The database goes first: SQLite never applies an old log to a new database.
    """
    for log in ("", *logs):
        with suppress(FileNotFoundError):
            os.rename(path + log, there + log)
    sync_folder(path)


def take_place(path: str) -> None:
    """Put the finished copy where the database was."""
    os.rename(finished(path), path)
    sync_folder(path)


def sync_folder(path: str) -> None:
    """Make renames in the folder of a file survive a power cut."""
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def set_aside(path: str, now: Ms) -> str:
    """Rename a corrupt database for later analysis; return its new path."""
    there = aside(path, "corrupt", now)
    try:
        os.stat(path)
        put_aside(path, there)
    except OSError as error:
        raise Unavailable(f"{path} cannot be set aside: {error.strerror}") from None
    return there


def aside(path: str, word: str, now: Ms) -> str:
    """Return the name of a file set aside at a moment (unix ms); the word says why."""
    seconds, ms = divmod(now, 1000)
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(seconds))
    return f"{path}.{word}-{stamp}.{ms:03}Z"


def make_private(path: str) -> bool:
    """Create a file that only we can read, and so its logs; tell whether it is new.

    Corrupt: it is empty. A database is empty only in the moment of its first start.
    """
    try:
        found = os.stat(path)
        if found.st_size == 0:
            raise Corrupt("it is empty: truncated, or its first start was interrupted")
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.chmod(path, 0o600)
    except FileNotFoundError:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        sync_folder(path)
        return True
    return False


def unmake(path: str) -> None:
    """Remove a new file that could not be written, such as on a full disk."""
    with suppress(OSError):
        if os.stat(path).st_size == 0:
            _remove(path)


def full(path: str) -> str:
    """Return the words for a full file system, if the file's is full; else ""."""
    folder = os.path.dirname(path) or "."
    try:
        left = os.statvfs(folder)
    except OSError:
        return ""
    if left.f_bavail and (left.f_favail or not left.f_files):
        return ""
    return f"the file system of {folder} is full: df {folder} shows it; free some space there"


def log_size(path: str) -> int:
    """Return the bytes of a database's log."""
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return 0


def _remove(path: str) -> None:
    for log in ("", *_LOGS):
        with suppress(FileNotFoundError):
            os.unlink(path + log)
