"""What nodes can still take in, as one round hands it out. Pure.

A node is free if it is in service, says that it is well, and nobody has claimed it; each
claim, each move planned and each instance that is forthcoming leaves less. Planners pass one Room
on, so that no two of them count on the same node or the same memory.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from nodeagent.model.action import Action, MovePrimary, MoveSecondary, Reinstall, move_of
from nodeagent.model.balance import Spot
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Status
from nodeagent.model.ledger import BALANCE, Ledger
from nodeagent.model.snapshot import Capacity, Instance, Observed, Snapshot
from nodeagent.placement.cluster.tags import rules_of

_NOTHING: frozenset[str] = frozenset()


def target_of(action: Action, snapshot: Snapshot) -> str | None:
    """The node that an action brings something to."""
    match move_of(action):
        case MovePrimary(name, _, _, target):
            instance = snapshot.instances.get(name)
            return target or (instance.secondary if instance else None)
        case MoveSecondary(_, _, target) | Reinstall(_, _, target):
            return target
        case _:
            return None


@dataclass
class Room:
    """One round's view of who may take what. `unfit` says of each node that is not free why.

    `claims` gives the incident for whose sake a node is claimed, or `autorepair`, or `balance` (""
    for anything else).
    `primaries` and `mirrors` are the instances by the node they run on and are mirrored to;
    `placed` is where the moves under way and planned put them. `fit` are the free nodes by
    group. `unreachable` says of the nodes through which nothing can be done at all why. `sends` are
    the migration tags of nodes, by name, that a node must know (`receives`) to which one of theirs
    migrates. `busy` says by name what somebody else's jobs are at work on. `tries` is how many
    places may still be tried this round, at 0.1 ms each, to place things together.
    """

    snapshot: Snapshot
    unfit: Mapping[str, str]
    fit: Mapping[str, list[str]]
    primaries: Mapping[str, list[Instance]]
    mirrors: Mapping[str, list[Instance]]
    claims: dict[str, str]
    capacity: dict[str, Capacity]
    placed: dict[str, tuple[str, str | None]]
    unreachable: Mapping[str, str]
    sends: Mapping[str, frozenset[str]]
    receives: Mapping[str, frozenset[str]]
    busy: Mapping[str, str]
    tries: int = 1000

    def trial(self) -> "Room":
        """A copy to plan in without any consequence."""
        return replace(
            self,
            claims=dict(self.claims),
            capacity=dict(self.capacity),
            placed=dict(self.placed),
        )

    def why_not(self, node: str, incident: str) -> str | None:
        """Why nothing can be brought to the node for this incident now; None if it can."""
        if node in self.unfit:
            return self.unfit[node]
        return self._claimed(node, incident)

    def why_not_through(self, node: str, incident: str) -> str | None:
        """Why nothing can be done with what runs on the node now; it may be sick or drained."""
        if node in self.unreachable:
            return self.unreachable[node]
        return self._claimed(node, incident)

    def _claimed(self, node: str, incident: str) -> str | None:
        owner = self.claims.get(node)
        if owner in (None, incident):
            return None
        return f"{node} is claimed by {'balancing' if owner == BALANCE else 'another repair'}"

    def migrates(self, source: str, target: str) -> bool:
        """Whether migration tags let an instance migrate from one node to the other."""
        return self.sends.get(source, _NOTHING) <= self.receives.get(target, _NOTHING)

    def ends(self, instance: Instance) -> frozenset[str]:
        """Where it could run instead: its mirror, or else the group's other nodes in service."""
        if instance.secondary is not None:
            return frozenset({instance.secondary})
        nodes = self.snapshot.nodes
        group = nodes[instance.primary].group
        there = (name for name, node in nodes.items() if node.group == group and node.in_service)
        return frozenset(there) - {instance.primary}

    def barred(self, instance: Instance) -> frozenset[str]:
        """Those of its ends that it may not migrate to; where Ganeti migrates nothing, none."""
        if instance.always_failover or not self.sends.get(instance.primary):
            return _NOTHING
        ends = self.ends(instance)
        return frozenset(end for end in ends if not self.migrates(instance.primary, end))

    def copied_from(self, node: str) -> str | None:
        """An instance that runs on the node, and is just given a new mirror elsewhere."""
        for instance in self.primaries.get(node, ()):
            primary, mirror = self.placed.get(instance.name, (instance.primary, instance.secondary))
            if primary == node and mirror != instance.secondary:
                return instance.name
        return None

    def claim(self, node: str, incident: str) -> None:
        """Take a node."""
        self.claims[node] = incident

    def plan(self, action: Action, incident: str) -> None:
        """Count on an action: its target is claimed, its instance on the move, its room taken."""
        move = move_of(action)
        if move is None:
            return
        target = target_of(move, self.snapshot)
        instance = self.snapshot.instances.get(move.instance)
        if target is None or instance is None:
            return
        self.claims.setdefault(target, incident)
        primary, mirror = self.placed.get(instance.name, (instance.primary, instance.secondary))
        if isinstance(move, Reinstall):
            self.placed[instance.name] = (target, move.mirror)
            self._take(target, needs_memory(instance), instance.disk, instance.spindles or 0)
            if move.mirror is not None:
                self.claims.setdefault(move.mirror, incident)
                self._take(move.mirror, 0, instance.disk)
        elif isinstance(move, MovePrimary):
            self.placed[instance.name] = (target, None if mirror is None else primary)
            self._take(target, needs_memory(instance), 0)
        else:
            self.placed[instance.name] = (primary, target)
            self._take(target, 0, instance.disk)

    def with_moved(self, instance: Instance, to: Spot) -> "Room":
        """A copy in which an instance is elsewhere already, and its room is left."""
        there, needs = self.trial(), needs_memory(instance)
        there.placed[instance.name] = (to.primary, to.secondary)
        if to.primary != instance.primary:
            there._take(instance.primary, -needs, 0)
            there._take(to.primary, needs, 0)
        return there

    def keep(self, promised: Instance) -> None:
        """Leave the room of an instance that does not exist yet: nodes report that as free."""
        disk = 0 if promised.shared else promised.disk
        self._take(promised.primary, promised.memory, disk, promised.spindles or 0)
        if promised.secondary is not None:
            self._take(promised.secondary, 0, disk)

    def _take(self, node: str, memory: int, disk: int, spindles: int = 0) -> None:
        had = self.capacity.get(node)
        if had is not None:
            # How large it is stays known: else nothing could be placed there with all checks.
            size = had.size and replace(had.size, free_spindles=had.size.free_spindles - spindles)
            self.capacity[node] = Capacity(had.memory - memory, had.disk - disk, size)

    def overbooked(self, node: str) -> str | None:
        """Why the node could not take in what any single other one would bring by failing.

        A mirrored instance restarts where its mirror is; for one that is not balanced
        automatically nothing is kept free.
        """
        free = self.capacity.get(node)
        if free is None:
            return f"it is not known what {node} has free"
        bring: dict[str, int] = {}
        for instance in filter(lambda i: i.auto_balance, self._mirrored_to(node)):
            primary, _ = self.placed.get(instance.name, (instance.primary, None))
            bring[primary] = bring.get(primary, 0) + needs_memory(instance)
        for other, memory in sorted(bring.items()):
            if memory > free.memory:
                return (
                    f"{node} would have {free.memory} MiB of memory left,"
                    f" and need {memory} MiB should {other} fail"
                )
        return None

    def _mirrored_to(self, node: str) -> Iterator[Instance]:
        yield from (i for i in self.mirrors.get(node, ()) if i.name not in self.placed)
        for name, (_, mirror) in self.placed.items():
            if mirror == node:
                yield self.snapshot.instances[name]


