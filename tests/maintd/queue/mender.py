"""A coordinator whose agents run the repair queue's commands, and repair machines by them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nodeagent.model.action import RunCommand
from nodeagent.model.asked import Asked
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Outcome, Policy, Result
from nodeagent.model.queue import (
    Entry,
    EntryStatus,
    Operation,
    Procedure,
    Procedures,
    RepairStep,
    StepStatus,
)
from nodeagent.model.reason import AnyKind, Detail
from nodeagent.model.snapshot import Instance, Node
from nodeagent.model.units import Nanoseconds, Seconds
from nodeagent.model.window import Machine, Schedule, Standing, Unavailability, Window
from nodeagent.model.wish import AddEntry, BringUp, SetSchedule, TakeDown
from tests.maintd.decided import details, kinds
from tests.maintd.rig import QUICK, Rig, fleet, mirrored

PLACES = (("n3", "n4"), ("n3", "n5"), ("n2", "n3"))
NO = Result(Outcome.SUCCESS, code=0, said="false")
YES = Result(Outcome.SUCCESS, code=0, said="true")
BROKEN = Result(Outcome.ERROR, "exit code 1", 1)
HOUR = 3600
WATCHES = RepairStep("try-1", watch_seconds=Seconds(300))
DRAINS = RepairStep("try-1", need_drain=True, watch_seconds=Seconds(300))
ADD = AddEntry("unreachable", "r640", "127.0.0.3", "S3")


def policy(*steps: RepairStep, success: str = "", **members: Any) -> Policy:
    operation = Operation(
        "unreachable", steps or (RepairStep("try-1"),), "check", Seconds(30), success
    )
    return replace(QUICK, procedures=Procedures((Procedure(("r640",), (operation,)),), **members))


class Mender(Rig):
    """A coordinator over six nodes, the first of them the master; n3 is to be repaired."""

    def __init__(
        self,
        policy: Policy,
        heals: str = "try-1",
        instances: list[Instance] | None = None,
        nodes: list[Node] | None = None,
        **members: Any,
    ) -> None:
        there = mirrored(*PLACES) if instances is None else instances
        super().__init__(nodes or fleet(), there, policy, **members)
        self.heals = heals
        self.healed = False
        self.fates: dict[str, list[Result]] = {}
        self.agents.tells = self.tell

    def tell(self, intent: Intent) -> Result:
        assert isinstance(intent.action, RunCommand)
        command = intent.action.command
        if fates := self.fates.get(command):
            return fates.pop(0)
        if command == "check":
            return YES if self.healed else NO
        self.healed = self.healed or command == self.heals
        return Result(Outcome.SUCCESS, "exit code 0", 0)

    def ask(self, asked: Asked) -> str:
        identity = self.wish(asked)
        self.tick()
        return self.store.answer(identity) or ""

    def add(self, asked: AddEntry = ADD) -> None:
        assert self.ask(asked) == ""

    def plan(self, *names: str, ahead: float = 0) -> None:
        """Have a window of these nodes, and no other."""
        start = Nanoseconds(round((self.time + ahead) * 1e9))
        when = Unavailability(start, Nanoseconds(HOUR * 10**9))
        window = Window(tuple(map(Machine, names)), when)
        self.ask(SetSchedule(Schedule((window,) if names else ())))

    def down(self, name: str = "n3") -> None:
        self.ask(TakeDown((Machine(name),)))

    def up(self, name: str = "n3") -> None:
        self.ask(BringUp((Machine(name),)))

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self.ledger.queue.entries

    @property
    def entry(self) -> Entry:
        return self.entries[-1]

    def at(self, step: StepStatus) -> bool:
        return bool(self.entries) and self.entry.processing and self.entry.step_status is step

    def until_true(self, so: Callable[[], bool], rounds: int = 80) -> None:
        for _ in range(rounds):
            if so():
                return
            self.tick(30)
        raise AssertionError((self.entries, self.ledger.scheduled, self.ledger.incidents))

    def until(self, status: EntryStatus, rounds: int = 60) -> Entry:
        """Hold rounds until the entry has come so far and nothing is under way for it."""
        for _ in range(rounds):
            self.tick()
            if self.entry.status is status and not self.ledger.intents:
                return self.entry
        raise AssertionError(f"never {status}: {self.entry}")

    def commands(self) -> list[str]:
        """What has run, in order, but for the checks."""
        ran = sorted(self.agents.ran.values(), key=lambda row: row[0])
        names = [i.action.command for _, _, i in ran if isinstance(i.action, RunCommand)]
        return [name for name in names if name != "check"]

    def details(self, kind: AnyKind) -> dict[str, Detail]:
        """The details of the one reason of this kind that the next round holds."""
        return details(self.tick().decision.held, kind)

    def whys(self, rounds: int = 1) -> list[tuple[AnyKind, str]]:
        """What the last of these rounds holds, by kind and subject."""
        return [kinds(self.tick().decision.held) for _ in range(rounds)][-1]

    @property
    def resting(self) -> bool:
        """Whether nothing goes on, but that somebody's health is asked for."""
        return all(intent.purpose.text.endswith(":check") for intent in self.ledger.intents)

    def status(self, node: str) -> Status:
        """Of the newest incident there; none is noted at least."""
        there = [i for i in self.ledger.incidents if i.name == node]
        return there[-1].status if there else Status.NOTED

    def node(self, name: str = "n3") -> Node:
        return self.cluster.snapshot().nodes[name]

    def in_service(self, name: str = "n3") -> bool:
        return self.node(name).in_service

    def drains(self, name: str = "n3") -> int:
        return sum(job.startswith(f"Drain(node='{name}'") for job in self.jobs())

    def restores(self, name: str = "n3") -> int:
        return sum(job.startswith(f"Restore(node='{name}'") for job in self.jobs())

    def found(self) -> Standing | None:
        """How the node of the first window was found, once work there has begun for it."""
        one = self.ledger.scheduled[0]
        outage = self.ledger.outage(one.node)
        return outage.found if one.begun and outage is not None else None
