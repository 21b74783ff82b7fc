"""A healthy node that a stranger floods, or whose address a stranger uses, with default waits.

Both look the same: each port takes connections, and nothing answers. DRBD stays connected.
"""

from dataclasses import replace

import pytest

from nodeagent.maintd.notices.conditions import conditions
from nodeagent.model.action import PowerCommand
from nodeagent.model.ledger import Policy
from nodeagent.model.notice import Occasion
from nodeagent.model.reason import FencingKind
from nodeagent.model.stage import FULL
from tests.maintd.fencing.loop import Loop, kill

DAY = 24 * 12  # rounds of five minutes
POLICY = Policy(stage=FULL, dead_nodes="restart")  # all waits are the defaults


@pytest.fixture
def loop() -> Loop:
    made = Loop(POLICY)
    made.learn()
    return made


def told(loop: Loop) -> list[str]:
    """What maintd notifies a person of, about n3."""
    silent = [node for node in loop.cluster.nodes if not loop.machines.answers(node)]
    found = conditions(loop.decision, loop.observed(), silent, "", loop.now)
    return [one.text for one in found if one.occasion is Occasion.NEEDS_YOU and one.node == "n3"]


@pytest.mark.parametrize("dead_nodes", ["fence", "restart"])
def test_nothing_is_powered_off_and_a_person_is_told(loop: Loop, dead_nodes: str) -> None:
    loop.policy = replace(POLICY, dead_nodes=dead_nodes)
    kill(loop, how="mute")
    loop.steps(DAY, 300)
    assert not loop.powers(PowerCommand.OFF, PowerCommand.ON)
    assert not loop.ledger.fencing
    assert not loop.offline()
    (text,) = told(loop)
    assert "is not fenced, you decide: " in text
    assert "somebody may flood it or use its address" in text
    assert "gnt-node power cycle n3" in text


def test_the_person_is_told_as_soon_as_the_node_is_unreachable(loop: Loop) -> None:
    kill(loop, how="mute")
    loop.steps(2 + POLICY.unreachable_after // 60_000, 60)
    assert FencingKind.YOU_DECIDE in {reason.kind for reason in loop.reasons()}
    loop.machines.mute.clear()
    loop.steps(3, 60)
    assert not told(loop)


def test_a_person_is_told_who_alone_says_that_a_dead_node_lives(loop: Loop) -> None:
    """One liar, or one agent behind a broken switch, stops all that would help the node."""
    loop.liars.add("n6")
    kill(loop)
    loop.steps(60, 60)
    assert not loop.ledger.fencing
    (text,) = told(loop)
    assert "only n6 finds a sign of life of n3, against 4 other nodes" in text
    loop.liars.clear()
    loop.steps(30, 60)
    assert loop.ledger.fencing


def test_a_node_whose_disks_are_gone_as_well_is_revived_after_a_wait(loop: Loop) -> None:
    kill(loop, how="hung")
    loop.steps(POLICY.revive_within // 60_000 - 1, 60)
    assert not loop.powers(PowerCommand.OFF)
    assert FencingKind.MAY_BOOT in {kind for reason in loop.reasons() for kind in reason.kinds}
    loop.steps(20, 60)
    assert loop.powers(PowerCommand.OFF) == loop.powers(PowerCommand.ON) == ["n3"]
    assert not loop.offline()
