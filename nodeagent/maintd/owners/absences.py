"""The absences of nodes about which owners of instances there are asked: why, when, who decides.

A window asks from the moment it is planned, a roll from its start, an incident once it is detected.
Pure.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.offer import Milestone, Offer, Work
from nodeagent.model.roll import Roll, RollNode
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import NANOSECONDS, Consent, Mode, Scheduled, Unavailability, Weight


@dataclass(frozen=True, slots=True)
class Key:
    """The identity of an absence: of a node (a UUID), for some work, and when."""

    node: str
    work: Work
    when: Unavailability


@dataclass(frozen=True, slots=True)
class Absence:
    """A node's absence; times are unix ms. `why` is for owners.

    `begun`: work there has begun. `asks`: owners can still answer. `not_before`: work begins no
    earlier unless all owners accept. `consent` is the weight of their answers until the `deadline`,
    if any; then waiting for them ends, or they must have accepted.
    """

    key: Key
    begun: bool
    asks: bool
    why: str = ""
    not_before: Ms = Ms(0)
    consent: Consent = field(default=Consent())
    deadline: Ms | None = None


def absences(ledger: Ledger, snapshot: Snapshot, policy: Policy) -> list[Absence]:
    """All absences of nodes that are foreseen, or have begun."""
    nodes = snapshot.by_uuid
    foreseen = [of_window(scheduled) for scheduled in ledger.scheduled if scheduled.node in nodes]
    if (roll := ledger.open_roll) is not None:
        rolled = (
            roll_node
            for roll_node in roll.nodes
            if roll_node.node in nodes and not roll_node.phase.over
        )
        foreseen += [of_roll(roll, roll_node) for roll_node in rolled]
    return [*foreseen, *_of_incidents(ledger.incidents, snapshot, policy)]


def of_window(scheduled: Scheduled) -> Absence:
    """Return the absence of a machine for its window."""
    draining, consent = scheduled.mode is Mode.DRAINING, scheduled.consent
    return Absence(
        Key(scheduled.node, Work.WINDOW, scheduled.when),
        begun=scheduled.begun or not draining,
        asks=draining,
        consent=consent,
        deadline=_deadline(consent, Ms(scheduled.when.start_ms - consent.before)),
    )


def _deadline(consent: Consent, at: Ms) -> Ms | None:
    return None if consent.weight is Weight.ADVISORY else at


def of_roll(roll: Roll, member: RollNode) -> Absence:
    """Return the absence of a node for its turn, which may come at once."""
    waits, terms = member.in_line, roll.terms
    earliest = Ms(roll.at + terms.notice)
    lasts = Nanoseconds(terms.return_within * NANOSECONDS)
    when = Unavailability(Nanoseconds(earliest * NANOSECONDS), lasts)
    return Absence(
        Key(member.node, Work.ROLL, when),
        begun=not waits,
        asks=waits,
        why=f"it runs {terms.command}" + (f": {terms.why}" if terms.why else ""),
        not_before=earliest,
        consent=terms.consent,
        deadline=_deadline(terms.consent, Ms(roll.at + terms.deadline)),
    )


def _of_incidents(
    incidents: Iterable[Incident], snapshot: Snapshot, policy: Policy
) -> Iterator[Absence]:
    for incident in incidents:
        node = snapshot.by_uuid.get(incident.node)
        if node is None or not incident.status.active or incident.diagnosis.need < Need.EVACUATE:
            continue
        nearest = with_tags(policy, snapshot, node)
        if nearest.acts or incident.status is Status.PENDING:
            yield of_incident(incident, nearest.owners_notice)


def of_incident(incident: Incident, notice: Ms) -> Absence:
    """Return the absence for an incident; `notice` (ms) is the time that owners have to accept.

    Only an evacuation without failover can wait for them.
    """
    need, waits = incident.diagnosis.need, incident.status is Status.NOTED
    earliest = Ms(incident.noted_at + (notice if need is Need.EVACUATE else 0))
    when = Unavailability(Nanoseconds(earliest * NANOSECONDS))
    return Absence(
        Key(incident.node, Work.INCIDENT, when),
        begun=not waits,
        asks=waits,
        why=f"the node asks for {need.wire}",
        not_before=earliest,
    )


def key_of(notice: Offer | Milestone) -> Key:
    """Return the identity of the absence that an owner was asked about."""
    return Key(notice.node, notice.work, notice.unavailability)
