"""Choose targets for the instances of an evacuated node, one by one. Pure."""

from dataclasses import dataclass, field

from nodeagent.maintd.planning.evacuation_targets import Targets
from nodeagent.maintd.planning.resources import Room, Taken, needs_memory
from nodeagent.model.action import Action, Move, MovePrimary, MoveSecondary
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.reason import BudgetKind, Kind, Reason, because
from nodeagent.model.snapshot import Instance, Node
from nodeagent.model.units import Ms

_NAMED = 3  # nodes in one reason


def partly_mirrored(instance: Instance) -> Reason:
    """Why Ganeti moves neither an instance nor those of its disks that are on other nodes."""
    nodes = tuple(sorted(instance.partly_on))
    return because(Kind.PARTLY_MIRRORED, instance.name, template=instance.template, nodes=nodes)


@dataclass(frozen=True, slots=True)
class PlannedAction:
    """An action, and the position in its list of the one that must succeed first."""

    action: Action
    after: int | None = None


@dataclass
class NextSteps:
    """The steps of this round, all at once, and the obstacles to the rest.

    `unknown` are the obstacles that come only from missing information; `left` are the instances
    whose secondaries may stay, as no node can take them. `beyond` tells the steps that exceed a
    budget.
    """

    steps: list[PlannedAction] = field(default_factory=list)
    obstacles: list[Reason] = field(default_factory=list)
    unknown: list[Reason] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    beyond: list[Reason] = field(default_factory=list)

    def add(self, action: Action, after: int | None = None) -> int:
        self.steps.append(PlannedAction(action, after))
        return len(self.steps) - 1

    def promise(self, taken: Taken, ledger: Ledger, now: Ms) -> Ledger:
        """Return the ledger with an intent for each step, in their order."""
        ids: list[str] = []
        for step in self.steps:
            after = None if step.after is None else ids[step.after]
            ledger = taken.promise(ledger, step.action, now, after)
            ids.append(ledger.intents[-1].id)
        return ledger


