"""A night of reboots: nodes an hour, beside one at a time.

All nodes but the master reboot, their instances migrated off meanwhile; mirrors stay. A third of
the instances have disruption budgets that count migrations: two of ten at once.
"""

import random
import time
from collections import Counter

from nodeagent.maintd.planning.budgets import budget_tags
from nodeagent.model.action import Action, MovePrimary
from nodeagent.model.ledger import Outcome
from nodeagent.model.roll import REBOOT, Phase, Roll, Terms
from nodeagent.model.snapshot import Instance
from nodeagent.model.units import Ms
from nodeagent.model.wish import StartRoll
from tests.bench.table import Row, row
from tests.maintd.rig import QUICK, Rig, fleet

EVERY = 30.0  # seconds of a round
NIGHT = 8 * 3600  # seconds
MIGRATES = 20.0  # seconds
DOWN = 120_000  # ms of a reboot
TEAM, ALLOWED = 10, 2  # instances of one budget, of which so many may be disrupted


def rows(*, quick: bool = False) -> list[Row]:
    """One night for each number of nodes at once."""
    nodes, each = (30, 10) if quick else (200, 20)
    many = nodes // 20 + 1
    alone, together = Night(nodes, each, 1), Night(nodes, each, many)
    alone.live()
    together.live()
    what = f"{nodes} nodes, {nodes * each:,} instances, budgets on a third, {many} at once"
    broken = len(alone.broken | together.broken)
    return [
        row(
            f"a night of reboots, {what}: nodes an hour (peer: one at a time)",
            together.rate,
            alone.rate,
            goal="> one at a time",
            met=together.rate > alone.rate,
        ),
        row("the same, both nights: budgets broken", broken, most=0),
        row("the same: longest round, CPU s", together.round, alone.round, most=1),
    ]


class Night:
    """A roll over all nodes but the master, `at_once` of them at a time."""

    def __init__(self, nodes: int, each: int, at_once: int) -> None:
        chance = random.Random(1)
        names = [node.name for node in fleet(nodes)]
        instances = [self._instance(n, chance.sample(names, 2)) for n in range(nodes * each)]
        self.rig = Rig(fleet(nodes), instances, QUICK)
        self.rig.agents.down = DOWN
        self.rig.cluster.takes = self._takes
        self.at_once, self.names = at_once, tuple(names[1:])
        self.broken = set[str]()  # budgets
        self.hours = 0.0  # from its begin to its end
        self.round = 0.0  # CPU s of the longest one

    @staticmethod
    def _instance(number: int, places: list[str]) -> Instance:
        team = number // (3 * TEAM)
        budget = {f"maintd:budget:team{team}:{ALLOWED}:live"} if number % 3 == 0 else set()
        primary, secondary = places
        return Instance(
            f"i{number}", primary, secondary, memory=2048, disk=4096, tags=frozenset(budget)
        )

    @staticmethod
    def _takes(action: Action) -> float:
        return MIGRATES if isinstance(action, MovePrimary) else 2.0

    def live(self) -> None:
        """Let the night pass, or less if all nodes are done before its end."""
        self.rig.tick(EVERY)
        terms = Terms(
            REBOOT,
            at_once=self.at_once,
            reboots=True,
            keep_secondaries=True,
            quiet=Ms(60_000),
        )
        self.rig.wish(StartRoll(terms, self.names))
        began = self.rig.time
        while self.rig.time < began + NIGHT:
            before = time.process_time()
            self.rig.tick(EVERY)
            self.round = max(self.round, time.process_time() - before)
            self._count()
            if self._roll.over:
                break
        self.hours = (self.rig.time - began) / 3600

    @property
    def _roll(self) -> Roll:
        found = self.rig.ledger.roll
        assert found is not None
        return found

    @property
    def done(self) -> int:
        """The nodes that have returned."""
        return sum(node.phase is Phase.DONE for node in self._roll.nodes)

    @property
    def rate(self) -> float:
        """Nodes an hour."""
        return self.done / self.hours

    def _count(self) -> None:
        """Note the budgets of which more instances move now than they allow.

        A job counts from its submission, and only rounds submit jobs.
        """
        instances, moving = self.rig.cluster.instances, Counter[str]()
        for job in self.rig.cluster.jobs.values():
            if job.outcome is Outcome.RUNNING and isinstance(job.action, MovePrimary):
                moving.update(budget_tags(instances[job.action.instance].tags).names)
        self.broken |= {name for name, many in moving.items() if many > ALLOWED}
