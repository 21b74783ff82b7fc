"""Evacuated nodes that wait for a person, each with the command that helps. Pure."""

from nodeagent.maintd.outage.claims import Claims, is_of_before
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.outage import Outage
from nodeagent.model.reason import Held, Kind, because
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.window import Standing


def waiting(ledger: Ledger, snapshot: Snapshot) -> list[Held]:
    """The evacuated nodes that wait for a person, with the instances left there."""
    held: list[Held] = []
    ours = {outage.node: outage for outage in ledger.outages if outage.ours}
    returning = ledger.returning()
    for incident in ledger.incidents:
        node = snapshot.by_uuid.get(incident.node)
        if incident.status is not Status.COMPLETED or node is None or not node.is_out:
            continue
        if incident.node in returning or is_of_before(incident, ours.get(incident.node)):
            continue
        if not _has_emptied(incident):
            continue
        if incident.tag not in node.tags and not incident.tag_seen:
            continue
        kind = Kind.WAITS_FOR_REPAIR if incident.tag in node.tags else Kind.STAYS_TAG_GONE
        runs = tuple(
            sorted(
                instance.name
                for instance in snapshot.instances.values()
                if instance.primary == node.name
            )
        )
        if runs and kind is Kind.WAITS_FOR_REPAIR:
            why = because(Kind.RUNS_AGAIN, node.name, state=state_of(node), runs=runs)
            held.append(Held(why, node.name, incident.id))
            continue
        mirrored = sorted(
            instance.name
            for instance in snapshot.instances.values()
            if node.name in instance.others
        )
        why = because(kind, node.name, state=state_of(node), left=tuple(mirrored))
        held.append(Held(why, node.name, incident.id))
    return held


def left_to_do(incident: Incident, snapshot: Snapshot, policy: Policy) -> str:
    """Say what closes a completed incident that nothing else waits for."""
    name = incident.name
    node = snapshot.by_uuid.get(incident.node)
    serves = node is not None and not node.is_out
    if node is not None and serves and incident.tag_seen and incident.tag not in node.tags:
        gone = "its incident closes once its agent reports that the fault is gone"
        return f"{name} is in service: {gone}"
    if incident.diagnosis.need is not Need.LIVE_REPAIR:
        if serves:
            return f"{name} is in service: gnt-maint done {name} closes its incident"
        runs = any(instance.primary == name for instance in snapshot.instances.values())
        state = "offline" if node is None else state_of(node)
        did = (
            f"{state}, and instances run there: move them off" if runs else f"evacuated and {state}"
        )
        return f"{did}: repair {name}, then run gnt-maint done {name}"
    if not incident.missed_at:
        result = f"the repair command has succeeded, but {name} has not reported Ok since"
        return f"{result}: check it, then run gnt-maint done {name}"
    result = f"the repair command has succeeded: gnt-maint done {name} closes it"
    after = None if node is None else with_tags(policy, snapshot, node).close_live_repairs
    if not serves or after is None:
        return result
    return f"{result}, or maintd does at {rfc3339(incident.missed_at + after)} if it stays healthy"


def _has_emptied(incident: Incident) -> bool:
    """Check whether its node was taken out of service for it; a rebuilt incident may be."""
    return incident.drained or incident.diagnosis.need is not Need.LIVE_REPAIR


def state_of(node: Node) -> str:
    return "offline" if node.offline else "drained"


def by_hand(node: Node) -> str:
    """The command that puts a node back."""
    return f"gnt-node modify --{state_of(node)}=no {node.name}"


def is_as_left(node: Node, outage: Outage) -> bool:
    """Check whether a node is still as our own jobs left it."""
    if outage.offline_by:
        return node.offline
    return outage.ours and node.drained and not node.offline


def is_anothers(node: Node, outage: Outage) -> bool:
    """Check whether a node is out of service, but not by our jobs, and not as it was found."""
    return node.standing not in (Standing.SERVING, outage.found) and not is_as_left(node, outage)


def unlicensed(ledger: Ledger, snapshot: Snapshot) -> dict[str, str]:
    """Say which nodes only maintd took out of service, though nobody needs that any more; and why.

    Nobody has asked for instances to leave them: auto-repair reads this.
    """
    reasons: dict[str, str] = {}
    claims = Claims(ledger)
    for outage in ledger.outages:
        node = snapshot.by_uuid.get(outage.node)
        if node is None or not node.is_out:
            continue
        if outage.back is not None and (outage.back.reported or outage.ours):
            reasons[node.name] = f"maintd puts {node.name} back into service"
        elif not outage.ended and is_as_left(node, outage) and claims.are_over(outage, node):
            did = f"took {node.name} offline" if outage.offline_by else f"drained {node.name}"
            whom = f" for incident {outage.incident}, which is not at work" * bool(outage.incident)
            reasons[node.name] = f"maintd itself {did}{whom}"
    return reasons
