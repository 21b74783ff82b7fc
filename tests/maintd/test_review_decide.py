"""What a review found wrong with deciding: each a rule that is kept now."""

from dataclasses import replace

import pytest

from nodeagent.maintd.decide import decide
from nodeagent.model.action import (
    Action,
    Drain,
    MovePrimary,
    MoveSecondary,
    Retag,
    RunCommand,
    SetOffline,
)
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Decision, Intent, Ledger, Outcome, Policy
from nodeagent.model.snapshot import Capacity, Instance
from nodeagent.model.wish import Retry, Wish
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import (
    EVACUATE,
    FAILOVER,
    NOW,
    PLENTY,
    REPAIR,
    incident,
    instance,
    ledger,
    node,
    seen,
    six,
)

POLICY = Policy(settle=0, cooldown=0, storm=1.0)


def new(decision: Decision) -> list[Action]:
    return [intent.action for intent in decision.ledger.intents if intent.job is None]


def reasons(decision: Decision) -> list[str]:
    return [held.reason for held in decision.held]


def test_what_follows_a_move_is_not_void_because_the_move_has_succeeded() -> None:
    """Its answer was lost and it arrives late: planned anew, the mirror moved twice."""
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.agents.says["n3"] = EVACUATE
    rig.cluster.grace = 60.0
    rig.cluster.loses_answer = lambda action: isinstance(action, MoveSecondary)
    rig.cluster.arrives = lambda _: 20.0
    for _ in range(40):
        rig.tick(5.0)
    mirrors = [j for j in rig.cluster.jobs.values() if isinstance(j.action, MoveSecondary)]
    assert len(mirrors) == 1
    assert rig.status("n3") is Status.COMPLETED


def test_a_failure_is_told_at_once_though_what_depended_on_it_ends_badly_too() -> None:
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.agents.says["n3"] = EVACUATE
    rig.cluster.fails = lambda action: isinstance(action, MovePrimary)
    for _ in range(5):
        rig.tick(5.0)
    assert rig.cluster.nodes["n3"].tags == {rig.incident("n3").tag}
    assert rig.status("n3") is Status.FAILED


def test_nothing_is_emptied_while_nobody_knows_what_the_others_have_free() -> None:
    world = six(a=("n1", "n2"))
    asked_in_vain = seen(world, {"n1": EVACUATE}, capacity={})
    decision = decide(Ledger(), asked_in_vain, POLICY, NOW)
    assert new(decision) == []
    assert reasons(decision) == [
        "not emptied while in doubt: instance a cannot move:"
        " it is not known what its mirror n2 has free"
    ]


def test_nor_is_what_somebody_drained_before_where_the_rest_would_be_too_full() -> None:
    world = replace(
        six(node("n1", drained=True)),
        instances={
            "a": instance("a", "n1", "n2", memory=400),
            "b": instance("b", "n3", "n2", memory=400),
        },
    )
    tight = {**dict.fromkeys(world.nodes, PLENTY), "n2": Capacity(700, 9999)}
    decision = decide(Ledger(), seen(world, {"n1": EVACUATE}, capacity=tight), POLICY, NOW)
    assert new(decision) == []
    assert "too little room" in reasons(decision)[0]


def test_what_an_administrator_drained_and_put_back_is_not_drained_by_us() -> None:
    world = six(node("n1", drained=True), a=("n1", "n2"))
    first = decide(Ledger(), seen(world, {"n1": EVACUATE}), POLICY, NOW).ledger
    back = decide(replace(first, intents=()), seen(six(), {"n1": EVACUATE}), POLICY, NOW + 1)
    assert new(back) == []
    assert reasons(back)[0].startswith("somebody has put n1 back into service")


@pytest.mark.parametrize("diagnosis", [REPAIR, EVACUATE], ids=["live-repair", "evacuate"])
@pytest.mark.parametrize("status", [Status.NOTED, Status.PENDING])
def test_on_a_node_that_somebody_took_offline_nothing_is_done(
    diagnosis: object, status: Status
) -> None:
    one = incident(diagnosis=diagnosis, status=status)  # type: ignore[arg-type]
    world = six(node("n1", offline=True, tags=frozenset({one.mark})), b=("n2", "n1"))
    decision = decide(ledger(one), seen(world), POLICY, NOW)
    assert new(decision) == []
    assert any("offline" in why for why in reasons(decision))


@pytest.mark.parametrize("offline", [False, True], ids=["silent", "offline"])
def test_an_order_nobody_hears_of_is_told_and_keeps_no_other_node_from_being_emptied(
    offline: bool,
) -> None:
    """An offline node is not polled, and in no doubt: of its order nobody will ever hear."""
    one = incident(diagnosis=REPAIR, status=Status.PENDING)
    order = Intent("1", one.id, "n1", RunCommand("n1", "fix-nic", REPAIR.text), "o")
    world = six(node("n1", offline=offline, tags=frozenset({one.mark})))
    silent = seen(world, {"n2": EVACUATE}, {} if offline else {"n1": "silent: timed out"})
    decision = decide(ledger(one, intents=(order,)), silent, POLICY, NOW)
    assert new(decision) == [Drain("n2")]
    gone = "n1 is offline: look at n1, then gnt-maint retry or cancel"
    why = gone if offline else "silent: timed out"
    assert reasons(decision) == [f"no word of what became of order n1 to run fix-nic: {why}"]
    retry = replace(silent, wishes=(Wish("w", "root", NOW, Retry(one.id)),))
    retried = decide(decision.ledger, retry, POLICY, NOW + 1)
    assert ("w" in retried.refused) is not offline
    assert (order in retried.ledger.intents) is not offline


