"""A node marked offline whose agent answers: nothing is failed over until a person has decided."""

from dataclasses import replace

from nodeagent.maintd.autorepair.offline import STOPPED
from nodeagent.model.reason import Kind
from tests.maintd.decided import kinds
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.rounds import ticks


def marked_offline() -> Rig:
    """n3 has an instance, and somebody has marked it offline; repairs by failover are allowed."""
    rig = Rig(fleet(), mirrored(("n3", "n4"), ("n4", "n3")), replace(QUICK, autorepair="safe"))
    rig.cluster.world.tags = frozenset({"ganeti:watcher:autorepair:failover"})
    ticks(rig, 3)
    node = rig.cluster.nodes["n3"]
    rig.cluster.put(replace(node, offline=True))
    return rig


def test_an_agent_that_answers_holds_all_repairs_of_its_node() -> None:
    rig = marked_offline()
    for _ in range(30):
        done = rig.tick()
        assert (Kind.OFFLINE_ANSWERS, "n3") in kinds(done.decision.held)
    assert not rig.cluster.jobs
    rig.agents.says["n3"] = None
    ticks(rig, 10)
    assert rig.cluster.instances["i1"].primary == "n4", "it has died since"


def test_a_person_confirms_it_by_a_tag() -> None:
    rig = marked_offline()
    ticks(rig, 3)
    rig.cluster.tag("n3", STOPPED)
    done = ticks(rig, 10)
    assert rig.cluster.instances["i1"].primary == "n4"
    assert Kind.OFFLINE_ANSWERS not in {kind for kind, _ in kinds(done.decision.held)}
