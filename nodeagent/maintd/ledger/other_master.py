"""Detect that another master's maintd may have worked since ours, with its own ledger. Pure.

maintd finds incidents again in Ganeti's own tags and jobs. Only the ledger has operators' plans:
windows and series, the repair queue, lists of moves. On a node that becomes the master again they
may long be done, or canceled elsewhere. So maintd starts none of them until a person has checked.
Another master is detected by a mark beside the ledger, which maintd writes when it is not the
master, and by jobs newer than the ledger. The same applies to earlier requests without an answer:
people must repeat them.

Where Ganeti does not know the newest job of the ledger, Ganeti was restored from a backup, or has
lost its queue in a failover. Then the ledger's plans are of another time than the cluster, too.

The ledger also has the switches, limits and attempts of the repair queue: a new master must not
start by itself what was switched off at night. So where procedures are configured, all this also
applies to a ledger without plans, and to a new one. The queue's commands are not jobs of Ganeti: a
permanent tag of the cluster shows that the queue was in use.
"""

from dataclasses import replace

from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model.ledger import Ledger
from nodeagent.model.outage import Outage
from nodeagent.model.queue import Queue
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.units import Ms

_REMEMBERS = 14 * 86_400_000  # ms; Ganeti deletes archived jobs after 21 days
SAY_AGAIN = "another node was the master meanwhile: say it again"


def seen(ledger: Ledger, marked: int, newest: int) -> int:
    """The time when another master was last detected, unix ms; 0 if none was.

    `newest` is the newest number of all of maintd's jobs.
    """
    return max(marked, newest if newest > ledger.round else 0)


def since(
    ledger: Ledger, marked: int, newest: int, now: Ms, *, repairs: bool, used: bool = False
) -> int:
    """Since when plans in the ledger may be out of date, unix ms; 0 if they are not.

    `newest` is the newest number of all of maintd's jobs; `repairs`: whether there are procedures,
    so that maintd repairs machines without a plan; `used`: whether the repair queue was in use in
    this cluster before, on any node.
    """
    if ledger.away or not (repairs or has_plans(ledger)):
        return ledger.away
    if marked:
        return marked
    new = repairs and used and not ledger.round
    return now if new or newest > ledger.round else 0


def newest_job(ledger: Ledger, now: Ms) -> str:
    """The newest job of Ganeti that the ledger knows; "" if Ganeti need not remember it."""
    jobs = [(i.promised, i.job) for i in ledger.intents if i.job]
    jobs += [
        (incident.changed_at, incident.jobs[-1]) for incident in ledger.incidents if incident.jobs
    ]
    of_ganeti = ((at, int(job)) for at, job in jobs if job.isdecimal())
    at, job = max(of_ganeti, default=(Ms(0), 0))
    return str(job) if job and now - at < _REMEMBERS else ""


def has_plans(ledger: Ledger) -> bool:
    """Check whether the ledger has plans that Ganeti does not know."""
    return bool(
        ledger.schedule.windows
        or ledger.scheduled
        or ledger.series
        or any(not entry.at_rest for entry in ledger.queue.entries)
        or any(map(_is_plan, ledger.outages))
        or ledger.agenda
        or any(hold.until for hold in ledger.holds)
    )


def _is_plan(outage: Outage) -> bool:
    back = outage.back
    return outage.wanted is not None or (back is not None and not back.unless_touched)


def is_used(queue: Queue) -> bool:
    """Check whether the repair queue has a state that only this ledger has."""
    return replace(queue, refusals=(), failed=()) != Queue()


def doubt(ledger: Ledger) -> Reason | None:
    """Why maintd starts none of its plans; None if it may."""
    if not ledger.away:
        return None
    kind = Kind.OUTDATED if has_plans(ledger) else Kind.OUTDATED_QUEUE
    return because(kind, since=rfc3339(ledger.away))
