"""What one incident's node needs next. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nodeagent.maintd.places import together
from nodeagent.maintd.room import Room, needs_memory
from nodeagent.model.action import (
    Action,
    Drain,
    MovePrimary,
    MoveSecondary,
    Retag,
    RunCommand,
    Scope,
    SetOffline,
)
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import UNKNOWN, Incident, Status
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
    trial, found = room.trial(), Next()
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
    emptying = _Emptying(incident, node, room, policy, found, together(node, room, incident.id))
    here = [(i, emptying.primary) for i in _by_name(room.primaries, node)]
    mirrored = [(i, emptying.mirror) for i in _by_name(room.mirrors, node)]
    for instance, move in (*here, *mirrored):
        if instance.name in room.placed:
            continue
        if under_way + len(found.steps) >= policy.moves:
            return
        move(instance)


def _by_name(instances: Mapping[str, list[Instance]], node: Node) -> list[Instance]:
    return sorted(instances.get(node.name, ()), key=lambda instance: instance.name)


@dataclass
class _Emptying:
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
        elif instance.shared:
            target, why = self._target(instance, "memory", needs_memory(instance), {self.node.name})
            if target is not None:
                self._promise(self._move(instance, target))
                return
        elif instance.secondary is None:
            why = f"its disks ({instance.template}) are on {self.node.name} alone"
        else:
            why = self._mirror_unfit(instance, instance.secondary) or ""
            if not why:
                first = self._promise(self._move(instance, instance.secondary))
                # Then the node holds its mirror, which is to leave as well.
                self._mirror(instance, instance.secondary, first)
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

    def _move(self, instance: Instance, target: str) -> MovePrimary:
        return MovePrimary(
            instance.name,
            self.node.name,
            live=self._must_migrate(instance) and instance.migratable,
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
