"""A coordinator whose agents run the repair queue's commands, and repair machines by them."""

from dataclasses import replace
from typing import Any

from nodeagent.model.action import RunCommand
from nodeagent.model.asked import Asked
from nodeagent.model.ledger import Intent, Outcome, Policy, Result
from nodeagent.model.queue import Entry, EntryStatus, Operation, Procedure, Procedures, RepairStep
from nodeagent.model.reason import AnyKind, Detail, Reason
from nodeagent.model.snapshot import Instance, Node
from nodeagent.model.units import Seconds
from nodeagent.model.wish import AddEntry
from tests.maintd.decided import details, kinds, whole
from tests.maintd.rig import QUICK, Rig, fleet, mirrored

PLACES = (("n3", "n4"), ("n3", "n5"), ("n2", "n3"))
NO = Result(Outcome.SUCCESS, code=0, said="false")
YES = Result(Outcome.SUCCESS, code=0, said="true")
BROKEN = Result(Outcome.ERROR, "exit code 1", 1)
WATCHES = RepairStep("try-1", watch_seconds=Seconds(300))
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

    @property
    def entry(self) -> Entry:
        return self.ledger.queue.entries[-1]

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

    def whole(self) -> list[Reason]:
        """What the next round holds, with the reasons among their details."""
        return [one for held in self.tick().decision.held for one in whole(held.why)]

    def details(self, kind: AnyKind) -> dict[str, Detail]:
        """The details of the one reason of this kind that the next round holds."""
        return details(self.tick().decision.held, kind)

    def whys(self, rounds: int = 1) -> list[tuple[AnyKind, str]]:
        """What the last of these rounds holds, by kind and subject."""
        return [kinds(self.tick().decision.held) for _ in range(rounds)][-1]

    def node(self, name: str = "n3") -> Node:
        return self.cluster.snapshot().nodes[name]
