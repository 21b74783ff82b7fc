from dataclasses import replace

import pytest

from nodeagent.maintd.decide import decide
from nodeagent.model.action import (
    Action,
    AddTag,
    Drain,
    MovePrimary,
    MoveSecondary,
    RunCommand,
    SetOffline,
)
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import TRANSITIONS, Event, Incident, Status
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy
from nodeagent.model.snapshot import Snapshot
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
    seen,
    six,
)

POLICY = Policy()
READY = AddTag("n1", "maintd:repairready:id-n1")


def actions(decided: Ledger) -> list[Action]:
    return [intent.action for intent in decided.intents if intent.job is None]


@pytest.mark.parametrize(
    ("said", "world", "wanted"),
    [
        pytest.param(OK, six(), [], id="healthy: nothing"),
        pytest.param(EVACUATE, six(), [Drain("n1")], id="evacuate: drain first"),
        pytest.param(
            EVACUATE,
            six(node("n1", drained=True), a=("n1", "n2"), b=("n3", "n1"), c=("n4", "n5")),
            [MovePrimary("a", "n1", live=True), MoveSecondary("b", "n1", "n6")],
            id="drained: all its instances at once, the mirror to the emptiest node",
        ),
        pytest.param(
            FAILOVER,
            six(node("n1", drained=True), a=("n1", "n2")),
            [MovePrimary("a", "n1", live=False)],
            id="evacuate-failover: without migration",
        ),
        pytest.param(
            EVACUATE,
            six(node("n1", drained=True), a=("n1", None), b=("n1", "n2")),
            [MovePrimary("b", "n1", live=True)],
            id="what cannot move does not hold up the rest",
        ),
        pytest.param(
            EVACUATE, six(node("n1", drained=True)), [SetOffline("n1")], id="empty: offline"
        ),
        pytest.param(
            REPAIR,
            six(),
            [RunCommand("n1", "fix-nic", REPAIR.text)],
            id="live-repair: the command, fed the very diagnosis",
        ),
    ],
)
def test_first_steps(said: Diagnosis, world: Snapshot, wanted: list[Action]) -> None:
    decided = decide(Ledger(), seen(world, {"n1": said}), POLICY, NOW)
    assert actions(decided.ledger) == wanted


@pytest.mark.parametrize(
    ("before", "world", "wanted"),
    [
        pytest.param(
            incident(status=Status.PENDING),
            six(node("n1", offline=True)),
            [READY],
            id="offline: tag",
        ),
        pytest.param(
            incident(diagnosis=REPAIR, status=Status.PENDING, repaired=True),
            six(),
            [READY],
            id="repaired: tag",
        ),
        pytest.param(
            incident(status=Status.FAILED),
            six(),
            [AddTag("n1", "maintd:repairfailed:id-n1")],
            id="failed: only the failure tag",
        ),
        pytest.param(
            incident(status=Status.FAILED, tag_seen=True),
            six(node("n1", tags=frozenset({"maintd:repairfailed:id-n1"}))),
            [],
            id="failed and tagged: nothing",
        ),
        pytest.param(incident(status=Status.CANCELED), six(), [], id="canceled: nothing"),
    ],
)
def test_later_steps(before: Incident, world: Snapshot, wanted: list[Action]) -> None:
    decided = decide(ledger(before), seen(world, {"n1": before.diagnosis}), POLICY, NOW)
    assert actions(decided.ledger) == wanted


@pytest.mark.parametrize(
    ("observed", "policy", "reason"),
    [
        pytest.param(
            seen(six(), {"n1": EVACUATE, "n2": EVACUATE, "n3": EVACUATE}),
            POLICY,
            "storm: 3 of 6 nodes are sick, more than 30%",
            id="storm brake",
        ),
        pytest.param(seen(six(), {"n1": EVACUATE}), Policy(settle=5000), "settling", id="settling"),
        pytest.param(
            seen(six(node("n1", drained=True), a=("n1", None)), {"n1": EVACUATE}),
            POLICY,
            "instance a has its disks on n1 alone",
            id="an instance that cannot move is named",
        ),
        pytest.param(
            seen(
                six(node("n1", drained=True), node("n2", offline=True), a=("n1", "n2")),
                {"n1": EVACUATE},
            ),
            POLICY,
            "instance a cannot go to n2 now",
            id="its target is out of service",
        ),
    ],
)
def test_every_no_has_its_reason(observed: object, policy: Policy, reason: str) -> None:
    decided = decide(Ledger(), observed, policy, NOW)  # type: ignore[arg-type]
    assert actions(decided.ledger) == []
    assert any(held.reason.startswith(reason) for held in decided.held), decided.held


def test_one_node_in_work_at_a_time() -> None:
    world = six()
    twice = seen(world, {"n1": EVACUATE, "n2": EVACUATE})
    decided = decide(Ledger(), twice, Policy(storm=1.0), NOW)
    assert actions(decided.ledger) == [Drain("n1")]
    assert [held.reason for held in decided.held] == ["1 of 1 nodes in work: n1"]


