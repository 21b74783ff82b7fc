"""Start the instances of a fenced node elsewhere, the most important first. Pure.

Ganeti checks no disks once the node is offline. So a DRBD instance fails over only if the agent of
its secondary has said before that all its disks there are UpToDate, and that it saw them connected
until the node died. DRBD calls a copy UpToDate that has lost its connection long before, and lacks
all that was written since then.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from nodeagent.maintd.fencing.judgement import TESTIMONY_LASTS
from nodeagent.maintd.planning.evacuation_moves import partly_mirrored
from nodeagent.maintd.planning.preconditions import at_work_on
from nodeagent.maintd.planning.resources import Room
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model.action import MovePrimary
from nodeagent.model.evidence import Mirror, Testimony
from nodeagent.model.fencing import End, Fate, Fencing, Unreachable
from nodeagent.model.instance_tags import priority
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.purpose import OfFencing
from nodeagent.model.reason import Held, Kind, Reason, because
from nodeagent.model.snapshot import Instance, Node, Observed
from nodeagent.model.units import Ms

UP_TO_DATE = "UpToDate"
# Agents look at their disks every 5 s, DRBD notices a dead peer after up to 11 s, and a testimony
# counts from its question.
TOLERANCE = Ms(30_000)


@dataclass
class Failovers:
    """The failovers to start, the instances that wait, and the fencing with what is known now."""

    fencing: Fencing
    actions: list[MovePrimary] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)


def fates(node: Node, observed: Observed, ledger: Ledger, now: Ms) -> tuple[Fate, ...]:
    """The running instances of a node that is about to be offline, the most important first."""
    here = [
        instance
        for instance in observed.snapshot.instances.values()
        if instance.primary == node.name and instance.running
    ]
    here.sort(key=lambda instance: (priority(instance), instance.name))
    silence = ledger.silence(node.uuid) or Unreachable(node.uuid, now)
    return tuple(_fate(instance, node, observed, silence, now) for instance in here)


def _fate(
    instance: Instance, node: Node, observed: Observed, silence: Unreachable, now: Ms
) -> Fate:
    if instance.shared:
        return Fate(instance.name)
    if instance.partly_on:
        return Fate(instance.name, end=End.STAYS, why=str(partly_mirrored(instance)))
    if instance.secondary is None:
        why = because(Kind.LOCAL_DISKS, instance.name, template=instance.template, node=node.name)
        return Fate(instance.name, end=End.STAYS, why=str(why))
    last_report = _newest_testimony(instance, node, observed, now)
    if not (doubt := _doubt(instance, node, last_report, silence)):
        return Fate(instance.name, synced=True)
    doubt += f": check them, then run gnt-instance failover {instance.name}"
    return Fate(instance.name, end=End.STAYS, why=doubt)


def _newest_testimony(
    instance: Instance, node: Node, observed: Observed, now: Ms
) -> tuple[Testimony, tuple[Mirror, ...]] | None:
    """The newest testimony of its secondary, with the disks of the instance there."""
    evidence = observed.evidence.get(node.name)
    for testimony in evidence.witnesses if evidence is not None else ():
        if testimony.witness == instance.secondary and 0 <= now - testimony.at <= TESTIMONY_LASTS:
            return testimony, tuple(
                m for m in testimony.mirrors or () if m.instance == instance.name
            )
    return None


def _doubt(
    instance: Instance,
    node: Node,
    last_report: tuple[Testimony, tuple[Mirror, ...]] | None,
    silence: Unreachable,
) -> str:
    """Say why its secondary may lack something that was written; empty if it has everything."""
    disks = f"its disks on {instance.secondary}"
    up_to_date = last_report is not None and all(
        mirror.disk == UP_TO_DATE for mirror in last_report[1]
    )
    if last_report is None or not up_to_date or not len(last_report[1]) == instance.disks > 0:
        return f"before {node.name} was offline, no agent said that all {disks} were {UP_TO_DATE}"
    ages = [mirror.ago for mirror in last_report[1]]
    known = [ago for ago in ages if ago is not None]
    if len(known) < len(ages):
        return (
            f"{disks} have been {UP_TO_DATE} without a connection since its agent was started, and"
            f" may lack what {node.name} wrote before it died"
        )
    complete, lived = Ms(last_report[0].at - max(known)), silence.lived or silence.since
    if complete >= lived - TOLERANCE:
        return ""
    lost = f"{disks} have not been connected since {rfc3339(complete)}"
    if lived == silence.since:
        return (
            f"{lost}, and maintd does not know until when {node.name} wrote: it was started, or"
            f" became the master, only before it found {node.name} unreachable"
        )
    return f"{lost}, but {node.name} lived until {rfc3339(lived)}, so what it wrote may be missing"


def plan(fencing: Fencing, node: Node, observed: Observed, policy: Policy, room: Room) -> Failovers:
    """Fail over as many instances as room and the limit of jobs allow."""
    planned, now_known = Failovers(fencing), list[Fate]()
    for fate in fencing.fates:
        instance = observed.snapshot.instances.get(fate.instance)
        if fate.end is End.OPEN and (instance is None or instance.primary != node.name):
            fate = replace(fate, end=End.RESTARTED)
        now_known.append(fate)
        if fate.end is not End.OPEN or instance is None or len(planned.actions) >= policy.moves:
            continue
        target = _target(instance, fate, fencing, policy, room)
        if isinstance(target, Reason):
            why = because(Kind.CANNOT_MOVE, instance.name, why=target)
            planned.held.append(Held(why, node.name))
            continue
        move = MovePrimary(instance.name, node.name, live=False, target=target)
        room.plan(move, OfFencing(fencing.node).owner)
        planned.actions.append(move)
    planned.fencing = replace(fencing, fates=tuple(now_known))
    return planned


def _target(
    instance: Instance, fate: Fate, fencing: Fencing, policy: Policy, room: Room
) -> str | Reason:
    """The node where it starts, or why it cannot start now."""
    if instance.name in room.placed:
        return because(Kind.MOVED_BY_OTHERS, instance.name)
    if why := at_work_on(instance, room.busy):
        return why
    if instance.secondary is not None:
        if not fate.synced:
            return because(Kind.MIRROR_UNKNOWN, instance.secondary)
        mirror = instance.secondary
        return room.why_not_rescued(mirror) or room.too_small(mirror, instance) or mirror
    group = room.snapshot.nodes[instance.primary].group
    names = _by_room(room.fit.get(group, ()), room)
    whys = list[Reason]()
    for name in names:
        why = room.why_not(name, OfFencing(fencing.node).owner)
        why = why or room.why_not_rescued(name) or room.too_small(name, instance)
        if why is None and policy.spare:
            trial = room.trial()
            trial.plan(
                MovePrimary(instance.name, instance.primary, live=False, target=name), fencing.node
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
