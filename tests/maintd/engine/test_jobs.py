"""Whether an intent has a job or an order, by what Ganeti and the agents say of it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from nodeagent.cluster.backend import Cluster
from nodeagent.errors import Unavailable
from nodeagent.maintd.engine.jobs import Inquiry
from nodeagent.maintd.engine.orders import ARRIVES
from nodeagent.model.action import Drain, RunCommand
from nodeagent.model.ledger import Intent, Ledger, Outcome, Result
from nodeagent.model.purpose import OfIncident
from nodeagent.model.snapshot import Node, Snapshot
from tests.maintd.world import six

GRACE = 30.0
DRAIN = Intent("1", OfIncident("i"), "n1", Drain("n1"))
ORDER = Intent("2", OfIncident("j"), "n2", RunCommand("n2", "mend", "{}"))
GONE = replace(ORDER, id="3", action=RunCommand("n9", "mend", "{}"))


@dataclass
class Answering:
    """Ganeti and the agents, with what they know: by reason and by order; None: no answer."""

    jobs: dict[str, str] = field(default_factory=dict)
    orders: dict[str, Outcome | None] = field(default_factory=dict)
    grace: float = GRACE
    seconds: float = 0.0

    def find(self, reasons: Sequence[str]) -> dict[str, str]:
        assert reasons, "nobody is asked about nothing"
        return {reason: self.jobs[reason] for reason in reasons if reason in self.jobs}

    def snapshot(self) -> Snapshot:
        return six()

    def job(self, intent: Intent) -> str:
        return f"order {intent.id}"

    async def outcome(self, job: str, node: Node) -> Result:
        outcome = self.orders.get(job, Outcome.LOST)
        if outcome is None:
            raise Unavailable("timed out")
        return Result(outcome)


def adopted(
    answering: Answering, *intents: Intent, not_taken: dict[str, str] | None = None, after: float
) -> tuple[list[str | None], dict[str, str]]:
    """The jobs of the intents, and those that have none for sure, so long after the first look."""
    one = cast(Any, answering)
    inquiry = Inquiry(cast(Cluster, one), one, lambda: answering.seconds)
    ledger = Ledger(intents=intents)
    asyncio.run(inquiry.adopt(ledger, {}))
    answering.seconds += after
    found, absent = asyncio.run(inquiry.adopt(ledger, not_taken or {}))
    return [intent.job for intent in found.intents], absent


LATE, LATER = GRACE + 1, ARRIVES / 1000 + 1
NEVER = "it was not submitted"


def test_an_intent_is_adopted_waited_for_or_absent() -> None:
    done: dict[str, Outcome | None] = {"order 2": Outcome.SUCCESS}
    mute: dict[str, Outcome | None] = {"order 2": None}
    for answering, intent, after, job, absent in (
        (Answering({DRAIN.reason: "7"}), DRAIN, LATE, "7", {}),
        (Answering(), DRAIN, GRACE, None, {}),
        (Answering(), DRAIN, LATE, None, {"1": NEVER}),
        (Answering(orders=done), ORDER, LATER, "order 2", {}),
        (Answering(), ORDER, LATER - 1, None, {}),
        (Answering(), ORDER, LATER, None, {"2": NEVER}),
        # Who does not answer may have the order.
        (Answering(orders=mute), ORDER, 10 * LATER, None, {}),
        (Answering(), GONE, LATER, None, {"3": NEVER}),
        (Answering(), replace(DRAIN, job="5"), LATE, "5", {}),
    ):
        assert adopted(answering, intent, after=after) == ([job], absent), (intent, after)


def test_what_was_not_taken_is_absent_at_once_and_asks_nobody() -> None:
    why = {"1": "no", "2": "busy", "8": "another"}
    assert adopted(Answering(), DRAIN, ORDER, not_taken=why, after=0) == (
        [None, None],
        {"1": "no", "2": "busy"},
    )
    known = Answering({DRAIN.reason: "7"})
    assert adopted(known, DRAIN, ORDER, not_taken={"2": "busy"}, after=0) == (
        ["7", None],
        {"2": "busy"},
    )


def test_the_wait_of_what_was_found_begins_anew() -> None:
    answering = Answering()
    one = cast(Any, answering)
    inquiry = Inquiry(cast(Cluster, one), one, lambda: answering.seconds)
    for intents, absent in (((DRAIN,), {}), ((ORDER,), {}), ((DRAIN,), {}), ((DRAIN,), {"1"})):
        _, found = asyncio.run(inquiry.adopt(Ledger(intents=intents), {}))
        assert set(found) == set(absent), answering.seconds
        answering.seconds += LATE
