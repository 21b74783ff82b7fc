"""An incident's tags: set, refused, removed by somebody, spelled otherwise."""

from dataclasses import replace

import pytest

from nodeagent.model.action import MovePrimary, Retag, Scope
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Outcome
from nodeagent.model.snapshot import Instance
from nodeagent.model.wish import Pause
from tests.maintd.rig import Rig, fleet
from tests.maintd.rounds import broken, ticks
from tests.maintd.world import FAILOVER, REPAIR


def test_a_tag_on_another_node_ends_no_incident() -> None:
    rig = broken(settle=60_000)
    rig.cluster.tag("n5", f"maintd:repairready:{rig.incident('n3').id}")
    rig.crash()
    rig.settle()
    assert rig.cluster.nodes["n3"].offline


@pytest.mark.parametrize(
    "odd", ["01A1EE56851080D4929C8B546094CCDD", "{01a1ee56-8510-80d4-929c-8b546094ccdd}"]
)
def test_a_tag_that_is_spelled_otherwise_is_none_of_ours(odd: str) -> None:
    rig = Rig(fleet())
    rig.cluster.tag("n3", f"maintd:repairfailed:{odd}", f"maintd:hold:{odd}")
    rig.tick()
    assert not rig.ledger.incidents


def test_what_is_repaired_is_tagged_beside_something_worse_that_waits() -> None:
    rig = Rig(fleet(), [Instance("p1", "n3", template="plain")])
    rig.agents.says["n3"] = REPAIR
    rig.agents.takes = 35_000
    ticks(rig, 2)
    rig.agents.says["n3"] = FAILOVER
    ticks(rig, 30)
    assert [(i.diagnosis, i.status) for i in rig.ledger.incidents] == [
        (REPAIR, Status.COMPLETED),
        (FAILOVER, Status.PENDING),
    ]


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


def test_a_tag_that_somebody_removes_in_the_same_moment_delays_no_other() -> None:
    """The job fails, for the tag is gone; before, all such tags then stayed for five minutes."""
    rig = Rig(fleet())
    rig.cluster.takes = lambda _: 10.0
    rig.cluster.tag("n3", "maintd:canceled:x")
    rig.tick()
    rig.cluster.untag("n3", "maintd:canceled:x")
    ticks(rig, 3, 10.0)
    (job,) = rig.cluster.jobs.values()
    assert job.outcome is Outcome.ERROR
    rig.cluster.tag("n4", "maintd:canceled:y")
    ticks(rig, 3, 10.0)
    assert not rig.cluster.nodes["n4"].tags


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


def test_a_failed_tag_that_does_not_show_yet_was_not_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = tagged_failed()
    failed, fresh = rig.incident("n3"), rig.cluster.snapshot
    shows_at = rig.time + 55
    before = fresh()
    old = replace(before, nodes={n: replace(o, tags=frozenset()) for n, o in before.nodes.items()})
    monkeypatch.setattr(rig.cluster, "snapshot", lambda: fresh() if rig.time > shows_at else old)
    ticks(rig, 30, 5.0)
    assert rig.incident("n3").id == failed.id
    assert rig.incident("n3").tag_seen
    assert rig.cluster.nodes["n3"].tags == {failed.tag}
