"""Wishes that no round could take up in time. Pure."""

from nodeagent.model.queue import AddEntry, SetAutoRepair, SetQueue
from nodeagent.model.wish import (
    Asked,
    Balance,
    BringUp,
    ResetStorm,
    Resume,
    Retry,
    TakeDown,
    TrustLedger,
    Wish,
)

PATIENCE = 3_600_000  # ms
_AT_ONCE = AddEntry | Balance | BringUp | ResetStorm | Resume | Retry | TakeDown | TrustLedger


def too_late(wish: Wish, now: int) -> str:
    """Why it is granted no more, if so.

    What begins or releases something at once nobody expects hours later. What stops something,
    or plans it, is granted whenever it can be.
    """
    waited = now - wish.at
    if waited <= PATIENCE or not _is_for_now(wish.asked):
        return ""
    return f"no round could be held for {waited // 60_000} minutes: say it again if it still holds"


def _is_for_now(asked: Asked) -> bool:
    if isinstance(asked, SetQueue | SetAutoRepair):
        return asked.enabled
    return isinstance(asked, _AT_ONCE)
