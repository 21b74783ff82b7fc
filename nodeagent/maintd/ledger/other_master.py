"""Detect that another master's maintd may have worked since ours, with its own ledger. Pure.

Incidents are found again in Ganeti's own tags and jobs. What operators have planned is in the
ledger alone: windows and series, the repair queue, lists of moves. On a node that becomes the
master once more they may long be done, or canceled elsewhere; so nothing is begun for them until
somebody has looked. That another was at work is known by a mark beside the ledger, made where
maintd finds that it is not the master, and by jobs that are newer than the ledger. So are
wishes that nobody had answered before: they are said again, or hold no more.

Of the repair queue the switches, limits and attempts are in the ledger, too: what was switched
off at night must not begin again by itself on a new master. So where procedures are configured,
all this holds for a ledger without any plans, and for a new one, as well. The queue's commands
are no jobs of Ganeti's: that it was in use is told by a tag of the cluster, which stays.
"""

from dataclasses import replace
from datetime import UTC, datetime

from nodeagent.model.ledger import Ledger
from nodeagent.model.queue import Queue
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.units import Ms

SAY_AGAIN = "another node was the master meanwhile: say it again"


def seen(ledger: Ledger, marked: int, newest: int) -> int:
    """When another master was last seen to be there, unix ms; 0 if none was.

    `newest` is the newest number that any of maintd's jobs has.
    """
    return max(marked, newest if newest > ledger.round else 0)


def since(
    ledger: Ledger, marked: int, newest: int, now: Ms, *, repairs: bool, used: bool = False
) -> int:
    """Since when what is planned in the ledger may be out of date, unix ms; 0 if it is not.

    `newest` is the newest number that any of maintd's jobs has; `repairs`: whether there are
    procedures, so that machines are repaired that nobody has planned to; `used`: whether the
    repair queue was in use in this cluster before, on whatever node.
    """
    if ledger.away or not (repairs or has_plans(ledger)):
        return ledger.away
    if marked:
        return marked
    new = repairs and used and not ledger.round
    return now if new or newest > ledger.round else 0


def has_plans(ledger: Ledger) -> bool:
    """Whether there is anything that Ganeti knows nothing of."""
    return bool(
        ledger.schedule.windows
        or ledger.scheduled
        or ledger.series
        or any(not entry.at_rest for entry in ledger.queue.entries)
        or ledger.agenda
    )


def is_used(queue: Queue) -> bool:
    """Whether the repair queue is as nobody would find it again who has not this ledger."""
    return replace(queue, refusals=(), failed=()) != Queue()


def doubt(ledger: Ledger) -> Reason | None:
    """Why nothing that was planned is begun, if so."""
    if not ledger.away:
        return None
    since = f"{datetime.fromtimestamp(ledger.away / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    kind = Kind.OUTDATED if has_plans(ledger) else Kind.OUTDATED_QUEUE
    return because(kind, since=since)
