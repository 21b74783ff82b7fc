"""Balance and headroom of groups, as hbal and hspace would rate them. Pure."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from operator import itemgetter
from typing import Any

from nodeagent.model.snapshot import Capacity, Snapshot
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.cluster import Cluster, Group, Instance, Known
from nodeagent.placement.layout.layout import lay_out
from nodeagent.placement.layout.rules import Rules
from nodeagent.placement.layout.score import score


@dataclass(frozen=True, slots=True)
class Rating:
    """A group at `at` (unix ms): hbal's score, and the nodes that fail N+1.

    `memory` and `disk` are free on nodes in service, in MiB. `instances` counts those there by
    their status in Ganeti; it is empty if unknown.
    """

    at: Ms
    score: float
    failing: int
    memory: int
    disk: int
    instances: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class GroupHeadroom:
    """How much more fits into a group, counted at `at` (unix ms), as `survey.document` has it."""

    at: Ms
    document: Mapping[str, Any]


def rated(
    known: Known,
    snapshot: Snapshot,
    groups: Collection[str],
    at: Ms,
    *,
    running: bool = True,
) -> dict[str, Rating]:
    """Rate each of these groups (by UUID), unless a node in service there is in doubt.

    `running`: whether the states of instances are known.
    """
    ratings = {}
    for group, part in parts(known.cluster, groups):
        members = {node.name for node in part.nodes if node.group == group.uuid}
        doubted = filter(None, map(snapshot.nodes.get, known.doubts.keys() & members))
        if any(node.in_service for node in doubted):
            continue
        layout = lay_out(part, group, Rules())
        value = score(layout)
        online = [node for node in layout.group_nodes() if not node.host.offline]
        if not online or not isfinite(value):
            continue
        hosts = [node for node in part.nodes if node.name in members and not node.offline]
        here = [i for i in part.instances if running and i.primary in members]
        ratings[group.uuid] = Rating(
            at,
            value,
            sum(node.failing for node in online),
            sum(node.free_memory for node in hosts),
            sum(node.free_disk for node in hosts),
            Counter(str(i.status) for i in here if not i.forthcoming),
        )
    return ratings


def ratable(snapshot: Snapshot, capacity: Mapping[str, Capacity]) -> list[str]:
    """The groups whose nodes in service have all reported their room."""
    silent = {
        node.group
        for node in snapshot.nodes.values()
        if node.in_service
        and ((node_capacity := capacity.get(node.name)) is None or node_capacity.size is None)
    }
    return [group for group in snapshot.groups if group not in silent]


def parts(cluster: Cluster, groups: Collection[str]) -> Iterator[tuple[Group, Cluster]]:
    """Each of these groups (by UUID) with its nodes, their instances, and the other nodes of these.

    All in the order of the cluster.
    """
    group_of = {node.name: node.group for node in cluster.nodes}
    instances: dict[str, list[Instance]] = defaultdict(list)
    nodes: dict[str, set[str]] = defaultdict(set)
    for node in cluster.nodes:
        nodes[node.group].add(node.name)
    for instance in cluster.instances:
        places = {instance.primary, instance.secondary or instance.primary}
        for uuid in {group_of[place] for place in places}:
            instances[uuid].append(instance)
            nodes[uuid].update(places)
    order = {node.name: (number, node) for number, node in enumerate(cluster.nodes)}
    for group in cluster.groups:
        if group.uuid in groups:
            here = sorted((order[name] for name in nodes[group.uuid]), key=itemgetter(0))
            mine = tuple(node for _, node in here)
            yield group, replace(cluster, nodes=mine, instances=tuple(instances[group.uuid]))
