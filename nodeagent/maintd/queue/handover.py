"""Give a drained node to an incident or a window once its queue entry is done there. Pure.

A queue entry puts back the node that it drained, unless an incident now evacuates it, or its
maintenance window has started. The incident or window then keeps the node, and does not drain it
again. A window remembers that the node was in service; an incident leaves it drained.
"""

from dataclasses import replace

from nodeagent.maintd.planning.evacuation_time import Leads
from nodeagent.maintd.windows import timing
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Ledger
from nodeagent.model.queue import Entry
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.window import Standing


def hand_over(ledger: Ledger, snapshot: Snapshot, now: Ms) -> Ledger:
    """Hand over nodes that entries have drained and are done with, or have yet to use."""
    done = [entry for entry in ledger.queue.entries if entry.drained and not entry.at_work]
    if not done:
        return ledger
    nodes = {node.address: node for node in snapshot.nodes.values()}
    working = {intent.owner for intent in ledger.intents if intent.purpose.entry}
    for entry in done:
        node = nodes.get(entry.address)
        if node is not None and node.drained and entry.owner not in working:
            ledger = _handed(ledger, entry, node, snapshot, now)
    return ledger


def _handed(ledger: Ledger, entry: Entry, node: Node, snapshot: Snapshot, now: Ms) -> Ledger:
    free = replace(ledger, queue=ledger.queue.put(replace(entry, drained=False)))
    for incident in ledger.incidents:
        emptied = incident.diagnosis.need >= Need.EVACUATE
        if incident.node == node.uuid and incident.status is Status.PENDING and emptied:
            return free
    for one in (one for one in ledger.scheduled if one.node == node.uuid):
        leads = Leads(snapshot, ledger.paces)
        if timing.begins(one, ledger, node, leads, now):
            found = one.found or Standing.SERVING
            taken = replace(one, found=found, drained=True)
            kept = tuple(taken if other is one else other for other in ledger.scheduled)
            return replace(free, scheduled=kept)
    return ledger
