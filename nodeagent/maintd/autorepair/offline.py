"""Nodes marked offline whose agent answers: perhaps by mistake, with their instances running. Pure.

Ganeti starts the instances of an offline node elsewhere without stopping them. So before
auto-repair does that, maintd asks the agents of such nodes, which it polls for nothing else.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from nodeagent.model.fencing import is_fenced
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.protocol.look import Look, Silent

STOPPED = "maintd:stopped:yes"  # a person says that nothing runs on this offline node


def to_ask(ledger: Ledger, snapshot: Snapshot) -> frozenset[str]:
    """The offline nodes with instances that neither maintd nor a person vouches for."""
    used = {i.primary for i in snapshot.instances.values()}
    used |= {i.secondary for i in snapshot.instances.values() if i.secondary is not None}
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


def as_online(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """The snapshot with these nodes online, so that a poll asks them too."""
    if not names:
        return snapshot
    online = {name: replace(snapshot.nodes[name], offline=False) for name in names}
    return replace(snapshot, nodes={**snapshot.nodes, **online})


def apart(
    looks: Mapping[str, Look], names: Collection[str]
) -> tuple[Mapping[str, Look], frozenset[str]]:
    """The looks at all other nodes, and those of these names that have answered.

    An answer that is not trusted counts too: doubt never acts.
    """
    others = {name: look for name, look in looks.items() if name not in names}
    answered = (name for name in names if not isinstance(looks.get(name, Silent("")), Silent))
    return (others if names else looks), frozenset(answered)


def answering(observed: Observed) -> dict[str, Reason]:
    """Why auto-repair leaves a node's instances alone, by the node's name."""
    nodes = observed.snapshot.nodes
    return {
        name: because(Kind.OFFLINE_ANSWERS, name)
        for name in sorted(observed.answering)
        if name in nodes and nodes[name].offline and STOPPED not in nodes[name].tags
    }
