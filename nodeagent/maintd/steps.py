"""What one incident's node needs next. Pure."""

from dataclasses import dataclass

from nodeagent.model.action import (
    Action,
    AddTag,
    Drain,
    MovePrimary,
    MoveSecondary,
    RunCommand,
    SetOffline,
)
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Incident
from nodeagent.model.ledger import Policy
from nodeagent.model.snapshot import Node, Snapshot


@dataclass(frozen=True, slots=True)
class Next:
    """The actions of this round, all at once, and what stands in the way of the rest."""

    actions: tuple[Action, ...] = ()
    obstacles: tuple[str, ...] = ()


def next_steps(
    incident: Incident, snapshot: Snapshot, free: frozenset[str], policy: Policy
) -> Next:
    """The next actions for an active incident. `free` are the nodes that may be moved to."""
    node, diagnosis = snapshot.nodes[incident.node], incident.diagnosis
    ready = Next((AddTag(node.name, incident.tag),))
    if diagnosis.need is Need.LIVE_REPAIR:
        if incident.repaired:
            return ready
        assert diagnosis.command is not None
        return Next((RunCommand(node.name, diagnosis.command, diagnosis.text),))
    if not (node.drained or node.offline):
        return Next((Drain(node.name),))
    moves, obstacles = _moves(node, snapshot, free, live=diagnosis.need is Need.EVACUATE)
    if moves or obstacles:
        return Next(moves, obstacles)
    if policy.offline and not node.offline:
        return Next((SetOffline(node.name),))
    return ready


def _moves(
    node: Node, snapshot: Snapshot, free: frozenset[str], *, live: bool
) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    """All instances of the node at once: primaries to their secondaries, then new secondaries."""
    moves: list[Action] = []
    obstacles: list[str] = []
    load = _load(snapshot)
    for name, instance in sorted(snapshot.instances.items()):
        if instance.primary == node.name:
            if instance.secondary is None:
                obstacles.append(f"instance {name} has its disks on {node.name} alone")
            elif instance.secondary not in free:
                obstacles.append(f"instance {name} cannot go to {instance.secondary} now")
            else:
                moves.append(MovePrimary(name, node.name, live=live))
        elif instance.secondary == node.name:
            target = _target(node, instance.primary, snapshot, free, load)
            if target is None:
                obstacles.append(f"no free node for the mirror of instance {name}")
            else:
                moves.append(MoveSecondary(name, node.name, target))
                load[target] += 1
    return tuple(moves), tuple(obstacles)


def _load(snapshot: Snapshot) -> dict[str, int]:
    """How many instances' disks each node holds."""
    load = dict.fromkeys(snapshot.nodes, 0)
    for instance in snapshot.instances.values():
        for place in (instance.primary, instance.secondary):
            if place in load:
                load[place] += 1
    return load


def _target(
    node: Node, primary: str, snapshot: Snapshot, free: frozenset[str], load: dict[str, int]
) -> str | None:
    """The emptiest free node of the group."""
    fit = (n for n in free - {node.name, primary} if snapshot.nodes[n].group == node.group)
    return min(fit, key=lambda name: (load[name], name), default=None)
