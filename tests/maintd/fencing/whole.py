"""Whole rounds of maintd over machines that die: agents and witnesses say what the machines do."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from nodeagent.errors import Unavailable
from nodeagent.maintd.engine.round import Round
from nodeagent.maintd.engine.witnesses import Witnesses
from nodeagent.model.evidence import Contact
from nodeagent.model.fencing import Stage
from nodeagent.model.ledger import Policy
from nodeagent.model.snapshot import Instance, Node, Snapshot
from nodeagent.protocol.look import Look, Silent
from nodeagent.protocol.testimony import Words
from simulation.machines import Control, Machines
from simulation.mirrors import Mirrors
from tests.maintd import inline
from tests.maintd.rig import QUICK, Rig, fleet
from tests.maintd.world import OK

RESTART = replace(QUICK, dead_nodes="restart", revive=False)
INSTANCES = (
    Instance("drbd", "n3", "n4", memory=100, disk=100),
    Instance("shared", "n3", template="rbd", memory=100),
    Instance("plain", "n3", template="plain", memory=100, disk=10),
    Instance("other", "n5", "n6", memory=100, disk=100),
)


class Whole(Rig):
    """Six machines with power control. What a machine does not do, its agent does not say."""

    def __init__(
        self, policy: Policy = RESTART, instances: tuple[Instance, ...] = INSTANCES
    ) -> None:
        self.witnesses: Witnesses | None = None
        self.newest: Round | None = None
        self.mirrors = Mirrors()
        super().__init__(fleet(), list(instances), policy)
        self.machines.controls = {f"n{i}": (Control(),) for i in range(1, 7)}

    @property
    def machines(self) -> Machines:
        return self.cluster.world.machines

    def _asked(self) -> Witnesses:
        self.witnesses = Witnesses(self, self.now, lambda: self.time)
        return self.witnesses

    async def look(self, snapshot: Snapshot) -> Mapping[str, Look]:
        """As the agents; those of dead machines are silent in the way of the machine."""
        looks = await self.agents.look(snapshot)
        return {
            name: look if self.machines.answers(name) else Silent("timed out", self.contact(name))
            for name, look in looks.items()
        }

    async def ask(self, witness: Node, target: str, _: Snapshot) -> Words:
        """The testimony of a witness, from what the machines do."""
        if not self.machines.answers(witness.name):
            raise Unavailable("timed out")
        contact = self.contact(target)
        return Words(
            contact, contact, self.mirrors.told(self.cluster.world, witness.name, self.time)
        )

    def contact(self, name: str) -> Contact:
        if name in self.machines.off | self.machines.cut:
            return Contact.SILENT
        return (
            Contact.CONNECTS if name in self.machines.hung | self.machines.mute else Contact.ANSWERS
        )

    def rounds(self, count: int, seconds: float = 20.0) -> None:
        """Hold rounds; between them the witnesses are asked."""
        for _ in range(count):
            self.mirrors.watch(self.cluster.world, self.time)
            self.newest = self.tick(seconds)
            self.mirrors.watch(self.cluster.world, self.time)
            inline.run(_turns())

    def learn(self) -> None:
        """Let the daily check see every level say ON."""
        self.agents.says = dict.fromkeys(self.cluster.nodes, OK)
        self.rounds(30, 61.0)

    def close(self) -> None:
        """End the task that asks."""
        if self.witnesses is not None:
            self.witnesses.watch(self.cluster.snapshot(), {}, {}, self.now())
        inline.run(_turns())

    def stage(self, name: str) -> Stage | None:
        uuid = self.cluster.nodes[name].uuid
        return next((f.stage for f in self.ledger.fencing if f.node == uuid), None)


async def _turns() -> None:
    for _ in range(30):
        await asyncio.sleep(0)
