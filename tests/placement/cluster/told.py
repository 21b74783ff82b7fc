"""A cluster as Ganeti tells it."""

from dataclasses import replace

from nodeagent.placement.cluster.cluster import Cluster
from nodeagent.placement.cluster.cluster import Node as PlacedNode
from nodeagent.placement.cluster.textfile import parse
from tests.placement.clusters import case


def told(seed: int) -> Cluster:
    """A small cluster with every feature, as Ganeti would tell of it: tags in order, and so on."""
    cluster = parse(case(seed).text)
    nodes = [node if node.own_cpus else _answering(node.name, cluster) for node in cluster.nodes]
    nodes = [replace(node, tags=_sorted(node.tags), master=not n) for n, node in enumerate(nodes)]
    instances = [replace(instance, tags=_sorted(instance.tags)) for instance in cluster.instances]
    return replace(
        cluster,
        nodes=tuple(nodes),
        instances=tuple(sorted(instances, key=lambda instance: instance.forthcoming)),
        tags=_sorted(cluster.tags),
    )


def _answering(name: str, cluster: Cluster) -> PlacedNode:
    return replace(next(node for node in cluster.nodes if node.own_cpus), name=name)


def _sorted(tags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(tags)))
