"""Next steps for one incident's node. Pure."""

from nodeagent.maintd.planning.evacuation import NodeToEvacuate, empty, instances_left
from nodeagent.maintd.planning.evacuation_moves import NextSteps
from nodeagent.maintd.planning.resources import Room
from nodeagent.model.action import Action, Retag, RunCommand, Scope, SetOffline
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.ledger import Policy
from nodeagent.model.reason import Kind, because
from nodeagent.model.snapshot import Node


def next_steps(
    incident: Incident, node: Node, room: Room, policy: Policy, under_way: int
) -> NextSteps:
    """The next steps for an active incident; `under_way` is how many of its moves still run.

    Moves may join running moves; every other step waits for the running ones.
    """
    steps = NextSteps()
    need = incident.diagnosis.need
    if incident.diagnosis == UNKNOWN:
        _rebuilt(incident, node, room, policy, steps)
    elif need is Need.LIVE_REPAIR:
        _live_repair(incident, node, room, steps)
    else:
        begun, drained = incident.status is not Status.NOTED, incident.drained
        wanted = NodeToEvacuate(incident.id, node, begun, drained, migrate=need is Need.EVACUATE)
        steps = empty(wanted, room, policy, under_way)
        if not (steps.steps or steps.obstacles or under_way):
            if policy.offline and not node.offline:
                steps.add(SetOffline(node.name, promote=node.candidate))
            else:
                steps.add(_ready(incident, node))
    return steps


def _ready(incident: Incident, node: Node) -> Action:
    return Retag(Scope.NODE, node.name, add=(incident.tag,))


def _rebuilt(incident: Incident, node: Node, room: Room, policy: Policy, steps: NextSteps) -> None:
    """Complete a rebuilt incident if its node is offline and evacuated, as maintd does not poll it.

    So is a live repair that reported success: its node may never report it again.
    """
    empty = not (room.primaries.get(node.name) if policy.degraded else instances_left(node, room))
    if incident.repaired or (incident.drained and node.offline and empty):
        steps.add(_ready(incident, node))
    else:
        steps.obstacles.append(because(Kind.REBUILT, node.name))


def _live_repair(incident: Incident, node: Node, room: Room, steps: NextSteps) -> None:
    command = incident.diagnosis.command
    if incident.repaired:
        steps.add(_ready(incident, node))
    elif command is None:  # nothing starts, so there is no mark either
        steps.obstacles.append(because(Kind.NO_COMMAND, node.name, incident=incident.id))
    elif node.offline:
        steps.obstacles.append(because(Kind.OFFLINE_NO_ORDER, node.name))
    elif incident.mark not in node.tags:
        # A maintd without memory must know that there was an order: an agent remembers orders by
        # the incident's id, and would run an order for a new incident as another one.
        steps.add(Retag(Scope.NODE, node.name, add=(incident.mark,)))
    elif copied := room.copied_from(node.name):
        steps.obstacles.append(because(Kind.NEW_MIRROR, node.name, instance=copied))
    else:
        steps.add(RunCommand(node.name, command, incident.diagnosis.text, incident.attempt))
