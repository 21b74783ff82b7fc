"""Start of the work at nodes in maintenance windows, and its delays. Pure."""

from nodeagent.maintd.owners import offers
from nodeagent.maintd.owners.absences import of_window
from nodeagent.maintd.planning.evacuation_time import MARGIN, Leads
from nodeagent.maintd.planning.names import known_as
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.window import Mode, Scheduled


def due(scheduled: Scheduled, node: Node, leads: Leads, now: Ms) -> bool:
    """Check whether work at a draining or down node has started, or must start now."""
    return _due(scheduled, leads.of(node), now)


def _due(scheduled: Scheduled, lead: int, now: Ms) -> bool:
    if scheduled.begun or scheduled.mode is Mode.DOWN:
        return True
    end = scheduled.when.end_ms
    if end is not None and end <= now:
        return False  # such as one that was finished meanwhile, under another master's maintd
    return scheduled.when.start_ms - lead <= now


def overdue(scheduled: Scheduled, now: Ms) -> int:
    """The ms that it has been draining past its start, or down past its end; else 0.

    A window that was planned to start at once has the usual margin for its evacuation first.
    """
    until = scheduled.when.end_ms
    if scheduled.mode is Mode.DRAINING:
        until = Ms(max(scheduled.when.start_ms, scheduled.since + MARGIN))
    return 0 if until is None else max(0, now - until)


def closed(ledger: Ledger, snapshot: Snapshot, now: Ms) -> dict[str, Reason]:
    """The nodes where no other work starts, with the reason: their maintenance has started.

    A repair that has started there continues, and the window waits for it. A window that its owners
    block has not started.
    """
    inside = in_window(ledger, snapshot, now)
    repaired = under_repair(ledger, snapshot) if inside else {}
    return {name: why for name, why in inside.items() if snapshot.nodes[name].uuid not in repaired}


def in_window(ledger: Ledger, snapshot: Snapshot, now: Ms) -> dict[str, Reason]:
    """The nodes whose maintenance has started or must start; why no new work starts there."""
    if not ledger.scheduled:
        return {}
    nodes = snapshot.by_uuid
    leads, made = Leads(snapshot, ledger.paces), offers.by_absence(ledger)
    return {
        node.name: because(Kind.IN_WINDOW, node.name)
        for scheduled in ledger.scheduled
        if (node := nodes.get(scheduled.node)) is not None
        and (scheduled.begun or begins(scheduled, node, leads, made, now))
    }


def outside(ledger: Ledger, snapshot: Snapshot, now: Ms) -> dict[str, Reason]:
    """The same for machines that are not nodes, by address, and by host name in lower case.

    They need no evacuation: work starts there some minutes before the window.
    """
    return {
        known_as(name): because(Kind.IN_WINDOW, str(scheduled.machine))
        for scheduled in ledger.scheduled
        if scheduled.node not in snapshot.by_uuid and _due(scheduled, MARGIN, now)
        for name in (scheduled.machine.hostname, scheduled.machine.ip)
        if name
    }


def begins(scheduled: Scheduled, node: Node, leads: Leads, made: offers.ByAbsence, now: Ms) -> bool:
    """Check whether work there has started, or must start and no owner blocks it."""
    may = scheduled.begun or not offers.hold(of_window(scheduled), made, now)
    return may and due(scheduled, node, leads, now)


def under_repair(ledger: Ledger, snapshot: Snapshot) -> dict[str, str]:
    """Map UUIDs of nodes to their running repair: an incident's, or one of the queue's."""
    entries = {e.address: f"queue entry {e.index}" for e in ledger.queue.entries if e.at_work}
    queued = {n.uuid: entries[n.address] for n in snapshot.nodes.values() if n.address in entries}
    return queued | {i.node: i.id for i in ledger.incidents if i.status is Status.PENDING}
