"""What a job has changed just as the master changed is overwritten, though the job says success."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from nodeagent.errors import Unavailable
from nodeagent.maintd.ledger.lost_tags import lost, missing
from nodeagent.model.action import MovePrimary, Retag, Scope, TagPlace
from nodeagent.model.incident import Status
from nodeagent.model.ledger import PAUSE_TAG, STORM_TAG, USED_TAG, Outcome, Removal, Result, Trail
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Group, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.wish import Cancel, Pause, Resume
from tests.maintd.decided import details, kinds
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.rounds import broken, moved, ticks
from tests.maintd.world import EVACUATE, OK, REPAIR, node, snapshot

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


def test_what_was_canceled_is_told_to_be() -> None:
    rig = broken()
    ticks(rig, 1)
    identity = rig.incident("n3").id
    rig.wish(Cancel(identity))
    was = before(rig, lambda: tagged(rig, "canceled"))
    jobs = len(rig.cluster.jobs)
    change_master(rig, was, ledger=False)
    ticks(rig, 60)
    assert rig.cluster.nodes["n3"].tags == {f"maintd:canceled:{identity}"}
    assert len(rig.cluster.jobs) == jobs + 1


@both
def test_a_pause_whose_tag_is_lost_holds_and_is_told_again(ledger: bool) -> None:
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.wish(Pause(Scope.CLUSTER, "", "the master is about to change"))
    was = before(rig, lambda: PAUSE_TAG in rig.cluster.world.tags)
    change_master(rig, was, ledger=ledger)
    rig.agents.says["n3"] = EVACUATE
    done = ticks(rig, 30)
    assert not moved(rig)
    assert kinds(done.decision.held)[0][0] is Kind.PAUSED
    assert rig.cluster.world.tags == {PAUSE_TAG}
    rig.wish(Resume(Scope.CLUSTER, ""))
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED
    rig.lose_ledger()
    rig.settle()
    assert not rig.ledger.holds, "what was resumed is not paused again"


def test_a_pause_of_an_incident_whose_tag_is_lost_holds() -> None:
    rig = broken(settle=60_000)
    held = rig.incident("n3").id
    rig.wish(Pause(Scope.NODE, "", "technician at work", held))
    was = before(rig, lambda: tagged(rig, "hold"))
    change_master(rig, was, ledger=False)
    ticks(rig, 60)
    assert not moved(rig)
    assert rig.cluster.nodes["n3"].tags == {f"maintd:hold:{held}"}
    rig.wish(Resume(Scope.NODE, "", held))
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED


def test_a_live_repair_whose_ready_tag_is_lost_is_not_run_again() -> None:
    rig = Rig(fleet(), [], QUICK)
    rig.agents.says["n3"] = REPAIR
    was = before(rig, lambda: tagged(rig, "repairready"))
    asked = dict(rig.agents.asked)
    rig.agents.ran.clear()  # the agent has forgotten it
    change_master(rig, was, ledger=False)
    ticks(rig, 60)
    assert rig.agents.asked == asked
    assert (rig.status("n3"), tagged(rig, "repairready")) == (Status.COMPLETED, True)


def test_an_old_answer_is_no_loss() -> None:
    rig = broken()
    was = before(rig, lambda: tagged(rig, "repairready"))
    done, jobs = rig.incident("n3").id, len(rig.cluster.jobs)
    fresh, shows = rig.cluster.snapshot, rig.time + 40
    rig.cluster.snapshot = lambda: fresh() if rig.time > shows else was  # type: ignore[method-assign]
    begin_anew(rig, ledger=False)
    ticks(rig, 30)
    assert (rig.incident("n3").id, rig.status("n3")) == (done, Status.COMPLETED)
    assert len(rig.cluster.jobs) == jobs


def test_what_was_lost_once_is_not_believed_for_weeks() -> None:
    """The fault went away, so nothing was tagged anew; days later the master changes again."""
    rig = broken()
    ticks(rig, 1)
    rig.wish(Cancel(rig.incident("n3").id))
    was = before(rig, lambda: tagged(rig, "canceled"))
    rig.agents.says["n3"] = OK
    rig.cluster.set_master("n1", was)
    rig.cluster.undrain("n3")
    ticks(rig, 30)
    assert not rig.ledger.incidents
    rig.time += 7 * 86_400
    rig.agents.says["n3"] = EVACUATE
    rig.lose_ledger()
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED


# What is missing, and what of that is lost.


def test_a_storm_brake_whose_tag_is_lost_brakes() -> None:
    rig = Rig(fleet(8), mirrored(("n3", "n4")), replace(QUICK, storm=0.2))
    rig.agents.says.update(dict.fromkeys(("n3", "n4", "n5"), EVACUATE))
    was = before(rig, lambda: STORM_TAG in rig.cluster.world.tags)
    rig.agents.says.update(dict.fromkeys(("n4", "n5"), OK))
    change_master(rig, was, ledger=False)
    done = ticks(rig, 20)
    why = details(done.decision.held[:1], Kind.STORM)["why"]
    assert "its tag was lost as the master changed" in str(why)
    assert rig.cluster.world.tags == {STORM_TAG}
    assert not moved(rig)


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


@pytest.mark.parametrize(
    "removals",
    [
        [off(6, READY)],
        [off(6, "theirs", READY)],
        [off(6, READY, name="n1")],
        [off(6, READY, name="N1")],
        [off(6)],
        [off(6, name="n1")],
        [off(3, "theirs"), off(5, READY)],
    ],
)
def test_what_somebody_took_off_is_not_lost(removals: list[Removal]) -> None:
    assert not lost({PLACE: SET}, removals, NODE)


@pytest.mark.parametrize(
    "removals",
    [
        [],
        [off(4, READY)],
        [off(6, "theirs")],
        [off(6, READY, name="n10")],
        [off(6, READY, name="n")],
        [Removal("6", Scope.GROUP, "n1.example", frozenset([READY]))],
        [Removal("6", Scope.CLUSTER, "", frozenset([READY]))],
    ],
)
def test_what_nobody_took_off_is_lost(removals: list[Removal]) -> None:
    assert lost({PLACE: SET}, removals, NODE) == {PLACE: SET}


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