@pytest.mark.parametrize("told", [Outcome.RUNNING, Outcome.SUCCESS])
def test_what_the_agent_of_an_offline_node_says_of_its_order_counts(told: Outcome) -> None:
    one = incident(diagnosis=REPAIR, status=Status.PENDING)
    order = Intent("1", one.id, "n1", RunCommand("n1", "fix-nic", REPAIR.text), "o")
    observed = seen(six(node("n1", offline=True)), results={"1": told})
    after = decide(ledger(one, intents=(order,)), observed, POLICY, NOW).ledger
    assert (order in after.intents) is (told is Outcome.RUNNING)
    assert after.incidents[0].repaired is (told is Outcome.SUCCESS)


def test_a_lost_job_keeps_no_other_node_from_being_emptied() -> None:
    one = incident(status=Status.PENDING)
    lost = Intent("1", one.id, "n1", Drain("n1"), "7")
    observed = seen(six(), {"n1": EVACUATE, "n2": EVACUATE}, results={"1": Outcome.LOST})
    decision = decide(ledger(one, intents=(lost,)), observed, POLICY, NOW)
    assert new(decision) == [Drain("n2")]


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELED])
def test_a_node_whose_jobs_still_run_is_in_work_whatever_became_of_its_incident(
    status: Status,
) -> None:
    one = incident(status=status, tag_seen=True)
    running = Intent("1", one.id, "n1", MovePrimary("a", "n1", live=True, target="n3"), "7")
    world = six(node("n1", drained=True, tags=frozenset({one.tag})), a=("n1", "n3"))
    said = {"n1": EVACUATE, "n2": EVACUATE}
    observed = seen(world, said, results={"1": Outcome.RUNNING})
    decision = decide(ledger(one, intents=(running,)), observed, POLICY, NOW)
    assert not any(isinstance(action, Drain) for action in new(decision))
    assert "1 of 1 nodes in work: n1" in reasons(decision)


def test_what_was_paused_goes_on_only_when_there_is_room_in_work() -> None:
    rig = Rig(fleet(), mirrored(("n3", "n5"), ("n4", "n6")), replace(QUICK, nodes_in_work=1))
    rig.cluster.takes = lambda _: 25.0
    rig.agents.says["n3"] = EVACUATE
    rig.tick()
    rig.cluster.tag("n3", "maintd:pause:yes")
    rig.agents.says["n4"] = EVACUATE
    for _ in range(5):
        rig.tick()
    rig.cluster.untag("n3", "maintd:pause:yes")
    moving = set()
    for _ in range(40):
        rig.tick()
        at_work = {i.node for i in rig.ledger.intents if not isinstance(i.action, Retag)}
        moving |= at_work
        assert len(at_work) <= 1
    assert moving == {"n3", "n4"}


@pytest.mark.parametrize("what", ["silent", "offline"])
def test_a_mirror_whose_instance_is_out_of_reach_holds_and_fails_nothing(what: str) -> None:
    world = six(
        node("n1", drained=True),
        *([node("n3", offline=True)] if what == "offline" else []),
        b=("n3", "n1"),
        c=("n4", "n1"),
    )
    doubts = {"n3": "silent: timed out"} if what == "silent" else {}
    decision = decide(Ledger(), seen(world, {"n1": EVACUATE}, doubts), POLICY, NOW)
    assert [getattr(a, "instance", None) for a in new(decision)] == ["c"]
    assert any(
        why.startswith("the mirror of instance b cannot move: n3") for why in reasons(decision)
    )
    assert SetOffline("n1") not in new(decision)


def test_a_move_of_an_instance_that_was_just_removed_is_no_failure() -> None:
    """Ganeti takes the disks off first: for a moment a plain instance could go anywhere."""
    one = incident(status=Status.PENDING, drained=True)
    move = Intent("1", one.id, "n1", MovePrimary("a", "n1", live=True, target="n3"), "7")
    there, gone = six(node("n1", drained=True), a=("n1", None)), six(node("n1", drained=True))
    before = ledger(one, intents=(move,))
    failed = {"1": Outcome.ERROR}
    over = decide(before, seen(gone, {"n1": EVACUATE}, results=failed), POLICY, NOW)
    assert new(over) == [SetOffline("n1")]
    still = decide(before, seen(there, {"n1": EVACUATE}, results=failed), POLICY, NOW)
    assert still.ledger.incidents[0].status is Status.FAILED


def test_a_node_is_not_taken_offline_while_another_repair_moves_what_runs_there() -> None:
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.cluster.takes = lambda action: 100.0 if isinstance(action, MoveSecondary) else 1.0
    rig.agents.says |= {"n3": EVACUATE, "n4": EVACUATE}
    for _ in range(6):
        done = rig.tick()
    assert "instance i1 is being moved in another repair" in {
        held.reason for held in done.decision.held if held.node == "n3"
    }
    rig.settle()
    assert rig.cluster.nodes["n3"].offline
    assert "n3" not in (rig.cluster.instances["i1"].primary, rig.cluster.instances["i1"].secondary)
    kinds = [type(job.action) for job in rig.cluster.jobs.values()]
    assert kinds.index(MovePrimary) < kinds.index(SetOffline)


def test_what_was_put_back_is_not_drained_for_something_milder_either() -> None:
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.cluster.put(Instance("p1", "n3", template="plain"))
    rig.agents.says["n3"] = FAILOVER
    for _ in range(10):
        rig.tick()
    rig.cluster.undrain("n3")
    rig.agents.says["n3"] = EVACUATE
    for _ in range(30):
        done = rig.tick(60.0)
    assert not rig.cluster.nodes["n3"].drained
    assert {held.reason for held in done.decision.held} == {
        "somebody has put n3 back into service: drain it again, or cancel"
    }
