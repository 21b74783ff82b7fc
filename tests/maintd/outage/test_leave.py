"""Nodes that a person wants evacuated: taken out of service, and put back."""

from dataclasses import replace

from nodeagent.model.action import MovePrimary
from nodeagent.model.reason import Kind
from nodeagent.model.units import Ms
from nodeagent.model.wish import Evacuate
from tests.maintd.decided import kinds
from tests.maintd.rig import QUICK, Rig, ask, fleet, mirrored

PLACES = (("n3", "n4"), ("n3", "n5"), ("n2", "n3"))
POLICY = replace(QUICK, return_after=Ms(60_000))


def rig() -> Rig:
    made = Rig(fleet(), mirrored(*PLACES), POLICY)
    made.tick()
    return made


def until_calm(one: Rig, rounds: int = 60) -> None:
    """Hold rounds until no job runs and no node is on its way back."""
    for _ in range(rounds):
        one.tick(30)
        returning = any(outage.back is not None for outage in one.ledger.outages)
        if not (one.ledger.intents or returning):
            return
    raise AssertionError(one.ledger)


def instances_on(one: Rig, name: str = "n3") -> list[str]:
    there = one.cluster.instances.values()
    return sorted(i.name for i in there if name in (i.primary, i.secondary))


def actions(one: Rig, *kinds: type) -> list[str]:
    return [job for job in one.jobs() if job.startswith(tuple(kind.__name__ for kind in kinds))]


def test_a_failed_move_stops_it_until_a_person_asks_again() -> None:
    one = rig()
    one.cluster.fails = lambda action: isinstance(action, MovePrimary)
    ask(one, Evacuate("n3", "new disks"))
    until_calm(one)
    tried = len(actions(one, MovePrimary))
    until_calm(one)
    assert (Kind.EVACUATION_STOPPED, "n3") in kinds(one.tick().decision.held)
    assert len(actions(one, MovePrimary)) == tried
    one.cluster.fails = lambda _: False
    ask(one, Evacuate("n3", "new disks"))
    until_calm(one)
    assert instances_on(one) == []
