"""DRBD between simulated machines: what each node's agent tells of its disks, and remembers."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from nodeagent.model.evidence import Mirror
from nodeagent.model.snapshot import Instance
from nodeagent.model.units import Ms
from simulation.world import World

UP_TO_DATE = "UpToDate"
PROMISED = 30.0  # seconds without a link after which a node that answers shows that a copy is old


@dataclass
class Mirrors:
    """All disks are up to date but those of `states`, by instance, with DRBD's word.

    `unlisted` is by instance how many of its disks no node lists. `complete` is each agent's memory
    of its own disks: when it last saw an instance's connected and up to date, by node and instance.
    `parted` is since when an instance's disks have no link.
    """

    states: dict[str, str] = field(default_factory=dict)
    unlisted: dict[str, int] = field(default_factory=dict)
    complete: dict[tuple[str, str], float] = field(default_factory=dict)
    parted: dict[str, float] = field(default_factory=dict)
    _boots: dict[str, int] = field(default_factory=dict)

    def watch(self, world: World, seconds: float) -> None:
        """Look as the agents do, and note which copies miss writes. Call it at each change.

        A restored link carries over at once what a copy has missed.
        """
        machines = world.machines
        booted = {name for name, count in machines.boots.items() if self._boots.get(name) != count}
        self._boots = {**machines.boots}
        forgetful = booted | machines.off
        self.complete = {at: seen for at, seen in self.complete.items() if at[0] not in forgetful}
        there = {one.name: one for one in _mirrored(world)}
        self.parted = {name: at for name, at in self.parted.items() if name in there}
        world.behind &= there.keys()
        for name, one in there.items():
            if not connected(world, one):
                since = self.parted.setdefault(name, seconds)
                writes = (one.primary, name) in machines.copies and machines.answers(one.primary)
                if writes and seconds - since > PROMISED:
                    world.behind.add(name)
                continue
            self.parted.pop(name, None)
            world.behind.discard(name)
            for node in one.nodes:
                if node not in machines.hung | machines.mute and name not in self.states:
                    self.complete[node, name] = seconds

    def told(self, world: World, witness: str, seconds: float) -> tuple[Mirror, ...]:
        """Return the disks of a node as its agent tells of them."""
        return tuple(
            Mirror(
                one.name,
                "Connected" if connected(world, one) else "WFConnection",
                self.states.get(one.name, UP_TO_DATE),
                self._ago(witness, one.name, seconds),
            )
            for one in _mirrored(world)
            if witness in one.nodes
            for _ in range(_listed(one) - self.unlisted.get(one.name, 0))
        )

    def _ago(self, witness: str, instance: str, seconds: float) -> Ms | None:
        at = self.complete.get((witness, instance))
        return None if at is None else Ms(round(1000 * (seconds - at)))


def connected(world: World, instance: Instance) -> bool:
    """Tell whether the nodes of an instance reach each other's disks."""
    return all(world.machines.connected(side) for side in instance.nodes)


def _mirrored(world: World) -> Iterator[Instance]:
    return (one for one in world.instances.values() if len(one.nodes) > 1)


def _listed(instance: Instance) -> int:
    """Count its disks on each node; one, where only some of them are of DRBD."""
    return 1 if instance.partly_on else instance.disks
