"""A coordinator whose machines die, hang and have lying BMCs, and whose master changes."""

from collections.abc import Iterable

from nodeagent.maintd.engine.witnesses import Witnesses
from nodeagent.model.action import Power, PowerCommand
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.ledger import Policy
from nodeagent.model.snapshot import Instance
from simulation.machines import Control
from tests.maintd import inline
from tests.maintd.fencing.whole import Whole
from tests.maintd.lives.masters import Masters
from tests.maintd.rig import fleet
from tests.maintd.world import OK


class Asked(Witnesses):
    """They are asked after each round, not by a task that sleeps."""

    async def _run(self) -> None:
        return


class Site(Masters, Whole):
    """Seven nodes; their machines have power control where `fences` says so.

    `hit` lists those that answered, and were powered off.
    """

    fences = False
    ask = Whole.ask  # type: ignore[assignment]  # what witnesses are asked; people ask by `wish`

    def __init__(self, policy: Policy, instances: Iterable[Instance]) -> None:
        self.fences = policy.dead_nodes != "observe"
        Whole.__init__(self, policy, tuple(instances))
        self.begin()
        self.cluster.put(fleet(7)[-1])
        names = self.cluster.nodes if self.fences else ()
        self.machines.controls = {name: (Control(),) for name in names}
        self.well: dict[str, int] = {}  # rounds in which a node answered, in a row
        self.hit: list[str] = []

    def _asked(self) -> Witnesses:
        self.witnesses = Asked(self, self.now, lambda: self.time) if self.fences else None
        return self.witnesses or super()._asked()

    def pass_by(self, seconds: float) -> None:
        """Let time pass, and what DRBD and the agents see meanwhile."""
        if self.fences:
            self.mirrors.watch(self.cluster.world, self.time)
        self.time += seconds
        if self.fences:
            self.mirrors.watch(self.cluster.world, self.time)

    def after_round(self, known: int) -> None:
        """Let witnesses answer, and note whom the commands after the `known` ones have hit."""
        if self.witnesses is None:
            return
        self.mirrors.watch(self.cluster.world, self.time)
        inline.run(self.witnesses._ask_due())
        for name, command in self.machines.commands[known:]:
            if command == "power-off" and self.well.get(name, 0) > 1:
                self.hit.append(name)
        for name in self.cluster.nodes:
            self.well[name] = self.well.get(name, 0) + 1 if self.machines.answers(name) else 0

    def heard(self, node: str) -> Diagnosis | None:
        """What a node says; None where it is silent."""
        if self.agents.is_silent(node) or not self.machines.answers(node):
            return None
        return self.agents.says.get(node, OK)

    def powered_off(self) -> list[tuple[float, str]]:
        """When each power-off was submitted, and of which node."""
        jobs = self.cluster.jobs.values()
        return [
            (job.born, job.action.node)
            for job in jobs
            if isinstance(job.action, Power) and job.action.command is PowerCommand.OFF
        ]
