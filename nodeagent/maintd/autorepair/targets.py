"""Choose the target of a repair: a free node of the group with enough room. Pure."""

from dataclasses import dataclass

from nodeagent.autorepair.steps import Step
from nodeagent.autorepair.tags import RepairType
from nodeagent.maintd.planning.resources import Room, needs_memory
from nodeagent.model.action import Move, MovePrimary, MoveSecondary, Reinstall
from nodeagent.model.departure import stay_longest
from nodeagent.model.purpose import AUTOREPAIR
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.snapshot import Capacity, Instance


def move(instance: Instance, step: Step, room: Room) -> Move | Reason:
    """The move of an instance for a step, or why it has no target now."""
    choice = _Choice(instance, step, room)
    match step.kind:
        case RepairType.FIX_STORAGE:
            return choice.mirror()
        case RepairType.MIGRATE | RepairType.FAILOVER:
            return choice.side()
        case RepairType.REINSTALL:
            return choice.anew()


def is_rescue(instance: Instance, step: Step, room: Room) -> bool:
    """Check whether the instance is down until this is done: any target is better than none."""
    lost = instance.secondary is not None and room.snapshot.nodes[instance.primary].offline
    return step.kind is RepairType.FAILOVER and lost


@dataclass(frozen=True, slots=True)
class _Choice:
    instance: Instance
    step: Step
    room: Room

    def mirror(self) -> MoveSecondary | Reason:
        """Choose a new secondary; the primary node must answer."""
        name, primary, old = self.instance.name, self.instance.primary, self.instance.secondary
        assert old is not None
        if why := self.room.why_not_through(primary, AUTOREPAIR):
            return because(Kind.NO_NEW_MIRROR, name, why=why)
        target = self._roomiest({primary, old}, disk=self.instance.disk)
        if isinstance(target, Reason):
            return because(Kind.NO_PLACE_FOR_MIRROR, name, why=target)
        return MoveSecondary(name, old, target)

    def side(self) -> MovePrimary | Reason:
        """Choose a new primary: its secondary, or any node that can reach the disks."""
        name, primary, fallback = self.instance.name, self.instance.primary, self.step.fallback
        # A stopped instance cannot migrate, and loses nothing by a failover.
        live = self.step.kind is RepairType.MIGRATE and self.instance.running
        if live and (why := self.room.why_not_through(primary, AUTOREPAIR)):
            return because(Kind.CANNOT_MIGRATE, name, why=why)
        room, target = self.room, self.instance.secondary
        barred = room.barred(self.instance) if live else frozenset[str]()
        if barred and barred == room.possible_hosts(self.instance):
            if not fallback:
                to = target or "any node of its group"
                forbids = because(Kind.TAGS_FORBID, name, node=primary, to=to)
                return because(Kind.CANNOT_MIGRATE, name, why=forbids)
            live, barred = False, frozenset()
        if target is not None:
            if why := self._too_little(target):
                return because(Kind.MIRROR_REFUSES, name, why=why)
            return MovePrimary(name, primary, live, target, fallback=fallback)
        node = self._roomiest({primary, *barred}, memory=needs_memory(self.instance))
        if isinstance(node, Reason):
            return because(Kind.NO_PLACE_TO_RUN, name, why=node)
        return MovePrimary(name, primary, live, node, fallback=fallback)

    def anew(self) -> Reinstall | Reason:
        """Choose as many new nodes as it had."""
        it = self.instance
        old = {node for node in (it.primary, it.secondary) if node is not None}
        target = self._roomiest(old, memory=needs_memory(it), disk=it.disk, whole=True)
        if isinstance(target, Reason):
            return because(Kind.NO_PLACE_ANEW, it.name, why=target)
        mirror = None
        if it.secondary is not None:
            node = self._roomiest({*old, target}, disk=it.disk, whole=True)
            if isinstance(node, Reason):
                return because(Kind.NO_PLACE_FOR_MIRROR, it.name, why=node)
            mirror = node
        return Reinstall(it.name, it.primary, target, mirror, it.running)

    def _too_little(self, node: str) -> Reason | None:
        room, rescue = self.room, is_rescue(self.instance, self.step, self.room)
        why = room.why_not_rescued(node) if rescue else room.why_not(node, AUTOREPAIR)
        return why or room.too_small(node, self.instance)

    def _roomiest(
        self,
        not_these: set[str],
        *,
        memory: int | None = None,
        disk: int | None = None,
        whole: bool = False,
    ) -> str | Reason:
        """The free node of its group with the most memory (or else disk), and enough of both.

        A node that leaves soon is chosen only if no other has enough, least soon first.
        With `whole` also enough physical disks, where instances have these for themselves.
        """
        group = self.room.snapshot.nodes[self.instance.primary].group
        names = [name for name in self.room.fit.get(group, ()) if name not in not_these]
        free = [name for name in names if self.room.why_not(name, AUTOREPAIR) is None]
        if not free:
            taken = self.room.why_not(names[0], AUTOREPAIR) if names else None
            return because(Kind.ALL_TAKEN, group, whys=taken)
        known = {name: self.room.capacity[name] for name in free if name in self.room.capacity}
        if not known:
            return because(Kind.UNKNOWN_ROOMS, group, nodes=tuple(sorted(free)[:3]))
        fitting = {name: has for name, has in known.items() if _holds(has, memory, disk)}
        if not fitting:
            wanted = ((memory, "memory"), (disk, "disk"))
            words = tuple(f"{mib} MiB of {what}" for mib, what in wanted if mib is not None)
            return because(Kind.NO_FREE_NODE, group, wanted=words)
        if whole:
            fitting = {name: has for name, has in fitting.items() if self._has_disks(name, has)}
        if not fitting:
            spindles = self.instance.spindles
            if spindles is None:
                return because(Kind.UNKNOWN_DISKS, self.instance.name)
            words = (f"{spindles} free physical disks",)
            return because(Kind.NO_FREE_NODE, group, wanted=words)

        def order(name: str) -> tuple[int, str]:
            return -(fitting[name].disk if memory is None else fitting[name].memory), name

        return min(stay_longest(self.room.departures, fitting), key=order)

    def _has_disks(self, node: str, has: Capacity) -> bool:
        """Check for enough physical disks: Ganeti checks only after giving up the old ones."""
        if not self.room.snapshot.nodes[node].exclusive:
            return True
        spindles, size = self.instance.spindles, has.size
        return spindles is not None and size is not None and size.free_spindles >= spindles


def _holds(has: Capacity, memory: int | None, disk: int | None) -> bool:
    return has.memory >= (memory or 0) and has.disk >= (disk or 0)
