"""Questions of a round, such as others' jobs and free room if anything may move. Pure."""

from collections.abc import Mapping, Sequence

from nodeagent.maintd.autorepair import offline
from nodeagent.maintd.autorepair.jobs import in_tags as jobs_of_repairs
from nodeagent.maintd.autorepair.jobs import wants_room as wants_repairs
from nodeagent.maintd.autorepair.jobs import why_withdrawn
from nodeagent.maintd.balancing.plan import is_wanted
from nodeagent.maintd.balancing.plan import wants_room as wants_balance
from nodeagent.maintd.fencing.state import why_canceled
from nodeagent.maintd.outage.job_queue import first_job_to_recover, first_role_job
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.maintd.queue.plan import wants_room as wants_queue
from nodeagent.maintd.rolls import plan as rolls
from nodeagent.maintd.windows.plan import wants_room as wants_maintenance
from nodeagent.maintd.windows.series import zones_of
from nodeagent.model.action import move_of
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.ledger import Intent, Ledger, Policy
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.wish import Evacuate, StartRoll, Wish

__all__ = [
    "blocking_alerts",
    "first_job_to_recover",
    "first_role_job",
    "jobs_of_repairs",
    "offline_nodes",
    "wants_others_jobs",
    "wants_room",
    "why_obsolete",
    "zones",
]


def wants_others_jobs(
    ledger: Ledger,
    snapshot: Snapshot,
    diagnoses: Mapping[str, Diagnosis],
    policy: Policy,
    now: Ms,
) -> bool:
    """Check whether others' jobs may be in the way of this round's work."""
    return (
        with_tags(policy, snapshot).autorepair != "off"
        or is_wanted(ledger, snapshot, policy)
        or any(not fencing.stage.over for fencing in ledger.fencing)
        or _evacuates(ledger, Observed(snapshot, diagnoses), policy, now)
    )


def wants_room(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> bool:
    """Check whether this round's decision depends on free room."""
    return (
        _evacuates(ledger, observed, policy, now)
        or any(not fencing.stage.over for fencing in ledger.fencing)
        or wants_repairs(ledger, observed, policy, now)
        or wants_balance(ledger, observed, policy)
    )


def offline_nodes(ledger: Ledger, snapshot: Snapshot, *, repairs: bool) -> frozenset[str]:
    """The nodes marked offline that are polled all the same; `repairs`: auto-repair is on."""
    doubtful = offline.to_ask(ledger, snapshot) if repairs else frozenset[str]()
    return doubtful | rolls.to_ask(ledger, snapshot)


def zones(ledger: Ledger, wishes: Sequence[Wish]) -> set[str]:
    """The names of the time zones that weekly series and the roll's hours are in."""
    asked = [wish.asked.terms.hours for wish in wishes if isinstance(wish.asked, StartRoll)]
    if (roll := ledger.open_roll) is not None:
        asked.append(roll.terms.hours)
    return zones_of(ledger, wishes) | {hours.zone for hours in asked if hours is not None}


def blocking_alerts(ledger: Ledger) -> tuple[str, ...]:
    """The matchers of alerts that keep a roll from going on; none: nobody is to be asked."""
    roll = ledger.open_roll
    return () if roll is None else roll.terms.blocked_by


def why_obsolete(intent: Intent, ledger: Ledger, observed: Observed, now: Ms) -> str:
    """Why a job is canceled if it has not begun; empty if it is not obsolete."""
    reinstallation = why_withdrawn(move_of(intent.action), observed.snapshot)
    return reinstallation or why_canceled(intent, ledger, observed, now)


def _evacuates(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> bool:
    """Check whether a node is to be evacuated, or may be."""
    return (
        any(d.need >= Need.EVACUATE for d in observed.diagnoses.values())
        or any(i.status.active and i.diagnosis.need >= Need.EVACUATE for i in ledger.incidents)
        or any(outage.wanted is not None for outage in ledger.outages)
        or any(isinstance(wish.asked, Evacuate | StartRoll) for wish in observed.wishes)
        or wants_queue(ledger, policy)
        or wants_maintenance(ledger, observed, now)
        or ledger.open_roll is not None
    )
