"""What is done for an incident on a node that others have taken or emptied."""

import pytest

from nodeagent.maintd.deciding.decide import decide
from nodeagent.model.action import MovePrimary, MoveSecondary, SetOffline
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import Kind, because
from nodeagent.model.snapshot import Instance
from tests.maintd.decided import POLICY, kinds, new
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, FAILOVER, NOW, REPAIR, incident, ledger, node, seen, six


@pytest.mark.parametrize("diagnosis", [REPAIR, EVACUATE], ids=["live-repair", "evacuate"])
@pytest.mark.parametrize("status", [Status.NOTED, Status.PENDING])
def test_on_a_node_that_somebody_took_offline_nothing_is_done(
    diagnosis: object, status: Status
) -> None:
    one = incident(diagnosis=diagnosis, status=status)  # type: ignore[arg-type]
    world = six(node("n1", offline=True, tags=frozenset({one.mark})), b=("n2", "n1"))
    decision = decide(ledger(one), seen(world), POLICY, NOW)
    assert new(decision) == []
    orders = Kind.OFFLINE_NO_ORDER if diagnosis is REPAIR else Kind.NOT_FOR_MAINTD
    wanted = Kind.OFFLINE if status is Status.NOTED else orders
    assert kinds(decision.held)[-1] == (wanted, "n1")


@pytest.mark.parametrize("what", ["silent", "offline"])
def test_a_mirror_whose_instance_is_out_of_reach_holds_and_fails_nothing(what: str) -> None:
    world = six(
        node("n1", drained=True),
        *([node("n3", offline=True)] if what == "offline" else []),
        b=("n3", "n1"),
        c=("n4", "n1"),
    )
    doubts = {"n3": "does not answer: timed out"} if what == "silent" else {}
    decision = decide(Ledger(), seen(world, {"n1": EVACUATE}, doubts), POLICY, NOW)
    assert [getattr(a, "instance", None) for a in new(decision)] == ["c"]
    held = kinds(decision.held)
    assert held[held.index((Kind.MIRROR_CANNOT_MOVE, "b")) + 1][1] == "n3"
    assert SetOffline("n1") not in new(decision)


def test_a_node_is_not_taken_offline_while_another_repair_moves_what_runs_there() -> None:
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.cluster.takes = lambda action: 100.0 if isinstance(action, MoveSecondary) else 1.0
    rig.agents.says |= {"n3": EVACUATE, "n4": EVACUATE}
    for _ in range(6):
        done = rig.tick()
    assert (Kind.MOVED_BY_OTHERS, "i1") in kinds(h for h in done.decision.held if h.node == "n3")
    rig.settle()
    assert rig.cluster.nodes["n3"].offline
    assert "n3" not in (rig.cluster.instances["i1"].primary, rig.cluster.instances["i1"].secondary)
    order = [type(job.action) for job in rig.cluster.jobs.values()]
    assert order.index(MovePrimary) < order.index(SetOffline)


def test_what_was_put_back_is_not_drained_for_something_milder_either() -> None:
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.cluster.put(Instance("p1", "n3", template="plain"))
    rig.agents.says["n3"] = FAILOVER
    for _ in range(10):
        rig.tick()
    rig.cluster.undrain("n3")
    rig.agents.says["n3"] = EVACUATE
    for _ in range(30):
        done = rig.tick(60.0)
    assert not rig.cluster.nodes["n3"].drained
    assert {held.why for held in done.decision.held} == {because(Kind.PUT_BACK_BY_OTHERS, "n3")}
