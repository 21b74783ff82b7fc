"""Repairs of instances whose node is fenced: only the fencing starts those elsewhere."""

from dataclasses import replace

from nodeagent.autorepair.tags import PREFIX
from nodeagent.model.action import Guarded
from nodeagent.model.fencing import Stage
from nodeagent.model.reason import FencingKind
from tests.maintd.decided import kinds
from tests.maintd.fencing.loop import RESTART, Loop, kill


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


def test_dead_nodes_alone_says_whether_they_start_elsewhere() -> None:
    loop = allowed("fence")
    kill(loop)
    loop.steps(100)
    assert loop.stage("n3") is Stage.FENCED
    assert not repaired(loop)
    assert waits(loop)
