"""Where a repair brings an instance: nodes of its group that are free and have the room. Pure."""

from dataclasses import dataclass

from nodeagent.autorepair.steps import Step
from nodeagent.autorepair.tags import RepairType
from nodeagent.maintd.planning.resources import Room, needs_memory
from nodeagent.model.action import Move, MovePrimary, MoveSecondary, Reinstall
from nodeagent.model.ledger import AUTOREPAIR
from nodeagent.model.snapshot import Capacity, Instance


def move(instance: Instance, step: Step, room: Room) -> Move | str:
    """What a step does to the instance, or why there is no place for that now."""
    choice = _Choice(instance, room)
    match step.kind:
        case RepairType.FIX_STORAGE:
            return choice.mirror()
        case RepairType.MIGRATE | RepairType.FAILOVER:
            # What does not run cannot migrate, and loses nothing by a failover.
            live = step.kind is RepairType.MIGRATE and instance.running
            return choice.side(live=live, fallback=step.fallback)
        case RepairType.REINSTALL:
            return choice.anew()


@dataclass(frozen=True, slots=True)
class _Choice:
    instance: Instance
    room: Room

    def mirror(self) -> MoveSecondary | str:
        """Another node to be mirrored to; the primary node must answer."""
        name, primary, old = self.instance.name, self.instance.primary, self.instance.secondary
        assert old is not None
        if why := self.room.why_not_through(primary, AUTOREPAIR):
            return f"its mirror cannot be made anew: {why}"
        target, why = self._roomiest({primary, old}, disk=self.instance.disk)
        if target is None:
            return f"there is no place for its mirror: {why}"
        return MoveSecondary(name, old, target)

    def side(self, *, live: bool, fallback: bool) -> MovePrimary | str:
        """Another node to run on: its mirror, or any where the disks can be reached."""
        name, primary = self.instance.name, self.instance.primary
        if live and (why := self.room.why_not_through(primary, AUTOREPAIR)):
            return f"it cannot migrate: {why}"
        room, target = self.room, self.instance.secondary
        barred = room.barred(self.instance) if live else frozenset[str]()
        if barred and barred == room.ends(self.instance):
            if not fallback:
                to = target or "any node of its group"
                return f"it cannot migrate: migration tags forbid it from {primary} to {to}"
            live, barred = False, frozenset()
        if target is not None:
            if why := self._too_little(target):
                return f"its mirror cannot take it: {why}"
        else:
            wanted = needs_memory(self.instance)
            target, why = self._roomiest({primary, *barred}, memory=wanted)
            if target is None:
                return f"there is no place where it could run: {why}"
        return MovePrimary(name, primary, live, target, fallback=fallback)

    def anew(self) -> Reinstall | str:
        """As many other nodes as it had."""
        it = self.instance
        old = {node for node in (it.primary, it.secondary) if node is not None}
        target, why = self._roomiest(old, memory=needs_memory(it), disk=it.disk, whole=True)
        if target is None:
            return f"there is no place to install it anew: {why}"
        mirror: str | None = None
        if it.secondary is not None:
            mirror, why = self._roomiest({*old, target}, disk=it.disk, whole=True)
            if mirror is None:
                return f"there is no place for its mirror: {why}"
        return Reinstall(it.name, it.primary, target, mirror, it.running)

    def _too_little(self, node: str) -> str | None:
        if why := self.room.why_not(node, AUTOREPAIR):
            return why
        free, wanted = self.room.capacity.get(node), needs_memory(self.instance)
        if free is None:
            return f"it is not known what {node} has free"
        if free.memory < wanted:
            return f"{node} has {free.memory} MiB of memory left for its {wanted} MiB"
        return None

    def _roomiest(
        self,
        not_these: set[str],
        *,
        memory: int | None = None,
        disk: int | None = None,
        whole: bool = False,
    ) -> tuple[str | None, str]:
        """The free node of its group with the most of the first asked for, and enough of both.

        With `whole` also enough physical disks, where instances have these for themselves.
        """
        group = self.room.snapshot.nodes[self.instance.primary].group
        names = [name for name in self.room.fit.get(group, ()) if name not in not_these]
        free = [name for name in names if self.room.why_not(name, AUTOREPAIR) is None]
        if not free:
            taken = f": {self.room.why_not(names[0], AUTOREPAIR)}" if names else ""
            return None, f"no other node of its group is free{taken}"
        known = {name: self.room.capacity[name] for name in free if name in self.room.capacity}
        if not known:
            return None, f"it is not known what {', '.join(sorted(free)[:3])} have free"
        fitting = {name: has for name, has in known.items() if _holds(has, memory, disk)}
        if not fitting:
            wanted = ((memory, "memory"), (disk, "disk"))
            words = [f"{mib} MiB of {what}" for mib, what in wanted if mib is not None]
            return None, f"no free node of its group has {' and '.join(words)}"
        if whole:
            fitting = {name: has for name, has in fitting.items() if self._has_disks(name, has)}
        if not fitting:
            spindles = self.instance.spindles
            if spindles is None:
                return None, "it is not known how many physical disks it had"
            return None, f"no free node of its group has {spindles} free physical disks"

        def most(name: str) -> tuple[int, str]:
            return -(fitting[name].disk if memory is None else fitting[name].memory), name

        return min(fitting, key=most), ""

    def _has_disks(self, node: str, has: Capacity) -> bool:
        """Ganeti wants to know their number, and looks for them when the old ones are given up."""
        if not self.room.snapshot.nodes[node].exclusive:
            return True
        spindles, size = self.instance.spindles, has.size
        return spindles is not None and size is not None and size.free_spindles >= spindles


def _holds(has: Capacity, memory: int | None, disk: int | None) -> bool:
    return has.memory >= (memory or 0) and has.disk >= (disk or 0)
