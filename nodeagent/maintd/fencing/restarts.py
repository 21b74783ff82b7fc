"""Start the instances of a fenced node elsewhere, the most important first. Pure.

Ganeti checks no disks once the node is offline. So a DRBD instance fails over only if the agent of
its secondary has said before that all its disks there were UpToDate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from nodeagent.maintd.fencing.judgement import TESTIMONY_LASTS
from nodeagent.maintd.planning.preconditions import at_work_on
from nodeagent.maintd.planning.resources import Room, needs_memory
from nodeagent.model.action import MovePrimary
from nodeagent.model.fencing import End, Fate, Fencing
from nodeagent.model.ledger import Policy
from nodeagent.model.purpose import OfFencing
from nodeagent.model.reason import Held, Kind, Reason, because
from nodeagent.model.snapshot import Instance, Node, Observed
from nodeagent.model.units import Ms

PRIORITY_TAG = "maintd:priority:"
_LAST = 10**6
UP_TO_DATE = "UpToDate"


@dataclass
class Found:
    """The failovers to start, the instances that wait, and the fencing with what is known now."""

    fencing: Fencing
    actions: list[MovePrimary] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)


def fates(node: Node, observed: Observed, now: Ms) -> tuple[Fate, ...]:
    """The running instances of a node that is about to be offline, the most important first."""
    here = [i for i in observed.snapshot.instances.values() if i.primary == node.name and i.running]
    here.sort(key=lambda i: (priority(i), i.name))
    return tuple(_fate(one, node, observed, now) for one in here)


def priority(instance: Instance) -> int:
    """Its place in the order, from `maintd:priority:N`: 1 comes first, and no tag last."""
    found = [tag.removeprefix(PRIORITY_TAG) for tag in instance.tags if _is_priority(tag)]
    return min(map(int, found), default=_LAST)


def _is_priority(tag: str) -> bool:
    text = tag.removeprefix(PRIORITY_TAG)
    return tag.startswith(PRIORITY_TAG) and text.isdecimal() and len(text) < 6


def _fate(instance: Instance, node: Node, observed: Observed, now: Ms) -> Fate:
    if instance.shared:
        return Fate(instance.name)
    if instance.secondary is None:
        why = f"its disks ({instance.template}) are only on {node.name}"
        return Fate(instance.name, end=End.STAYS, why=why)
    if _is_synced(instance, node, observed, now):
        return Fate(instance.name, synced=True)
    why = (
        f"before {node.name} was offline, no agent said that its disks on {instance.secondary} were"
        f" {UP_TO_DATE}: check them, then run gnt-instance failover {instance.name}"
    )
    return Fate(instance.name, end=End.STAYS, why=why)


def _is_synced(instance: Instance, node: Node, observed: Observed, now: Ms) -> bool:
    evidence = observed.evidence.get(node.name)
    for one in evidence.witnesses if evidence is not None else ():
        if one.witness != instance.secondary or not 0 <= now - one.at <= TESTIMONY_LASTS:
            continue
        disks = [m.disk for m in one.mirrors or () if m.instance == instance.name]
        return len(disks) == instance.disks > 0 and set(disks) == {UP_TO_DATE}
    return False


def plan(one: Fencing, node: Node, observed: Observed, policy: Policy, room: Room) -> Found:
    """Fail over as many instances as room and the limit of jobs allow."""
    found, now_known = Found(one), list[Fate]()
    for fate in one.fates:
        instance = observed.snapshot.instances.get(fate.instance)
        if fate.end is End.OPEN and (instance is None or instance.primary != node.name):
            fate = replace(fate, end=End.RESTARTED)
        now_known.append(fate)
        if fate.end is not End.OPEN or instance is None or len(found.actions) >= policy.moves:
            continue
        target = _target(instance, fate, one, policy, room)
        if isinstance(target, Reason):
            why = because(Kind.CANNOT_MOVE, instance.name, why=target)
            found.held.append(Held(why, node.name))
            continue
        move = MovePrimary(instance.name, node.name, live=False, target=target)
        room.plan(move, OfFencing(one.node).owner)
        found.actions.append(move)
    found.fencing = replace(one, fates=tuple(now_known))
    return found


def _target(
    instance: Instance, fate: Fate, one: Fencing, policy: Policy, room: Room
) -> str | Reason:
    """The node where it starts, or why it cannot start now."""
    if instance.name in room.placed:
        return because(Kind.MOVED_BY_OTHERS, instance.name)
    if why := at_work_on(instance, room.busy):
        return why
    if instance.secondary is not None:
        if not fate.synced:
            return because(Kind.MIRROR_UNKNOWN, instance.secondary)
        return _fits(instance, instance.secondary, room) or instance.secondary
    group = room.snapshot.nodes[instance.primary].group
    names = _by_room(room.fit.get(group, ()), room)
    whys = list[Reason]()
    for name in names:
        why = room.why_not(name, OfFencing(one.node).owner)
        why = why or _fits(instance, name, room)
        if why is None and policy.spare:
            trial = room.trial()
            trial.plan(
                MovePrimary(instance.name, instance.primary, live=False, target=name), one.node
            )
            why = trial.overbooked(name)
        if why is None:
            return name
        whys.append(why)
    return whys[0] if whys else because(Kind.NO_MEMORY, instance.name)


def _by_room(names: Sequence[str], room: Room) -> list[str]:
    """Those that report their room, the one with the most memory first."""
    known = [name for name in names if name in room.capacity]
    return sorted(known, key=lambda name: (-room.capacity[name].memory, name))


def _fits(instance: Instance, target: str, room: Room) -> Reason | None:
    if why := room.why_not_rescued(target):
        return why
    free = room.capacity.get(target)
    if free is None:
        return because(Kind.UNKNOWN_ROOM, target)
    wanted = needs_memory(instance)
    if free.memory < wanted:
        return because(Kind.TOO_SMALL, target, free=free.memory, what="memory", wanted=wanted)
    return None
