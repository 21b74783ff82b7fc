"""Holds: what is paused stays so, whoever is the master and whatever is lost."""

import pytest

from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model.action import Retag, Scope
from nodeagent.model.incident import Status
from nodeagent.model.reason import Kind
from nodeagent.model.units import Ms
from nodeagent.model.wish import Pause, Resume
from tests.maintd.decided import details
from tests.maintd.rig import Rig, fleet
from tests.maintd.rounds import broken, moved, ticks
from tests.maintd.windows.rounds import rig, until_calm


def in_an_hour(rig: Rig) -> Ms:
    return Ms(rig.now() + 3_600_000)


@pytest.mark.parametrize(("scope", "name"), [(Scope.CLUSTER, ""), (Scope.NODE, "n3")])
@pytest.mark.parametrize("crashes", [False, True])
def test_a_pause_ends_by_itself_and_its_tag_goes(scope: Scope, name: str, crashes: bool) -> None:
    rig = broken()
    until = in_an_hour(rig)
    rig.wish(Pause(scope, name, "a drill", until=until))
    done = ticks(rig, 5)
    said = details(done.decision.held, Kind.PAUSED, name)
    assert (said["who"], said["until"], said["why"]) == ("root", rfc3339(until), "a drill")
    assert {held.why.kind for held in done.decision.held} == {Kind.PAUSED}
    rig.time += 3540  # a minute is left
    if crashes:
        rig.crash()
    rig.tick(0)
    assert rig.ledger.holds
    assert not moved(rig)
    rig.time += 60
    if crashes:
        rig.crash()
    done = rig.tick(0)
    assert {held.why.kind for held in done.decision.held} == {Kind.PAUSE_ENDED}
    until_calm(rig)
    assert not rig.ledger.holds
    assert not rig.ledger.resumed
    assert "maintd:pause:yes" not in rig.cluster.snapshot().tags
    assert "maintd:pause:yes" not in rig.cluster.nodes["n3"].tags
    assert rig.status("n3") is Status.COMPLETED


def test_a_pause_that_would_be_over_is_refused() -> None:
    rig = Rig(fleet())
    rig.wish(Pause(Scope.CLUSTER, "", until=Ms(rig.now() - 1)))
    (why,) = rig.tick().decision.refused.values()
    assert why.startswith("the pause would have ended at 2026-11-18T")
    assert not rig.ledger.holds


def test_a_pause_by_hand_is_taken_over_only_by_force() -> None:
    rig = Rig(fleet())
    rig.cluster.tag("n3", "maintd:pause:yes")
    rig.tick()
    rig.wish(Pause(Scope.NODE, "n3"))
    (why,) = rig.tick().decision.refused.values()
    assert why == (
        "node n3 is paused already by its tag maintd:pause:yes: insist with gnt-maint pause --force"
    )
    assert not rig.ledger.holds
    rig.wish(Pause(Scope.NODE, "n3", "mine now", force=True))
    ticks(rig, 3)
    assert [(h.name, h.why, h.tag_seen) for h in rig.ledger.holds] == [("n3", "mine now", True)]


@pytest.mark.parametrize("pauses_again", [False, True])
def test_a_pause_taken_back_while_its_tag_is_being_set_leaves_none(pauses_again: bool) -> None:
    one = rig()
    one.cluster.takes = lambda action: 100 if isinstance(action, Retag) else 1
    one.wish(Pause(Scope.CLUSTER, ""))
    one.tick()
    one.wish(Resume(Scope.CLUSTER, ""))
    one.tick()
    one.crash()
    if pauses_again:
        one.wish(Pause(Scope.CLUSTER, ""))
    until_calm(one)
    assert (one.cluster.snapshot().tags == {"maintd:pause:yes"}) is pauses_again
    assert one.ledger.resumed == ()
