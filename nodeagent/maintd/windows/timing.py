"""Start of the work at nodes in maintenance windows, and its delays. Pure."""

from nodeagent.maintd.owners import offers
from nodeagent.maintd.planning.evacuation_time import MARGIN, Leads
from nodeagent.maintd.planning.machines import known_as
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.window import Mode, Scheduled


def due(one: Scheduled, node: Node, leads: Leads, now: Ms) -> bool:
    """Check whether work at a draining or down node has started, or must start now."""
    return _due(one, leads.of(node), now)


def _due(one: Scheduled, lead: int, now: Ms) -> bool:
    if one.begun or one.mode is Mode.DOWN:
        return True
    end = one.when.end_ms
    if end is not None and end <= now:
        return False  # such as one that was finished meanwhile, under another master's maintd
    return one.when.start_ms - lead <= now


def overdue(one: Scheduled, now: Ms) -> int:
    """The ms that it has been draining past its start, or down past its end; else 0.

    A window that was planned to start at once has the usual margin for its evacuation first.
    """
    until = one.when.end_ms
    if one.mode is Mode.DRAINING:
        until = Ms(max(one.when.start_ms, one.since + MARGIN))
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
    nodes = {node.uuid: node for node in snapshot.nodes.values()}
    leads, made = Leads(snapshot, ledger.paces), offers.by_window(ledger)
    return {
        node.name: because(Kind.IN_WINDOW, node.name)
        for one in ledger.scheduled
        if (node := nodes.get(one.node)) is not None
        and (one.begun or begins(one, ledger, node, leads, now, made))
    }


def outside(ledger: Ledger, snapshot: Snapshot, now: Ms) -> dict[str, Reason]:
    """The same for machines that are not nodes, by address, and by host name in lower case.

    They need no evacuation: work starts there some minutes before the window.
    """
    nodes = {node.uuid for node in snapshot.nodes.values()} if ledger.scheduled else set()
    return {
        known_as(name): because(Kind.IN_WINDOW, str(one.machine))
        for one in ledger.scheduled
        if one.node not in nodes and _due(one, MARGIN, now)
        for name in (one.machine.hostname, one.machine.ip)
        if name
    }


def begins(
    one: Scheduled,
    ledger: Ledger,
    node: Node,
    leads: Leads,
    now: Ms,
    made: offers.ByWindow | None = None,
) -> bool:
    """Check whether work there has started, or must start and no owner blocks it."""
    may = one.begun or not offers.hold(one, ledger, now, made)
    return may and due(one, node, leads, now)


def under_repair(ledger: Ledger, snapshot: Snapshot) -> dict[str, str]:
    """Map UUIDs of nodes to their running repair: an incident's, or one of the queue's."""
    entries = {e.address: f"queue entry {e.index}" for e in ledger.queue.entries if e.at_work}
    queued = {n.uuid: entries[n.address] for n in snapshot.nodes.values() if n.address in entries}
    return queued | {i.node: i.id for i in ledger.incidents if i.status is Status.PENDING}
