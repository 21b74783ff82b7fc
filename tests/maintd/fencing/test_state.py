"""Power-offs that come late: their nodes answer again before, or lose power all the same."""

from dataclasses import replace

import pytest

from nodeagent.model.action import Action, Power, PowerCommand, SetOffline
from nodeagent.model.fencing import Stage
from nodeagent.model.ledger import Outcome
from nodeagent.model.wish import DrillPower, Wish
from simulation.machines import Control
from tests.maintd.fencing.loop import RESTART, STEP, Loop, kill

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


def test_a_node_that_answers_again_is_not_powered_off(loop: Loop) -> None:
    recover(loop)
    loop.steps(2)
    resume(loop)
    loop.steps(60)
    assert outcomes(loop) == [Outcome.ERROR]
    assert not loop.machines.boots
    assert "n3" not in loop.machines.off
    assert loop.stage("n3") is None
    assert not loop.offline()


@pytest.mark.parametrize("mode", ["fence", "restart"])
@pytest.mark.parametrize("revive", [True, False])
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


@pytest.mark.parametrize("how", ["hung", "cut"])
def test_one_that_dies_again_after_that_is_fenced(loop: Loop, how: str) -> None:
    loop.cluster.cancels = False
    recover(loop)
    loop.steps(2)
    if how == "hung":
        loop.broken.add("n3")
    else:
        kill(loop, how=how)
    resume(loop)
    loop.steps(100)
    assert loop.stage("n3") is Stage.FENCED
    assert loop.powers(ON) == ["n3"]
    assert not loop.machines.twice()


def test_one_that_is_silent_again_before_that_is_judged_anew(loop: Loop) -> None:
    """It may be a person's reboot: it is given all its time again."""
    recover(loop)
    loop.steps(1)
    loop.machines.cut.add("n3")
    resume(loop)
    loop.steps(3)
    assert loop.stage("n3") is None
    loop.steps(RESTART.unreachable_after // (1000 * STEP) - 4)
    assert loop.powers(OFF) == ["n3"]
    loop.steps(3)
    assert loop.powers(OFF) == ["n3", "n3"]


def test_it_may_have_recovered_while_the_vote_was_undecided() -> None:
    """Then maintd remembers only since when it is silent again."""
    loop = waiting(Loop(replace(RESTART, dead_nodes="fence")))
    loop.step()
    (one,) = loop.ledger.unreachable
    loop.ledger = replace(loop.ledger, unreachable=(replace(one, since=loop.now),))
    resume(loop)
    loop.steps(20)
    assert loop.powers(ON) == ["n3"]
    assert not loop.offline()


def test_a_drill_s_power_off_waits_for_its_turn() -> None:
    loop = Loop()
    loop.cluster.put(replace(loop.cluster.nodes["n6"], drained=True))
    loop.cluster.remove_instance("other")
    loop.learn()
    loop.cluster.pauses = cuts
    loop.wishes.append(Wish("w1", "root", loop.now, DrillPower("n6")))
    loop.steps(10)
    assert not loop.refused
    resume(loop)
    loop.steps(40)
    assert outcomes(loop) == [Outcome.SUCCESS]
    assert loop.machines.boots == {"n6": 1}


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


def test_a_dead_control_keeps_one_that_recovered_from_being_forgotten(loop: Loop) -> None:
    """Nobody knows whether its power-off has come: it stays claimed, and is told."""
    loop.cluster.cancels = False
    recover(loop)
    loop.steps(2)
    resume(loop)
    loop.machines.controls["n3"] = (Control(ignores=True, dead=True),)
    loop.machines.cut.add("n3")
    loop.steps(30)
    assert loop.stage("n3") is Stage.PROVES
    assert loop.kinds() & {"FENCE_TRIES_AGAIN", "FENCING_WAITS"}
    loop.machines.cut.discard("n3")
    loop.steps(2)
    assert loop.stage("n3") is None
