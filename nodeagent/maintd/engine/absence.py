"""The mark on disk that maintd was not the active master on this node."""

import os
from contextlib import suppress

_MARK = "away"


def mark(folder: str) -> None:
    """Record beside the ledger that this is not the master now; OSError if that fails.

    Without a ledger there is nothing to record, and an existing mark stays.
    """
    if os.path.exists(f"{folder}/ledger.sqlite"):
        with suppress(FileExistsError), open(f"{folder}/{_MARK}", "x"):
            pass


def marked(folder: str) -> int:
    """The first time when this was not the master, unix ms; 0 if it always was."""
    try:
        return os.stat(f"{folder}/{_MARK}").st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return 0


def unmark(folder: str) -> None:
    """Remove the mark, once the ledger has it."""
    with suppress(FileNotFoundError):
        os.unlink(f"{folder}/{_MARK}")
