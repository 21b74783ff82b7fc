"""So many nodes at once that one round cannot place all their instances: the rest follow."""

from dataclasses import replace

from nodeagent.maintd.planning.resources import SEARCHES
from nodeagent.model.action import Drain
from nodeagent.model.incident import Status
from nodeagent.model.reason import Kind
from tests.maintd.decided import kinds
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE

SICK = SEARCHES + 6


def test_the_others_are_evacuated_in_later_rounds() -> None:
    places = [(f"n{n}", f"n{n + 1 + SICK}") for n in range(2, 2 + SICK)]
    policy = replace(QUICK, nodes_in_work=100, group_in_work=100)
    one = Rig(fleet(2 * SICK + 4), mirrored(*places), policy)
    one.tick()
    one.agents.says |= {node: EVACUATE for node, _ in places}
    first = one.tick().decision
    begun = [i.node for i in first.ledger.intents if isinstance(i.action, Drain)]
    assert len(begun) == SEARCHES
    waits = {name for kind, name in kinds(first.held) if kind is Kind.SOUGHT_LATER}
    assert waits == {node for node, _ in places} - set(begun)
    for _ in range(12):
        one.tick(60)
    incidents = one.ledger.incidents
    assert len(incidents) == SICK
    assert {incident.status for incident in incidents} == {Status.COMPLETED}
