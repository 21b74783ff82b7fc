"""Choose the incidents that are left to the repair queue, and make their entries. Pure.

maintd does not work on a referred incident itself. It reports the node's machine to the guards, as
any source does. An incident that started before it was referred continues, and is not reported.
"""

from dataclasses import replace

from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.queue import INCIDENTS, EntryStatus, Queue, Referral
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Node, Snapshot

_WORDS = {
    EntryStatus.QUEUED: "is queued",
    EntryStatus.PROCESSING: "is being worked on",
    EntryStatus.SUCCEEDED: "has succeeded, but the node still reports the fault: delete it"
    " for another",
    EntryStatus.FAILED: "has failed: delete it for another",
}


def referral_of(incident: Incident, snapshot: Snapshot, policy: Policy) -> Referral | None:
    """The rule that refers a detected incident to the queue; None if no rule does."""
    node = snapshot.nodes.get(incident.name)
    if incident.status is not Status.NOTED or incident.diagnosis == UNKNOWN or node is None:
        return None
    for referral in policy.procedures.incidents:
        if (
            incident.diagnosis.need in referral.needs
            and (not referral.commands or incident.diagnosis.command in referral.commands)
            and (not referral.groups or _group(node, snapshot) in referral.groups)
        ):
            return referral
    return None


def report(incident: Incident, referral: Referral, snapshot: Snapshot) -> Sick:
    """A referred incident as a report of a broken machine."""
    node = snapshot.nodes[incident.name]
    return Sick(
        INCIDENTS,
        node.address,
        referral.machine_type,
        referral.operation,
        state=incident.diagnosis.need.wire,
        domain=f"group {_group(node, snapshot)}",
        priority=referral.priority,
        since=incident.noted_at,
        why=f"incident {incident.id} on {node.name}",
    )


def _group(node: Node, snapshot: Snapshot) -> str:
    group = snapshot.groups.get(node.group)
    return group.name if group is not None else node.group


def give_up(ledger: Ledger, snapshot: Snapshot) -> Ledger:
    """Delete entries made of incidents if one was canceled since and no other is active."""
    queue = ledger.queue
    mine = [e for e in queue.entries if e.who == INCIDENTS and not (e.status.finished or e.deleted)]
    if not mine:
        return ledger
    active = {incident.node for incident in ledger.incidents if incident.status.active}
    canceled: dict[str, int] = {}
    for incident in ledger.incidents:
        if incident.status is Status.CANCELED and incident.node not in active:
            canceled[incident.node] = max(incident.changed_at, canceled.get(incident.node, 0))
    at = {n.address: canceled[n.uuid] for n in snapshot.nodes.values() if n.uuid in canceled}
    for entry in mine:
        if entry.address in at and at[entry.address] >= entry.queued_at:
            queue = queue.put(replace(entry, deleted=True))
    return replace(ledger, queue=queue) if queue is not ledger.queue else ledger


def reason_of(referral: Referral, node: Node, queue: Queue) -> Reason:
    """Why maintd does nothing for a referred incident itself, and what the queue does."""
    mine = [entry for entry in queue.entries if entry.address == node.address]
    if mine:
        how = f"entry {mine[-1].index} {_WORDS[mine[-1].status]}"
    else:
        how = "there is no entry yet" if queue.auto_repair else "automatic repair is disabled"
    operation, machine_type = referral.operation, referral.machine_type
    return because(Kind.LEFT_TO_QUEUE, node.name, operation=operation, type=machine_type, how=how)
