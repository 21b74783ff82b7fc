"""This node's DRBD disks over time: when each was last seen connected and up to date.

The kernel says how a disk is, and not since when. A copy that lost its connection remains
`UpToDate`, so after the death of the other node only this tells whether the copy is complete.
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import MIRRORS

STATUS = "/proc/drbd"
_MOST = 4 * 1024 * 1024  # characters of it
_ROW = re.compile(r"^ *(\d{1,7}): cs:(\S+) .*?\bds:([^/\s]+)/", re.MULTILINE)
_COMPLETE = frozenset({"Connected", "VerifyS", "VerifyT"})  # each write is on both sides


class Drbd:
    """Remembers minors for as long as the kernel lists them; a new process knows nothing."""

    name = "drbd"
    category: str | None = "storage"

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._complete: Mapping[int, float] = {}

    def sample(self) -> Any:
        """Look once; return by minor the seconds of `steady` when it was last complete."""
        before, now = self._complete, self._steady()
        rows = _ROW.findall(_status())[:MIRRORS]
        complete = {
            int(minor): now if _is_complete(connection, disk) else before.get(int(minor))
            for minor, connection, disk in rows
        }
        self._complete = {minor: at for minor, at in complete.items() if at is not None}
        return self._complete

    def ages(self) -> Mapping[int, Ms]:
        """Return by minor for how long (ms) it has not been seen complete."""
        now = self._steady()
        return {minor: Ms(round(1000 * (now - at))) for minor, at in self._complete.items()}


def _status() -> str:
    try:
        with open(STATUS, encoding="ascii", errors="replace") as file:
            return file.read(_MOST)
    except FileNotFoundError:
        return ""  # the kernel has no DRBD


def _is_complete(connection: str, disk: str) -> bool:
    return connection in _COMPLETE and disk == "UpToDate"
