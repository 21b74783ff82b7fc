"""Nodes marked offline whose agent answers: perhaps by mistake, with their instances running. Pure.

Ganeti starts the instances of an offline node elsewhere without stopping them. So before
auto-repair does that, maintd asks the agents of such nodes, which it polls for nothing else.
"""

from nodeagent.model.fencing import is_fenced
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.snapshot import Observed, Snapshot

STOPPED = "maintd:stopped:yes"  # a person says that nothing runs on this offline node


def to_ask(ledger: Ledger, snapshot: Snapshot) -> frozenset[str]:
    """The offline nodes with instances that neither maintd nor a person vouches for."""
    used = {name for instance in snapshot.instances.values() for name in instance.nodes}
    ours = {outage.node for outage in ledger.outages if outage.offline_by}
    ours |= {fencing.node for fencing in ledger.fencing}
    return frozenset(
        name
        for name, node in snapshot.nodes.items()
        if node.offline
        and name in used
        and node.uuid not in ours
        and not is_fenced(node.tags)
        and STOPPED not in node.tags
    )


def answering(observed: Observed) -> dict[str, Reason]:
    """Why auto-repair leaves a node's instances alone, by the node's name."""
    nodes = observed.snapshot.nodes
    return {
        name: because(Kind.OFFLINE_ANSWERS, name)
        for name in sorted(observed.answering)
        if name in nodes and nodes[name].offline and STOPPED not in nodes[name].tags
    }