def needs_memory(instance: Instance) -> int:
    """MiB the instance takes where it runs; a stopped one takes none."""
    return instance.memory if instance.running else 0


def open_room(ledger: Ledger, observed: Observed, paused: Mapping[str, str]) -> Room:
    """The room at the beginning of a round, unfinished intents counted in."""
    snapshot = observed.snapshot
    sick = {i.node: i for i in ledger.incidents if i.status is not Status.CANCELED}
    unfit: dict[str, str] = {}
    for name, node in snapshot.nodes.items():
        said = observed.diagnoses.get(name)
        if node.offline or node.drained or not node.vm_capable:
            state = "offline" if node.offline else "drained" if node.drained else "not vm-capable"
            unfit[name] = f"{name} is {state}"
        elif node.uuid in sick:
            unfit[name] = f"{name} has trouble of its own ({sick[node.uuid].id})"
        elif said is None:
            unfit[name] = f"{name} is in doubt ({observed.doubts.get(name, 'not asked')})"
        elif said.need is not Need.OK:  # canceled, yet still observed
            unfit[name] = f"{name} says {said.need.wire}"
        elif name in paused:
            unfit[name] = f"{name} is on hold ({paused[name]})"
    room = _room(observed, unfit)
    for intent in ledger.intents:
        room.claim(intent.node, intent.owner)
        room.plan(intent.action, intent.owner)
    return room


def _room(observed: Observed, unfit: Mapping[str, str]) -> Room:
    primaries: dict[str, list[Instance]] = {}
    mirrors: dict[str, list[Instance]] = {}
    for instance in observed.snapshot.instances.values():
        primaries.setdefault(instance.primary, []).append(instance)
        if instance.secondary is not None:
            mirrors.setdefault(instance.secondary, []).append(instance)
    fit: dict[str, list[str]] = {}
    for name, node in observed.snapshot.nodes.items():
        if name not in unfit:
            fit.setdefault(node.group, []).append(name)
    capacity = dict(observed.capacity)
    unreachable = {
        name: why
        for name, why in unfit.items()
        if observed.snapshot.nodes[name].offline or name not in observed.diagnoses
    }
    sends, receives = _migrations(observed.snapshot)
    room = Room(
        *(observed.snapshot, unfit, fit, primaries, mirrors, {}, capacity, {}),
        *(unreachable, sends, receives, observed.busy),
    )
    for promised in observed.snapshot.forthcoming.values():
        room.keep(promised)
    return room


def _migrations(
    snapshot: Snapshot,
) -> tuple[Mapping[str, frozenset[str]], Mapping[str, frozenset[str]]]:
    """What each node's tags ask of another, and what they answer; nothing where they mean none."""
    rules = rules_of(sorted(snapshot.tags))
    if not rules.migration:
        return {}, {}
    nodes = snapshot.nodes
    return (
        {name: rules.sends(node.tags) for name, node in nodes.items()},
        {name: rules.receives(node.tags) for name, node in nodes.items()},
    )
