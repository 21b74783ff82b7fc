"""The mark on disk that maintd was not acting on this node."""

import os
from contextlib import suppress

_MARK = "away"


def mark(folder: str) -> None:
    """Note beside the ledger that this is not the master now; OSError if that cannot be.

    Without a ledger there is nothing to note, and what is noted already stays.
    """
    if os.path.exists(f"{folder}/ledger.sqlite"):
        with suppress(FileExistsError), open(f"{folder}/{_MARK}", "x"):
            pass


def marked(folder: str) -> int:
    """When it was first seen not to be the master, unix ms; 0 where it always was."""
    try:
        return os.stat(f"{folder}/{_MARK}").st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return 0


def unmark(folder: str) -> None:
    """The ledger itself has it now."""
    with suppress(FileNotFoundError):
        os.unlink(f"{folder}/{_MARK}")
