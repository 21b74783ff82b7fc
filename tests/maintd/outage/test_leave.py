"""Nodes that a person wants evacuated: taken out of service, and put back."""

from dataclasses import replace

from nodeagent.maintd.outage.leave import evacuate_wanted
from nodeagent.maintd.planning.situation import Stops
from nodeagent.model.action import MovePrimary
from nodeagent.model.ledger import Ledger
from nodeagent.model.outage import Outage, Wanted
from nodeagent.model.reason import Kind, because
from nodeagent.model.units import Ms
from nodeagent.model.wish import Done, Evacuate
from tests.build import situation
from tests.maintd.decided import kinds
from tests.maintd.rig import QUICK, Rig, ask, fleet, mirrored
from tests.maintd.world import NOW, OK, REPAIR, need, seen, six

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


def test_no_evacuation_starts_where_work_is_stopped() -> None:
    why, observed = because(Kind.PAUSED, "n3"), seen(six())
    asked = Ledger(outages=(Outage("uuid-n3", wanted=Wanted("bob", NOW, "new disks")),))
    for stops, begins in (
        (Stops(), True),
        (Stops({"n4": why}), True),
        (Stops(windows={"n3": why}, rolls={"n3": why}), True),
        (Stops({"n3": why}), False),
        (Stops(storm=why), False),
        (Stops(doubt=why), False),
    ):
        after, held = evacuate_wanted(asked, situation(asked, observed, POLICY, NOW, stops))
        assert bool(after.intents) is begins, stops
        assert (why in [blocked.why for blocked in held]) is not begins, stops


def test_no_repair_starts_where_a_person_works() -> None:
    one = rig()
    ask(one, Evacuate("n3", "new disks"))
    until_calm(one)
    one.agents.says["n3"] = REPAIR
    for _ in range(10):
        held = one.tick(30).decision.held
    assert (Kind.EVACUATED_BY_PERSON, "n3") in kinds(held)
    assert one.agents.orders == []
    assert ask(one, Done("n3")) == ""
    for _ in range(10):
        one.tick(30)
    assert len(one.agents.orders) == 1
    one.agents.says["n3"] = OK
    until_calm(one)
    assert one.cluster.nodes["n3"].in_service


def test_a_fault_without_a_repair_command_calls_a_person_meanwhile() -> None:
    one = rig()
    ask(one, Evacuate("n3", "new disks"))
    until_calm(one)
    one.agents.says["n3"] = need("live-repair")
    for _ in range(3):
        held = one.tick(30).decision.held
    assert (Kind.NO_COMMAND, "n3") in kinds(held)
