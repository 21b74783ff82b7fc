"""The ledger is lost: what is read again from tags, jobs and agents."""

from dataclasses import replace

import pytest

from nodeagent.maintd.deciding.recover import recover
from nodeagent.maintd.planning.outcomes import TAG_SHOWS
from nodeagent.model.action import Action, Drain, MovePrimary, Power, PowerCommand, Retag, Scope
from nodeagent.model.fencing import BURST, Cut
from nodeagent.model.incident import UNKNOWN, Incident, Status, incident_id
from nodeagent.model.ledger import Ledger, Outcome, Result, Trail
from nodeagent.model.purpose import OfFencing
from nodeagent.model.reason import Kind
from nodeagent.model.units import Ms
from nodeagent.model.wish import Pause, Resume
from tests.maintd.decided import kinds
from tests.maintd.rig import QUICK, Rig, fleet
from tests.maintd.rounds import broken, holds, moved, ticks
from tests.maintd.world import (
    EVACUATE,
    FAILOVER,
    NOW,
    OK,
    REPAIR,
    incident,
    ledger,
    need,
    node,
    six,
)


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


def test_a_node_cools_down_without_the_ledger_too() -> None:
    rig = Rig(fleet(), [], replace(QUICK, cooldown=Ms(3_600_000)))
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
    assert kinds(done.decision.held)[0] == (Kind.COOLING_DOWN, "n3")
    ticks(rig, 40, 100.0)
    assert len(rig.agents.ran) == 2


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
@pytest.mark.parametrize("before", [0, 3])
def test_a_repair_that_ended_before_the_ledger_was_lost_is_told(
    before: int, end: Outcome, status: Status
) -> None:
    rig = repaired(*[Outcome.LATER] * before, end)
    rig.settle()
    assert rig.status("n3") is status
    assert rig.cluster.nodes["n3"].tags >= {rig.incident("n3").tag}
    assert len(rig.agents.ran) == before + 1
    assert set(rig.agents.asked.values()) == {1}


# By jobs alone.

OLD, NEW, OTHER = incident(), incident(diagnosis=FAILOVER), incident("n2")
LIVE = incident(diagnosis=REPAIR)


def done(of: Incident, number: int, action: Action, *, why: str = "") -> Trail:
    result = Result(Outcome.ERROR, why) if why else Result(Outcome.SUCCESS)
    return Trail(str(number), f"{of.id}:{number}", action, result, NOW, NOW)


@pytest.mark.parametrize(
    ("tags", "drained"),
    [
        (frozenset[str](), {NEW.id: True, OTHER.id: False, LIVE.id: False}),
        (frozenset({OLD.mark}), {OLD.id: True, NEW.id: False, OTHER.id: False, LIVE.id: False}),
    ],
    ids=["superseded", "kept, for its mark proves an order"],
)
def test_a_node_has_work_for_its_newest_incident(
    tags: frozenset[str], drained: dict[str, bool]
) -> None:
    trails = [
        done(OLD, 5, Drain("n1")),
        done(OTHER, 7, MovePrimary("b", "n2", live=True)),
        done(LIVE, 8, MovePrimary("a", "n1", live=True), why="no"),
        done(NEW, 9, MovePrimary("a", "n1", live=False)),
    ]
    after = recover(Ledger(), trails, six(node("n1", tags=tags)), NOW)
    assert {one.id: one.drained for one in after.incidents} == drained


def test_what_was_only_detected_goes_on_as_what_another_master_has_worked_on() -> None:
    """Of the same fault, on the same node."""
    ours = replace(OLD, id=incident_id("uuid-n1", EVACUATE, Ms(NOW + 1)))
    trails = [done(OLD, 5, Drain("n1")), done(OTHER, 7, Drain("n2"))]
    after = recover(ledger(ours), trails, six(), NOW)
    assert {one.id: one.diagnosis for one in after.incidents} == {
        OLD.id: EVACUATE,
        OTHER.id: UNKNOWN,
    }


def test_a_failed_job_says_why_its_incident_has_failed() -> None:
    (failed,) = recover(Ledger(), [done(OLD, 5, Drain("n1"), why="no")], six(), NOW).incidents
    assert (failed.status, failed.why) == (Status.FAILED, "job 5 (drain n1) failed: no")


def test_a_cancel_whose_tag_could_not_be_set_is_one() -> None:
    """The planner of the job has meant it, whatever became of the job."""
    canceled = Retag(Scope.NODE, "n1", add=(f"maintd:canceled:{OLD.id}",))
    for why in ("", "no"):
        trails = [done(OLD, 5, Drain("n1")), done(OLD, 6, canceled, why=why)]
        (one,) = recover(Ledger(), trails, six(), NOW).incidents
        assert one.status is Status.CANCELED


def test_what_another_master_has_just_tagged_is_waited_for() -> None:
    tag = Retag(Scope.NODE, "n1", add=(OLD.mark,))
    for trail, waits in (
        (done(OLD, 6, tag), True),
        (replace(done(OLD, 6, tag), at=Ms(NOW - TAG_SHOWS)), True),
        (replace(done(OLD, 6, tag), at=Ms(NOW - TAG_SHOWS - 1)), False),
        (done(OLD, 5, tag), False),
        (done(OLD, 6, tag, why="no"), False),
        (done(OLD, 6, Drain("n1")), False),
    ):
        after = recover(Ledger(round=5), [trail], six(), NOW)
        assert [intent.action for intent in after.intents] == [tag] * waits, trail


def test_which_power_offs_count() -> None:
    def cut(at: int) -> tuple[Cut, ...]:
        return (Cut("uuid-n1", Ms(at)),)

    off, on = PowerCommand.OFF, PowerCommand.ON
    for known, number, command, at, after in (
        ((), 6, off, NOW, cut(NOW)),
        ((), 5, off, NOW, cut(NOW)),
        ((), 6, on, NOW, ()),
        ((), 6, off, NOW - BURST, ()),
        (cut(NOW - 9), 6, off, NOW, cut(NOW)),
        (cut(NOW - 9), 5, off, NOW, cut(NOW - 9)),
        (cut(NOW), 6, off, NOW - 9, cut(NOW)),
    ):
        reason = f"{OfFencing('uuid-n1').text}:{number}"
        trail = Trail("7", reason, Power("n1", command), Result(Outcome.SUCCESS), Ms(at), NOW)
        found = recover(Ledger(round=5, cuts=known), [trail], six(), NOW).cuts
        assert found == after, (known, number, command, at)


def test_an_incident_has_begun_with_its_first_job_and_only_once() -> None:
    trails, works = [done(OLD, 5, Drain("n1"))], replace(OLD, status=Status.PENDING, jobs=("5",))
    first = recover(ledger(works), trails, six(), NOW)
    assert [one.incident for one in first.begun] == [OLD.id]
    assert recover(first, trails, six(), NOW).begun == first.begun
    assert recover(ledger(works), [], six(), NOW).begun == ()


def test_plans_wait_after_a_newer_job_of_another_master() -> None:
    for number, others, waits in ((6, None, True), (5, None, False), (6, 5, False), (5, 6, True)):
        trails = [done(OLD, number, Drain("n1"))]
        after = recover(Ledger(round=5), trails, six(), NOW, repairs=True, others=others)
        assert bool(after.away) is waits, (number, others)
