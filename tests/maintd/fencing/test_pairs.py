"""A node that dies while somebody has it out of service, in both orders of the ends."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from nodeagent.model.asked import Asked
from nodeagent.model.fencing import Stage
from nodeagent.model.incident import Status
from nodeagent.model.queue import Operation, Procedure, Procedures, RepairStep, StepStatus
from nodeagent.model.units import Ms, Nanoseconds, Seconds
from nodeagent.model.window import Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import AddEntry, DeleteEntry, Done, Evacuate, SetSchedule
from tests.maintd.fencing.whole import RESTART, Whole
from tests.maintd.queue.mender import NO, YES
from tests.maintd.world import EVACUATE, OK

N3 = Machine("n3")
STEP = RepairStep("try-1", need_drain=True, watch_seconds=Seconds(86_400))
OPERATION = Operation("unreachable", (STEP,), "check")
POLICY = replace(
    RESTART,
    return_after=Ms(60_000),
    procedures=Procedures((Procedure(("r640",), (OPERATION,)),)),
)


@pytest.fixture
def whole(at_once: None) -> Iterator[Whole]:
    made = Whole(POLICY, ())
    made.learn()
    made.agents.tells = lambda intent: NO if intent.purpose.entry else YES
    yield made
    made.close()


def ask(whole: Whole, asked: Asked) -> None:
    identity = whole.wish(asked)
    whole.rounds(1)
    assert whole.store.answer(identity) == ""


def until(whole: Whole, so: Callable[[], bool], rounds: int = 120) -> None:
    for _ in range(rounds):
        if so():
            return
        whole.rounds(1)
    raise AssertionError((whole.ledger.fencing, whole.ledger.outages, whole.ledger.incidents))


def plan(whole: Whole, *machines: Machine) -> None:
    start = Unavailability(Nanoseconds(round(whole.time * 1e9)))
    ask(whole, SetSchedule(Schedule((Window(machines, start),) if machines else ())))


@dataclass(frozen=True)
class Claim:
    begins: Callable[[Whole], None]
    ends: Callable[[Whole], None]


def _breaks(whole: Whole) -> None:
    whole.agents.says["n3"] = EVACUATE
    whole.cluster.takes = lambda _: 1.0
    until(whole, lambda: any(i.status is Status.PENDING for i in whole.ledger.incidents))


def _mended(whole: Whole) -> None:
    whole.agents.says["n3"] = OK
    until(whole, lambda: all(i.status is Status.COMPLETED for i in whole.ledger.incidents))


def _queued(whole: Whole) -> None:
    ask(whole, AddEntry("unreachable", "r640", "127.0.0.3", "S3"))
    until(
        whole,
        lambda: whole.ledger.queue.entries[0].step_status is not StepStatus.WAITING,
    )


CLAIMS = {
    "incident": Claim(_breaks, _mended),
    "window": Claim(lambda whole: plan(whole, N3), plan),
    "person": Claim(lambda whole: ask(whole, Evacuate("n3", "new disks")), lambda _: None),
}


@pytest.mark.parametrize("done_first", [False, True])
@pytest.mark.parametrize("claim", CLAIMS)
def test_it_is_back_when_the_last_one_ends(whole: Whole, claim: str, *, done_first: bool) -> None:
    if claim != "window":  # a node that is silent in its window is not dead
        CLAIMS[claim].begins(whole)
        until(whole, lambda: whole.cluster.nodes["n3"].drained)
    whole.rounds(3)
    whole.machines.switch_off("n3")
    was_offline = whole.cluster.nodes["n3"].offline
    until(whole, lambda: was_offline or whole.stage("n3") is Stage.FENCED)
    whole.rounds(3)
    assert whole.cluster.nodes["n3"].offline
    if claim == "window":
        CLAIMS[claim].begins(whole)
        whole.rounds(3)
    whole.machines.switch_on("n3")
    whole.cluster.world.unpowered.discard("n3")
    whole.agents.says["n3"] = OK
    if not done_first:
        CLAIMS[claim].ends(whole)
    whole.rounds(10)
    assert whole.cluster.nodes["n3"].offline, "nobody has seen to the dead node"
    ask(whole, Done("n3"))
    if done_first:
        whole.rounds(10)
        if claim == "window":
            assert not whole.cluster.nodes["n3"].in_service, "the other one has it yet"
        CLAIMS[claim].ends(whole)
    until(whole, lambda: whole.cluster.nodes["n3"].in_service)
    until(whole, lambda: whole.ledger.outages == ())


def test_a_node_that_the_queue_repairs_is_fenced_only_after_that(whole: Whole) -> None:
    """A repair may switch it off; it is back when the dead node is done with too."""
    _queued(whole)
    until(whole, lambda: whole.cluster.nodes["n3"].drained)
    whole.machines.switch_off("n3")
    whole.rounds(40)
    assert whole.stage("n3") is None
    ask(whole, DeleteEntry(0))
    until(whole, lambda: whole.stage("n3") is Stage.FENCED)
    whole.machines.switch_on("n3")
    whole.cluster.world.unpowered.discard("n3")
    whole.rounds(10)
    assert whole.cluster.nodes["n3"].offline
    ask(whole, Done("n3"))
    until(whole, lambda: whole.cluster.nodes["n3"].in_service)
    until(whole, lambda: whole.ledger.outages == ())
