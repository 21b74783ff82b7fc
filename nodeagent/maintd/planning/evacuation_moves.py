"""Where the instances of a node that is emptied are brought, one by one. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodeagent.maintd.planning.resources import Room, needs_memory
from nodeagent.model.action import Action, MovePrimary, MoveSecondary
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Incident
from nodeagent.model.ledger import Policy
from nodeagent.model.snapshot import Instance, Node


@dataclass(frozen=True, slots=True)
class Step:
    """An action, and the position in its list of the one that must succeed first."""

    action: Action
    after: int | None = None


@dataclass
class Next:
    """The steps of this round, all at once, and what stands in the way of the rest.

    `unknown` are those of the obstacles that are but a lack of knowledge.
    """

    steps: list[Step] = field(default_factory=list)
    obstacles: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def add(self, action: Action, after: int | None = None) -> int:
        self.steps.append(Step(action, after))
        return len(self.steps) - 1


@dataclass
class Emptying:
    """Moving the instances of one node into what room there is.

    `places` are the nodes where those by name would best be brought to, all of them together.
    """

    incident: Incident
    node: Node
    room: Room
    policy: Policy
    found: Next
    places: Mapping[str, str]

    def primary(self, instance: Instance) -> None:
        """An instance that runs here: to its mirror, or anywhere if its disks are shared."""
        if self.node.offline:
            why = f"{self.node.name} is offline: it can only be failed over"
        elif self._must_migrate(instance) and not (instance.migratable or self.policy.fallback):
            why = f"{instance.hypervisor} migrates nothing, and fallback to a failover is off"
        elif instance.secondary is None and not instance.shared:
            why = f"its disks ({instance.template}) are on {self.node.name} alone"
        else:
            why = self._leave(instance)
            if not why:
                return
        self.found.obstacles.append(f"instance {instance.name} cannot move: {why}")

    def mirror(self, instance: Instance) -> None:
        """An instance that is mirrored to here: the mirror anywhere else."""
        why = self.room.why_not_through(instance.primary, self.incident.id)
        if self.node.offline:
            why = f"{self.node.name} is offline: that is for auto-repair or a person"
        if why:
            self.found.obstacles.append(
                f"the mirror of instance {instance.name} cannot move: {why}"
            )
        else:
            self._mirror(instance, instance.primary, None)

    def _mirror(self, instance: Instance, primary: str, after: int | None) -> None:
        target, why = self._target(instance, "disk", instance.disk, {self.node.name, primary})
        if target is None:
            what = f"the mirror of instance {instance.name} cannot move: {why}"
            self.found.obstacles.append(what)
        else:
            self._promise(MoveSecondary(instance.name, self.node.name, target), after)

    def _promise(self, action: MovePrimary | MoveSecondary, after: int | None = None) -> int:
        self.room.plan(action, self.incident.id)
        return self.found.add(action, after)

    def _leave(self, instance: Instance) -> str:
        """To its mirror, or anywhere if its disks are shared; why not, or nothing."""
        live = self._must_migrate(instance) and instance.migratable
        barred = self.room.barred(instance) if live else frozenset[str]()
        if barred and barred == self.room.ends(instance):
            if not self.policy.fallback:
                to = instance.secondary or "any node of its group"
                why = f"migration tags forbid it from {self.node.name} to {to}"
                return f"{why}, and fallback to a failover is off"
            live, barred = False, frozenset()
        if instance.secondary is not None:
            if unfit := self._mirror_unfit(instance, instance.secondary):
                return unfit
            first = self._promise(self._move(instance, instance.secondary, live=live))
            # Then the node holds its mirror, which is to leave as well.
            self._mirror(instance, instance.secondary, first)
            return ""
        not_these = {self.node.name, *barred}
        target, why = self._target(instance, "memory", needs_memory(instance), not_these)
        if target is None:
            return f"{why}, of those that migration tags allow" if barred else why
        self._promise(self._move(instance, target, live=live))
        return ""

    def _move(self, instance: Instance, target: str, *, live: bool) -> MovePrimary:
        return MovePrimary(
            instance.name,
            self.node.name,
            live,
            target=target,
            fallback=self.policy.fallback,
            unchecked=self.policy.unchecked,
        )

    def _must_migrate(self, instance: Instance) -> bool:
        """What does not run cannot migrate, and loses nothing by a failover."""
        return self.incident.diagnosis.need is Need.EVACUATE and instance.running

    def _mirror_unfit(self, instance: Instance, mirror: str) -> str | None:
        if why := self.room.why_not(mirror, self.incident.id):
            return f"its mirror, {why}"
        free, wanted = self.room.capacity.get(mirror), needs_memory(instance)
        if free is None:
            why = f"it is not known what its mirror {mirror} has free"
            self.found.unknown.append(f"instance {instance.name} cannot move: {why}")
            return why
        if free.memory < wanted:
            return f"its mirror {mirror} has {free.memory} MiB of memory left for its {wanted} MiB"
        return None

    def _target(
        self, instance: Instance, what: str, wanted: int, not_these: set[str]
    ) -> tuple[str | None, str]:
        """Where it is best together with the others, or else by itself."""
        name = self.places.get(instance.name)
        if name is None or name in not_these or self.room.why_not(name, self.incident.id):
            return self._with_most(what, wanted, not_these)
        free = self.room.capacity[name]
        if (free.disk if what == "disk" else free.memory) < wanted:
            return self._with_most(what, wanted, not_these)
        return name, ""

    def _with_most(self, what: str, wanted: int, not_these: set[str]) -> tuple[str | None, str]:
        """The free node of the group with the most memory or disk, if that is enough."""
        best: tuple[int, str] | None = None
        claims, capacity, allowed = self.room.claims, self.room.capacity, (None, self.incident.id)
        for name in self.room.fit.get(self.node.group, ()):
            free = capacity.get(name)
            if free is None or name in not_these or claims.get(name) not in allowed:
                continue
            amount = free.disk if what == "disk" else free.memory
            if amount >= wanted and (best is None or (-amount, name) < (-best[0], best[1])):
                best = (amount, name)
        if best is not None:
            return best[1], ""
        fit = [name for name in self.room.fit.get(self.node.group, ()) if name not in not_these]
        if fit and not any(name in capacity for name in fit):
            why = f"it is not known what {', '.join(sorted(fit)[:3])} have free"
            self.found.unknown.append(why)
            return None, why
        return None, f"no free node of its group has {wanted} MiB of {what}"
