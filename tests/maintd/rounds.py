"""Rigs in which n3 has just fallen ill, and questions to them."""

from dataclasses import replace

from nodeagent.maintd.engine.round import Round
from nodeagent.model.action import MovePrimary, SetOffline
from nodeagent.model.units import Ms
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE


def broken(settle: int = 0) -> Rig:
    """n3 has just said that it is to be evacuated."""
    rig = Rig(fleet(), mirrored(("n3", "n4")), replace(QUICK, settle=Ms(settle)))
    rig.agents.says["n3"] = EVACUATE
    rig.tick()
    return rig


def ticks(rig: Rig, rounds: int, seconds: float = 10.0) -> Round:
    for _ in range(rounds):
        done = rig.tick(seconds)
    return done


def holds(rig: Rig) -> set[str]:
    tags = rig.cluster.nodes["n3"].tags
    return {tag.removeprefix("maintd:hold:") for tag in tags if tag.startswith("maintd:hold:")}


def moved(rig: Rig) -> bool:
    jobs = rig.cluster.jobs.values()
    return any(isinstance(job.action, MovePrimary | SetOffline) for job in jobs)
