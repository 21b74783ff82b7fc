"""Entries of the repair queue at every step, one round's turns for them, and its news of one."""

from typing import Any

from nodeagent.maintd.queue.entries import remember
from nodeagent.maintd.queue.strategy import Do, Machine, Turns, take_turns
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy, Result
from nodeagent.model.purpose import OfEntry
from nodeagent.model.queue import (
    Entry,
    EntryStatus,
    Operation,
    Procedure,
    Procedures,
    Queue,
    RepairStep,
    StepStatus,
)
from nodeagent.model.reason import AnyKind
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.stage import FULL
from nodeagent.model.units import Seconds
from tests.maintd.decided import within
from tests.maintd.world import NOW

MIN = 60_000
PROCESSING, WAITING = EntryStatus.PROCESSING, StepStatus.WAITING
DRAINING, WATCHING = StepStatus.DRAINING, StepStatus.WATCHING
HERE = Machine("n4")
EMPTY = Machine("n4", out=True, empty=True)


def two(name: str, success: str = "", **members: Any) -> Operation:
    """An operation with two steps, which are like this."""
    steps = RepairStep("try-1", **members), RepairStep("try-2", **members)
    return Operation(name, steps, "check", success_command=success)


MINUTE = Seconds(60)
OTHERS = (
    two("drains", need_drain=True),
    two("watches", watch_seconds=MINUTE),
    two("tells", success="tell"),
)


def how(*steps: RepairStep, **members: Any) -> Procedures:
    """op1 has two steps, no drain, no watch, unless said; others have what they are called."""
    plain = Operation("op1", steps, "check") if steps else two("op1")
    return Procedures((Procedure(("type1",), (plain, *OTHERS)),), **members)


def entry(index: int = 0, **members: object) -> Entry:
    """An entry whose machine was checked just now, and is not healthy."""
    given: dict[str, object] = {"queued_at": NOW - 10 * MIN, "changed_at": NOW - MIN}
    given |= {"operation": "op1", "checked_at": NOW, **members}
    return Entry(index, f"10.0.0.{index}", "type1", **given)  # type: ignore[arg-type]


def begun(index: int = 0, at: StepStatus = WAITING, ago: int = 0, **members: object) -> Entry:
    return entry(index, status=PROCESSING, step_status=at, changed_at=NOW - ago, **members)


def turns(
    *entries: Entry,
    machine: Machine = HERE,
    procedures: Procedures | None = None,
    enabled: bool = True,
    machines: dict[int, Machine] | None = None,
) -> Turns:
    queue = Queue(entries, len(entries), enabled)
    places = machines or {e.index: machine for e in entries}
    return take_turns(queue, places, procedures or how(), NOW)


def did(done: Turns) -> list[tuple[Do, int]]:
    return [(turn.do, turn.entry.index) for turn in done.turns]


def whys(done: Turns) -> list[tuple[AnyKind, str]]:
    return [one for _, why in done.held for one in within(why)]


LATER = Result(Outcome.LATER, "exit code 75", 75)
DAY = 86_400_000


def folded(
    one: Entry,
    *intents: Intent,
    procedures: Procedures | None = None,
    nodes: tuple[Node, ...] = (),
    **members: Any,
) -> Ledger:
    """A round's news of the intents of one entry."""
    ledger = Ledger(queue=Queue((one,)), intents=intents)
    observed = Observed(Snapshot("c", {node.name: node for node in nodes}), {}, {}, **members)
    return remember(ledger, observed, Policy(stage=FULL, procedures=procedures or how()), NOW)


def order(does: str, command: str) -> Intent:
    return Intent("1", OfEntry(0, does), "", RunCommand("n1", command, "{}"), "o", promised=NOW - 5)
