"""Whose a drained or offline node is, and who puts it back when its window ends."""

from dataclasses import replace

import pytest

from nodeagent.model.action import Action, Drain, SetOffline
from nodeagent.model.window import Schedule
from nodeagent.model.wish import BringUp, SetSchedule, TakeDown
from tests.maintd.rig import Rig
from tests.maintd.windows.rounds import N3, node, rig, until_calm, wish


def jobs(one: Rig, kind: str) -> int:
    return sum(job.startswith(kind) for job in one.jobs())


def until_promised(one: Rig, kind: type[Action]) -> None:
    while not any(isinstance(i.action, kind) for i in one.ledger.intents):
        one.tick()


@pytest.mark.parametrize("fate", ["refuses", "fails", "unreached"])
@pytest.mark.parametrize("what", [Drain, SetOffline])
def test_what_our_own_job_has_not_done_to_a_node_is_somebody_elses(
    what: type[Drain] | type[SetOffline], fate: str
) -> None:
    one = rig()
    setattr(one.cluster, fate, lambda action: isinstance(action, what))
    wish(one, 0, N3)
    if what is SetOffline:
        one.wish(TakeDown((N3,)))
    until_promised(one, what)
    one.cluster.put(replace(node(one), drained=what is Drain, offline=what is SetOffline))
    until_calm(one)
    one.wish(SetSchedule(Schedule()) if what is Drain else BringUp((N3,)))
    until_calm(one)
    assert (node(one).drained, node(one).offline) == (what is Drain, what is SetOffline)
    assert jobs(one, "Restore") == 0
    assert one.ledger.scheduled == ()
