"""Room left on the nodes, as one round hands it out. Pure.

A node is free if it is in service, reports itself healthy and is not claimed; the state of its
ended incidents does not matter. Each claim, each planned move and each forthcoming instance leaves
less. Planners pass one Room on, so that no two of them count on the same node, memory or budget.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from nodeagent.maintd.planning.budgets import Budgets
from nodeagent.maintd.planning.outcomes import is_unheard
from nodeagent.model.action import Action, Move, MovePrimary, MoveSecondary, Reinstall, move_of
from nodeagent.model.balance import Spot
from nodeagent.model.departure import Departure
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.incident import Incident
from nodeagent.model.ledger import Ledger
from nodeagent.model.purpose import Purpose, claimant
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.snapshot import Capacity, Instance, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.cluster import Instance as Placed
from nodeagent.placement.cluster.tags import rules_of
from nodeagent.placement.layout.node import Demand

SEARCHES = 24
"""Nodes whose instances are placed in one round: each takes some 20 ms of a large group."""
_NOTHING: frozenset[str] = frozenset()


def target_of(action: Action, snapshot: Snapshot) -> str | None:
    """The target node of an action."""
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
    """Claims and free room of one round: a node belongs to one owner at a time.

    - `unfit`: the reason for each node that is not free.
    - `claims`: the owner of each claimed node (`Purpose.owner`).
    - `in_work`: the nodes (UUIDs) on which incidents or entries of the repair queue work.
    - `primaries`, `mirrors`: the instances by their primary and by their secondary node.
    - `placed`: where running and planned moves put instances.
    - `fit`: the free nodes by group.
    - `unreachable`: the reason for each node whose instances nobody can act on.
    - `shut`: the reason for each node where not even an instance of an offline node may start.
    - `sends`: migration tags by node; an instance migrates only to a node with them in `receives`.
    - `busy`: the work of somebody else's jobs, by name.
    - `evacuated`: the nodes whose own incident moves their instances.
    - `briefly_closed`: by a pause, a window or their own live repair; they open again.
    - `budgets`: how many instances may be disrupted.
    - `departures`: the nodes that leave soon, or are away (`planning/departures`).
    - `demands`: those of instances that `placement` has read in this round, trials included.
    - `searches`: what is left of this round's searches for places, trials included.
    """

    snapshot: Snapshot
    unfit: Mapping[str, Reason]
    fit: Mapping[str, list[str]]
    primaries: Mapping[str, list[Instance]]
    mirrors: Mapping[str, list[Instance]]
    claims: dict[str, str]
    capacity: dict[str, Capacity]
    placed: dict[str, tuple[str, str | None]]
    unreachable: Mapping[str, Reason]
    shut: dict[str, Reason]
    sends: Mapping[str, frozenset[str]]
    receives: Mapping[str, frozenset[str]]
    busy: Mapping[str, str]
    evacuated: Set[str]
    briefly_closed: Set[str]
    budgets: Budgets
    departures: Mapping[str, Departure]
    in_work: set[str] = field(default_factory=set)
    demands: dict[str, tuple[Placed, Demand]] = field(default_factory=dict)
    searches: Iterator[int] = field(default_factory=lambda: iter(range(SEARCHES)))

    def may_search(self) -> bool:
        """Tell whether one more node's instances may be placed in this round, and count that."""
        return next(self.searches, None) is not None

    def trial(self) -> "Room":
        """A copy to try moves in, all at once: there are no budgets in it."""
        return replace(
            self,
            claims=dict(self.claims),
            capacity=dict(self.capacity),
            placed=dict(self.placed),
            shut=dict(self.shut),
            budgets=Budgets(),
        )

    def why_not(self, node: str, incident: str) -> Reason | None:
        """Why nothing can move to the node for this incident now; None if it can."""
        if node in self.unfit:
            return self.unfit[node]
        return self.why_claimed(node, incident)

    def why_not_through(self, node: str, incident: str) -> Reason | None:
        """Why nothing can be done with the node's instances now; it may be unhealthy or drained."""
        if node in self.unreachable:
            return self.unreachable[node]
        return self.why_claimed(node, incident)

    def why_not_rescued(self, node: str) -> Reason | None:
        """Why an instance whose node is offline may not start on its secondary.

        Any place is better than no place, so this ignores claims and milder requests. Only doubt,
        `evacuate-failover` there, and Ganeti's own refusals count.
        """
        return self.shut.get(node)

    def forbid_starts(self, node: str, why: Reason) -> None:
        self.shut.setdefault(node, why)

    def why_claimed(self, node: str, owner: str) -> Reason | None:
        """Return the claim of another owner on the node as a reason; None if it has none."""
        has = self.claims.get(node)
        if has is None or has == owner:
            return None
        return because(Kind.CLAIMED, node, who=claimant(has))

    def within_budgets(self, move: Move) -> Move | Reason:
        """The move as its instance's budgets allow it now, or why it waits."""
        return self.budgets.allow(move, self.snapshot.instances[move.instance])

    def migrates(self, source: str, target: str) -> bool:
        """Check whether migration tags let an instance migrate from one node to the other."""
        return self.sends.get(source, _NOTHING) <= self.receives.get(target, _NOTHING)

    def possible_hosts(self, instance: Instance) -> frozenset[str]:
        """The nodes where it could run instead: its secondary, or the group's others in service."""
        if instance.secondary is not None:
            return frozenset({instance.secondary})
        nodes = self.snapshot.nodes
        group = nodes[instance.primary].group
        names = (name for name, node in nodes.items() if node.group == group and node.in_service)
        return frozenset(names) - {instance.primary}

    def barred(self, instance: Instance) -> frozenset[str]:
        """Those of its ends that it may not migrate to; none where Ganeti does not migrate it."""
        if instance.always_failover or not self.sends.get(instance.primary):
            return _NOTHING
        ends = self.possible_hosts(instance)
        return frozenset(end for end in ends if not self.migrates(instance.primary, end))

    def copied_from(self, node: str) -> str | None:
        """An instance that runs on the node while it gets a new secondary elsewhere."""
        for instance in self.primaries.get(node, ()):
            primary, mirror = self.placed.get(instance.name, (instance.primary, instance.secondary))
            if primary == node and mirror != instance.secondary:
                return instance.name
        return None

    def take(self, node: str, purpose: Purpose) -> "Taken | Reason":
        """Claim a node for a purpose, or say whose it is already."""
        return self.why_claimed(node, purpose.owner) or self.take_anyway(node, purpose)

    def take_anyway(self, node: str, purpose: Purpose) -> "Taken":
        """Claim a node whoever has it: it is being fenced."""
        self.claim(node, purpose.owner)
        return Taken(node, purpose)

    def take_offline_node(self, node: str, purpose: Purpose) -> "Taken":
        """Take a node that is offline, whoever has it: its instances may start elsewhere."""
        assert self.snapshot.nodes[node].offline, node
        return Taken(node, purpose)

    def claim(self, node: str, owner: str) -> None:
        self.claims[node] = owner

    def plan(self, action: Action, incident: str) -> None:
        """Count on an action.

        Claim its target, mark its instance as moved, take its room, and count it in its budgets.
        """
        move = move_of(action)
        instance = None if move is None else self.snapshot.instances.get(move.instance)
        if move is None or instance is None:
            return
        self.budgets.plan(move, instance, incident)
        target = target_of(move, self.snapshot)
        if target is None:
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
        """A copy in which an instance has moved already, and its old room is free."""
        room, needs = self.trial(), needs_memory(instance)
        room.placed[instance.name] = (to.primary, to.secondary)
        if to.primary != instance.primary:
            room._take(instance.primary, -needs, 0)
            room._take(to.primary, needs, 0)
        return room

    def keep(self, promised: Instance) -> None:
        """Reserve the room of a forthcoming instance, which nodes report as free."""
        disk = 0 if promised.shared else promised.disk
        self._take(promised.primary, promised.memory, disk, promised.spindles or 0)
        if promised.secondary is not None:
            self._take(promised.secondary, 0, disk)

    def _take(self, node: str, memory: int, disk: int, spindles: int = 0) -> None:
        had = self.capacity.get(node)
        if had is not None:
            # The size stays known: else nothing could be placed there with all checks.
            size = had.size and replace(had.size, free_spindles=had.size.free_spindles - spindles)
            self.capacity[node] = Capacity(had.memory - memory, had.disk - disk, size)

    def too_small(self, node: str, instance: Instance) -> Reason | None:
        """Why the node's free memory is not enough for an instance; None if it is."""
        free, wanted = self.capacity.get(node), needs_memory(instance)
        if free is None:
            return because(Kind.UNKNOWN_ROOM, node)
        if free.memory < wanted:
            return because(Kind.TOO_SMALL, node, free=free.memory, wanted=wanted, what="memory")
        return None

    def overbooked(self, node: str) -> Reason | None:
        """Why the node could not take the instances of any other single node that fails.

        A mirrored instance restarts on its secondary; no room is reserved for one without
        auto-balance.
        """
        free = self.capacity.get(node)
        if free is None:
            return because(Kind.UNKNOWN_ROOM, node)
        bring: dict[str, int] = {}
        for instance in filter(lambda i: i.auto_balance, self._mirrored_to(node)):
            primary, _ = self.placed.get(instance.name, (instance.primary, None))
            bring[primary] = bring.get(primary, 0) + needs_memory(instance)
        for other, memory in sorted(bring.items()):
            if memory > free.memory:
                details = {"free": free.memory, "wanted": memory}
                return because(Kind.NO_FAILURE_LEFT, node, **details, other=other)
        return None

    def _mirrored_to(self, node: str) -> Iterator[Instance]:
        for instance in self.mirrors.get(node, ()):
            if instance.name not in self.placed and instance.secondary == node:
                yield instance
        for name, (_, mirror) in self.placed.items():
            if mirror == node:
                yield self.snapshot.instances[name]


