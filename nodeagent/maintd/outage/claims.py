"""Claims on nodes: who wants a node out of service, and when that begins and ends. Pure.

An outage lasts from the first claim on a node to the last. The node then goes back to the state in
which it was found. Incidents, windows, entries of the repair queue, fencing and people claim nodes.
"""

from dataclasses import replace

from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Ledger
from nodeagent.model.outage import Back, Outage, Way
from nodeagent.model.purpose import OfEntry, OfFencing, OfIncident, OfPerson, OfWindow, Purpose
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms
from nodeagent.model.window import Standing


def claims(ledger: Ledger, node: Node) -> list[Purpose]:
    """Return who wants the node out of service now."""
    found: list[Purpose] = []
    outage = ledger.outage(node.uuid)
    incident = incident_that_keeps_out(ledger, node.uuid, outage)
    if incident is not None:
        found.append(OfIncident(incident.id))
    if any(one.node == node.uuid and one.begun for one in ledger.scheduled):
        found.append(OfWindow(node.uuid))
    found += [
        OfEntry(entry.index, "")
        for entry in ledger.queue.entries
        if entry.address == node.address and (entry.drained or entry.at_work)
    ]
    if outage is not None and outage.wanted is not None:
        found.append(OfPerson(node.uuid))
    if any(one.node == node.uuid and not one.drill for one in ledger.fencing):
        found.append(OfFencing(node.uuid))
    return found


def begin(ledger: Ledger, node: Node, claim: Purpose) -> Ledger:
    """Return the ledger with an outage of a node that is about to be claimed.

    A node that was left out of service when its last outage ended is found so now; but an incident
    takes over what an earlier one has drained.
    """
    outage = ledger.outage(node.uuid)
    if outage is not None:
        lasts = outage.back is not None or claims(ledger, node)
        if lasts or isinstance(claim, OfIncident):
            return ledger
    found = Standing.of(drained=node.drained, offline=node.offline)
    return ledger.with_outage(replace(outage or Outage(node.uuid), found=found))


def release(ledger: Ledger, uuid: str, way: Way, now: Ms) -> Ledger:
    """Return the ledger in which a node goes back to the state in which it was found.

    It does so once nobody else wants it out of service.
    """
    outage = ledger.outage(uuid)
    if outage is None or outage.back is not None:
        return ledger
    return ledger.with_outage(replace(outage, back=Back(way, now)))


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


def is_idle(ledger: Ledger, outage: Outage, node: Node) -> bool:
    """Check whether nobody needs a node out of service any more that we took out of it."""
    incident = ledger.incident(outage.incident)
    active = incident is not None and incident.status.active
    return outage.ours and not (active or claims(ledger, node))


def is_needed(ledger: Ledger, outage: Outage, node: Node) -> bool:
    """Check whether it still counts how a node was found, and what our jobs did to it."""
    if outage.ours or outage.back is not None or claims(ledger, node):
        return True
    if any(intent.node == node.name for intent in ledger.intents):
        return True
    out = node.drained or node.offline
    return any(
        i.status is not Status.NOTED and (out or i.status is not Status.CANCELED)
        for i in ledger.incidents
        if i.node == node.uuid
    )
