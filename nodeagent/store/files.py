"""The file of the database: private, set aside if it is corrupt, and where it is."""

import os
import stat
import time
from contextlib import suppress

from nodeagent.errors import Corrupt, Unavailable
from nodeagent.model.units import Ms

_LOGS = ("-wal", "-shm", "-journal")


def mark(path: str) -> tuple[int, ...] | None:
    """Return a mark that changes when others delete, replace or overwrite a file; None if absent.

    While the database is open, only its writer moves the contents of the log into the file.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def set_aside(path: str, now: Ms) -> str:
    """Rename a corrupt database for later analysis; return its new path."""
    seconds, ms = divmod(now, 1000)
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(seconds))
    new_path = f"{path}.corrupt-{stamp}.{ms:03}Z"
    try:
        os.stat(path)
        # The database goes first: SQLite never applies an old log to a new database.
        for log in ("", *_LOGS):
            with suppress(FileNotFoundError):
                os.rename(path + log, new_path + log)
        sync_folder(path)
    except OSError as error:
        raise Unavailable(f"{path} cannot be set aside: {error.strerror}") from None
    return new_path


def make_private(path: str) -> bool:
    """Create a file that only we can read, and so its logs; tell whether it is new.

    Corrupt: it is empty. A database is empty only in the moment of its first start.
    """
    try:
        status = os.stat(path)
        if status.st_size == 0:
            raise Corrupt("it is empty: truncated, or its first start was interrupted")
        if stat.S_IMODE(status.st_mode) & 0o077:
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
            for log in ("", *_LOGS):
                with suppress(FileNotFoundError):
                    os.unlink(path + log)


def full(path: str) -> str:
    """Return the words for a full file system, if the file's is full; else ""."""
    folder = os.path.dirname(path) or "."
    try:
        space = os.statvfs(folder)
    except OSError:
        return ""
    if space.f_bavail and (space.f_favail or not space.f_files):
        return ""
    return f"the file system of {folder} is full: df {folder} shows it; free some space there"


def log_size(path: str) -> int:
    """Return the bytes of a database's log."""
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return 0


def sync_folder(path: str) -> None:
    """Make renames in the folder of a file survive a power cut."""
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