@dataclass(frozen=True, slots=True)
class Taken:
    """A node that a purpose has claimed in this round: nobody else makes intents there.

    Only `Room` makes it. A test of the imports forbids all other ways to an intent at a node.
    """

    node: str
    purpose: Purpose

    def promise(self, ledger: Ledger, action: Action, now: Ms, after: str | None = None) -> Ledger:
        """Return the ledger with one more intent at the node, after that intent if any."""
        return ledger.promise(self.purpose, self.node, action, now, after)


def needs_memory(instance: Instance) -> int:
    """MiB the instance takes where it runs; a stopped one takes none."""
    return instance.memory if instance.running else 0


def open_room(
    ledger: Ledger,
    observed: Observed,
    paused: Mapping[str, Reason],
    windows: Mapping[str, Reason] = MappingProxyType({}),
    departures: Mapping[str, Departure] = MappingProxyType({}),
) -> Room:
    """The room at the start of a round, after the unfinished intents.

    `paused` and `windows` give the reasons why no work starts on nodes: somebody has paused them,
    or their maintenance has started. `departures` are the nodes that leave soon.
    """
    snapshot, closed = observed.snapshot, {**paused, **windows}
    incidents = {incident.node: incident for incident in ledger.incidents if incident.status.active}
    unfit: dict[str, Reason] = {}
    shut: dict[str, Reason] = {}
    evacuated: set[str] = set()
    briefly_closed = set(windows)
    for name, node in snapshot.nodes.items():
        incident, diagnosis = incidents.get(node.uuid), observed.diagnoses.get(name)
        if incident is not None and incident.diagnosis.need >= Need.EVACUATE:
            evacuated.add(name)
        if node.in_service and (name in closed or _is_mending(incident, diagnosis)):
            briefly_closed.add(name)
        if not node.in_service:
            state = node.standing.value if node.is_out else "not vm-capable"
            unfit[name] = shut[name] = because(Kind.OUT_OF_SERVICE, name, state=state)
        elif diagnosis is None:
            doubt = observed.doubts.get(name, "not asked")
            unfit[name] = shut[name] = because(Kind.IN_DOUBT, name, doubt=doubt)
        else:
            if diagnosis.need is Need.EVACUATE_FAILOVER:
                shut[name] = because(Kind.ASKS, name, need=diagnosis.need.wire)
            if why := _why_unfit(name, diagnosis, incident, closed):
                unfit[name] = why
    room = _room(observed, unfit, shut, departures, evacuated, briefly_closed)
    for promised in snapshot.forthcoming.values():
        room.keep(promised)
    for intent in ledger.intents:
        room.claim(intent.node, intent.owner)
        room.plan(intent.action, intent.owner)
        # A node with a running job is in work, whatever its incident's state.
        if intent.incident and intent.node in snapshot.nodes and not is_unheard(intent, observed):
            room.in_work.add(snapshot.nodes[intent.node].uuid)
    return room


