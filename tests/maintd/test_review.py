"""What a review has found: each test is named for what must not happen again."""

from dataclasses import replace

import pytest

from nodeagent.maintd.engine.round import Round
from nodeagent.model.action import MovePrimary, Retag, Scope, SetOffline, describe
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Outcome
from nodeagent.model.snapshot import Instance
from nodeagent.model.wish import Cancel, Pause, ResetStorm, Resume
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, FAILOVER, OK, REPAIR, need

REWORDED = need("evacuate", details="51 C")


def broken(settle: int = 0) -> Rig:
    """n3 has just said that it is to be emptied."""
    rig = Rig(fleet(), mirrored(("n3", "n4")), replace(QUICK, settle=settle))
    rig.agents.says["n3"] = EVACUATE
    rig.tick()
    return rig


def ticks(rig: Rig, rounds: int, seconds: float = 10.0) -> Round:
    for _ in range(rounds):
        done = rig.tick(seconds)
    return done


def holds(rig: Rig) -> set[str]:
    tags = rig.cluster.nodes["n3"].tags
    return {tag.removeprefix("maintd:hold:") for tag in tags if tag.startswith("maintd:hold:")}


def moved(rig: Rig) -> bool:
    jobs = rig.cluster.jobs.values()
    return any(isinstance(job.action, MovePrimary | SetOffline) for job in jobs)


# Holds.


def test_a_hold_on_a_noted_incident_outlives_the_ledger() -> None:
    rig = broken(settle=60_000)
    held = rig.incident("n3").id
    rig.wish(Pause(Scope.NODE, "", "technician at work", held))
    ticks(rig, 20)
    rig.lose_ledger()
    ticks(rig, 30)
    assert (rig.incident("n3").id, rig.status("n3")) == (held, Status.NOTED)
    assert holds(rig) == {held}
    assert not moved(rig)
    rig.wish(Resume(Scope.NODE, "", held))
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED
    assert not holds(rig)


def test_a_hold_of_what_another_master_has_noted_earlier_holds_ours() -> None:
    rig = broken(settle=600_000)
    earlier = rig.incident("n3").id
    rig.wish(Pause(Scope.NODE, "", "", earlier))
    ticks(rig, 10)
    rig.lose_ledger()
    rig.cluster.untag("n3", f"maintd:hold:{earlier}")
    ticks(rig, 2)
    ours = rig.incident("n3").id
    assert ours != earlier
    rig.wish(Pause(Scope.NODE, "", "", ours))
    rig.round()
    rig.cluster.tag("n3", f"maintd:hold:{earlier}")
    rig.crash()
    ticks(rig, 100)
    assert [i.id for i in rig.ledger.incidents if i.name == "n3"] == [earlier]
    assert [h.incident for h in rig.ledger.holds] == [earlier]
    assert holds(rig) == {earlier}


def test_the_tag_of_a_hold_stays_while_the_node_does_not_say_that_it_is_well() -> None:
    rig = broken(settle=600_000)
    held = rig.incident("n3").id
    rig.wish(Pause(Scope.NODE, "", "", held))
    ticks(rig, 10)
    rig.agents.says["n3"] = None
    rig.lose_ledger()
    ticks(rig, 10)
    assert holds(rig) == {held}
    rig.agents.says["n3"] = OK
    rig.settle()
    assert not holds(rig)
    assert not rig.ledger.holds


def test_the_heir_of_an_incident_inherits_its_hold() -> None:
    rig = broken()
    rig.wish(Pause(Scope.NODE, "", "technician at work", rig.incident("n3").id))
    ticks(rig, 10)
    rig.agents.says["n3"] = REWORDED
    done = ticks(rig, 20)
    heir = rig.incident("n3")
    assert heir.diagnosis == REWORDED
    assert holds(rig) == {heir.id}
    assert [h.reason for h in done.decision.held] == ["incident paused by root: technician at work"]
    assert not moved(rig)
    rig.wish(Resume(Scope.NODE, "", heir.id))
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED


def test_a_hold_by_hand_on_what_was_only_noted_is_inherited_too() -> None:
    rig = broken(settle=60_000)
    rig.cluster.tag("n3", f"maintd:hold:{rig.incident('n3').id}")
    ticks(rig, 2)
    rig.agents.says["n3"] = REWORDED
    ticks(rig, 20)
    assert rig.incident("n3").diagnosis == REWORDED
    assert holds(rig) == {rig.incident("n3").id}
    assert not moved(rig)
    swaps = [job for job in rig.jobs() if "remove=('maintd:hold" in job]
    assert len(swaps) == 1
    assert "add=('maintd:hold" in swaps[0], "one job: at no time is it without a hold"


# What a maintd without memory takes up.


def mend(rig: Rig) -> None:
    """An administrator repairs n3, acknowledges it and puts it back into service."""
    rig.cluster.untag("n3", *rig.cluster.nodes["n3"].tags)
    rig.cluster.undrain("n3")
    rig.agents.says["n3"] = OK
    rig.settle()


