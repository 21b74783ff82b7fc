"""Whether another master's maintd may have worked since ours did, with a ledger of its own.

Incidents are found again in Ganeti's own tags and jobs. What operators have planned is in the
ledger alone: windows and series, the repair queue, lists of moves. On a node that becomes the
master once more they may long be done, or canceled elsewhere; so nothing is begun for them until
somebody has looked. That another was at work is known by a mark beside the ledger, made where
maintd finds that it is not the master, and by jobs that are newer than the ledger.
"""

import os
from contextlib import suppress
from datetime import UTC, datetime

from nodeagent.model.ledger import Ledger

_MARK = "away"
_LOOK = "look at gnt-maint window list, queue list and balance, then gnt-maint resume --ledger"


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


def since(ledger: Ledger, marked: int, newest: int, now: int) -> int:
    """Since when what is planned in the ledger may be out of date, unix ms; 0 if it is not.

    `newest` is the newest number that any of maintd's jobs has.
    """
    if ledger.away or not has_plans(ledger):
        return ledger.away
    if marked:
        return marked
    return now if newest > ledger.round else 0


def has_plans(ledger: Ledger) -> bool:
    """Whether there is anything that Ganeti knows nothing of."""
    return bool(
        ledger.schedule.windows
        or ledger.scheduled
        or ledger.series
        or any(not entry.at_rest for entry in ledger.queue.entries)
        or ledger.agenda
    )


def doubt(ledger: Ledger) -> str | None:
    """Why nothing that was planned is begun, if so."""
    if not ledger.away:
        return None
    at = datetime.fromtimestamp(ledger.away / 1000, UTC)
    return (
        f"since {at:%Y-%m-%d %H:%M} UTC another node was the master: windows, repair queue and"
        f" lists of moves may be out of date: {_LOOK}"
    )
