"""Requests that begin and end an outage: evacuate a node, it is done, cancel an incident. Pure."""

from dataclasses import replace

from nodeagent.maintd.outage.claims import begin, incident_that_keeps_out, is_in_turn
from nodeagent.maintd.outage.waiting import by_hand, state_of
from nodeagent.maintd.planning.admission import waits_for_person
from nodeagent.maintd.planning.intents import without_lost
from nodeagent.maintd.planning.names import no_such
from nodeagent.model.action import Drain
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Incident, Status, StatusEvent
from nodeagent.model.ledger import Ledger
from nodeagent.model.outage import Back, Outage, Wanted, Way
from nodeagent.model.purpose import OfPerson, Purpose
from nodeagent.model.reason import Kind, because
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.window import Standing
from nodeagent.model.wish import Cancel, Done, Evacuate


def done(ledger: Ledger, asked: Done, who: str, observed: Observed, now: Ms) -> Ledger | str:
    """Close a node's ended incidents, end a person's request, and return the node as it was found.

    While an incident evacuates the node, or in its turn in a roll, only the request ends. A live
    repair or a queue entry that waits for the person begins then, and the node returns after it.
    """
    node = observed.snapshot.nodes.get(asked.node)
    if node is None:
        return no_such("node", asked.node)
    outage = ledger.outage(node.uuid) or Outage(node.uuid)
    if (kept := _without_request(ledger, node, outage)) is not None:
        return ledger.with_outage(kept)
    if why := _why_not_done(ledger, node, outage):
        return why
    fault = _unhealthy(node, observed)
    goes_on = _waits_in_queue(ledger, node, outage) or _waiting(ledger, node, outage)
    if fault and not (asked.force or node.offline or goes_on):
        return (
            f"{node.name} is not healthy: {fault}: repair it first, or insist with"
            f" gnt-maint done --force {node.name}"
        )
    before = outage.reported
    back = Back(
        Way.FORCED if asked.force else Way.DONE,
        now,
        who,
        _goal(asked, node, outage),
        online=not node.offline,
        fenced=_is_fenced(ledger, node, outage),
    )
    if not (fault or node.offline):  # a second request keeps the proof
        back = replace(back, well=before.well if before is not None and before.well else now)
    over = ledger.with_outage(replace(outage, back=back, wanted=None))
    return without_lost(over, observed, lambda intent: _is_of_node(intent.purpose, node))


def _without_request(ledger: Ledger, node: Node, outage: Outage) -> Outage | None:
    """Return the outage of a node that stays out for others when a person's request ends."""
    if outage.wanted is None:
        return None
    keeper = incident_that_keeps_out(ledger, node.uuid, outage)
    if keeper is not None and keeper.status.active:
        # It puts the node back if it is withdrawn.
        return replace(outage, wanted=None, incident=outage.incident or keeper.id)
    return replace(outage, wanted=None) if is_in_turn(ledger, node) else None


def _why_not_done(ledger: Ledger, node: Node, outage: Outage) -> str:
    """Say why nothing of a node can be closed now; empty if something can."""
    incidents = _incidents_of(node, ledger)
    if is_in_turn(ledger, node):
        return _why_in_turn(node, incident_that_keeps_out(ledger, node.uuid, outage))
    waiting = _waiting(ledger, node, outage)
    for incident in incidents:
        if incident.status.active and not incident.by_hand and incident not in waiting:
            return (
                f"incident {incident.id} of {node.name} has not ended: wait for it, or run"
                f" gnt-maint cancel {incident.id}"
            )
    fencing = ledger.fencing_of(node.uuid)
    if fencing is not None and not fencing.stage.over:
        return f"maintd is still fencing {node.name}: see gnt-maint why {node.name}"
    if (
        _is_fenced(ledger, node, outage)
        or outage.wanted is not None
        or any(_waits(incident, node) for incident in incidents)
        or (outage.ours and node.is_out)
    ):
        return ""
    stays = f"{state_of(node)}: {by_hand(node)}" if node.is_out else "in service"
    return f"no incident of {node.name} waits to be closed; {node.name} is {stays}"


def _incidents_of(node: Node, ledger: Ledger) -> list[Incident]:
    return [incident for incident in ledger.incidents if incident.node == node.uuid]


def _waiting(ledger: Ledger, node: Node, outage: Outage) -> list[Incident]:
    """The incidents that wait for the person who works at the node, or for an entry that does."""
    queued = _waits_in_queue(ledger, node, outage)
    return [
        incident
        for incident in _incidents_of(node, ledger)
        if waits_for_person(incident, outage) or (queued and incident.status is Status.NOTED)
    ]


def _is_fenced(ledger: Ledger, node: Node, outage: Outage) -> bool:
    """Check whether the node was fenced, and has not proved since that nothing stale runs there."""
    before = outage.reported
    fenced = ledger.fencing_of(node.uuid) is not None
    return fenced or (before is not None and before.fenced)


def _waits_in_queue(ledger: Ledger, node: Node, outage: Outage) -> bool:
    """Check whether an entry of the repair queue waits for the person who works at the node."""
    person = outage.evacuated_for
    if person is None:
        return False
    here = (entry for entry in ledger.queue.entries if entry.address == node.address)
    return any(not entry.at_rest and entry.who != person.who for entry in here)


