"""Ask a cluster for all data that placement depends on; the nodes themselves must answer."""

from collections.abc import Collection

from nodeagent.cluster.backend import Cluster
from nodeagent.model.snapshot import Snapshot
from nodeagent.placement.cluster.cluster import Known
from nodeagent.placement.cluster.from_ganeti import OWN_MEMORY, asked, assess


def take_stock(cluster: Cluster, own_memory: int = OWN_MEMORY) -> Known:
    """The current cluster. Unavailable; MessageError: its answers are impossible.

    It asks the nodes once for their room and once for running instances: seconds on a large
    cluster. `own_memory` is as for `assess`.
    """
    snapshot = cluster.snapshot()
    capacity = cluster.capacity(asked(snapshot))
    running = cluster.running(snapshot.nodes)
    return assess(snapshot, capacity, running, own_memory=own_memory)


def stock_of(cluster: Cluster, snapshot: Snapshot, groups: Collection[str]) -> Known:
    """The cluster as configured in `snapshot`; only nodes of these groups (UUID) are asked.

    Of the instances on its offline nodes Ganeti itself knows the states.
    """
    nodes = [name for name in asked(snapshot) if snapshot.nodes[name].group in groups]
    offline = [n.name for n in snapshot.nodes.values() if n.offline and n.group in groups]
    return assess(snapshot, cluster.capacity(nodes), cluster.running([*nodes, *offline]))