def _is_mending(incident: Incident | None, diagnosis: Diagnosis | None) -> bool:
    if incident is None or incident.by_hand or diagnosis is None:
        return False
    return diagnosis.need <= Need.LIVE_REPAIR


def _why_unfit(
    name: str, diagnosis: Diagnosis, incident: Incident | None, closed: Mapping[str, Reason]
) -> Reason | None:
    """Why nothing can move to a node in service that reports this diagnosis."""
    if incident is not None:
        return because(Kind.OPEN_INCIDENT, name, incident=incident.id)
    if diagnosis.need is not Need.OK:  # its incident has ended, and its fault has not
        return because(Kind.ASKS, name, need=diagnosis.need.wire)
    if name in closed:
        return because(Kind.ON_HOLD, name, why=closed[name])
    return None


def _room(
    observed: Observed,
    unfit: Mapping[str, Reason],
    shut: dict[str, Reason],
    departures: Mapping[str, Departure],
    evacuated: Set[str],
    briefly_closed: Set[str],
) -> Room:
    """The room with nothing taken yet."""
    snapshot = observed.snapshot
    primaries: dict[str, list[Instance]] = {}
    mirrors: dict[str, list[Instance]] = {}
    for instance in snapshot.instances.values():
        primaries.setdefault(instance.primary, []).append(instance)
        for name in instance.others:
            mirrors.setdefault(name, []).append(instance)
    fit: dict[str, list[str]] = {}
    for name, node in snapshot.nodes.items():
        if name not in unfit:
            fit.setdefault(node.group, []).append(name)
    unreachable = {
        name: why
        for name, why in unfit.items()
        if snapshot.nodes[name].offline or name not in observed.diagnoses
    }
    sends, receives = _migrations(snapshot)
    return Room(
        snapshot=snapshot,
        unfit=unfit,
        fit=fit,
        primaries=primaries,
        mirrors=mirrors,
        claims={},
        capacity=dict(observed.capacity),
        placed={},
        unreachable=unreachable,
        shut=shut,
        sends=sends,
        receives=receives,
        busy=observed.busy,
        evacuated=evacuated,
        briefly_closed=briefly_closed,
        budgets=Budgets.of(observed),
        departures=departures,
    )


def _migrations(
    snapshot: Snapshot,
) -> tuple[Mapping[str, frozenset[str]], Mapping[str, frozenset[str]]]:
    """Migration tags that each node requires of targets, and accepts; empty without such rules."""
    rules = rules_of(sorted(snapshot.tags))
    if not rules.migration:
        return {}, {}
    nodes = snapshot.nodes
    return (
        {name: rules.sends(node.tags) for name, node in nodes.items()},
        {name: rules.receives(node.tags) for name, node in nodes.items()},
    )
