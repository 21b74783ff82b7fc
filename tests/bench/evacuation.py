"""All instances of a node placed together, in large and full groups.

Each group survives the failure of any node (N+1), so also after the evacuation it must. Where 90 %
of the memory is used there need be no place for all: as many as fit are wanted.
"""

import random
import time
from dataclasses import replace
from typing import Any

from nodeagent.maintd.planning.evacuation_targets import Targets
from nodeagent.maintd.planning.resources import open_room
from nodeagent.model.ledger import Ledger
from nodeagent.model.snapshot import Capacity, Instance, Node, Observed
from simulation.cluster import SimulatedCluster
from tests.bench.table import Row, row
from tests.maintd.world import OK

MEMORY, DISK = 131_072, 8_000_000  # MiB of a node
SIZES = (1024, 2048, 4096)
OWNER = "someone"
INSTANCES = 30  # primaries of the node; about as many have their mirror there
FULL = 0.9  # of the memory: no placement of all need exist
LEAST = 0.95  # of the memory that is left may be reserved at first


class Group:
    """A group whose nodes use a part of their memory, and of each other's for a failure."""

    def __init__(self, nodes: int, fill: float, seed: int = 1) -> None:
        self.random = random.Random(seed)
        self.names = [f"n{n}" for n in range(nodes)]
        self.used = dict.fromkeys(self.names, 0)
        self.reserved: dict[str, dict[str, int]] = {name: {} for name in self.names}
        self.instances: list[Instance] = []
        for _ in range(INSTANCES):
            self._add(self.names[0], fill)
        for name in self.names:
            while self._add(name, fill):
                pass

    def _add(self, primary: str, fill: float) -> bool:
        memory = self.random.choice(SIZES)
        if self.used[primary] + memory > fill * MEMORY:
            return False
        spare = LEAST * (1 - fill) * MEMORY
        others = self.random.sample(self.names, 12)
        for other in others:
            wanted = self.reserved[other].get(primary, 0) + memory
            if other != primary and wanted <= spare:
                self.reserved[other][primary] = wanted
                self.used[primary] += memory
                name = f"i{len(self.instances)}"
                self.instances.append(Instance(name, primary, other, memory=memory, disk=10_240))
                return True
        return False


def rows(*, quick: bool = False) -> list[Row]:
    """Each size of a group at each filling."""
    sizes, fills = ((40, 200), (0.75,)) if quick else ((40, 100, 200), (0.6, 0.75, 0.9))
    return [measured for nodes in sizes for fill in fills for measured in _rows(nodes, fill)]


def _rows(nodes: int, fill: float) -> list[Row]:
    group = Group(nodes, fill)
    fleet = [Node(name, f"u-{name}", "", "g") for name in group.names]
    cluster = SimulatedCluster.of(lambda: 0.0, fleet, group.instances, master=group.names[-1])
    cluster.world.size = Capacity(MEMORY, DISK)
    snapshot = cluster.snapshot()
    said = dict.fromkeys(group.names, OK)
    observed = Observed(snapshot, said, capacity=cluster.capacity(group.names))
    room = open_room(Ledger(), observed, {})
    victim = group.names[0]
    _ = Targets(snapshot.nodes[victim], room, OWNER).places  # libraries are loaded
    began = time.process_time()
    places = Targets(snapshot.nodes[victim], room, OWNER).places
    seconds = time.process_time() - began
    leaving = [i for i in group.instances if victim in (i.primary, i.secondary)]
    what = f"{len(leaving)} instances off a node of {nodes}, {fill:.0%} of memory"
    bad = _not_spared(group.instances, places, victim)
    placed = row(f"{what}: placed", len(places), len(leaving))
    if fill < FULL:
        placed.update(goal="all", met=len(places) == len(leaving))
    return [
        row(f"{what}: CPU s", seconds, most=0.5),
        placed,
        row(f"{what}: nodes not N+1", len(bad), most=0),
    ]


def _not_spared(instances: list[Instance], places: Any, victim: str) -> list[str]:
    """The nodes that could not take over from each other node, once all have moved."""
    used: dict[str, int] = {}
    reserved: dict[str, dict[str, int]] = {}
    for instance in instances:
        if (target := places.get(instance.name)) is None:
            after = instance
        elif instance.primary == victim:
            after = replace(instance, primary=instance.secondary or target, secondary=target)
        else:
            after = replace(instance, secondary=target)
        used[after.primary] = used.get(after.primary, 0) + after.memory
        theirs = reserved.setdefault(after.secondary or "", {})
        theirs[after.primary] = theirs.get(after.primary, 0) + after.memory
    return [
        name
        for name, of in reserved.items()
        if name != victim and MEMORY - used.get(name, 0) < max(of.values())
    ]
