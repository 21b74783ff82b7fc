"""Claims on nodes: who wants a node out of service, and when that begins and ends. Pure.

An outage lasts from the first claim on a node to the last. The node then goes back to the state in
which it was found. Incidents, windows, entries of the repair queue, fencing and people claim nodes.
"""

from dataclasses import replace

from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Ledger
from nodeagent.model.outage import Back, Outage, Proof, Way
from nodeagent.model.purpose import (
    OfEntry,
    OfFencing,
    OfIncident,
    OfPerson,
    OfRoll,
    OfWindow,
    Purpose,
)
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.roll import Phase, RollNode
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms


class Claims:
    """Index of the claims in a ledger, by node: made once for many nodes."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._outages = {outage.node: outage for outage in ledger.outages}
        self._incidents: dict[str, list[Incident]] = {}
        for incident in ledger.incidents:
            self._incidents.setdefault(incident.node, []).append(incident)
        self._windows = {scheduled.node for scheduled in ledger.scheduled if scheduled.begun}
        self._entries: dict[str, list[Purpose]] = {}
        for entry in ledger.queue.entries:
            if entry.drained or entry.at_work:
                claim = OfEntry(entry.index, "")
                self._entries.setdefault(entry.address, []).append(claim)
        self._rolled = {roll_node.node for roll_node in ledger.roll_nodes if roll_node.claims}
        self._fenced = {fencing.node for fencing in ledger.fencing if not fencing.drill}
        self._working = {intent.node for intent in ledger.intents}

    def of(self, node: Node) -> list[Purpose]:
        """Return who wants this node out of service."""
        purposes: list[Purpose] = []
        outage = self._outages.get(node.uuid)
        here = self._incidents.get(node.uuid, ())
        incident = next((i for i in here if _keeps_out(i, outage)), None)
        if incident is not None:
            purposes.append(OfIncident(incident.id))
        if node.uuid in self._windows:
            purposes.append(OfWindow(node.uuid))
        purposes += self._entries.get(node.address, ())
        if outage is not None and outage.wanted is not None:
            purposes.append(OfPerson(node.uuid))
        if node.uuid in self._rolled:
            purposes.append(OfRoll(node.uuid))
        if node.uuid in self._fenced:
            purposes.append(OfFencing(node.uuid))
        return purposes

    def are_over(self, outage: Outage, node: Node) -> bool:
        """Check whether nobody needs a node out of service any more that we took out of it."""
        incident = self._ledger.incident(outage.incident)
        active = incident is not None and incident.status.active
        return outage.ours and not (active or self.of(node))

    def need(self, outage: Outage, node: Node) -> bool:
        """Check whether it still counts how a node was found, and what our jobs did to it."""
        if outage.ours or outage.back is not None or self.of(node):
            return True
        if node.name in self._working:
            return True
        here = self._incidents.get(node.uuid, ())
        return any(
            i.status is not Status.NOTED and (node.is_out or i.status is not Status.CANCELED)
            for i in here
        )


def why_under_repair(ledger: Ledger, node: Node) -> Reason | None:
    """Name the incident that is at work on the node, as a reason to wait for it."""
    for incident in ledger.incidents:
        if incident.node == node.uuid and incident.status is Status.PENDING:
            return because(Kind.UNDER_REPAIR, node.name, repair=incident.id)
    return None


def away_for(ledger: Ledger) -> list[RollNode]:
    """The nodes that are away for the roll; those whose turn was taken back, until they return."""
    back = {outage.node for outage in ledger.outages if outage.back_by(Way.ROLL)}
    return [
        roll_node
        for roll_node in ledger.roll_nodes
        if (roll_node.node in back if roll_node.in_line else roll_node.phase.away)
    ]


def is_in_turn(ledger: Ledger, node: Node) -> bool:
    """Check whether a node has its turn in a roll, or owes the roll its proof."""
    member = ledger.roll_node(node.uuid)
    if member is None:
        return False
    outage = ledger.outage(node.uuid)
    back = None if outage is None else outage.back
    owes = back is not None and back.way is Way.ROLL and member.phase is Phase.RETURNING
    return member.claims or owes


def begin(ledger: Ledger, node: Node, claim: Purpose) -> Ledger:
    """Return the ledger with an outage of a node that is about to be claimed.

    A node that was left out of service when its last outage ended is found so now; but an incident
    takes over what an earlier one has drained.
    """
    outage = ledger.outage(node.uuid)
    if outage is not None:
        lasts = outage.back is not None or Claims(ledger).of(node)
        if lasts or isinstance(claim, OfIncident):
            return ledger
    outage = outage or Outage(node.uuid)
    candidate = node.candidate and isinstance(claim, OfRoll)  # a short absence costs no role
    return ledger.with_outage(replace(outage, found=node.standing, candidate=candidate))


def release(ledger: Ledger, uuid: str, way: Way, now: Ms, proof: Proof | None = None) -> Ledger:
    """Return the ledger in which a node goes back to the state in which it was found.

    It does so once nobody else wants it out of service, and after its `proof` if it owes one. One
    that was to return without a proof owes it as well.
    """
    outage = ledger.outage(uuid)
    if outage is None:
        return ledger
    if outage.back is not None and (proof is None or outage.back.proves):
        return ledger
    back = Back(way, now, proof=proof)
    return ledger.with_outage(
        replace(outage, back=replace(back, to=outage.found) if proof else back)
    )


def incident_that_keeps_out(ledger: Ledger, node: str, outage: Outage | None) -> Incident | None:
    """Return the incident that evacuates the node (a UUID), or has evacuated it.

    Incidents that ended before our own job took it out of service do not count.
    """
    return next((i for i in ledger.incidents if i.node == node and _keeps_out(i, outage)), None)


def _keeps_out(incident: Incident, outage: Outage | None) -> bool:
    if not (incident.drained or incident.diagnosis.need >= Need.EVACUATE):
        return False
    if incident.status in (Status.FAILED, Status.COMPLETED):
        return not is_of_before(incident, outage)
    return incident.status is Status.PENDING


def is_of_before(incident: Incident, outage: Outage | None) -> bool:
    """Check whether all its jobs are older than the one that took its node out of service."""
    if outage is None or not outage.drained_by.isdecimal() or incident.id == outage.incident:
        return False
    jobs = [int(job) for job in incident.jobs if job.isdecimal()]
    return max(jobs, default=0) < int(outage.drained_by)
