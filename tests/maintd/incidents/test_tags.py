"""An incident's tags: set, refused, removed by somebody, spelled otherwise."""

import pytest

from nodeagent.model.action import MovePrimary, Retag, Scope
from nodeagent.model.incident import Status
from nodeagent.model.wish import Pause
from tests.maintd.rig import Rig, fleet
from tests.maintd.rounds import broken, ticks


def test_tags_that_are_refused_are_not_set_again_each_round() -> None:
    rig = Rig(fleet())
    rig.cluster.tag("n3", "maintd:canceled:x")
    rig.cluster.fails = lambda action: isinstance(action, Retag)
    rig.wish(Pause(Scope.CLUSTER, ""))
    ticks(rig, 60, 60.0)
    assert 2 * 8 < len(rig.cluster.jobs) < 2 * 15
    rig.cluster.fails = lambda _: False
    ticks(rig, 8, 60.0)
    assert rig.cluster.world.tags == {"maintd:pause:yes"}
    assert not rig.cluster.nodes["n3"].tags


def tagged_failed() -> Rig:
    """A repair has failed, and its tag was set a moment ago."""
    rig = broken()
    rig.cluster.fails = lambda action: isinstance(action, MovePrimary)
    while not any("repairfailed" in tag for tag in rig.cluster.nodes["n3"].tags):
        rig.tick()
        rig.time += 3
        rig.cluster.snapshot()
    return rig


@pytest.mark.parametrize("lost", [False, True], ids=["", "the ledger lost"])
@pytest.mark.parametrize("mended", [True, False])
def test_a_failed_tag_that_is_removed_at_once_is_not_set_again(mended: bool, lost: bool) -> None:
    rig = tagged_failed()
    failed = rig.incident("n3")
    assert not failed.tag_seen
    rig.cluster.untag("n3", failed.tag)
    if lost:
        rig.lose_ledger()
    if mended:
        rig.cluster.fails = lambda _: False
    rig.settle()
    told = [job for job in rig.cluster.jobs.values() if failed.tag in str(job.action)]
    assert len(told) == 1
    assert rig.incident("n3").id != failed.id, "removing it has begun all anew"
    assert rig.status("n3") is (Status.COMPLETED if mended else Status.FAILED)
