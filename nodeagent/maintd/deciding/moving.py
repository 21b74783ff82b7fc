"""Check whether anything may move, so that others' jobs and free room matter. Pure."""

from collections.abc import Mapping

from nodeagent.maintd.autorepair.jobs import wants_room as wants_repairs
from nodeagent.maintd.balancing.plan import is_wanted
from nodeagent.maintd.balancing.plan import wants_room as wants_balance
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.maintd.queue.plan import wants_room as wants_queue
from nodeagent.maintd.windows.plan import wants_room as wants_maintenance
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.wish import Evacuate


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
        or any(not one.stage.over for one in ledger.fencing)
        or _evacuates(ledger, Observed(snapshot, diagnoses), policy, now)
    )


def wants_room(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> bool:
    """Check whether this round's decision depends on free room."""
    return (
        _evacuates(ledger, observed, policy, now)
        or any(not one.stage.over for one in ledger.fencing)
        or wants_repairs(ledger, observed, policy, now)
        or wants_balance(ledger, observed, policy)
    )


def _evacuates(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> bool:
    """Check whether a node is to be evacuated, or may be."""
    return (
        any(d.need >= Need.EVACUATE for d in observed.diagnoses.values())
        or any(i.status.active and i.diagnosis.need >= Need.EVACUATE for i in ledger.incidents)
        or any(outage.wanted is not None for outage in ledger.outages)
        or any(isinstance(wish.asked, Evacuate) for wish in observed.wishes)
        or wants_queue(ledger, policy)
        or wants_maintenance(ledger, observed, now)
    )
