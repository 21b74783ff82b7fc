"""Decide whether work on an incident may start or continue; each "no" has a reason. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping

from nodeagent.maintd.planning.resources import Room
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.outage import Outage
from nodeagent.model.reason import AgentKind, Detail, Kind, LedgerKind, Reason, because
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import LIFE

_ON_ITS_WAY = 5_000  # ms: an order takes no longer to its agent


def keeps(incident: Incident, node: Node, observed: Observed) -> bool:
    """Check whether an incident reserves its node, so that nothing else starts there.

    An active one does not reserve an offline node, nor one that a person repairs. A failed one
    reserves its node for a person until the node reports Ok, and longer while the node stays
    drained for it.
    """
    if incident.status.active:
        return not (node.offline or incident.by_hand)
    if incident.status is not Status.FAILED:
        return False
    return not observed.is_healthy(node.name) or (incident.drained and node.drained)


def well_since(incident: Incident, diagnosis: Diagnosis | None, policy: Policy, now: Ms) -> int:
    """Since when the node of an ended incident has reported Ok; 0 if it does not.

    After some time it is healed: another fault is not this one.
    """
    if diagnosis is None:
        return incident.missed_at
    if diagnosis.need is Need.OK:
        return incident.missed_at or now
    healed = diagnosis != incident.diagnosis and now - incident.missed_at >= policy.withdraw
    return incident.missed_at if healed else 0


def failed_before(incident: Incident, ledger: Ledger, policy: Policy) -> Reason | None:
    """Why a person has to check first; a failure expires once the node was healthy for a while."""
    for other in ledger.incidents:
        if other.status is not Status.FAILED or other.node != incident.node:
            continue
        healed = other.missed_at and incident.noted_at - other.missed_at >= policy.withdraw
        if not healed:
            return because(Kind.FAILED_BEFORE, incident.name)
    return None


def may_go_on(incident: Incident, observed: Observed, holds: Mapping[str, Reason]) -> Reason | None:
    """Why no more work on an incident, started or not, is allowed; None if it is."""
    if why := holds.get(incident.id):
        return why
    if doubt := observed.doubts.get(incident.name):
        return because(Kind.DOUBT, incident.name, doubt=doubt)
    diagnosis = observed.diagnoses.get(incident.name)
    if diagnosis is not None and diagnosis != incident.diagnosis and not incident.repaired:
        return because(Kind.CHANGED, incident.name, need=diagnosis.need.wire)
    return None


def no_orders(name: str, observed: Observed) -> Reason | None:
    """Why no order can go to a node's agent now.

    A new master would not know of it, the agent says that it refuses, or its clock is too far
    ahead. An order that went out all the same would count as a try.
    """
    return not_written(observed) or refuses_orders(name, observed) or clock_ahead(name, observed)


def not_written(observed: Observed) -> Reason | None:
    """Why no order goes out that a new master would not know of; None if Ganeti took the ledger."""
    return because(LedgerKind.NOT_WRITTEN, why=observed.unwritten) if observed.unwritten else None


def refuses_orders(name: str, observed: Observed) -> Reason | None:
    """Why a node's agent refuses each order now, as it says in its report."""
    why = observed.refusing.get(name)
    return because(AgentKind.REFUSES_ORDERS, name, why=why) if why else None


def clock_ahead(name: str, observed: Observed) -> Reason | None:
    """Why an order of ours would not be valid any more as it arrives."""
    ahead = observed.clocks.get(name, 0)
    if ahead < LIFE - _ON_ITS_WAY:
        return None
    return because(AgentKind.CLOCK_AHEAD, name, by=rounded(ahead))


def rounded(ms: int) -> int:
    """Return a difference of clocks without what two polls measure differently."""
    return round(ms, -4)