def _why_in_turn(node: Node, keeper: Incident | None) -> str:
    """Say why nobody puts a node back; the roll waits for an ended incident that keeps it out."""
    if keeper is not None:
        turn = f"{node.name} has its turn in a roll, which waits for incident {keeper.id}:"
        return f"{turn} leave it out first: gnt-maint roll skip {node.name}"
    return (
        f"{node.name} has its turn in a roll: wait until it is back, or leave it out first:"
        f" gnt-maint roll skip {node.name}"
    )


def _is_of_node(purpose: Purpose, node: Node) -> bool:
    """Check whether a job is for the node's return, a person, a window or a roll."""
    return node.uuid in (purpose.back, purpose.person, purpose.window, purpose.roll)


def evacuate(
    ledger: Ledger, asked: Evacuate, who: str, observed: Observed, now: Ms
) -> Ledger | str:
    """Have a node evacuated for a person, until he reports it done."""
    node = observed.snapshot.nodes.get(asked.node)
    if node is None:
        return no_such("node", asked.node)
    if node.name == observed.snapshot.master:
        return str(because(Kind.MASTER, node.name))
    stuck = [i for i in observed.snapshot.instances.values() if i.primary == node.name]
    if node.offline and stuck:
        return str(because(Kind.ONLY_FAILOVER, node.name))
    if not asked.why.strip():
        return "why is empty: say why, for those who wonder where the node is"
    ledger = begin(ledger, node, OfPerson(node.uuid))
    outage = ledger.outage(node.uuid) or Outage(node.uuid)
    before = outage.wanted
    wanted = Wanted(who, now, asked.why, asked.offline)
    if before is not None:
        wanted = replace(wanted, begun=before.begun, drained=before.drained)
    ledger = without_lost(ledger, observed, lambda intent: intent.purpose.person == node.uuid)
    return ledger.with_outage(replace(outage, back=None, wanted=wanted))


def _goal(asked: Done, node: Node, outage: Outage) -> Standing:
    """Return the state in which to leave a node that is repaired."""
    if not node.is_out or asked.keep == "offline":
        return node.standing
    drained = not outage.drained_by and outage.found is Standing.DRAINED
    return Standing.DRAINED if asked.keep == "drained" or drained else Standing.SERVING


def _waits(incident: Incident, node: Node) -> bool:
    """Check whether an incident of the node waits for a person."""
    if incident.status in (Status.COMPLETED, Status.FAILED):
        return True
    return incident.status is Status.CANCELED and (node.is_out or incident.tag in node.tags)


def _unhealthy(node: Node, observed: Observed) -> str:
    """Say why its agent does not report Ok; empty if it does."""
    diagnosis = observed.diagnoses.get(node.name)
    if diagnosis is None:
        return f"its agent is in doubt ({observed.doubts.get(node.name, 'not asked')})"
    return "" if diagnosis.need is Need.OK else f"its agent reports {diagnosis.need.wire}"


def cancel(ledger: Ledger, asked: Cancel, who: str, observed: Observed, now: Ms) -> Ledger | str:
    """Stop all work on an incident, whatever its state; leave its node as it is unless asked.

    A completed or failed one is ignored from here on, for as long as its node reports the fault.
    """
    incident = ledger.incident(asked.incident)
    if incident is None:
        return no_such("incident", asked.incident)
    if incident.status is not Status.CANCELED:
        canceled = incident.after(StatusEvent.CANCELED, now, f"canceled by {who}")
        # A maintd without the ledger would resume an incident that left jobs behind: tag it.
        canceled = replace(canceled, seen_at=now) if incident.jobs else canceled
        ledger = ledger.with_incident(canceled)
    return _undrained(ledger, incident, who, observed.snapshot, now) if asked.undrain else ledger


def _undrained(
    ledger: Ledger, incident: Incident, who: str, snapshot: Snapshot, now: Ms
) -> Ledger | str:
    node = snapshot.by_uuid.get(incident.node)
    outage = ledger.outage(incident.node)
    mine = (i.action for i in ledger.intents if i.incident == incident.id)
    going = any(isinstance(action, Drain) for action in mine)
    out = node is not None and node.is_out
    if node is None or not (out or going):
        return ledger
    if outage is not None and outage.reported is not None:
        return (
            f"nothing was changed: maintd puts {node.name} back already, once it has proved"
            f" healthy. Without that proof: gnt-maint done --force {node.name}. Cancel without"
            " --undrain to leave it so"
        )
    if is_in_turn(ledger, node):
        why = _why_in_turn(node, None)
        return f"nothing was changed: {why}. Cancel without --undrain to leave it so"
    other = incident_that_keeps_out(ledger, incident.node, outage)
    if other is not None and other.id != incident.id:
        return f"{node.name} is out of service for incident {other.id} as well: cancel that first"
    if (outage is None or not outage.ours) and not going:
        verb = f"take {node.name} offline" if node.offline else f"drain {node.name}"
        return (
            f"nothing was changed: maintd did not {verb}. Cancel without --undrain, then run"
            f" {by_hand(node)}"
        )
    back = Back(Way.UNDRAINED, now, who)
    outage = outage or Outage(incident.node)
    return ledger.with_outage(replace(outage, incident=incident.id, back=back, why=""))
