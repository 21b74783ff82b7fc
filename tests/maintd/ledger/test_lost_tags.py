"""What a job has changed just as the master changed is overwritten, though the job says success."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from nodeagent.errors import Unavailable
from nodeagent.maintd.ledger import lost_tags
from nodeagent.maintd.ledger.lost_tags import lost, missing
from nodeagent.model.action import Drain, MovePrimary, Retag, Scope, TagPlace
from nodeagent.model.incident import Status
from nodeagent.model.ledger import (
    HOLD_TAG,
    PAUSE_TAG,
    STORM_TAG,
    USED_TAG,
    Hold,
    Intent,
    Ledger,
    Outcome,
    Removal,
    Result,
    Trail,
)
from nodeagent.model.purpose import OfTags
from nodeagent.model.snapshot import Group, Snapshot
from nodeagent.model.units import Ms
from tests.maintd.rig import Rig
from tests.maintd.rounds import broken, ticks
from tests.maintd.world import NOW, REPAIR, incident, node, snapshot

NODE = snapshot(node("n1.example"))
READY = "maintd:repairready:x"


def before(rig: Rig, happens: Callable[[], bool]) -> Snapshot:
    """Hold rounds until it happens; the configuration as it was a round before."""
    for _ in range(60):
        was = rig.cluster.snapshot()
        rig.tick(3)
        rig.cluster.snapshot()
        if happens():
            return was
    raise AssertionError("it never happens")


def change_master(rig: Rig, overwritten: Snapshot, *, ledger: bool) -> None:
    """The master changes to a node with that configuration, and perhaps comes back."""
    rig.cluster.set_master("n1", overwritten)
    begin_anew(rig, ledger=ledger)


def begin_anew(rig: Rig, *, ledger: bool) -> None:
    """Nothing is decided while what is seen may be old."""
    if ledger:
        rig.crash()
    else:
        rig.lose_ledger()
    with pytest.raises(
        Unavailable, match=r"the effect of job \d+ is not visible in the" r" cluster yet"
    ):
        rig.round()
    for _ in range(12):
        rig.tick_quietly(5)


def tagged(rig: Rig, kind: str) -> bool:
    return any(tag.startswith(f"maintd:{kind}:") for tag in rig.cluster.nodes["n3"].tags)


both = pytest.mark.parametrize("ledger", [True, False], ids=["and comes back", "for good"])


@both
def test_a_failure_whose_tag_is_lost_is_told_again_and_not_tried_again(ledger: bool) -> None:
    rig = broken()
    rig.cluster.fails = lambda action: isinstance(action, MovePrimary)
    was = before(rig, lambda: tagged(rig, "repairfailed"))
    failed = rig.incident("n3")
    change_master(rig, was, ledger=ledger)
    assert not tagged(rig, "repairfailed")
    rig.cluster.fails = lambda _: False
    ticks(rig, 60)
    assert rig.cluster.nodes["n3"].tags == {failed.tag}
    assert (rig.incident("n3").id, rig.status("n3")) == (failed.id, Status.FAILED)
    moves = [j for j in rig.cluster.jobs.values() if isinstance(j.action, MovePrimary)]
    assert len(moves) == 1
    rig.cluster.untag("n3", failed.tag)
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED, "and its removal is heeded as ever"


# What is missing, and what of that is lost.


def job(number: int, add: tuple[str, ...], remove: tuple[str, ...] = ()) -> Trail:
    action = Retag(Scope.NODE, "n1.example", add, remove)
    return Trail(str(number), f"maintd:{number}", action, Result(Outcome.SUCCESS), Ms(0), Ms(1))


def off(number: int, *tags: str, name: str = "n1.example") -> Removal:
    return Removal(str(number), Scope.NODE, name, frozenset(tags) if tags else None)


PLACE = TagPlace(Scope.NODE, "n1.example", READY)
SET = job(5, (READY,))


def test_only_what_we_have_set_lately_and_not_taken_off_is_missing() -> None:
    assert missing([SET], NODE, Ms(2)) == {PLACE: SET}
    assert missing([SET], NODE, Ms(3_600_000)) == {PLACE: SET}
    assert not missing([SET], NODE, Ms(3_600_001))
    assert not missing([SET, job(6, (), (READY,))], NODE, Ms(2))
    assert missing([job(5, (), (READY,)), job(6, (READY,))], NODE, Ms(2)) == {
        PLACE: job(6, (READY,))
    }
    assert not missing([job(5, ("maintd:repairing:x", "theirs"))], NODE, Ms(2))
    assert not missing([replace(SET, result=Result(Outcome.ERROR, "told so"))], NODE, Ms(2))
    assert not missing([SET], snapshot(node("n2")), Ms(2))
    there = snapshot(node("n1.example", tags=frozenset([READY])))
    assert not missing([SET], there, Ms(2))


TAKEN_OFF = [
    [off(6, READY)],
    [off(6, "theirs", READY)],
    [off(6, READY, name="n1")],
    [off(6, READY, name="N1")],
    [off(6)],
    [off(6, name="n1")],
    [off(3, "theirs"), off(5, READY)],
]
LOST = [
    [],
    [off(4, READY)],
    [off(6, "theirs")],
    [off(6, READY, name="n10")],
    [off(6, READY, name="n")],
    [Removal("6", Scope.GROUP, "n1.example", frozenset([READY]))],
    [Removal("6", Scope.CLUSTER, "", frozenset([READY]))],
]


def test_what_somebody_took_off_is_not_lost_and_what_nobody_did_is() -> None:
    for removals in TAKEN_OFF:
        assert not lost({PLACE: SET}, removals, NODE), removals
    for removals in LOST:
        assert lost({PLACE: SET}, removals, NODE) == {PLACE: SET}, removals


def test_a_whole_name_is_short_for_no_other() -> None:
    two = snapshot(node("n1.example"), node("n1"))
    assert lost({PLACE: SET}, [off(6, READY, name="n1")], two)
    assert not lost(
        {PLACE: SET}, [off(6, READY, name="n1.ex"), off(7, READY, name="N1.Example")], two
    )


def test_of_the_cluster_and_of_groups() -> None:
    place = TagPlace(Scope.CLUSTER, "", USED_TAG)
    gone = Removal("6", Scope.CLUSTER, "", frozenset([USED_TAG]))
    assert not lost({place: SET}, [gone], NODE)
    assert lost({place: SET}, [replace(gone, tags=frozenset([PAUSE_TAG]))], NODE)
    assert lost({place: SET}, [off(6, USED_TAG)], NODE)
    place = TagPlace(Scope.GROUP, "racks", PAUSE_TAG)
    racks = replace(NODE, groups={"the-uuid": Group("the-uuid", "racks")})
    gone = Removal("6", Scope.GROUP, "the-uuid", frozenset([PAUSE_TAG]))
    assert not lost({place: SET}, [gone], racks)
    assert lost({place: SET}, [replace(gone, name="another")], racks)
    assert not lost({place: SET}, [replace(gone, name="racks", tags=None)], racks)
    dotted = replace(NODE, groups={"the-uuid": Group("the-uuid", "racks.a")})
    place = TagPlace(Scope.GROUP, "racks.a", PAUSE_TAG)
    assert lost({place: SET}, [replace(gone, name="racks")], dotted), "Ganeti wants it whole"


# What becomes of what has lost its tag.


def test_an_incident_without_its_tag_is_told_again_and_what_was_ready_is_looked_at_again() -> None:
    for status in Status:
        old = incident(status=status, tag_seen=True)
        assert lost_tags.incident(old, (), {old.mark}, NOW) == old
        after = lost_tags.incident(old, {old.tag}, (), Ms(NOW + 1))
        if old.status.active:
            assert after == old
        elif status is not Status.COMPLETED:
            assert after == replace(old, tag_seen=False)
        else:
            assert (after.status, after.tag_seen) == (Status.PENDING, False)
            assert (after.changed_at, after.repaired) == (NOW + 1, False)


def test_a_live_repair_that_its_mark_proves_is_not_run_again() -> None:
    old = incident(diagnosis=REPAIR, status=Status.COMPLETED)
    assert lost_tags.incident(old, {old.tag}, {old.mark}, NOW).repaired
    assert lost_tags.incident(replace(old, repaired=True), {old.tag}, (), NOW).repaired


def test_a_job_that_sets_a_lost_tag_is_not_waited_for() -> None:
    intent = Intent("1", OfTags(), "n1", Retag(Scope.NODE, "n1.example", (READY,)))
    assert lost_tags.is_waited_for(intent, {PLACE})
    assert not lost_tags.is_waited_for(intent, {TagPlace(Scope.NODE, "n2", READY)})
    assert not lost_tags.is_waited_for(replace(intent, action=Drain("n1")), {PLACE})


def test_a_pause_without_its_tag_holds() -> None:
    active, ended = incident("n1"), incident("n2", status=Status.FAILED)
    tags = [("n1", HOLD_TAG + active.id), ("n2", HOLD_TAG + ended.id), ("n3", PAUSE_TAG)]
    tags += [("n4", PAUSE_TAG), ("n5", READY)]
    places = {TagPlace(Scope.NODE, name, tag) for name, tag in tags}
    asked = Hold(Scope.NODE, "n3", "ada", Ms(5), "disks", tag_seen=True)
    resumed = Hold(Scope.NODE, "n4", "ada", Ms(5))
    there = Ledger(incidents=(active, ended), holds=(asked,), resumed=(resumed,))
    kept, other = lost_tags.holds(there, places, NOW)
    assert kept == replace(asked, tag_seen=False)
    assert (other.name, other.who, other.incident) == ("n1", "somebody", active.id)


def test_a_storm_brake_without_its_tag_brakes() -> None:
    assert lost_tags.storm({PLACE}, NOW) is None
    found = lost_tags.storm({PLACE, TagPlace(Scope.CLUSTER, "", STORM_TAG)}, NOW)
    assert found is not None
    assert found.at == NOW
    assert "its tag was lost as the master changed" in found.why
