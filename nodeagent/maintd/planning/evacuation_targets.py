"""Targets for all instances of one node together, with the room there is now. Pure.

A planned instance already counts at its target, and a node that is not free is no target. So this
uses no room that other repairs count on. Nodes that leave soon take only what has no place on the
others, least soon first.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from nodeagent.errors import MessageError
from nodeagent.maintd.planning.resources import Room, needs_memory
from nodeagent.model.departure import ranks, stay_longest
from nodeagent.model.snapshot import Capacity, Group, Instance, Node, Size, Snapshot
from nodeagent.placement.cluster.cluster import Instance as Placed
from nodeagent.placement.cluster.from_ganeti import OWN_MEMORY, assess, instance_of, policy_of
from nodeagent.placement.cluster.tags import rules_of
from nodeagent.placement.evacuate.evacuate import OneByOne, Way, evacuate
from nodeagent.placement.layout.layout import demand_of
from nodeagent.placement.layout.node import Demand
from nodeagent.placement.layout.rules import Rules

_UNKNOWN_CPUS = 10**6  # of a node that does not report its processors: they refuse nothing


class Targets:
    """Targets when the node is evacuated into the room for this owner, as the room is now.

    They are sought once somebody asks: an instance that runs on at its secondary needs none.
    """

    def __init__(self, node: Node, room: Room, owner: str) -> None:
        self._evacuated, self._room, self._owner = node, room.trial(), owner

    @cached_property
    def places(self) -> Mapping[str, str]:
        """The new node of each instance, by name.

        It lacks the instances without a place by all checks of the htools.
        """
        node, room = self._evacuated, self._room
        free = room.fit.get(node.group, [])
        here = sum(len(by_node.get(node.name, ())) for by_node in (room.primaries, room.mirrors))
        if not (here and free):
            return {}
        return self._sought(
            node, room, [name for name in free if not room.why_not(name, self._owner)]
        )

    def _sought(self, node: Node, room: Room, free: Sequence[str]) -> Mapping[str, str]:
        group = _group_alone(room, node.group)
        closed = dict.fromkeys(group.nodes.keys() - {*free, node.name}, "")
        answering = group.nodes.keys() - room.unreachable.keys() - {node.name}
        alone = replace(group, instances={})
        seen = assess(alone, _sized(group, room, answering), doubts=closed)
        rules = Rules(leaving=ranks(room.departures, free))
        read = _read(group, room, rules)
        nodes, instances = seen.cluster.nodes, tuple(instance for instance, _ in read)
        cluster = replace(seen.cluster, instances=instances)
        demands = tuple(demand for _, demand in read)
        evacuation = evacuate(cluster, [node.name], rules, seen.doubts, demands)
        self._one_by_one = OneByOne(evacuation)
        self._node = {node.name: index for index, node in enumerate(nodes)}
        self._instance = {instance.name: index for index, instance in enumerate(instances)}
        return {
            instances[way.instance].name: nodes[_end(way)].name
            for way in evacuation.ways
            if way.instance not in evacuation.left
        }

    def best(self, instance: Instance, names: Sequence[str], *, runs: bool) -> str:
        """Return the best of these free nodes for one instance, whatever the htools' checks say.

        The instance `runs` there, or has its secondary there.
        """
        if instance.name not in self._instance:  # its nodes are in two groups
            return min(stay_longest(self._room.departures, names))
        targets = [self._node[name] for name in names]
        best = self._one_by_one.place(self._instance[instance.name], targets, runs=runs)
        return names[targets.index(best)]


def _end(way: Way) -> int:
    """The new node of a secondary, or of the instance itself."""
    return way.after.primary if way.after.secondary < 0 else way.after.secondary


def _group_alone(room: Room, uuid: str) -> Snapshot:
    """One group as it will be after all running and planned moves.

    The free room of its nodes excludes the room of forthcoming instances.
    """
    whole = room.snapshot
    members = {name: node for name, node in whole.nodes.items() if node.group == uuid}
    instances: dict[str, Instance] = {}
    for name in members:
        for by_node in (room.primaries, room.mirrors):
            for instance in by_node.get(name, ()):
                instances[instance.name] = _as_placed(instance, room)
    inside = {
        name: instance
        for name, instance in instances.items()
        if instance.primary in members
        and (instance.secondary is None or instance.secondary in members)
    }
    policy = whole.groups[uuid].policy if uuid in whole.groups else ""
    groups = {uuid: Group(uuid, uuid, policy=_readable(policy))}
    return replace(whole, nodes=members, instances=inside, groups=groups, forthcoming={}, policy="")


def _read(group: Snapshot, room: Room, rules: Rules) -> list[tuple[Placed, Demand]]:
    """Read the instances; those that have not moved only once in a round."""
    tags = rules_of(tuple(sorted(group.tags)), rules.exclusion)
    pairs = []
    for instance in group.instances.values():
        moved = instance is not room.snapshot.instances[instance.name]
        if moved or (known := room.demands.get(instance.name)) is None:
            placed = instance_of(instance)
            known = placed, demand_of(placed, rules, tags)
            if not moved:
                room.demands[instance.name] = known
        pairs.append(known)
    return pairs


def _as_placed(instance: Instance, room: Room) -> Instance:
    if instance.name not in room.placed:
        return instance
    primary, secondary = room.placed[instance.name]
    return replace(instance, primary=primary, secondary=secondary)


def _readable(policy: str) -> str:
    """Return the policy, or none instead of an unreadable one: Ganeti refuses no move for it."""
    try:
        policy_of(policy, "the group")
    except MessageError:
        return ""
    return policy


def _sized(group: Snapshot, room: Room, names: Collection[str]) -> dict[str, Capacity]:
    """Return the free room of these nodes; estimate the size of a node that does not report it."""
    capacity = {name: room.capacity[name] for name in names if name in room.capacity}
    memory, disk = dict.fromkeys(capacity, OWN_MEMORY), dict.fromkeys(capacity, 0)
    for instance in group.instances.values():
        for name in (instance.primary, instance.secondary):
            if name in capacity and not instance.shared:
                disk[name] += instance.disk
        if instance.primary in capacity:
            memory[instance.primary] += needs_memory(instance)
    for name, free in capacity.items():
        if free.size is None:
            size = Size(
                memory=free.memory + memory[name],
                own_memory=OWN_MEMORY,
                disk=free.disk + disk[name],
                cpus=_UNKNOWN_CPUS,
            )
            capacity[name] = replace(free, size=size)
    return capacity
