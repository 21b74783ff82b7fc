"""Power-offs that come late: their nodes answer again before, or lose power all the same."""

from dataclasses import replace

import pytest

from nodeagent.model.action import Action, Power, PowerCommand, SetOffline
from nodeagent.model.fencing import Stage
from nodeagent.model.ledger import Outcome
from tests.maintd.fencing.loop import RESTART, Loop, kill

OFF, ON = PowerCommand.OFF, PowerCommand.ON


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


@pytest.mark.parametrize(("mode", "revive"), [("fence", True), ("restart", False)])
def test_a_node_that_recovered_and_loses_power_all_the_same_gets_it_back(
    mode: str, *, revive: bool
) -> None:
    loop = waiting(Loop(replace(RESTART, dead_nodes=mode, revive=revive)))
    loop.cluster.cancels = False
    recover(loop)
    loop.steps(2)
    resume(loop)
    loop.steps(20)
    assert (loop.powers(OFF), loop.powers(ON)) == (["n3"], ["n3"])
    assert loop.stage("n3") is None
    assert not loop.offline()
    assert not loop.failovers()
    assert "n3" not in loop.machines.off


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


def test_a_restart_does_not_forget_that_a_power_off_has_missed(loop: Loop) -> None:
    """Else a node that dies within the hour is not powered on once before it is fenced."""
    recover(loop)
    loop.steps(2)
    resume(loop)
    loop.steps(20)
    (cut,) = loop.ledger.cuts
    assert cut.missed
    loop.restart()
    assert loop.ledger.cuts == (cut,)
    kill(loop, how="hung")
    while not loop.powers(ON):
        loop.steps(1)
    assert not loop.offline()