def may_begin_there(
    incident: Incident, ledger: Ledger, observed: Observed, *, referred: bool
) -> Reason | None:
    """Why no work may start at the node itself.

    Whoever has had the node evacuated works on it: nothing is repaired there beside them. A fault
    without a repair command, which is not `referred` to the repair queue, calls a person as ever.
    """
    node = observed.snapshot.nodes.get(incident.name)
    if node is not None and node.offline:
        return because(Kind.OFFLINE, node.name, incident=incident.id)
    outage = ledger.outage(incident.node) or Outage(incident.node)
    person = outage.evacuated_for
    repaired = incident.diagnosis.command is not None or referred
    if person is not None and repaired and waits_for_person(incident, outage):
        return because(Kind.EVACUATED_BY_PERSON, incident.name, who=person.who)
    return None


def waits_for_person(incident: Incident, outage: Outage) -> bool:
    """Check whether a live repair waits for the person who has had its node evacuated."""
    repairs = incident.status is Status.NOTED and incident.diagnosis.need is Need.LIVE_REPAIR
    return repairs and outage.evacuated_for is not None


def may_begin(
    incident: Incident,
    ledger: Ledger,
    policy: Policy,
    paused: Mapping[str, Reason],
    now: Ms,
) -> Reason | None:
    """Why work on a detected incident may not start yet, whatever other work runs."""
    if why := paused.get(incident.name):
        return why
    if ledger.storm is not None:
        return because(Kind.STORM, why=ledger.storm.why)
    name = incident.name
    if incident.not_before > now:
        return because(Kind.NOT_AGAIN, name, left=incident.not_before - now, why=incident.why)
    if why := _settles(incident, policy, now):
        return why
    begun = [b for b in ledger.begun if b.node == incident.node and b.incident != incident.id]
    lately = [b for b in begun if now - b.at < policy.attempts_within]
    if len(lately) >= policy.attempts:
        within, limit = policy.attempts_within, policy.attempts
        return because(Kind.ATTEMPTS, name, times=len(lately), within=within, most=limit)
    # A worse fault need not wait for the effect of the last repair.
    after = max((b.at for b in begun if b.need >= incident.diagnosis.need), default=None)
    if after is not None and after + policy.cooldown > now:
        return because(Kind.COOLING_DOWN, name, left=after + policy.cooldown - now)
    return None


CHANGES = 2  # in a row, until the reason says that the details change all the time
PATIENCE = 5  # times `settle`, for which a node asks for the same need until maintd works on it


def _settles(incident: Incident, policy: Policy, now: Ms) -> Reason | None:
    """Why the fault has not settled; not for ever where only its details change again and again."""
    remaining = incident.noted_at + policy.settle - now
    if incident.restless and remaining > 0:
        at_last = incident.restless + PATIENCE * policy.settle - now
        if at_last <= 0:
            return None
        if incident.changes >= CHANGES:
            details: dict[str, Detail] = {"whose": incident.differs, "left": at_last}
            return because(Kind.NEVER_SETTLES, incident.name, **details)
    return because(Kind.SETTLING, incident.name, left=remaining) if remaining > 0 else None


def no_room_in_work(node: Node, room: Room, policy: Policy) -> Reason | None:
    """Why no more nodes may be worked on beside those in work."""
    nodes = room.snapshot.by_uuid
    at_work = [nodes[uuid] for uuid in room.in_work if uuid in nodes]
    if (count := len(room.in_work)) >= policy.nodes_in_work:
        limit, named = policy.nodes_in_work, tuple(sorted(other.name for other in at_work))
        return because(Kind.NODES_IN_WORK, count=count, most=limit, nodes=named)
    groups = Counter(other.group for other in at_work)
    if (count := groups[node.group]) >= policy.group_in_work:
        return because(Kind.GROUP_IN_WORK, node.name, count=count, most=policy.group_in_work)
    return None


def another_candidate(
    node: Node, incidents: Iterable[Incident], nodes: Mapping[str, Node]
) -> Reason | None:
    """Why no queue entry starts on a master candidate; one entry at a time works on a candidate."""
    if not node.candidate:
        return None
    for incident in incidents:
        other = nodes.get(incident.node)
        if other is None or other is node or incident.status is not Status.PENDING:
            continue
        if other.candidate:
            return because(Kind.OTHER_CANDIDATE, other.name)
    return None
