"""Whose a drained or offline node is, and who puts it back when its window ends."""

from dataclasses import replace

import pytest

from nodeagent.model.action import Action, Drain, Restore, SetOffline
from nodeagent.model.window import Mode, Schedule
from nodeagent.model.wish import BringUp, SetSchedule, TakeDown
from tests.maintd.rig import Rig
from tests.maintd.windows.rounds import N3, node, plan, rig, until_calm, wish


def jobs(one: Rig, kind: str) -> int:
    return sum(job.startswith(kind) for job in one.jobs())


def test_who_is_planned_anew_while_being_put_back_is_drained_again() -> None:
    one = rig()
    plan(one, 0, N3)
    until_calm(one)
    assert node(one).drained
    one.cluster.takes = lambda action: 100 if isinstance(action, Restore) else 1
    plan(one)
    plan(one, 60, N3)
    assert one.ledger.scheduled[0].mode is Mode.DRAINING
    until_calm(one)
    assert jobs(one, "Restore") == 1
    assert node(one).drained, "it was we who put it back"
    plan(one)
    until_calm(one)
    assert node(one).in_service


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


def test_a_drain_is_ours_at_the_second_try_too() -> None:
    one = rig()
    one.cluster.refuses = lambda action: isinstance(action, Drain)
    wish(one, 0, N3)
    until_promised(one, Drain)
    one.tick()
    assert not one.ledger.outages[0].ours
    one.cluster.refuses = lambda _: False
    one.tick(70)
    until_calm(one)
    assert node(one).drained
    plan(one)
    until_calm(one)
    assert node(one).in_service
