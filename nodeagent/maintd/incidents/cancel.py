"""Cancel an incident, and put its node back if requested. Pure."""

from dataclasses import replace

from nodeagent.maintd.incidents.drained import emptying
from nodeagent.maintd.incidents.waiting import by_hand
from nodeagent.maintd.planning.names import no_such
from nodeagent.model.action import Drain
from nodeagent.model.incident import Event, Incident, Status
from nodeagent.model.ledger import Drained, Ledger
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.wish import Cancel


def cancel(ledger: Ledger, asked: Cancel, who: str, snapshot: Snapshot, now: Ms) -> Ledger | str:
    """Stop all work on an incident, whatever its state; leave its node as it is unless asked.

    A completed or failed one is ignored from here on, for as long as its node reports the fault.
    """
    incident = ledger.incident(asked.incident)
    if incident is None:
        return no_such("incident", asked.incident)
    if incident.status is not Status.CANCELED:
        canceled = incident.after(Event.CANCELED, now, f"canceled by {who}")
        # A maintd without the ledger would resume an incident that left jobs behind: tag it.
        canceled = replace(canceled, seen_at=now) if incident.jobs else canceled
        rest = tuple(canceled if i.id == incident.id else i for i in ledger.incidents)
        ledger = replace(ledger, incidents=rest)
    return _with_back(ledger, incident, who, snapshot) if asked.undrain else ledger


def _with_back(ledger: Ledger, incident: Incident, who: str, snapshot: Snapshot) -> Ledger | str:
    node = next((n for n in snapshot.nodes.values() if n.uuid == incident.node), None)
    found = next((one for one in ledger.drained if one.node == incident.node), None)
    mine = (i.action for i in ledger.intents if i.incident == incident.id)
    going = any(isinstance(action, Drain) for action in mine)
    out = node is not None and (node.drained or node.offline)
    if node is None or not (out or going):
        return ledger
    if any(one.node == incident.node for one in ledger.returning):
        return (
            f"nothing was changed: maintd puts {node.name} back already, once it has proved"
            f" healthy. Without that proof: gnt-maint done --force {node.name}. Cancel without"
            " --undrain to leave it so"
        )
    other = emptying(ledger, incident.node, found)
    if other is not None and other.id != incident.id:
        return f"{node.name} is out of service for incident {other.id} as well: cancel that first"
    if found is None and not going:
        verb = f"take {node.name} offline" if node.offline else f"drain {node.name}"
        return (
            f"nothing was changed: maintd did not {verb}. Cancel without --undrain, then run"
            f" {by_hand(node)}"
        )
    found = found or Drained(incident.node, incident.id, "")
    others = tuple(one for one in ledger.drained if one.node != incident.node)
    one = replace(
        found, incident=incident.id, back=f"{who} asked for it", tries=0, not_before=Ms(0), why=""
    )
    return replace(ledger, drained=(*others, one))
