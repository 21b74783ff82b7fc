"""Nodes that several owners want at once."""

from collections.abc import Callable
from dataclasses import replace

from nodeagent.model.incident import Status
from nodeagent.model.ledger import Policy
from nodeagent.model.queue import Entry, Operation, Procedure, Procedures, RepairStep, StepStatus
from nodeagent.model.units import Nanoseconds, Seconds
from nodeagent.model.window import Machine, Schedule, Standing, Unavailability, Window
from nodeagent.model.wish import BringUp, SetSchedule, TakeDown
from tests.maintd.queue.mender import Mender
from tests.maintd.rig import QUICK

HOUR = 3600


def policy(*steps: RepairStep) -> Policy:
    operation = Operation("unreachable", steps, "check")
    return replace(QUICK, procedures=Procedures((Procedure(("r640",), (operation,)),)))


WATCHES = RepairStep("try-1", watch_seconds=Seconds(300))


TWO = RepairStep("try-2", watch_seconds=Seconds(300))


DRAINS = RepairStep("try-1", need_drain=True, watch_seconds=Seconds(300))


class Shared(Mender):
    """Six nodes, of which n3 has all kinds of trouble."""

    def plan(self, *names: str, ahead: float = 0) -> None:
        """Have a window of these nodes, and no other."""
        start = round((self.time + ahead) * 1e9)
        window = Window(
            tuple(map(Machine, names)),
            Unavailability(Nanoseconds(start), Nanoseconds(HOUR * 10**9)),
        )
        self.ask(SetSchedule(Schedule((window,) if names else ())))

    def down(self, name: str = "n3") -> None:
        self.ask(TakeDown((Machine(name),)))

    def up(self, name: str = "n3") -> None:
        self.ask(BringUp((Machine(name),)))

    def until_true(self, so: Callable[[], bool], rounds: int = 80) -> None:
        for _ in range(rounds):
            if so():
                return
            self.tick(30)
        raise AssertionError((self.entries, self.ledger.scheduled, self.ledger.incidents))

    def status(self, node: str) -> Status:
        """Of the newest incident there; none is noted at least."""
        there = [i for i in self.ledger.incidents if i.name == node]
        return there[-1].status if there else Status.NOTED

    @property
    def resting(self) -> bool:
        """Whether nothing goes on, but that somebody's health is asked for."""
        return all(intent.purpose.entry.endswith(":check") for intent in self.ledger.intents)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self.ledger.queue.entries

    def at(self, step: StepStatus) -> bool:
        return bool(self.entries) and self.entry.processing and self.entry.step_status is step

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
