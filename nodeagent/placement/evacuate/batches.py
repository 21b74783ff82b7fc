"""Batches of nodes that are evacuated together and come back empty. Pure.

No two nodes of a batch exclude each other (see `rolling`). All their instances find a place where
all of the htools' checks allow it (see `evacuate`).
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from nodeagent.placement.cluster.cluster import LOCAL, Cluster, Group, Template
from nodeagent.placement.evacuate.colouring import WAYS, best
from nodeagent.placement.evacuate.evacuate import Evacuation
from nodeagent.placement.evacuate.rolling import Batch, conflicts, in_turn
from nodeagent.placement.layout.layout import lay_out
from nodeagent.placement.layout.rules import Rules


def apart(cluster: Cluster, names: Collection[str]) -> list[list[str]]:
    """Group nodes without mutual exclusions, the largest group first, the master last."""
    layout = lay_out(cluster, Group("", ""), Rules())
    wanted = set(names)
    chosen = [n for n, node in enumerate(cluster.nodes) if node.name in wanted]
    if not chosen:
        return []
    graph = conflicts(layout, chosen, chosen, shut_down=False)
    classes = best([way(graph) for way in WAYS.values()])
    batches = in_turn(cluster, [Batch(tuple(members)) for members in classes])
    return [[cluster.nodes[index].name for index in batch.nodes] for batch in batches]


def most(limit: int, fits: Callable[[int], bool]) -> int:
    """Return the largest count up to the limit that fits, else 0; if one fits, smaller ones do."""
    if not fits(1):  # an obstacle to a node's evacuation shows with that node alone
        return 0
    if limit == 1 or fits(limit):
        return limit
    good, step = 1, 1
    while good + step < limit and fits(good + step):
        good += step
        step *= 2
    bad = min(good + step, limit)
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good


def left_behind(evacuation: Evacuation, names: Iterable[str]) -> list[int]:
    wanted = set(names)
    inside = {n for n, node in enumerate(evacuation.before.cluster.nodes) if node.name in wanted}
    return [
        instance
        for instance in evacuation.left
        if inside.intersection(evacuation.before.places[instance][:2])
    ]


def obstacle(evacuation: Evacuation, name: str) -> str:
    staying = left_behind(evacuation, [name])
    instance = evacuation.before.cluster.instances[staying[0]].name
    more = f" (and {len(staying) - 1} more)" if len(staying) > 1 else ""
    return f"cannot be evacuated: instance {instance} stays{more}: {evacuation.left[staying[0]]}"


def afterwards(cluster: Cluster, evacuation: Evacuation) -> Cluster:
    """Return the cluster once these nodes are back, and nothing else has moved."""
    after = evacuation.after
    names = [node.name for node in cluster.nodes]
    nodes = [
        replace(
            node,
            free_memory=new.present.memory - min(0, new.host.missing),
            free_disk=new.present.disk,
            free_spindles=new.present.spindles,
        )
        for node, new in zip(cluster.nodes, after.nodes, strict=True)
    ]
    instances = list(cluster.instances)
    for way in evacuation.ways:
        at = after.places[way.instance]
        mirror = None if at.secondary == -1 else names[at.secondary]
        instance = replace(instances[way.instance], primary=names[at.primary], secondary=mirror)
        instances[way.instance] = instance
    return replace(cluster, nodes=tuple(nodes), instances=tuple(instances))


def immovable(cluster: Cluster) -> frozenset[str]:
    """Return the instances whose disks are on one node only."""
    local = (LOCAL | {Template.FILE}) - {Template.DRBD}
    return frozenset(instance.name for instance in cluster.instances if instance.template in local)


def without(cluster: Cluster, names: Collection[str]) -> Cluster:
    """Return the cluster with these instances' demands at zero; the space they take stays taken."""
    gone = tuple(instance for instance in cluster.instances if instance.name not in names)
    return replace(cluster, instances=gone)
