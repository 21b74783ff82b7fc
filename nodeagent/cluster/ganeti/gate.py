"""A filter in Ganeti's job queue that keeps out jobs of maintd's older epochs.

Several maintd may share one RAPI, which takes jobs from each: a lease guards the ledger, and not
Ganeti. So the reason of each job begins with its epoch, and who takes over makes Ganeti reject
those of older epochs before its first job. A maintd that wakes after an hour may then still submit,
and Ganeti cancels that job. Jobs that were there before the filter are left alone.

Ganeti 3.0 takes regular expressions in filters and matches none, so epochs have a fixed width and
are compared as texts.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from nodeagent.cluster.ganeti.jobqueue import EPOCH
from nodeagent.errors import Unavailable

UUID = "6d61696e-7464-4a0b-8f17-65706f636801"  # of the one filter that all our epochs replace
_OF_FILTER = re.compile(rf"{EPOCH}([0-9]{{19}})")


class Filters(Protocol):
    """The part of RAPI that a gate needs; both raise Unavailable."""

    def filter(self, uuid: str) -> Mapping[str, Any] | None:
        """Return a filter, or None."""
        ...

    def put_filter(self, uuid: str, rule: Mapping[str, Any]) -> None:
        """Make a filter, or replace it."""
        ...


class Gate:
    """Keeps the filter at our epoch; `epoch` tells it, 0 while we hold no lease."""

    def __init__(self, filters: Filters, epoch: Callable[[], int]) -> None:
        self._filters = filters
        self._epoch = epoch
        self._shut = 0  # to all epochs before this one

    def shut(self) -> None:
        """Make Ganeti reject the jobs of older epochs.

        Unavailable: that cannot be done, or a maintd with a higher epoch has done it.
        """
        if not (epoch := self._epoch()):
            return
        there = self._filters.filter(UUID)
        if (now := _epoch_of(there)) > epoch:
            raise Unavailable(
                f"another maintd acts by Ganeti's job filter: its epoch is {now}, and ours is"
                f" {epoch}; if none does, run gnt-filter delete {UUID}"
            )
        if now != epoch:
            self._filters.put_filter(UUID, rule(epoch))
        self._shut = epoch

    def marked(self, reason: str) -> str:
        """Return a job's reason with our epoch; Unavailable if the filter is not at it."""
        epoch = self._epoch()
        if not epoch or epoch != self._shut:
            raise Unavailable("Ganeti does not reject the jobs of older epochs yet")
        return f"{_text(epoch)}:{reason}"


def rule(epoch: int) -> dict[str, Any]:
    """Return the filter of an epoch."""
    older = ["&", [">=", "reason", EPOCH], ["<", "reason", _text(epoch)]]
    return {
        "priority": 0,
        "predicates": [["jobid", [">", "id", "watermark"]], ["reason", older]],
        "action": "REJECT",
        "reason": [["gnt:user", f"no job of a maintd before epoch {epoch}", 0]],
    }


def _text(epoch: int) -> str:
    return f"{EPOCH}{epoch:019}"


def _epoch_of(there: Mapping[str, Any] | None) -> int:
    """Return the oldest epoch that a filter lets through; 0 if it is not ours."""
    if there is None or there.get("action") != "REJECT":
        return 0
    found = _OF_FILTER.findall(str(there.get("predicates")))
    return int(found[0]) if len(found) == 1 else 0
