"""Power-offs that come late: their nodes answer again before, or lose power all the same."""

from dataclasses import replace

import pytest

from nodeagent.model.action import Action, Power, PowerCommand, SetOffline
from nodeagent.model.fencing import Stage
from nodeagent.model.ledger import Outcome
from tests.maintd.fencing.loop import RESTART, Loop, kill

OFF = PowerCommand.OFF


def cuts(action: Action) -> bool:
    return isinstance(action, Power) and action.command is OFF


@pytest.fixture
def loop() -> Loop:
    """A cluster in which the power-off of n3, which hangs, waits in the job queue."""
    return waiting(Loop(replace(RESTART, revive=True)))


def waiting(loop: Loop) -> Loop:
    loop.learn()
    loop.cluster.pauses = cuts
    kill(loop, how="hung")
    for _ in range(60):
        loop.step()
        if loop.powers(OFF):
            return loop
    raise AssertionError(loop.reasons())


def recover(loop: Loop) -> None:
    loop.machines.hung.discard("n3")


def resume(loop: Loop) -> None:
    loop.cluster.pauses = lambda _: False


def outcomes(loop: Loop) -> list[Outcome]:
    return [job.outcome for job in loop.cluster.jobs.values() if cuts(job.action)]


def test_without_its_ledger_another_master_cancels_it(loop: Loop) -> None:
    loop.restart(lost=True)
    loop.steps(1)
    assert loop.stage("n3") is Stage.CUTS
    recover(loop)
    loop.steps(2)
    resume(loop)
    loop.steps(20)
    assert outcomes(loop) == [Outcome.ERROR]
    assert loop.stage("n3") is None


def test_an_offline_mark_that_waits_is_canceled_as_well() -> None:
    loop = Loop()
    loop.learn()
    loop.cluster.pauses = lambda action: isinstance(action, SetOffline)
    kill(loop, how="hung")
    loop.steps(60)
    assert loop.offline() == {"n3"}
    loop.machines.switch_on("n3")
    loop.steps(3)
    resume(loop)
    loop.steps(10)
    assert not loop.cluster.nodes["n3"].offline
    assert not loop.cluster.nodes["n3"].tags
    assert loop.stage("n3") is None