@dataclass
class Emptying:
    """Moves of one node's instances into the available room.

    `owner` is the name that claims the nodes. Without `migrate` the node is about to fail: budgets
    do not hold it up. Without `secondaries` those may stay there.
    """

    owner: str
    node: Node
    room: Room
    policy: Policy
    steps: NextSteps
    targets: Targets
    migrate: bool
    secondaries: bool = True

    def primary(self, instance: Instance) -> None:
        """Move an instance that runs here: to its secondary, or anywhere on shared disks."""
        node, why = self.node.name, None
        if self.node.offline:
            why = because(Kind.ONLY_FAILOVER, node)
        elif self._must_migrate(instance) and not (instance.migratable or self.policy.fallback):
            why = because(Kind.NEVER_MIGRATES, instance.name, hypervisor=instance.hypervisor)
        elif instance.partly_on:
            why = partly_mirrored(instance)
        elif instance.secondary is None and not instance.shared:
            why = because(Kind.LOCAL_DISKS, instance.name, template=instance.template, node=node)
        else:
            why = self._leave(instance)
        if why:
            self.steps.obstacles.append(because(Kind.CANNOT_MOVE, instance.name, why=why))

    def mirror(self, instance: Instance) -> None:
        """Move the secondary of an instance from here to any other node."""
        if (self.node.offline or instance.partly_on) and self.policy.degraded:
            self.steps.left.append(instance.name)
        elif instance.partly_on:
            self._stays(instance, partly_mirrored(instance), alone=self.node.name)
        elif self.node.offline:
            self._stays(instance, because(Kind.NOT_FOR_MAINTD, self.node.name))
        elif why := self.room.why_not_through(instance.primary, self.owner):
            self._stays(instance, why)
        else:
            self._mirror(instance, instance.primary, None)

    def _stays(self, instance: Instance, why: Reason, **details: str) -> None:
        """Say why a secondary stays."""
        reason = because(Kind.MIRROR_CANNOT_MOVE, instance.name, why=why, **details)
        self.steps.obstacles.append(reason)

    def _mirror(self, instance: Instance, primary: str, after: int | None) -> None:
        target = self._target(
            instance, "disk", instance.disk, {self.node.name, primary}, runs=False
        )
        if isinstance(target, str):
            self._promise(MoveSecondary(instance.name, self.node.name, target), after)
        elif self.policy.degraded and self._nowhere({self.node.name, primary}):
            self.steps.left.append(instance.name)
        else:
            alone = "" if self._others({self.node.name, primary}) else self.node.name
            self._stays(instance, target, alone=alone)

    def _others(self, not_these: set[str]) -> list[str]:
        """The other nodes of the group that could ever take an instance."""
        return [
            name
            for name, node in self.room.snapshot.nodes.items()
            if node.group == self.node.group and node.vm_capable and name not in not_these
        ]

    def _nowhere(self, not_these: set[str]) -> bool:
        """Check whether waiting is useless: no other node can take an instance soon."""
        return not any(map(self._may_soon, self._others(not_these)))

    def _may_soon(self, name: str) -> bool:
        """Check whether a node may take instances soon.

        It is closed only for a while, or in service and claimed, in doubt, or of unknown room.
        """
        room = self.room
        if name in room.briefly_closed:
            return True
        unsaid = name not in room.unfit and name not in room.capacity
        blocked = unsaid or name in room.claims or name in room.unreachable
        return blocked and room.snapshot.nodes[name].in_service

    def _promise(self, action: Move, after: int | None = None) -> int:
        self.room.plan(action, self.owner)
        return self.steps.add(action, after)

    def _leave(self, instance: Instance) -> Reason | None:
        """Move to the secondary, or anywhere if the disks are shared; return why not, or None."""
        live = self._must_migrate(instance) and instance.migratable
        barred = self.room.barred(instance) if live else frozenset[str]()
        if barred and barred == self.room.possible_hosts(instance):
            if not self.policy.fallback:
                to = instance.secondary or "any node of its group"
                off, node = "fallback to a failover is off", self.node.name
                return because(Kind.TAGS_FORBID, instance.name, node=node, to=to, off=off)
            live, barred = False, frozenset()
        secondary, not_these = instance.secondary, {self.node.name, *barred}
        if secondary is not None and (unfit := self._mirror_unfit(instance, secondary)):
            if self._is_left_drained(secondary):
                return self._mirrored_anew(instance, secondary, unfit)
            return unfit
        target = secondary or self._target(
            instance, "memory", needs_memory(instance), not_these, runs=True
        )
        if isinstance(target, Reason):
            return because(Kind.TAGS_LEAVE, instance.name, why=target) if barred else target
        move = self._move(instance, target, live=live)
        if isinstance(move, Reason):
            return move
        first = self._promise(move)
        if secondary is not None and self.secondaries:  # it is here now, and must leave as well
            self._mirror(instance, secondary, first)
        return None

    def _is_left_drained(self, node: str) -> bool:
        """Check whether the node was drained by hand, and has no work running or planned."""
        room, drained = self.room, self.room.snapshot.nodes[node]
        ours = node in room.evacuated or room.claims.get(node) is not None
        return drained.drained and not drained.offline and not ours

    def _mirrored_anew(self, instance: Instance, old: str, unfit: Reason) -> Reason | None:
        """Give a new secondary where it could also run before it moves; return why not, or None."""
        wanted, capacity = needs_memory(instance), self.room.capacity
        small = {name for name, free in capacity.items() if free.memory < wanted}
        not_these = {self.node.name, instance.primary, old, *small}
        target = self._target(instance, "disk", instance.disk, not_these, runs=True)
        if isinstance(target, Reason):
            if small.intersection(self.room.fit.get(self.node.group, ())):
                target = because(Kind.NO_MEMORY, instance.name)
            return because(Kind.NO_OTHER_MIRROR, instance.name, unfit=unfit, why=target)
        self._promise(MoveSecondary(instance.name, old, target))
        return None

    def _move(self, instance: Instance, target: str, *, live: bool) -> Move | Reason:
        """The move as budgets allow it, or why it waits; a node about to fail waits for none."""
        move = MovePrimary(
            instance.name,
            self.node.name,
            live,
            target=target,
            fallback=self.policy.fallback,
            unchecked=self.policy.unchecked,
        )
        allowed = self.room.within_budgets(move)
        if isinstance(allowed, Reason) and not self.migrate:
            node = self.node.name
            why = because(BudgetKind.BUDGET_OVERRIDDEN, instance.name, node=node, why=allowed)
            self.steps.beyond.append(why)
            return move
        return allowed

    def _must_migrate(self, instance: Instance) -> bool:
        """Check whether it must migrate; a stopped one cannot, and a failover costs it nothing."""
        return self.migrate and instance.running

    def _mirror_unfit(self, instance: Instance, mirror: str) -> Reason | None:
        if why := self.room.why_not(mirror, self.owner):
            return because(Kind.MIRROR_CLOSED, mirror, why=why)
        free, wanted = self.room.capacity.get(mirror), needs_memory(instance)
        if free is None:
            why = because(Kind.MIRROR_UNKNOWN, mirror)
            self.steps.unknown.append(because(Kind.CANNOT_MOVE, instance.name, why=why))
            return why
        if free.memory < wanted:
            return because(Kind.MIRROR_TOO_SMALL, mirror, free=free.memory, wanted=wanted)
        return None

    def _target(
        self, instance: Instance, what: str, wanted: int, not_these: set[str], *, runs: bool
    ) -> str | Reason:
        """Pick the place found for all instances together, else the best one with enough room.

        The instance `runs` there, at once or later; or only its secondary is there.
        """
        group, capacity = self.node.group, self.room.capacity
        free = [
            name
            for name in self.room.fit.get(group, ())
            if name not in not_these and not self.room.why_claimed(name, self.owner)
        ]
        if not free:
            return self._none_free(not_these)
        known = [name for name in free if name in capacity]
        if not known:
            why = because(Kind.UNKNOWN_ROOMS, group, nodes=tuple(sorted(free)[:_NAMED]))
            self.steps.unknown.append(why)
            return why
        rooms = {name: capacity[name] for name in known}
        has = {name: of.disk if what == "disk" else of.memory for name, of in rooms.items()}
        enough = [name for name in known if has[name] >= wanted]
        if not enough:
            return because(Kind.NO_FREE_NODE, group, wanted=(f"{wanted} MiB of {what}",))
        if (place := self.targets.places.get(instance.name)) in enough:
            return place
        return self.targets.best(instance, enough, runs=runs)

    def _none_free(self, not_these: set[str]) -> Reason:
        """Why each other node of the group takes nothing now, whatever its room."""
        nodes, mine = self.room.snapshot.nodes, self.owner
        others = sorted(
            name
            for name, node in nodes.items()
            if node.group == self.node.group and name != self.node.name
        )
        whys = tuple(why for name in others if (why := self.room.why_not(name, mine)))
        group = self.node.group
        if whys:
            more = str(len(whys) - _NAMED) if len(whys) > _NAMED else ""
            return because(Kind.ALL_TAKEN, group, whys=whys[:_NAMED], more=more)
        if excluded := tuple(sorted(not_these.intersection(others))[:_NAMED]):
            return because(Kind.ONLY_NODE, group, nodes=excluded)
        return because(Kind.ALONE, group)
