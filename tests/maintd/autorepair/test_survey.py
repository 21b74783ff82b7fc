"""Repairs of instances whose node is fenced: only the fencing starts those elsewhere."""

from dataclasses import replace

import pytest

from nodeagent.autorepair.tags import PREFIX
from nodeagent.model.action import Guarded
from nodeagent.model.fencing import Stage
from nodeagent.model.reason import FencingKind
from tests.maintd.decided import kinds
from tests.maintd.fencing.loop import RESTART, STEP, Loop, kill


def allowed(mode: str = "restart") -> Loop:
    """All instances of the cluster may be repaired up to a failover."""
    loop = Loop(replace(RESTART, autorepair="safe", dead_nodes=mode))
    loop.cluster.world.tags |= {f"{PREFIX}failover"}
    loop.learn()
    return loop


def repaired(loop: Loop) -> list[Guarded]:
    return [job.action for job in loop.cluster.jobs.values() if isinstance(job.action, Guarded)]


def waits(loop: Loop) -> bool:
    return (FencingKind.KEEPS_INSTANCES, "n3") in kinds(loop.decision.held)


def test_one_whose_mirror_missed_writes_is_left_to_a_person() -> None:
    loop = allowed()
    loop.machines.apart.add("n3")
    loop.steps(3600 // STEP)
    kill(loop, how="off")
    loop.steps(100)
    assert loop.stage("n3") is Stage.FENCED
    assert not loop.cluster.world.outdated
    assert not repaired(loop)
    assert waits(loop)


@pytest.mark.parametrize("how", ["off", "hung", "cut"])
def test_dead_nodes_alone_says_whether_they_start_elsewhere(how: str) -> None:
    loop = allowed("fence")
    kill(loop, how=how)
    loop.steps(100)
    assert loop.stage("n3") is Stage.FENCED
    assert not repaired(loop)
    assert waits(loop)
