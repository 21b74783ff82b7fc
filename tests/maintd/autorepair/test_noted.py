"""The tag of a pending repair names its job while that runs, as harep's does."""

from dataclasses import replace

from nodeagent.model.action import Guarded
from tests.maintd.rig import QUICK, Rig, fleet, mirrored

PENDING = "ganeti:watcher:autorepair:pending:failover:"


def test_the_round_after_a_submission_writes_the_number_into_the_tag() -> None:
    """harep would judge a pending repair without jobs by all jobs in the queue."""
    rig = Rig(fleet(), mirrored(("n3", "n4")), replace(QUICK, autorepair="safe"))
    rig.cluster.world.tags = frozenset({"ganeti:watcher:autorepair:failover"})
    rig.cluster.takes = lambda action: 15.0 if isinstance(action, Guarded) else 1.0
    rig.tick()
    rig.agents.says["n3"] = None
    rig.cluster.power_off("n3")
    rig.cluster.put(replace(rig.cluster.nodes["n3"], offline=True))
    while not rig.cluster.jobs:
        rig.tick(3)
    (number,) = rig.cluster.jobs
    (tag,) = rig.cluster.instances["i1"].tags
    assert tag.startswith(PENDING)
    assert tag.endswith(":")
    rig.tick(3)
    rig.tick(3)
    (tag,) = rig.cluster.instances["i1"].tags
    assert tag.startswith(PENDING)
    assert tag.endswith(f":{number}")
    assert rig.cluster.instances["i1"].primary == "n3", "it has not begun to move"
    rig.tick(30)
    assert rig.cluster.instances["i1"].primary == "n4"
