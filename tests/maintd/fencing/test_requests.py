"""A person's word that a node has no power: when it is taken, and that it is kept."""

from dataclasses import replace

import pytest

from nodeagent.model.action import Action, Power, PowerCommand, SetOffline
from nodeagent.model.fencing import End, Stage
from nodeagent.model.ledger import PAUSE_TAG
from simulation.machines import Control
from tests.maintd.decided import kinds
from tests.maintd.fencing.loop import RESTART, Loop, kill, word

OFF, ON = PowerCommand.OFF, PowerCommand.ON


@pytest.fixture
def loop() -> Loop:
    made = Loop()
    made.learn()
    return made


def dead_control(loop: Loop, node: str = "n3") -> None:
    loop.machines.controls[node] = (Control(dead=True),)


def unplug(loop: Loop, node: str = "n3") -> None:
    """A person pulls the plug, and the BMC dies with it."""
    loop.machines.switch_off(node)
    loop.machines.unplugged.add(node)
    dead_control(loop, node)


def until(loop: Loop, kind: type[Action], command: PowerCommand | None = None) -> None:
    """Until such a job waits in the queue."""

    def fits(action: Action) -> bool:
        return isinstance(action, kind) and command in (None, getattr(action, "command", None))

    loop.cluster.pauses = fits
    for _ in range(90):
        loop.step()
        if any(fits(job.action) for job in loop.cluster.jobs.values()):
            return
    raise AssertionError(loop.reasons())


# It is kept.


@pytest.mark.parametrize("command", [OFF, ON])
def test_a_word_said_while_a_power_job_waits_is_kept(command: PowerCommand) -> None:
    loop = Loop(replace(RESTART, revive=True))
    loop.learn()
    kill(loop)
    until(loop, Power, command)
    unplug(loop)
    loop.steps(2)
    assert not word(loop)
    loop.cluster.pauses = lambda _: False
    loop.steps(10)
    assert loop.stage("n3") is Stage.FENCED
    assert loop.machines.running_on("drbd") == {"n4"}
    assert not loop.machines.twice()


def test_one_said_while_the_offline_mark_waits_keeps_the_fate_of_each_instance(loop: Loop) -> None:
    kill(loop)
    until(loop, SetOffline)
    unplug(loop)
    loop.steps(1)
    assert not word(loop)
    loop.cluster.pauses = lambda _: False
    loop.steps(10)
    assert loop.stage("n3") is Stage.FENCED
    (one,) = loop.ledger.fencing
    assert {fate.instance: fate.end for fate in one.fates} == {
        "drbd": End.RESTARTED,
        "shared": End.RESTARTED,
        "plain": End.STAYS,
    }


@pytest.mark.parametrize("how", ["connects", "refused"])
def test_one_that_gets_power_again_before_the_offline_mark_stops_it(loop: Loop, how: str) -> None:
    """Its watcher may start the instances as soon as its daemons run."""
    waiting(loop)
    loop.machines.unplugged.clear()
    loop.machines.switch_on("n3")
    loop.machines.apart.add("n3")
    loop.machines.hung.add("n3")
    loop.machines.start("n3", "shared")
    loop.refuses = {"n3"} if how == "refused" else set()
    let_go(loop)
    loop.steps(10)
    assert not loop.offline()
    assert loop.machines.running_on("shared") == {"n3"}
    assert "FENCING_WAITS" in loop.kinds()
    unplug(loop)
    loop.steps(10)
    assert loop.stage("n3") is Stage.FENCED


def test_after_a_restart_it_goes_on_once_witnesses_are_heard(loop: Loop) -> None:
    waiting(loop)
    loop.mute = {f"n{i}" for i in range(1, 7)}
    loop.restart()
    let_go(loop)
    loop.steps(10)
    assert not loop.offline()
    assert "FEW_WITNESSES" in {kind.name for kind, _ in kinds(loop.decision.held)}
    loop.mute.clear()
    loop.steps(10)
    assert loop.stage("n3") is Stage.FENCED
    assert loop.machines.running_on("drbd") == {"n4"}


def waiting(loop: Loop) -> None:
    """A person's word is taken, and a pause keeps it waiting."""
    unplug(loop)
    loop.steps(15)
    loop.cluster.tag("n3", PAUSE_TAG)
    assert not word(loop)
    loop.steps(3)
    assert loop.stage("n3") is Stage.REMOVES
    assert not loop.offline()


def let_go(loop: Loop) -> None:
    loop.cluster.put(replace(loop.cluster.nodes["n3"], tags=frozenset()))


# The node is offline already.


def confirming(loop: Loop) -> None:
    """The BMC dies after the node was marked offline, and before that is confirmed."""
    kill(loop)
    for _ in range(40):
        loop.step()
        if loop.stage("n3") is Stage.REMOVES:
            dead_control(loop)
    assert loop.stage("n3") is Stage.CONFIRMS
    assert loop.cluster.nodes["n3"].offline
    (held,) = [held for held in loop.decision.held if held.node == "n3"]
    assert held.why.help == "gnt-maint fenced n3 --i-have-pulled-the-plug"


@pytest.mark.parametrize("lost", [False, True])
def test_a_word_goes_on_where_power_control_dies_after_the_offline_mark(
    loop: Loop, *, lost: bool
) -> None:
    confirming(loop)
    if lost:
        loop.restart(lost=True)
        loop.steps(2)
    assert not word(loop)
    loop.steps(10)
    assert loop.stage("n3") is Stage.FENCED
    assert len(loop.machines.running_on("shared")) == 1
    assert loop.machines.running_on("drbd") == (set() if lost else {"n4"})


def test_it_is_refused_while_anything_of_the_offline_node_answers(loop: Loop) -> None:
    confirming(loop)
    loop.machines.switch_on("n3")
    assert "n3 has power" in word(loop)
    kill(loop)
    loop.step()
    assert "n3 has power" in word(loop)
    loop.steps(10)
    assert not loop.failovers()


def test_it_is_refused_while_ganeti_s_noded_answers(loop: Loop) -> None:
    unplug(loop)
    loop.steps(20)
    loop.noded.add("n3")
    loop.step()
    assert "its noded answers Ganeti" in word(loop)


def test_it_is_refused_for_a_node_that_somebody_else_took_offline(loop: Loop) -> None:
    loop.cluster.put(replace(loop.cluster.nodes["n3"], offline=True))
    loop.step()
    assert "is offline already" in word(loop)


# DRBD disks that nobody has read.


@pytest.mark.parametrize("how", ["deaf", "dead"])
def test_it_is_refused_while_a_peer_cannot_read_its_disks(loop: Loop, how: str) -> None:
    unplug(loop)
    loop.steps(20)
    if how == "deaf":
        loop.deaf.add("n4")
    else:
        kill(loop, "n4")
    loop.step()
    why = word(loop)
    assert why.startswith("n4 cannot tell whether DRBD disks are still connected to n3")
    assert "start ganeti-mond on n4" in why
    assert "gnt-node modify --offline=yes n4" in why
    assert not loop.failovers()
    if how == "deaf":
        loop.deaf.clear()
    else:
        loop.cluster.put(replace(loop.cluster.nodes["n4"], offline=True))
    loop.step()
    assert not word(loop)