def test_a_long_job_on_one_node_never_delays_another() -> None:
    first = decide(Ledger(), seen(six(), {"n1": EVACUATE}), Policy(nodes_in_work=2), NOW).ledger
    assert actions(first) == [Drain("n1")]
    running = replace(first, intents=(replace(first.intents[0], job="1"),))
    both = seen(
        six(), {"n1": EVACUATE, "n2": REPAIR}, outcomes={first.intents[0].id: Outcome.RUNNING}
    )
    second = decide(running, both, Policy(nodes_in_work=2, storm=1.0), NOW + 1)
    assert actions(second.ledger) == [RunCommand("n2", "fix-nic", REPAIR.text)]


def test_a_claimed_node_gets_nothing_new() -> None:
    first = decide(Ledger(), seen(six(), {"n1": EVACUATE}), POLICY, NOW).ledger
    again = decide(first, seen(six(), {"n1": EVACUATE}), POLICY, NOW + 1).ledger
    assert again.intents == first.intents


def test_a_worse_diagnosis_supersedes() -> None:
    first = decide(Ledger(), seen(six(), {"n1": REPAIR}), Policy(settle=10), NOW).ledger
    decided = decide(first, seen(six(), {"n1": EVACUATE}), POLICY, NOW + 20)
    assert actions(decided.ledger) == [Drain("n1")]


# Doubt never acts: silence, forgery and broken scripts change no incident.


@pytest.mark.parametrize("status", [Status.NOTED, Status.COMPLETED, Status.CANCELED])
def test_doubt_forgets_nothing(status: Status) -> None:
    before = incident(status=status, tag_seen=True)
    decided = decide(ledger(before), seen(six(), doubts={"n1": "silent"}), POLICY, NOW)
    assert decided.ledger.incidents == (before,)


@pytest.mark.parametrize("diagnosis", [REPAIR, EVACUATE], ids=["live-repair", "evacuate"])
def test_doubt_begins_nothing(diagnosis: Diagnosis) -> None:
    doubted = seen(six(), doubts={"n1": "distrusted: signature"})
    decided = decide(ledger(incident(diagnosis=diagnosis)), doubted, POLICY, NOW)
    assert actions(decided.ledger) == []
    assert "in doubt: distrusted: signature" in decided.held[0].reason


def test_a_silent_node_that_is_being_emptied_is_emptied_on() -> None:
    world = six(node("n1", drained=True), a=("n1", "n2"))
    begun = ledger(incident(status=Status.PENDING))
    decided = decide(begun, seen(world, doubts={"n1": "silent"}), POLICY, NOW)
    assert actions(decided.ledger) == [MovePrimary("a", "n1", live=True)]


# Forgetting.


@pytest.mark.parametrize(
    ("status", "said", "tagged", "kept"),
    [
        pytest.param(
            Status.COMPLETED, OK, False, False, id="ready tag removed, no longer observed"
        ),
        pytest.param(
            Status.COMPLETED, EVACUATE, False, True, id="ready tag removed, still observed"
        ),
        pytest.param(Status.COMPLETED, OK, True, True, id="ready tag still there"),
        pytest.param(Status.FAILED, OK, False, False, id="failed tag removed: unconditionally"),
        pytest.param(Status.FAILED, OK, True, True, id="failed tag still there"),
        pytest.param(Status.CANCELED, EVACUATE, False, True, id="canceled, still observed"),
        pytest.param(Status.CANCELED, OK, False, False, id="canceled, no longer observed"),
        pytest.param(Status.NOTED, OK, False, False, id="noted and gone before anything was done"),
    ],
)
def test_forgetting(status: Status, said: Diagnosis, tagged: bool, kept: bool) -> None:
    before = incident(status=status, tag_seen=True)
    tags = frozenset({before.tag}) if tagged else frozenset()
    world = six(node("n1", tags=tags))
    decided = decide(ledger(before), seen(world, {"n1": said}), POLICY, NOW)
    assert (before in decided.ledger.incidents) is kept


def test_a_failed_incident_starts_again_when_its_tag_is_removed() -> None:
    before = incident(status=Status.FAILED, tag_seen=True)
    decided = decide(ledger(before), seen(six(), {"n1": EVACUATE}), POLICY, NOW + 1)
    (again,) = decided.ledger.incidents
    assert (again.id, again.status) != (before.id, before.status)
    assert actions(decided.ledger) == [Drain("n1")]


def test_absence_of_a_tag_never_seen_is_no_acknowledgement() -> None:
    before = incident(status=Status.COMPLETED)
    decided = decide(ledger(before), seen(six()), POLICY, NOW)
    assert decided.ledger.incidents == (before,)


