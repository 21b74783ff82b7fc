"""A round's news of one entry of the repair queue."""

from nodeagent.maintd.queue.entries import remember
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy, Result
from nodeagent.model.purpose import OfEntry
from nodeagent.model.queue import Queue, StepStatus
from nodeagent.model.snapshot import Observed, Snapshot
from tests.maintd.queue.test_strategy import DRAINS
from tests.maintd.world import NOW

DRAINING, WAITING, WATCHING = StepStatus.DRAINING, StepStatus.WAITING, StepStatus.WATCHING
LATER = Result(Outcome.LATER, "exit code 75", 75)
DAY = 86_400_000


def folded(one: object, intent: Intent, **members: object) -> Ledger:
    """A round's news of one intent of one entry."""
    ledger = Ledger(queue=Queue((one,)), intents=(intent,))  # type: ignore[arg-type]
    observed = Observed(Snapshot("c", {}), {}, {}, **members)  # type: ignore[arg-type]
    return remember(ledger, observed, Policy(procedures=DRAINS), NOW)


def order(does: str, command: str) -> Intent:
    return Intent("1", OfEntry(0, does), "", RunCommand("n1", command, "{}"), "o", promised=NOW - 5)
