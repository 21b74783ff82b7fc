"""Evacuate a node: drain it, then move its instances, all in one round. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nodeagent.maintd.planning.departures import leaves
from nodeagent.maintd.planning.evacuation_moves import Emptying, NextSteps
from nodeagent.maintd.planning.evacuation_targets import Targets
from nodeagent.maintd.planning.preconditions import at_work_on
from nodeagent.maintd.planning.resources import Room
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.model.action import Drain
from nodeagent.model.departure import Cause
from nodeagent.model.ledger import Policy
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.snapshot import Instance, Node


@dataclass(frozen=True, slots=True)
class NodeToEvacuate:
    """A node to evacuate for an incident, a window or an entry of the queue.

    `owner` is the name under which it claims nodes. `begun`: work on the node has started, so it
    needs no more spare room. `drained`: the node was drained for it, so if the node is in service,
    somebody else has put it back. Running instances migrate, or fail over without `migrate`.
    Without `secondaries` those stay on the node, also of instances that leave.
    """

    owner: str
    node: Node
    begun: bool
    drained: bool = False
    migrate: bool = True
    secondaries: bool = True


def empty(wanted: NodeToEvacuate, room: Room, policy: Policy, under_way: int) -> NextSteps:
    """Drain and evacuate a node: it is empty once no step, obstacle or running move is left."""
    steps, node = NextSteps(), wanted.node
    if not node.is_out:
        _drain(wanted, room, policy, steps)
    elif not wanted.begun and (why := _too_little(wanted, room, policy)):
        steps.obstacles.append(why)
    elif not _has_to_move(wanted, room) or room.may_search():
        _moves(wanted, room, policy, under_way, steps)
        here = instances_left(node, room, secondaries=wanted.secondaries)
        names = [name for name in here if name not in steps.left]
        if not (steps.steps or steps.obstacles or under_way) and names:
            # A move by somebody else counts as well: maintd moves the rest afterwards.
            steps.obstacles.append(because(Kind.MOVED_BY_OTHERS, names[0]))
    else:
        steps.obstacles.append(because(Kind.SOUGHT_LATER, node.name))
    return steps


def why_not_wholly(wanted: NodeToEvacuate, room: Room, policy: Policy) -> Reason | None:
    """Why the node cannot be emptied to its end with the room there is now; None if it can."""
    begun = replace(wanted, node=replace(wanted.node, drained=True), begun=True)
    obstacles = empty(begun, room.trial(), _endless(policy, room), 0).obstacles
    return obstacles[0] if obstacles else None


def why_not_together(
    evacuations: Sequence[NodeToEvacuate], room: Room, policy: Policy
) -> Reason | None:
    """Why these nodes cannot all be emptied, and be away, at one time; None if they can.

    They have one owner.
    """
    names = {wanted.node.name for wanted in evacuations}
    trial = replace(
        room.trial(),
        busy={},
        unfit={
            **room.unfit,
            **{name: because(Kind.OUT_OF_SERVICE, name, state="drained") for name in names},
        },
        fit={group: [n for n in here if n not in names] for group, here in room.fit.items()},
    )
    for wanted in evacuations:
        nearest, steps = with_tags(policy, room.snapshot, wanted.node), NextSteps()
        _moves(wanted, trial, _endless(nearest, room), 0, steps)
        if steps.unknown:
            return because(Kind.UNKNOWN_IF_ROOM, wanted.node.name, why=steps.unknown[0])
        if steps.obstacles:
            return steps.obstacles[0]
        if nearest.spare and (why := _no_spare(wanted.node, room, trial)):
            return because(Kind.NO_ROOM, wanted.node.name, why=why)
    return None


def _endless(policy: Policy, room: Room) -> Policy:
    """The policy that lets all instances move at once."""
    return replace(policy, moves=2 * len(room.snapshot.instances) + 1)


def _has_to_move(wanted: NodeToEvacuate, room: Room) -> bool:
    """Check whether an instance there neither moves nor is about to."""
    names = instances_left(wanted.node, room, secondaries=wanted.secondaries)
    return any(name not in room.placed for name in names)


def instances_left(node: Node, room: Room, *, secondaries: bool = True) -> list[str]:
    """Instances still on the node, as primary or secondary, even if they are already moving."""
    return sorted(
        instance.name
        for by_node in (room.primaries, room.mirrors if secondaries else {})
        for instance in by_node.get(node.name, ())
    )


def _drain(wanted: NodeToEvacuate, room: Room, policy: Policy, steps: NextSteps) -> None:
    node = wanted.node
    if node.name == room.snapshot.master:
        steps.obstacles.append(because(Kind.MASTER, node.name))
    elif wanted.drained:
        steps.obstacles.append(because(Kind.PUT_BACK_BY_OTHERS, node.name))
    elif why := _too_little(wanted, room, policy):
        steps.obstacles.append(why)
    else:
        steps.add(Drain(node.name, promote=node.candidate))


def _too_little(wanted: NodeToEvacuate, room: Room, policy: Policy) -> Reason | None:
    """Why the evacuation may not start: the room is unknown, or too little.

    It is too little if the group would not survive one more failure then, and does now (N+1). A
    node that leaves while this one is away takes over nothing then; only a node that asks to be
    evacuated does not wait for that.
    """
    if not policy.spare:
        return None
    if _has_to_move(wanted, room) and not room.may_search():
        return because(Kind.SOUGHT_LATER, wanted.node.name)
    # maintd may have to finish a move that somebody else runs now.
    trial, steps = replace(room.trial(), busy={}), NextSteps()
    _moves(wanted, trial, _endless(policy, room), 0, steps)
    if steps.unknown:
        return because(Kind.UNKNOWN_IF_ROOM, wanted.node.name, why=steps.unknown[0])
    why = _no_spare(wanted.node, room, trial)
    return because(Kind.NO_ROOM, wanted.node.name, why=why) if why else None


def _no_spare(node: Node, room: Room, trial: Room) -> Reason | None:
    new = trial.placed.keys() - room.placed.keys()
    places = {
        place for name in new for place in trial.placed[name] if place not in (None, node.name)
    }
    for place in sorted(filter(None, places)):
        if any(trial.placed[name][1] == place for name in new) and _is_missing(place, node, room):
            return because(Kind.NO_FAILOVER_THERE, place, why=leaves(place, room.departures[place]))
        why = trial.overbooked(place)
        if why and not room.overbooked(place):
            return why
    return None


def _is_missing(place: str, node: Node, room: Room) -> bool:
    """Tell whether a place leaves while the node, which could as well stay for now, is away.

    One that waits in a roll is no such place: it does not leave before it may.
    """
    leaving, own = room.departures.get(place), room.departures.get(node.name)
    if leaving is None or leaving.cause is Cause.ROLL:
        return False
    if own is not None and own.cause is Cause.INCIDENT:
        return False
    return own is None or own.overlaps(leaving)


def _moves(
    wanted: NodeToEvacuate, room: Room, policy: Policy, under_way: int, steps: NextSteps
) -> None:
    """Move all instances of the node, as far as room and the limit of jobs allow."""
    if under_way >= policy.moves or not _has_to_move(wanted, room):
        return
    node, owner = wanted.node, wanted.owner
    targets = Targets(node, room, owner)
    emptying = Emptying(
        owner,
        node,
        room,
        policy,
        steps,
        targets,
        migrate=wanted.migrate,
        secondaries=wanted.secondaries,
    )
    here = [
        (instance, emptying.primary) for instance in _in_order(room.primaries, node, room, targets)
    ]
    mirrors = room.mirrors if wanted.secondaries else {}
    mirrored = [(instance, emptying.mirror) for instance in _in_order(mirrors, node, room, targets)]
    for instance, move in (*here, *mirrored):
        if under_way + len(steps.steps) >= policy.moves:
            return
        if why := at_work_on(instance, room.busy):
            steps.obstacles.append(because(Kind.LEFT_ALONE, instance.name, why=why))
            continue
        move(instance)


def _in_order(
    instances: Mapping[str, list[Instance]], node: Node, room: Room, targets: Targets
) -> list[Instance]:
    """Those that do not move yet, by name.

    Those that could go anywhere and found no place are last: they take nobody else's.
    """

    def order(instance: Instance) -> tuple[bool, str]:
        moves_freely = instance.shared or instance.secondary == node.name
        return moves_freely and instance.name not in targets.places, instance.name

    here = (
        instance for instance in instances.get(node.name, ()) if instance.name not in room.placed
    )
    return sorted(here, key=order)