def test_the_incident_of_a_removed_node_is_forgotten() -> None:
    world = Snapshot("c", {"n2": node("n2")})
    assert decide(ledger(incident()), seen(world), POLICY, NOW).ledger.incidents == ()


# A job that fails or is lost stops its incident.


@pytest.mark.parametrize("outcome", [Outcome.ERROR, Outcome.LOST])
def test_a_failed_or_lost_job_stops_its_incident(outcome: Outcome) -> None:
    intent = Intent("1.1", "id-n1", "n1", Drain("n1"), "7")
    before = ledger(incident(status=Status.PENDING), intents=(intent,), round=1)
    observed = seen(six(), {"n1": EVACUATE}, outcomes={"1.1": outcome})
    decided = decide(before, observed, POLICY, NOW)
    (after,) = decided.ledger.incidents
    assert (after.status, after.jobs) == (Status.FAILED, ("7",))
    assert actions(decided.ledger) == [AddTag("n1", "maintd:repairfailed:id-n1")]


def test_details_that_change_make_another_incident() -> None:
    other = need("evacuate", details="other")
    decided = decide(ledger(incident()), seen(six(), {"n1": other}), POLICY, NOW)
    assert [i.diagnosis for i in decided.ledger.incidents] == [other]


def test_the_table_of_transitions_has_final_states_without_exits() -> None:
    final = {status for status in Status if not status.active}
    assert final == {Status.CANCELED, Status.FAILED, Status.COMPLETED}
    for status in Status:
        for event in Event:
            one = incident(status=status)
            if event in TRANSITIONS[status]:
                assert one.after(event).status is TRANSITIONS[status][event]
            else:
                with pytest.raises(KeyError):
                    one.after(event)


# Where things may be moved to, and what holds a node.


def test_a_node_in_doubt_is_given_nothing() -> None:
    world = six(node("n1", drained=True), a=("n1", "n2"), b=("n3", "n1"))
    doubts = {f"n{i}": "silent" for i in (2, 4, 5, 6)}
    decided = decide(Ledger(), seen(world, {"n1": EVACUATE}, doubts), POLICY, NOW)
    assert actions(decided.ledger) == []
    assert {held.reason for held in decided.held} == {
        "instance a cannot go to n2 now",
        "no free node for the mirror of instance b",
    }


def test_mirrors_are_spread_and_their_targets_claimed() -> None:
    mirrors = dict.fromkeys("abcd", ("n2", "n1"))
    world = six(node("n1", drained=True), **mirrors)
    policy = Policy(nodes_in_work=2, storm=1.0)
    first = decide(Ledger(), seen(world, {"n1": EVACUATE}), policy, NOW).ledger
    targets = {a.target for a in actions(first) if isinstance(a, MoveSecondary)}
    assert targets == {"n3", "n4", "n5", "n6"}
    running = replace(first, intents=tuple(replace(i, job="1") for i in first.intents))
    again = decide(running, seen(world, {"n1": EVACUATE, "n4": EVACUATE}), policy, NOW + 1)
    assert again.ledger.intents == running.intents, "a node that is receiving is not drained"


def test_the_storm_brake_counts_what_nobody_has_acknowledged() -> None:
    done = [incident(f"n{i}", status=Status.COMPLETED) for i in (2, 3)]
    world = six(
        *(node(f"n{i}", offline=True, tags=frozenset({one.tag})) for i, one in enumerate(done, 2))
    )
    decided = decide(ledger(*done), seen(world, {"n1": EVACUATE}), POLICY, NOW)
    assert actions(decided.ledger) == []
    assert decided.held[0].reason == "storm: 3 of 6 nodes are sick, more than 30%"


def test_after_a_failed_repair_another_diagnosis_of_the_node_is_held() -> None:
    before = incident(diagnosis=REPAIR, status=Status.FAILED, tag_seen=True)
    world = six(node("n1", tags=frozenset({before.tag})))
    other = need("live-repair", command="fix-nic", details=2)
    decided = decide(ledger(before), seen(world, {"n1": other}), POLICY, NOW)
    assert actions(decided.ledger) == []
    assert decided.held[0].reason == f"an earlier repair failed: remove its tag {before.tag} first"


def test_a_tag_removed_at_once_is_acknowledged_all_the_same() -> None:
    intent = Intent("1.1", "id-n1", "n1", READY, "7")
    before = ledger(incident(status=Status.PENDING), intents=(intent,), round=1)
    decided = decide(before, seen(six(), outcomes={"1.1": Outcome.SUCCESS}), POLICY, NOW)
    assert decided.ledger.incidents == ()


def test_promises_to_a_removed_node_are_dropped() -> None:
    intent = Intent("1.1", "id-n1", "n1", RunCommand("n1", "fix", "{}"))
    world = Snapshot("c", {"n2": node("n2")})
    before = ledger(incident(status=Status.PENDING), intents=(intent,), round=1)
    assert decide(before, seen(world), POLICY, NOW).ledger.intents == ()
