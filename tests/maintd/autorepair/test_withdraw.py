"""What is taken back while it waits for its turn, and what is said of it."""

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace

import pytest

from nodeagent.errors import NotMaster, Unavailable
from nodeagent.maintd.autorepair.jobs import why_withdrawn
from nodeagent.maintd.engine.conduct import Acting, Conduct
from nodeagent.maintd.engine.withdrawals import Withdrawals
from nodeagent.model.action import Move, MovePrimary, Reinstall
from nodeagent.model.ledger import Intent, Ledger, Outcome, Result
from nodeagent.model.purpose import OfRepair
from nodeagent.model.snapshot import Instance, Node, Observed, Snapshot
from nodeagent.model.units import Ms
from tests.cluster.by_hand import ByHand
from tests.maintd.rig import Between

OFF = {name: Node(name, name, "10.0.0.1", offline=name != "n1") for name in ("n1", "n2", "n3")}
MIRRORED = Instance("i", "n2", "n3")
LATE = Reinstall("i", "n2", "n1")
INTENT = Intent("r:1", OfRepair("r"), "n2", LATE, job="7")


def seen(*back: str, instance: Instance = MIRRORED) -> Snapshot:
    nodes = OFF | {name: replace(OFF[name], offline=False) for name in back}
    return Snapshot("c", nodes, {instance.name: instance})


@pytest.mark.parametrize(
    ("move", "snapshot", "node"),
    [
        (LATE, seen(), ""),
        (LATE, seen("n2"), "n2"),
        (LATE, seen("n3"), "n3"),
        (LATE, seen("n3", instance=replace(MIRRORED, secondary=None)), ""),
        (LATE, seen("n3", instance=replace(MIRRORED, primary="n1")), ""),
        (LATE, seen("n3", instance=replace(MIRRORED, name="j")), ""),
        (MovePrimary("i", "n2", live=False), seen("n2", "n3"), ""),
        (None, seen("n2", "n3"), ""),
    ],
)
def test_why(move: Move | None, snapshot: Snapshot, node: str) -> None:
    why = why_withdrawn(move, snapshot)
    told = f"node {node}, which has the data of i, is no longer offline"
    assert why == (told if node else "")


@dataclass
class Canceling(Between):
    says: bool | Unavailable = True

    def __post_init__(self) -> None:
        self.asked: list[str] = []

    def cancel(self, job: str) -> bool:
        self.asked.append(job)
        if isinstance(self.says, Unavailable):
            raise self.says
        return self.says


def withdraw(
    says: bool | Unavailable, results: Mapping[str, Result]
) -> tuple[list[str], dict[str, Result]]:
    """The jobs that were canceled, and what is told of one that has failed."""
    cluster = Canceling(ByHand.of(lambda: 0.0, [], []), says)

    withdrawals = Withdrawals(cluster, Acting(Conduct("n1", lambda: None, vote=False)))
    observed = Observed(seen("n3"), {}, results=results)
    asyncio.run(withdrawals.withdraw(Ledger(intents=(INTENT,)), observed, Ms(0)))
    return cluster.asked, withdrawals.explained({INTENT.id: Result(Outcome.ERROR, "canceled")})


RUNNING = {INTENT.id: Result(Outcome.RUNNING)}


def test_it_is_canceled_and_the_reason_told() -> None:
    asked, told = withdraw(True, RUNNING)
    assert asked == ["7"]
    why = "node n3, which has the data of i, is no longer offline"
    assert told[INTENT.id] == Result(Outcome.ERROR, f"the job was canceled before it began: {why}")


@pytest.mark.parametrize("says", [False, Unavailable("LUXI is away")])
def test_what_was_not_canceled_has_its_own_reason(says: bool | Unavailable) -> None:
    asked, told = withdraw(says, RUNNING)
    assert asked == ["7"]
    assert told == {INTENT.id: Result(Outcome.ERROR, "canceled")}


@pytest.mark.parametrize("results", [{}, {INTENT.id: Result(Outcome.SUCCESS)}])
def test_what_is_over_or_not_known_is_not_canceled(results: Mapping[str, Result]) -> None:
    assert withdraw(True, results)[0] == []


@pytest.mark.parametrize("why", [NotMaster("n2 is"), Unavailable("another may be the master")])
def test_who_may_act_no_more_cancels_nothing(why: NotMaster | Unavailable) -> None:
    """The machine may have slept since the master was asked."""
    cluster = Canceling(ByHand.of(lambda: 0.0, [], []))

    def master() -> None:
        if isinstance(why, NotMaster):
            raise why

    slept = Acting(Conduct("n1", master, vote=False, believed=0.0))
    withdrawing = Withdrawals(cluster, slept).withdraw(
        Ledger(intents=(INTENT,)), Observed(seen("n3"), {}, results=RUNNING), Ms(0)
    )
    with pytest.raises(NotMaster) if isinstance(why, NotMaster) else nullcontext():
        asyncio.run(withdrawing)
    assert cluster.asked == []
