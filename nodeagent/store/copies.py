"""Copy a database while others use it."""

import os
import sqlite3
from contextlib import closing, suppress

from nodeagent.errors import Corrupt, Unavailable
from nodeagent.store import anew, tables


def copy(source: str, target: str) -> None:
    """Write a copy of a database; `target` appears once it is whole and on disk.

    Unavailable: `target` is there already, or something cannot be read or written. The copy holds
    all that the source has, at one moment, and belongs to the same user.
    """
    half = f"{target}.half"
    if os.path.lexists(target):
        raise Unavailable(f"{target} exists: name another file")
    try:
        owner = os.stat(source)
        _remove(half)
        os.close(os.open(half, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        _write(source, half)
        handle = os.open(half, os.O_RDONLY)
        try:
            if os.geteuid() == 0:
                os.fchown(handle, owner.st_uid, owner.st_gid)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.link(half, target)  # unlike a rename it replaces nothing
        anew.sync_folder(target)
    except OSError as error:
        raise Unavailable(f"{source} cannot be copied to {target}: {error.strerror}") from None
    except sqlite3.DatabaseError as error:
        raise Unavailable(f"{source} cannot be copied to {target}: {error}") from None
    except Corrupt as error:
        raise type(error)(f"{source}: {error}") from None
    finally:
        with suppress(OSError):
            _remove(half)


def _write(source: str, half: str) -> None:
    with (
        closing(sqlite3.connect(source, isolation_level=None)) as old,
        closing(sqlite3.connect(half, isolation_level=None)) as fresh,
    ):
        old.backup(fresh)
        fresh.execute("PRAGMA journal_mode=DELETE")
        fresh.execute("BEGIN IMMEDIATE")
        there = tables.form_of(fresh)
        if there == tables.BEFORE:
            tables.convert(fresh)
        elif there == tables.FORM:
            tables.read(fresh)
        elif not there:
            raise Corrupt("it is empty")
        fresh.execute("COMMIT")


def _remove(path: str) -> None:
    for log in ("", "-journal", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(path + log)
