"""What one incident's node needs next. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from nodeagent.maintd.planning.evacuation_moves import Emptying, Next
from nodeagent.maintd.planning.evacuation_targets import together
from nodeagent.maintd.planning.preconditions import at_work_on
from nodeagent.maintd.planning.resources import Room
from nodeagent.model.action import (
    Action,
    Drain,
    Retag,
    RunCommand,
    Scope,
    SetOffline,
)
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.ledger import Policy
from nodeagent.model.snapshot import Instance, Node


def next_steps(incident: Incident, node: Node, room: Room, policy: Policy, under_way: int) -> Next:
    """The next steps for an active incident; `under_way` of its moves have not ended yet.

    Only moves may be added to moves: everything else waits for what is under way.
    """
    found = Next()
    need = incident.diagnosis.need
    if incident.diagnosis == UNKNOWN:
        _rebuilt(incident, node, room, found)
    elif need is Need.LIVE_REPAIR:
        _live_repair(incident, node, room, found)
    else:
        found = empty(incident, node, room, policy, under_way)
        if not (found.steps or found.obstacles or under_way):
            if policy.offline and not node.offline:
                found.add(SetOffline(node.name, promote=node.candidate))
            else:
                found.add(_ready(incident, node))
    return found


def empty(incident: Incident, node: Node, room: Room, policy: Policy, under_way: int) -> Next:
    """What drains and empties a node: without steps, obstacles or moves under way it is empty."""
    found = Next()
    if not (node.drained or node.offline):
        _drain(incident, node, room, policy, found)
    elif incident.status is Status.NOTED and (why := _too_little(incident, node, room, policy)):
        found.obstacles.append(why)
    else:
        _moves(incident, node, room, policy, under_way, found)
        if not (found.steps or found.obstacles or under_way) and (left := _left(node, room)):
            # Somebody else's move is counted on: what it leaves here is yet to be moved.
            found.obstacles.append(f"instance {left[0]} is being moved in another repair")
    return found


def _left(node: Node, room: Room) -> list[str]:
    """What still runs on the node, or is mirrored to it, wherever it may be on its way to."""
    return sorted(
        instance.name
        for there in (room.primaries, room.mirrors)
        for instance in there.get(node.name, ())
    )


def _ready(incident: Incident, node: Node) -> Action:
    return Retag(Scope.NODE, node.name, add=(incident.tag,))


def _rebuilt(incident: Incident, node: Node, room: Room, found: Next) -> None:
    """Nobody asks an offline node what it has; but if it is empty all is done that there was.

    So it is where a live repair has reported success: its node may never say it again.
    """
    empty = not _left(node, room)
    if incident.repaired or (incident.drained and node.offline and empty):
        found.add(_ready(incident, node))
    else:
        found.obstacles.append("rebuilt from Ganeti: waiting for the node to say again what it has")


def _live_repair(incident: Incident, node: Node, room: Room, found: Next) -> None:
    command = incident.diagnosis.command
    if incident.repaired:
        found.add(_ready(incident, node))
    elif node.offline:
        found.obstacles.append(f"{node.name} is offline: nothing is ordered there")
    elif incident.mark not in node.tags:
        # A maintd without memory must know that an order was given: an agent remembers orders
        # by the incident's id, and would take one for a new incident as another.
        found.add(Retag(Scope.NODE, node.name, add=(incident.mark,)))
    elif command is None:
        found.obstacles.append("the diagnosis asks for a live repair and names no command")
    elif copied := room.copied_from(node.name):
        found.obstacles.append(f"{node.name} gives instance {copied} a new mirror: that ends first")
    else:
        found.add(RunCommand(node.name, command, incident.diagnosis.text, incident.attempt))


def _drain(incident: Incident, node: Node, room: Room, policy: Policy, found: Next) -> None:
    if node.name == room.snapshot.master:
        found.obstacles.append(
            f"{node.name} is the master node: run gnt-cluster master-failover on another"
            " master candidate first"
        )
    elif incident.drained:
        found.obstacles.append(
            f"somebody has put {node.name} back into service: drain it again, or cancel"
        )
    elif why := _too_little(incident, node, room, policy):
        found.obstacles.append(why)
    else:
        found.add(Drain(node.name, promote=node.candidate))


def _too_little(incident: Incident, node: Node, room: Room, policy: Policy) -> str | None:
    """Why it is not to be begun to empty the node: nobody knows the room, or there would be none.

    The latter if the group could not stand one more failure then, and can now (N+1).
    """
    if not policy.spare:
        return None
    # What somebody else moves now may be for us to move in the end.
    trial, found = replace(room.trial(), busy={}), Next()
    endless = replace(policy, moves=2 * len(room.snapshot.instances) + 1)
    _moves(incident, node, trial, endless, 0, found)
    room.tries = trial.tries
    if found.unknown:
        return f"not emptied while in doubt: {found.unknown[0]}"
    why = _no_spare(node, room, trial)
    return f"not emptied, there would be too little room: {why}" if why else None


def _no_spare(node: Node, room: Room, trial: Room) -> str | None:
    new = trial.placed.keys() - room.placed.keys()
    places = {
        place for name in new for place in trial.placed[name] if place not in (None, node.name)
    }
    for place in sorted(filter(None, places)):
        why = trial.overbooked(place)
        if why and not room.overbooked(place):
            return why
    return None


def _moves(
    incident: Incident, node: Node, room: Room, policy: Policy, under_way: int, found: Next
) -> None:
    """All instances of the node, as far as there is room for them and for more jobs."""
    emptying = Emptying(incident, node, room, policy, found, together(node, room, incident.id))
    here = [(i, emptying.primary) for i in _by_name(room.primaries, node)]
    mirrored = [(i, emptying.mirror) for i in _by_name(room.mirrors, node)]
    for instance, move in (*here, *mirrored):
        if instance.name in room.placed:
            continue
        if under_way + len(found.steps) >= policy.moves:
            return
        if why := at_work_on(instance, room.busy):
            found.obstacles.append(f"instance {instance.name} is left alone: {why}")
            continue
        move(instance)


def _by_name(instances: Mapping[str, list[Instance]], node: Node) -> list[Instance]:
    return sorted(instances.get(node.name, ()), key=lambda instance: instance.name)
