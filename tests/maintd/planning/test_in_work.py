"""Which nodes are in work, and which unknown ends keep no other from being emptied."""

from dataclasses import replace

import pytest

from nodeagent.maintd.decide import decide
from nodeagent.model.action import Drain, MovePrimary, Retag, RunCommand, describe
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Outcome
from nodeagent.model.purpose import OfIncident
from nodeagent.model.reason import Kind, because
from nodeagent.model.wish import Retry, Wish
from tests.maintd.decided import POLICY, kinds, new
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, NOW, REPAIR, incident, ledger, node, seen, six


@pytest.mark.parametrize("offline", [False, True], ids=["silent", "offline"])
def test_an_order_nobody_hears_of_is_told_and_keeps_no_other_node_from_being_emptied(
    offline: bool,
) -> None:
    """An offline node is not polled, and in no doubt: of its order nobody will ever hear."""
    one = incident(diagnosis=REPAIR, status=Status.PENDING)
    order = Intent("1", OfIncident(one.id), "n1", RunCommand("n1", "fix-nic", REPAIR.text), "o")
    world = six(node("n1", offline=offline, tags=frozenset({one.mark})))
    silent = seen(world, {"n2": EVACUATE}, {} if offline else {"n1": "does not answer: timed out"})
    decision = decide(ledger(one, intents=(order,)), silent, POLICY, NOW)
    assert new(decision) == [Drain("n2")]
    (held,) = decision.held
    what = describe(order.action)
    if offline:
        asks = {"why": "n1 is offline", "then": "gnt-maint retry or cancel"}
        assert held.why == because(Kind.LOST_ORDER, "n1", what=what, **asks)
    else:
        doubt = "does not answer: timed out"
        assert held.why == because(Kind.SILENT_ORDER, "n1", what=what, doubt=doubt)
    retry = replace(silent, wishes=(Wish("w", "root", NOW, Retry(one.id)),))
    retried = decide(decision.ledger, retry, POLICY, NOW + 1)
    assert ("w" in retried.refused) is not offline
    assert (order in retried.ledger.intents) is not offline


def test_a_lost_job_keeps_no_other_node_from_being_emptied() -> None:
    one = incident(status=Status.PENDING)
    lost = Intent("1", OfIncident(one.id), "n1", Drain("n1"), "7")
    observed = seen(six(), {"n1": EVACUATE, "n2": EVACUATE}, results={"1": Outcome.LOST})
    decision = decide(ledger(one, intents=(lost,)), observed, POLICY, NOW)
    assert new(decision) == [Drain("n2")]


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELED])
def test_a_node_whose_jobs_still_run_is_in_work_whatever_became_of_its_incident(
    status: Status,
) -> None:
    one = incident(status=status, tag_seen=True)
    running = Intent(
        "1", OfIncident(one.id), "n1", MovePrimary("a", "n1", live=True, target="n3"), "7"
    )
    world = six(node("n1", drained=True, tags=frozenset({one.tag})), a=("n1", "n3"))
    said = {"n1": EVACUATE, "n2": EVACUATE}
    observed = seen(world, said, results={"1": Outcome.RUNNING})
    decision = decide(ledger(one, intents=(running,)), observed, POLICY, NOW)
    assert not any(isinstance(action, Drain) for action in new(decision))
    assert (Kind.NODES_IN_WORK, "") in kinds(decision.held)


def test_what_was_paused_goes_on_only_when_there_is_room_in_work() -> None:
    rig = Rig(fleet(), mirrored(("n3", "n5"), ("n4", "n6")), replace(QUICK, nodes_in_work=1))
    rig.cluster.takes = lambda _: 25.0
    rig.agents.says["n3"] = EVACUATE
    rig.tick()
    rig.cluster.tag("n3", "maintd:pause:yes")
    rig.agents.says["n4"] = EVACUATE
    for _ in range(5):
        rig.tick()
    rig.cluster.untag("n3", "maintd:pause:yes")
    moving = set()
    for _ in range(40):
        rig.tick()
        at_work = {i.node for i in rig.ledger.intents if not isinstance(i.action, Retag)}
        moving |= at_work
        assert len(at_work) <= 1
    assert moving == {"n3", "n4"}
