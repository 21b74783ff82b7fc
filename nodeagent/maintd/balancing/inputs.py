"""Asking a cluster for all that placing instances depends on; the nodes themselves must answer."""

from collections.abc import Collection

from nodeagent.cluster.backend import Cluster
from nodeagent.model.snapshot import Snapshot
from nodeagent.placement.cluster.from_ganeti import OWN_MEMORY, Known, asked, assess


def take_stock(cluster: Cluster, own_memory: int = OWN_MEMORY) -> Known:
    """The cluster as it stands. Unavailable; MessageError: its answers cannot be what they should.

    One question to the nodes for what they have and one for what runs: seconds on a large cluster.
    `own_memory` is as for `assess`.
    """
    snapshot = cluster.snapshot()
    capacity = cluster.capacity(asked(snapshot))
    running = cluster.running(snapshot.nodes)
    return assess(snapshot, capacity, running, own_memory=own_memory)


def stock_of(cluster: Cluster, snapshot: Snapshot, groups: Collection[str]) -> Known:
    """The same, as it is configured in `snapshot`; only these groups' (UUID) nodes are asked."""
    nodes = [name for name in asked(snapshot) if snapshot.nodes[name].group in groups]
    return assess(snapshot, cluster.capacity(nodes), cluster.running(nodes))
