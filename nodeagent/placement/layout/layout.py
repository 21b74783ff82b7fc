"""One group's nodes and instances, as a balancing starts. Pure.

It derives the state once, from the nodes' reports and the records (htools: "state of world" and
"state of record"); from then on only moves change it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import NamedTuple, TypeVar

from nodeagent.errors import MessageError
from nodeagent.placement.cluster.cluster import (
    IDLE,
    LOCAL,
    Cluster,
    Group,
    Instance,
    Load,
    Node,
    Status,
    Template,
)
from nodeagent.placement.cluster.tags import TagRules, rules_of
from nodeagent.placement.layout.node import Demand, Filled, Host, Sums
from nodeagent.placement.layout.rules import Rules

T = TypeVar("T")


class Place(NamedTuple):
    """An instance's place: indices of nodes, -1 for no secondary.

    `shared` counts the common locations of its two nodes when it came there.
    """

    primary: int
    secondary: int
    shared: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """Nodes and instances by their index in the cluster's order; never changed in place.

    Only `members`, the group's nodes, count for the score and are targets. `residents` are the
    instances whose primary node is one, `movable` those of them that may move at all.
    """

    cluster: Cluster
    group: Group
    rules: Rules
    nodes: tuple[Filled, ...]
    members: tuple[int, ...]
    demands: tuple[Demand, ...]
    places: tuple[Place, ...]
    residents: tuple[int, ...]
    movable: tuple[int, ...]

    def group_nodes(self) -> list[Filled]:
        return [self.nodes[index] for index in self.members]

    def with_changes(self, nodes: Mapping[int, Filled], places: Mapping[int, Place]) -> "Layout":
        return replace(
            self, nodes=_changed(self.nodes, nodes), places=_changed(self.places, places)
        )


def among(layout: Layout, names: Collection[str]) -> Layout:
    """Return the layout as if its group had only these nodes: the others take no part."""
    nodes = layout.cluster.nodes
    members = tuple(index for index in layout.members if nodes[index].name in names)
    inside = {*members, -1}
    return replace(
        layout,
        members=members,
        residents=tuple(i for i in layout.residents if layout.places[i].primary in inside),
        movable=tuple(i for i in layout.movable if inside.issuperset(layout.places[i][:2])),
    )


def group_of(cluster: Cluster, wanted: str | None = None) -> Group:
    """Return the group of this name or UUID; without, the only one, or the only one with nodes."""
    if wanted is not None:
        for group in cluster.groups:
            if wanted in (group.name, group.uuid):
                return group
        raise MessageError(f"there is no group {wanted}; there are {_listed(cluster.groups)}")
    used = {node.group for node in cluster.nodes}
    groups = [group for group in cluster.groups if group.uuid in used] or cluster.groups
    if len(groups) != 1:
        raise MessageError(
            f"name one group of {_listed(groups)}" if groups else "there are no groups"
        )
    return groups[0]


EVERYBODY = Group("", "")  # the nodes of all groups


def lay_out(
    cluster: Cluster, group: Group, rules: Rules, demands: tuple[Demand, ...] | None = None
) -> Layout:
    """Compute each node's state from its report and its instances.

    `demands` are the instances', if already known.
    """
    tags = rules_of(cluster.tags, rules.exclusion)
    at = {node.name: index for index, node in enumerate(cluster.nodes)}
    if demands is None:
        demands = tuple(demand_of(instance, rules, tags) for instance in cluster.instances)
    hosts = _hosts(cluster, rules, tags, at)
    places = tuple(
        _place(at[i.primary], -1 if i.secondary is None else at[i.secondary], hosts)
        for i in cluster.instances
    )
    members = tuple(n for n, node in enumerate(cluster.nodes) if node.group == group.uuid)
    inside = set(members)
    residents = tuple(i for i, place in enumerate(places) if place.primary in inside)
    movable = tuple(
        i
        for i in residents
        if (places[i].secondary == -1 or places[i].secondary in inside)
        and _may_move(cluster.instances[i], rules)
    )
    nodes = _fill(cluster, hosts, demands, places)
    return Layout(cluster, group, rules, nodes, members, demands, places, residents, movable)


def demand_of(instance: Instance, rules: Rules, tags: TagRules) -> Demand:
    offline = instance.status is Status.ADMIN_OFFLINE
    load = IDLE if rules.idle else rules.loads.get(instance.name, Load())
    return Demand(
        memory=instance.memory,
        used=instance.memory if instance.takes_memory else 0,
        reserved=instance.memory if instance.auto_balance and not offline else 0,
        disk=instance.disk,
        vcpus=0 if offline else instance.vcpus,
        load=load,
        local=instance.template in LOCAL,
        mirrored=instance.template is Template.DRBD,
        spindle_use=instance.spindle_use,
        spindles=instance.spindles,
        forthcoming=instance.forthcoming,
        exclusion=tags.excluding(instance.tags),
        desired=tags.wanted(instance.tags),
    )


def _may_move(instance: Instance, rules: Rules) -> bool:
    chosen = not rules.only or instance.name in rules.only
    return (
        instance.movable and instance.auto_balance and chosen and instance.name not in rules.never
    )


def _place(primary: int, secondary: int, hosts: Sequence[Host]) -> Place:
    if secondary == -1:
        return Place(primary, secondary)
    return Place(primary, secondary, len(hosts[primary].locations & hosts[secondary].locations))


def _hosts(
    cluster: Cluster, rules: Rules, tags: TagRules, at: Mapping[str, int]
) -> tuple[Host, ...]:
    policies = {group.uuid: group.policy for group in cluster.groups}
    used = [0] * len(cluster.nodes)
    for instance in cluster.instances:
        if instance.takes_memory:
            used[at[instance.primary]] += instance.memory
    hosts = []
    for index, node in enumerate(cluster.nodes):
        policy = policies[node.group]
        recorded = int(node.memory) - node.own_memory - used[index]
        hosts.append(
            Host(
                index=index,
                name=node.name,
                memory=node.memory,
                missing=recorded - node.free_memory,
                disk=node.disk,
                cpus=node.cpus,
                speed=node.speed,
                exclusive=node.exclusive,
                spindles=node.spindles,
                low_disk=floor(rules.free_disk * node.disk),
                cpu_ratio=policy.vcpu_ratio if rules.cpu_ratio is None else rules.cpu_ratio,
                spindle_limit=policy.spindle_ratio * node.spindles,
                offline=node.offline or node.name in rules.offline,
                locations=tags.places(node.tags),
                sends=tags.sends(node.tags),
                receives=tags.receives(node.tags),
            )
        )
    return tuple(hosts)


class _Totals:
    """Totals of one node, added up in the instances' order."""

    def __init__(self, node: Node) -> None:
        self.used = 0
        self.cpus = self.promised_cpus = node.own_cpus
        self.pressure = self.promised_pressure = 0
        self.load = [0.0, 0.0, 0.0, 0.0]
        self.primaries = self.secondaries = 0
        self.reserved_for: dict[int, int] = {}
        self.exclusion: dict[str, int] = {}
        self.promised_exclusion: dict[str, int] = {}
        self.misplaced = 0
        self.promised_memory = node.free_memory
        self.promised_disk = node.free_disk
        self.promised_spindles = node.free_spindles

    def primary(self, host: Host, demand: Demand, shared: int) -> None:
        pressure = demand.spindle_use if demand.local and not host.exclusive else 0
        self.promised_cpus += demand.vcpus
        self.promised_pressure += pressure
        self.promised_memory -= demand.memory - demand.used
        for tag in demand.exclusion:
            self.promised_exclusion[tag] = self.promised_exclusion.get(tag, 0) + 1
        if demand.forthcoming:
            self._promise(host, demand)
            return
        self.used += demand.used
        self.cpus += demand.vcpus
        self.pressure += pressure
        for place, amount in enumerate(demand.load):
            self.load[place] += amount
        self.primaries += 1
        self.misplaced += shared + len(demand.desired - host.locations)
        for tag in demand.exclusion:
            self.exclusion[tag] = self.exclusion.get(tag, 0) + 1

    def secondary(self, host: Host, demand: Demand, primary: int) -> None:
        pressure = demand.spindle_use if demand.local and not host.exclusive else 0
        self.promised_pressure += pressure
        if demand.forthcoming:
            self._promise(host, demand)
            return
        self.pressure += pressure
        self.load[2] += demand.load.disk
        self.secondaries += 1
        self.reserved_for[primary] = self.reserved_for.get(primary, 0) + demand.reserved

    def _promise(self, host: Host, demand: Demand) -> None:
        """Subtract a forthcoming instance; reported free amounts count only existing ones."""
        self.promised_disk -= demand.disk if demand.local else 0
        if host.exclusive:
            unknown = demand.spindles is None
            left = self.promised_spindles - (demand.spindles or 0)
            self.promised_spindles = -1 if unknown else left


