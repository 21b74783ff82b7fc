"""DRBD between simulated machines: what each node's agent tells of its disks."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from nodeagent.model.evidence import Mirror
from nodeagent.model.snapshot import Instance
from simulation.world import World

UP_TO_DATE = "UpToDate"


@dataclass
class Mirrors:
    """All disks are up to date but those of `states`, by instance, with DRBD's word.

    `unlisted` is by instance how many of its disks no node lists.
    """

    states: dict[str, str] = field(default_factory=dict)
    unlisted: dict[str, int] = field(default_factory=dict)

    def told(self, world: World, witness: str) -> tuple[Mirror, ...]:
        """Return the disks of a node as its agent tells of them."""
        return tuple(
            Mirror(
                one.name,
                "Connected" if connected(world, one) else "WFConnection",
                self.states.get(one.name, UP_TO_DATE),
            )
            for one in _mirrored(world)
            if witness in (one.primary, one.secondary)
            for _ in range(one.disks - self.unlisted.get(one.name, 0))
        )


def connected(world: World, instance: Instance) -> bool:
    """Tell whether the nodes of an instance reach each other's disks."""
    sides = instance.primary, instance.secondary
    return all(world.machines.connected(side) for side in sides if side)


def _mirrored(world: World) -> Iterator[Instance]:
    return (one for one in world.instances.values() if one.secondary is not None)