def test_what_was_completed_and_acknowledged_answers_for_no_new_fault() -> None:
    rig = broken()
    rig.settle()
    mend(rig)
    assert not rig.ledger.incidents
    rig.time += 3 * 86_400
    rig.agents.says["n3"] = EVACUATE
    rig.cluster.put(Instance("i9", "n3", "n4", memory=100, disk=100))
    rig.lose_ledger()
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED
    assert rig.cluster.nodes["n3"].offline
    assert "n3" not in (rig.cluster.instances["i9"].primary, rig.cluster.instances["i9"].secondary)


def test_what_is_completed_and_tagged_is_not_begun_anew_without_the_ledger() -> None:
    rig = broken()
    rig.settle()
    done, jobs = rig.incident("n3").id, len(rig.cluster.jobs)
    rig.lose_ledger()
    rig.settle()
    assert (rig.incident("n3").id, rig.status("n3")) == (done, Status.COMPLETED)
    assert len(rig.cluster.jobs) == jobs


def lose_jobs(rig: Rig) -> None:
    """The queue is lost, with all that was in it and how it would have ended."""
    for kept in (rig.cluster.jobs, rig.cluster._active, rig.cluster._reasons):
        kept.clear()


def test_a_pause_whose_job_is_lost_is_told_again() -> None:
    rig = Rig(fleet())
    rig.cluster.takes = lambda _: 1000.0
    rig.wish(Pause(Scope.CLUSTER, ""))
    rig.tick()
    lose_jobs(rig)
    rig.cluster.takes = lambda _: 1.0
    done = ticks(rig, 5)
    assert "maintd:pause:yes" in rig.cluster.world.tags
    assert not rig.ledger.intents
    assert not done.decision.held


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


def test_a_cancel_by_hand_is_honoured_in_the_next_round() -> None:
    rig = broken(settle=60_000)
    identity = rig.incident("n3").id
    rig.cluster.tag("n3", f"maintd:canceled:{identity}")
    ticks(rig, 20)
    assert rig.status("n3") is Status.CANCELED
    assert not moved(rig)
    assert rig.cluster.nodes["n3"].tags == {f"maintd:canceled:{identity}"}


def test_a_tripped_storm_brake_outlives_the_ledger() -> None:
    rig = Rig(fleet(8), mirrored(("n3", "n4")), replace(QUICK, storm=0.2))
    rig.agents.says.update(dict.fromkeys(("n3", "n4", "n5"), EVACUATE))
    ticks(rig, 3)
    rig.agents.says.update(dict.fromkeys(("n4", "n5"), OK))
    ticks(rig, 10)
    rig.lose_ledger()
    done = ticks(rig, 10)
    assert "storm brake: cluster tag maintd:brake:tripped" in done.decision.held[0].reason
    assert not rig.cluster.nodes["n3"].drained
    rig.wish(ResetStorm())
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED
    assert not rig.cluster.world.tags


def test_a_node_cools_down_without_the_ledger_too() -> None:
    rig = Rig(fleet(), [], replace(QUICK, cooldown=3_600_000))
    rig.agents.says["n3"] = REPAIR
    ticks(rig, 20)
    rig.cluster.untag("n3", *rig.cluster.nodes["n3"].tags)
    rig.agents.says["n3"] = OK
    rig.time += 200
    ticks(rig, 3)
    rig.lose_ledger()
    rig.tick()
    rig.agents.says["n3"] = need("live-repair", command="other")
    done = ticks(rig, 20)
    assert len(rig.agents.ran) == 1
    assert "cooling down" in done.decision.held[0].reason
    rig.settle(500)
    ticks(rig, 360)
    assert len(rig.agents.ran) == 2


# Waiting with a reason, and not too long.


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


def test_a_clock_put_back_makes_no_wait_for_an_effect_longer() -> None:
    rig = broken()
    rig.skew = 7 * 86_400
    rig.time += 1.5
    rig.cluster.snapshot()
    rig.cluster.undrain("n3")
    rig.round()
    rig.skew = 0
    done = ticks(rig, 30)
    assert not rig.ledger.intents
    assert "somebody has put n3 back into service" in done.decision.held[0].reason


def test_a_clock_put_forward_for_a_round_gives_up_nothing() -> None:
    rig = broken()
    rig.cluster.put(Instance("p", "n3", template="plain"))
    ticks(rig, 10)
    rig.agents.says["n3"], rig.skew = OK, 3600
    rig.tick(1)
    rig.agents.says["n3"], rig.skew = EVACUATE, 0
    rig.tick()
    assert rig.status("n3") is Status.PENDING
    rig.agents.says["n3"] = OK
    ticks(rig, 2, QUICK.withdraw / 1000)
    assert rig.status("n3") is Status.CANCELED


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


# A tag that a person takes off before any round has seen it.


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


# A live repair that a maintd without memory finds done, or does not find.