def _fill(
    cluster: Cluster, hosts: Sequence[Host], demands: Sequence[Demand], places: Sequence[Place]
) -> tuple[Filled, ...]:
    totals = [_Totals(node) for node in cluster.nodes]
    for demand, place in zip(demands, places, strict=True):
        totals[place.primary].primary(hosts[place.primary], demand, place.shared)
        if place.secondary != -1:
            totals[place.secondary].secondary(hosts[place.secondary], demand, place.primary)
    return tuple(map(_filled, cluster.nodes, hosts, totals))


def _filled(node: Node, host: Host, on: _Totals) -> Filled:
    reserved = max(on.reserved_for.values(), default=0)
    recorded = int(node.memory) - node.own_memory - on.used
    return Filled(
        host=host,
        present=Sums(
            memory=recorded - max(0, host.missing),
            disk=node.free_disk,
            spindles=node.free_spindles,
            cpus=on.cpus,
            pressure=on.pressure,
            exclusion=on.exclusion,
        ),
        promised=Sums(
            memory=on.promised_memory,
            disk=on.promised_disk,
            spindles=on.promised_spindles,
            cpus=on.promised_cpus,
            pressure=on.promised_pressure,
            exclusion=on.promised_exclusion,
        ),
        load=Load(*on.load),
        primaries=on.primaries,
        secondaries=on.secondaries,
        reserved_for=on.reserved_for,
        reserved=reserved,
        failing=node.free_memory < reserved,
        misplaced=on.misplaced,
    )


def _changed(things: tuple[T, ...], by: Mapping[int, T]) -> tuple[T, ...]:
    changed = list(things)
    for index, thing in by.items():
        changed[index] = thing
    return tuple(changed)


def _listed(groups: Iterable[Group]) -> str:
    return ", ".join(group.name for group in groups)
