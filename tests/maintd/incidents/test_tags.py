"""An incident's tags: set, refused, removed by somebody, spelled otherwise."""

from dataclasses import replace

import pytest

from nodeagent.maintd.incidents.lifecycle import withdraw
from nodeagent.model.action import MovePrimary, Retag, Scope
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Hold, Policy
from nodeagent.model.wish import Pause
from tests.maintd.rig import Rig, fleet
from tests.maintd.rounds import broken, ticks
from tests.maintd.world import NOW, incident, ledger, need, seen, six


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


def test_a_hold_that_passes_on_ends_no_pause_of_a_group_with_the_name_of_a_node() -> None:
    fault, other = need("evacuate", command="disk"), need("evacuate", command="fan")
    old, heir = incident("n1", fault, Status.CANCELED), incident("n1", other)
    hold = Hold(Scope.NODE, "n1", "root", NOW, incident=old.id)
    paused = (Hold(Scope.NODE, "n3", "root", NOW), Hold(Scope.GROUP, "n3", "root", NOW))
    before = ledger(old, heir, holds=(hold, *paused))
    after = withdraw(before, seen(six(), {"n1": other}), Policy(), NOW)
    assert after.holds == (replace(hold, incident=heir.id), *paused)