def repaired(*ends: Outcome) -> Rig:
    """n3 was repaired and says that it is well, and nobody has asked how it went."""
    rig = Rig(fleet())
    rig.agents.says["n3"] = REPAIR
    rig.agents.ends = lambda intent: ends[len(rig.agents.ran)]
    while len(rig.agents.ran) < len(ends):
        rig.tick()
    rig.agents.says["n3"] = OK
    rig.lose_ledger()
    return rig


@pytest.mark.parametrize(
    ("end", "status"), [(Outcome.SUCCESS, Status.COMPLETED), (Outcome.ERROR, Status.FAILED)]
)
@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_repair_that_ended_before_the_ledger_was_lost_is_told(
    before: int, end: Outcome, status: Status
) -> None:
    rig = repaired(*[Outcome.LATER] * before, end)
    rig.settle()
    assert rig.status("n3") is status
    assert rig.cluster.nodes["n3"].tags >= {rig.incident("n3").tag}
    assert len(rig.agents.ran) == before + 1
    assert set(rig.agents.asked.values()) == {1}


def test_a_repair_under_way_when_the_ledger_is_lost_is_waited_for() -> None:
    rig = repaired(Outcome.SUCCESS)
    rig.agents.takes = 3_600_000
    done = ticks(rig, 100)
    (intent,) = rig.ledger.intents
    assert [held.reason for held in done.decision.held] == []
    assert describe(intent.action) == "order n3 to run its repair command"
    rig.time += 3600
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED
    assert len(rig.agents.ran) == 1


def test_a_repair_is_asked_for_until_its_agent_answers() -> None:
    rig = repaired(Outcome.SUCCESS)
    rig.agents.says["n3"] = None
    ticks(rig, 200)
    assert rig.status("n3") is Status.PENDING
    rig.agents.says["n3"] = OK
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED


def test_a_repair_of_which_its_agent_knows_nothing_was_none() -> None:
    rig = repaired(Outcome.SUCCESS)
    rig.agents.forgets = True
    rig.settle()
    ticks(rig, 10, 600.0)
    assert not rig.ledger.incidents
    assert not rig.cluster.nodes["n3"].tags
    assert len(rig.agents.ran) == 1


def acknowledged() -> Rig:
    """n3 was repaired, somebody has acknowledged that, and it still says the same."""
    rig = Rig(fleet())
    rig.agents.says["n3"] = REPAIR
    rig.settle()
    rig.cluster.untag("n3", rig.incident("n3").tag)
    rig.settle()
    return rig


@pytest.mark.parametrize("hours", [0, 7, 24 * 30])
def test_a_repair_acknowledged_while_its_fault_lasts_is_not_done_again_without_the_ledger(
    hours: int,
) -> None:
    rig = acknowledged()
    done = rig.incident("n3")
    rig.time += hours * 3600  # the jobs are archived, or gone
    rig.lose_ledger()
    rig.settle()
    assert (rig.incident("n3").id, rig.status("n3")) == (done.id, Status.COMPLETED)
    assert len(rig.agents.ran) == 1
    rig.cluster.untag("n3", done.tag)  # told once more where all the jobs are gone
    rig.agents.says["n3"] = OK
    rig.settle()
    assert not rig.ledger.incidents
    assert not rig.cluster.nodes["n3"].tags
    rig.agents.says["n3"] = REPAIR
    rig.settle()
    assert len(rig.agents.ran) == 2, "it has come back: that is a new one"


def test_a_ledger_that_has_forgotten_a_repair_is_not_told_of_it_by_its_mark() -> None:
    rig = acknowledged()
    rig.cluster.fails = lambda action: isinstance(action, Retag)
    rig.agents.says["n3"] = OK
    ticks(rig, 2)
    assert not rig.ledger.incidents
    assert any("repairing" in tag for tag in rig.cluster.nodes["n3"].tags)
    rig.crash()
    ticks(rig, 2)
    assert not rig.ledger.incidents
    rig.cluster.fails = lambda _: False
    ticks(rig, 60)
    assert not rig.cluster.nodes["n3"].tags


@pytest.mark.parametrize("runs", [False, True])
def test_a_cancel_whose_tag_could_not_be_set_is_one_without_the_ledger_too(runs: bool) -> None:
    rig = broken()
    rig.cluster.put(Instance("p1", "n3", template="plain"))
    ticks(rig, 10)
    identity = rig.incident("n3").id
    rig.cluster.fails = lambda action: isinstance(action, Retag)
    rig.cluster.takes = lambda _: 15.0
    rig.wish(Cancel(identity))
    ticks(rig, 1 if runs else 3)
    rig.lose_ledger()
    rig.cluster.remove_instance("p1")
    ticks(rig, 5)
    rig.cluster.fails = lambda _: False
    rig.settle()
    assert rig.status("n3") is Status.CANCELED
    assert rig.cluster.nodes["n3"].tags == {f"maintd:canceled:{identity}"}
    assert not rig.cluster.nodes["n3"].offline
