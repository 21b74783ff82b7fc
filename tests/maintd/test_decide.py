"""The whole of deciding, as tables: what is seen, and what comes of it."""

from dataclasses import replace

import pytest

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.deciding.requests import PATIENCE
from nodeagent.model.action import (
    Action,
    Drain,
    MovePrimary,
    MoveSecondary,
    Retag,
    RunCommand,
    Scope,
    SetOffline,
)
from nodeagent.model.asked import Asked
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.keeping import Trouble, Uncertain
from nodeagent.model.ledger import Begun, Hold, Intent, Ledger, Outcome, Policy, Result
from nodeagent.model.purpose import OfIncident, OfTags
from nodeagent.model.reason import AnyKind, Kind, Of, Subject, because
from nodeagent.model.snapshot import Capacity, Group, Observed, Snapshot
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms
from nodeagent.model.window import Schedule
from nodeagent.model.wish import (
    AddEntry,
    Cancel,
    Pause,
    ResetStorm,
    Resume,
    Retry,
    SetAutoRepair,
    SetQueue,
    SetSchedule,
    TrustLedger,
    Wish,
)
from tests.maintd.decided import details, kinds, within
from tests.maintd.world import (
    EVACUATE,
    FAILOVER,
    NOW,
    OK,
    REPAIR,
    in_parts,
    incident,
    instance,
    ledger,
    need,
    node,
    seen,
    six,
    snapshot,
    with_instances,
)

POLICY = Policy(stage=FULL, settle=Ms(0), cooldown=Ms(0))
MINUTE = 60_000
TRIPPED = Retag(Scope.CLUSTER, "", add=("maintd:brake:tripped",))


def actions(decided: Ledger) -> list[Action]:
    return [intent.action for intent in decided.intents if intent.job is None]


def tag(scope: Scope, name: str, *add: str, remove: tuple[str, ...] = ()) -> Retag:
    return Retag(scope, name, add=add, remove=remove)


def on_node(one: Incident) -> Retag:
    return tag(Scope.NODE, one.name, one.tag)


def submitted(decided: Ledger) -> Ledger:
    """As if every intent had become a job."""
    return replace(decided, intents=tuple(replace(i, job=f"j{i.id}") for i in decided.intents))


MARKED = six(node("n1", tags=frozenset({incident(diagnosis=REPAIR).mark})))


# What a need leads to.


FIRST_STEPS: dict[str, tuple[Diagnosis, Snapshot, list[Action]]] = {
    "healthy: nothing": (OK, six(), []),
    "evacuate: drain first": (EVACUATE, six(), [Drain("n1")]),
    "drained: all its instances at once, and what they leave behind": (
        EVACUATE,
        six(node("n1", drained=True), a=("n1", "n2"), b=("n3", "n1"), c=("n4", "n5")),
        [
            MovePrimary("a", "n1", live=True, target="n2"),
            MoveSecondary("a", "n1", "n6"),
            MoveSecondary("b", "n1", "n2"),
        ],
    ),
    "evacuate-failover: without migration": (
        FAILOVER,
        six(node("n1", drained=True), a=("n1", "n2")),
        [MovePrimary("a", "n1", live=False, target="n2"), MoveSecondary("a", "n1", "n3")],
    ),
    "what cannot move does not hold up the rest": (
        EVACUATE,
        six(node("n1", drained=True), a=("n1", None), b=("n1", "n2")),
        [MovePrimary("b", "n1", live=True, target="n2"), MoveSecondary("b", "n1", "n3")],
    ),
    "empty: offline": (EVACUATE, six(node("n1", drained=True)), [SetOffline("n1")]),
    "live-repair: first a mark, for whoever comes after us": (
        REPAIR,
        six(),
        [tag(Scope.NODE, "n1", incident(diagnosis=REPAIR).mark)],
    ),
    "live-repair: the command, fed the very diagnosis": (
        REPAIR,
        MARKED,
        [RunCommand("n1", "fix-nic", REPAIR.text)],
    ),
    "live-repair of the master too": (
        REPAIR,
        replace(MARKED, master="n1"),
        [RunCommand("n1", "fix-nic", REPAIR.text)],
    ),
}


def test_first_steps() -> None:
    for name, (said, world, wanted) in FIRST_STEPS.items():
        decided = decide(Ledger(), seen(world, {"n1": said}), POLICY, NOW)
        assert actions(decided.ledger) == wanted, name


def test_the_mirror_moves_only_after_its_instance_has() -> None:
    world = six(node("n1", drained=True), a=("n1", "n2"))
    first, second = decide(Ledger(), seen(world, {"n1": EVACUATE}), POLICY, NOW).ledger.intents
    assert (first.after, second.after) == (None, first.id)


def test_what_its_hypervisor_cannot_migrate_is_failed_over_if_that_is_allowed() -> None:
    world = six(node("n1", drained=True))
    there = instance("a", "n1", "n2", hypervisor="lxc")
    observed = seen(replace(world, instances={"a": there}), {"n1": EVACUATE})
    decided = decide(Ledger(), observed, POLICY, NOW)
    assert actions(decided.ledger)[0] == MovePrimary("a", "n1", live=False, target="n2")
    strict = decide(Ledger(), observed, replace(POLICY, fallback=False), NOW)
    assert actions(strict.ledger) == []
    never = because(Kind.NEVER_MIGRATES, "a", hypervisor="lxc")
    assert because(Kind.CANNOT_MOVE, "a", why=never) in [one.why for one in strict.held]
    stopped = replace(world, instances={"a": replace(there, running=False)})
    strict = decide(Ledger(), seen(stopped, {"n1": EVACUATE}), replace(POLICY, fallback=False), NOW)
    assert isinstance(actions(strict.ledger)[0], MovePrimary), "nothing is interrupted"


LATER_STEPS: dict[str, tuple[Incident, Snapshot, list[Action]]] = {
    "offline: tag": (
        incident(status=Status.PENDING),
        six(node("n1", offline=True)),
        [on_node(incident())],
    ),
    "repaired: tag": (
        incident(diagnosis=REPAIR, status=Status.PENDING, repaired=True),
        six(),
        [on_node(incident(diagnosis=REPAIR))],
    ),
    "failed: only the failure tag": (
        incident(status=Status.FAILED),
        six(),
        [on_node(incident(status=Status.FAILED))],
    ),
    "failed and tagged: nothing": (
        incident(status=Status.FAILED, tag_seen=True),
        six(node("n1", tags=frozenset({incident(status=Status.FAILED).tag}))),
        [],
    ),
    "canceled: told to whoever comes after us": (
        incident(status=Status.CANCELED),
        six(),
        [on_node(incident(status=Status.CANCELED))],
    ),
}


def test_later_steps() -> None:
    for name, (before, world, wanted) in LATER_STEPS.items():
        decided = decide(ledger(before), seen(world, {"n1": before.diagnosis}), POLICY, NOW)
        assert actions(decided.ledger) == wanted, name


# Every no has its reason.


REFUSALS: dict[str, tuple[Observed, Policy, list[tuple[AnyKind, str]]]] = {
    "storm brake": (
        seen(six(), {"n1": EVACUATE, "n2": EVACUATE, "n3": EVACUATE}),
        POLICY,
        [(Kind.STORM, "")],
    ),
    "settling": (
        seen(six(), {"n1": EVACUATE}),
        replace(POLICY, settle=Ms(5000)),
        [(Kind.SETTLING, "n1")],
    ),
    "an instance that cannot move is named": (
        seen(six(node("n1", drained=True), a=("n1", None)), {"n1": EVACUATE}),
        POLICY,
        [(Kind.CANNOT_MOVE, "a"), (Kind.LOCAL_DISKS, "a")],
    ),
    "some of its disks are elsewhere as well": (
        seen(
            with_instances(six(node("n1", drained=True)), in_parts("a", "n1", "n2")),
            {"n1": EVACUATE},
        ),
        POLICY,
        [(Kind.CANNOT_MOVE, "a"), (Kind.PARTLY_MIRRORED, "a")],
    ),
    "some disks of an instance are here": (
        seen(
            with_instances(six(node("n1", drained=True)), in_parts("a", "n2", "n1", "n3")),
            {"n1": EVACUATE},
        ),
        POLICY,
        [(Kind.MIRROR_CANNOT_MOVE, "a"), (Kind.PARTLY_MIRRORED, "a")],
    ),
    "its target is out of service": (
        seen(
            six(node("n1", drained=True), node("n2", offline=True), a=("n1", "n2")),
            {"n1": EVACUATE},
        ),
        POLICY,
        [(Kind.CANNOT_MOVE, "a"), (Kind.MIRROR_CLOSED, "n2"), (Kind.OUT_OF_SERVICE, "n2")],
    ),
    "the master is never emptied": (
        seen(replace(six(), master="n1"), {"n1": EVACUATE}),
        POLICY,
        [(Kind.MASTER, "n1")],
    ),
    "a live repair without a command is a person's": (
        seen(six(), {"n1": need("live-repair", details={"fan": 3})}),
        POLICY,
        [(Kind.NO_COMMAND, "n1")],
    ),
    "doubt opens nothing": (seen(six(), doubts={"n1": "not trusted: signature"}), POLICY, []),
    "paused by a tag": (
        seen(replace(six(), tags=frozenset({"maintd:pause:yes"})), {"n1": EVACUATE}),
        POLICY,
        [(Kind.TAGGED, "")],
    ),
    "a setting that cannot be read": (
        seen(six(node("n1", tags=frozenset({"maintd:settle:soon"}))), {"n1": EVACUATE}),
        POLICY,
        [(Kind.WRONG_TAGS, "n1"), (Kind.WRONG_TAG, "n1")],
    ),
    "room that nobody knows of is no room": (
        seen(six(node("n1", drained=True), a=("n1", "n2")), {"n1": EVACUATE}, capacity={}),
        POLICY,
        [(Kind.UNKNOWN_IF_ROOM, "n1"), (Kind.CANNOT_MOVE, "a"), (Kind.MIRROR_UNKNOWN, "n2")],
    ),
}


def test_every_no_has_its_reason() -> None:
    for name, (observed, policy, whys) in REFUSALS.items():
        decided = decide(Ledger(), observed, policy, NOW)
        assert set(actions(decided.ledger)) <= {TRIPPED}, name
        assert not whys or whys in [within(held.why) for held in decided.held], (name, decided.held)


def test_what_is_stuck_does_not_keep_others_from_being_worked_on() -> None:
    """The old daemon's fault 9: one instance that could not move stopped everything for ever."""
    world = six(node("n1", drained=True), a=("n1", None))
    stuck = ledger(incident(status=Status.PENDING, drained=True))
    both = seen(world, {"n1": EVACUATE, "n2": EVACUATE})
    decided = decide(stuck, both, replace(POLICY, storm=1.0), NOW)
    assert actions(decided.ledger) == [Drain("n2")]


def test_moves_are_topped_up_as_they_end() -> None:
    world = replace(
        six(node("n1", drained=True)), instances={n: instance(n, "n2", "n1") for n in "abcde"}
    )
    policy = replace(POLICY, moves=2)
    first = decide(Ledger(), seen(world, {"n1": EVACUATE}), policy, NOW).ledger
    assert len(actions(first)) == 2
    one = first.intents[0]
    done = replace(world, instances={**world.instances, "a": instance("a", "n2", "n3")})
    observed = seen(done, {"n1": EVACUATE}, results={one.id: Outcome.SUCCESS})
    second = decide(submitted(first), observed, policy, NOW + 1).ledger
    assert [getattr(a, "instance", None) for a in actions(second)] == ["c"]


# Escalation, and what is not observed any more.


def test_a_worse_diagnosis_supersedes() -> None:
    first = submitted(decide(Ledger(), seen(MARKED, {"n1": REPAIR}), POLICY, NOW).ledger)
    order = first.intents[0]
    assert isinstance(order.action, RunCommand)
    running = seen(six(), {"n1": EVACUATE}, results={order.id: Outcome.RUNNING})
    second = decide(first, running, POLICY, NOW + 1)
    assert not actions(second.ledger), "the command runs to its end first"
    over = seen(six(), {"n1": EVACUATE}, results={order.id: Outcome.LATER})
    third = decide(second.ledger, over, POLICY, NOW + 2)
    assert actions(third.ledger) == [Drain("n1")]
    (heir,) = third.ledger.incidents[1:]
    assert third.ledger.incidents[0].status is Status.CANCELED
    assert third.ledger.incidents[0].why == f"superseded by {heir.id}"
    assert third.ledger.incidents[0].heir == heir.id


def test_an_emptying_goes_on_under_its_new_name() -> None:
    """Details that change in mid-evacuation neither stop it nor begin it anew."""
    world = six(node("n1", drained=True), a=("n1", "n2"))
    before = ledger(incident(status=Status.PENDING, drained=True))
    other = need("evacuate", details="more of it")
    policy = replace(POLICY, cooldown=Ms(MINUTE), settle=Ms(MINUTE))
    decided = decide(before, seen(world, {"n1": other}), policy, NOW + 1)
    old, heir = decided.ledger.incidents
    assert (old.status, heir.status, heir.drained) == (Status.CANCELED, Status.PENDING, True)
    assert actions(decided.ledger)[0] == MovePrimary("a", "n1", live=True, target="n2")


def test_a_node_that_says_it_is_well_is_not_emptied_further() -> None:
    """The old daemon's fault 20: pending incidents of healthy nodes never ended."""
    world = six(node("n1", drained=True), a=("n1", "n2"))
    before = ledger(incident(status=Status.PENDING, drained=True))
    soon = decide(before, seen(world, {"n1": OK}), POLICY, NOW + 1)
    assert not actions(soon.ledger)
    assert kinds(soon.held) == [(Kind.CHANGED, "n1")]
    late = decide(soon.ledger, seen(world, {"n1": OK}), POLICY, NOW + POLICY.withdraw + 1)
    assert late.ledger.incidents[0].status is Status.CANCELED
    after = decide(late.ledger, seen(world, {"n1": OK}), POLICY, NOW + POLICY.withdraw + 2)
    assert after.ledger.incidents == ()


def test_what_somebody_put_back_into_service_is_not_drained_again() -> None:
    before = ledger(incident(status=Status.PENDING, drained=True))
    decided = decide(before, seen(six(), {"n1": EVACUATE}), POLICY, NOW)
    assert not actions(decided.ledger)
    assert kinds(decided.held) == [(Kind.PUT_BACK_BY_OTHERS, "n1")]


# Doubt never acts: silence, forgery and broken scripts change no incident.


@pytest.mark.parametrize("status", [Status.NOTED, Status.COMPLETED, Status.CANCELED])
def test_doubt_forgets_nothing(status: Status) -> None:
    before = incident(status=status, tag_seen=True)
    tags = frozenset({before.tag})
    world = six(node("n1", tags=tags))
    decided = decide(ledger(before), seen(world, doubts={"n1": "silent"}), POLICY, NOW + 1)
    assert [(i.id, i.status) for i in decided.ledger.incidents] == [(before.id, status)]


@pytest.mark.parametrize("diagnosis", [REPAIR, EVACUATE], ids=["live-repair", "evacuate"])
@pytest.mark.parametrize("status", [Status.NOTED, Status.PENDING])
def test_doubt_begins_nothing_and_goes_on_with_nothing(
    diagnosis: Diagnosis, status: Status
) -> None:
    doubted = seen(six(a=("n1", "n2")), doubts={"n1": "not trusted: signature"})
    before = ledger(incident(diagnosis=diagnosis, status=status))
    decided = decide(before, doubted, POLICY, NOW)
    assert actions(decided.ledger) == []
    assert kinds(decided.held)[0] == (Kind.DOUBT, "n1")
    assert dict(decided.held[0].why.details)["doubt"] == "not trusted: signature"


def test_who_takes_part_in_other_work_is_not_called_full() -> None:
    """In the laboratory 199 GiB were free everywhere, and all nodes were claimed."""
    world = six(node("n1", drained=True), b=("n3", "n1"))
    before = ledger(incident(status=Status.PENDING, drained=True))
    for number, name in enumerate(("n2", "n4", "n5", "n6")):
        other = Retag(Scope.NODE, name, ("t",))
        before = replace(
            before, intents=(*before.intents, Intent(f"{number}", OfTags(), name, other))
        )
    (held,) = decide(before, seen(world, {"n1": EVACUATE}), POLICY, NOW).held
    assert (held.why.kind, held.why.subject.name) == (Kind.MIRROR_CANNOT_MOVE, "b")
    said = details([held], Kind.ALL_TAKEN)
    taken = tuple(because(Kind.CLAIMED, n, who="another repair") for n in ("n2", "n4", "n5"))
    assert (said["whys"], said["more"]) == (taken, "1")
    small = dict.fromkeys(("n2", "n4", "n5", "n6"), Capacity(10**6, 100))
    world = replace(world, instances={"b": replace(world.instances["b"], disk=192)})
    full = seen(world, {"n1": EVACUATE}, capacity=small)
    (held,) = decide(replace(before, intents=()), full, POLICY, NOW).held
    assert details([held], Kind.NO_FREE_NODE)["wanted"] == ("192 MiB of disk",)


def test_what_was_cut_off_after_its_effect_is_done_and_was_ours() -> None:
    working = incident(status=Status.PENDING)
    before = ledger(working).promise(OfIncident(working.id), "n1", Drain("n1"), NOW)
    before = submitted(before)
    results = {before.intents[0].id: Outcome.LATER}
    there = seen(six(node("n1", drained=True)), {"n1": EVACUATE}, results=results)
    after = decide(before, there, POLICY, NOW + 1).ledger.incidents[0]
    assert (after.drained, after.tries, after.not_before) == (True, 0, 0)
    not_there = seen(six(), {"n1": EVACUATE}, results=results)
    after = decide(before, not_there, POLICY, NOW + 1).ledger.incidents[0]
    assert (after.drained, after.tries, after.status) == (False, 1, Status.PENDING)
    assert after.not_before > NOW


# Tags that are wrong.


def test_every_wrong_tag_is_told_at_once_with_the_command_though_there_is_no_work() -> None:
    bad = {"maintd:nodes-in-work:zwei", "maintd:setle:5m", "maintd:moves:3", "maintd:moves:4"}
    world = replace(
        six(node("n2", tags=frozenset({"maintd:storm:5", "maintd:moves:7"}))),
        tags=frozenset({*bad, "maintd:settle:10m", "maintd:pause:no", "theirs"}),
        groups={"default": Group("default", "g", frozenset({"maintd:burst:1"}))},
    )
    decided = decide(Ledger(), seen(world), POLICY, NOW)
    told = {(held.node, held.why.subject) for held in decided.held}
    assert told == {
        ("", Subject(Of.CLUSTER)),
        ("", Subject(Of.GROUP, "g")),
        ("n2", Subject(Of.NODE, "n2")),
    }
    commands = {held.why.help for held in decided.held}
    assert commands == {
        "gnt-cluster remove-tags maintd:nodes-in-work:zwei",
        "gnt-cluster remove-tags maintd:setle:5m",
        "gnt-cluster remove-tags maintd:moves:4",
        "gnt-group remove-tags g maintd:burst:1",
        "gnt-node remove-tags n2 maintd:storm:5",
    }
    assert {held.why.kind for held in decided.held} == {Kind.WRONG_TAG}


def test_what_a_wrong_tag_stops_tells_all_of_them() -> None:
    tags = frozenset({"maintd:settle:soon", "maintd:storm:x"})
    decided = decide(Ledger(), seen(replace(six(), tags=tags), {"n1": EVACUATE}), POLICY, NOW)
    (why,) = (held.why for held in decided.held if held.incident)
    assert {dict(wrong.details)["tag"] for wrong in why.parts} == tags
    assert {wrong.kind for wrong in why.parts} == {Kind.WRONG_TAG}


def test_many_wrong_tags_are_summed_up() -> None:
    nodes = [node(f"n{i}", tags=frozenset({"maintd:storm:5"})) for i in range(1, 24)]
    held = decide(Ledger(), seen(snapshot(*nodes)), POLICY, NOW).held
    assert len(held) == 21
    assert held[-1].why == because(Kind.MORE_WRONG_TAGS, count=3)


# Forgetting.


FORGETTING: dict[str, tuple[Status, Diagnosis, bool, bool]] = {
    "ready tag removed, no longer observed": (Status.COMPLETED, OK, False, False),
    "ready tag removed, still observed": (Status.COMPLETED, EVACUATE, False, True),
    "ready tag still there": (Status.COMPLETED, OK, True, True),
    "failed tag removed: unconditionally": (Status.FAILED, OK, False, False),
    "failed tag still there": (Status.FAILED, OK, True, True),
    "canceled, still observed": (Status.CANCELED, EVACUATE, True, True),
    "canceled, no longer observed": (Status.CANCELED, OK, True, False),
    "noted and gone before anything was done": (Status.NOTED, OK, False, False),
}


def test_forgetting() -> None:
    for name, (status, said, tagged, kept) in FORGETTING.items():
        before = incident(status=status, tag_seen=True)
        tags = frozenset({before.tag}) if tagged else frozenset()
        world = six(node("n1", tags=tags))
        decided = decide(ledger(before), seen(world, {"n1": said}), POLICY, NOW)
        assert (before.id in {one.id for one in decided.ledger.incidents}) is kept, name


def test_a_failed_incident_starts_again_when_its_tag_is_removed() -> None:
    before = incident(status=Status.FAILED, tag_seen=True)
    begun = tuple(Begun("uuid-n1", NOW, f"old-{n}", EVACUATE.need) for n in range(5))
    decided = decide(ledger(before, begun=begun), seen(six(), {"n1": EVACUATE}), POLICY, NOW + 1)
    (again,) = decided.ledger.incidents
    assert (again.id, again.status) != (before.id, before.status)
    assert actions(decided.ledger) == [Drain("n1")]


@pytest.mark.parametrize(("later", "kept"), [(1, True), (2 * MINUTE, False)])
def test_a_tag_just_set_need_not_show_yet(later: int, kept: bool) -> None:
    """The old daemon's fault 17: its own new tag was "missing" in a late configuration."""
    before = incident(status=Status.COMPLETED)
    decided = decide(ledger(before), seen(six()), POLICY, NOW + later)
    assert bool(decided.ledger.incidents) is kept


def test_the_incident_of_a_removed_node_is_forgotten_and_its_promises_dropped() -> None:
    intent = Intent("1", OfIncident(incident().id), "n1", RunCommand("n1", "fix", "{}"), job="7")
    world = Snapshot("c", {"n2": node("n2")})
    before = ledger(incident(status=Status.PENDING), intents=(intent,))
    after = decide(before, seen(world), POLICY, NOW).ledger
    assert (after.incidents, after.intents) == ((), ())


def test_a_renamed_node_keeps_its_incident_and_a_new_one_of_its_name_has_none() -> None:
    """The old daemon's fault 18: it knew nodes by name."""
    renamed = replace(node("n9"), uuid="uuid-n1")
    fresh = replace(node("n1"), uuid="uuid-new")
    world = Snapshot("c", {"n9": renamed, "n1": fresh}, master="n1")
    decided = decide(
        ledger(incident(status=Status.FAILED)), seen(world, {"n9": EVACUATE}), POLICY, NOW
    )
    (kept,) = decided.ledger.incidents
    assert kept.name == "n9"
    assert actions(decided.ledger) == [tag(Scope.NODE, "n9", kept.tag)]


# A job that fails stops its incident; one that is lost is looked for in its effect.


def with_job(action: Action, diagnosis: Diagnosis = EVACUATE) -> Ledger:
    one = incident(diagnosis=diagnosis, status=Status.PENDING)
    return ledger(one, intents=(Intent("1", OfIncident(one.id), "n1", action, "7"),), round=1)


def test_a_failed_job_stops_its_incident() -> None:
    observed = seen(six(), {"n1": EVACUATE}, results={"1": Outcome.ERROR})
    decided = decide(with_job(Drain("n1")), observed, POLICY, NOW)
    (after,) = decided.ledger.incidents
    assert (after.status, after.jobs) == (Status.FAILED, ("7",))
    assert after.why == "job 7 (drain n1) failed: told so"
    assert actions(decided.ledger) == [on_node(after)]
    assert after.tag == f"maintd:repairfailed:{after.id}"


def test_the_failure_tag_waits_for_the_other_jobs() -> None:
    before = with_job(MovePrimary("a", "n1", live=True, target="n2"))
    other = Intent(
        "2", OfIncident(before.incidents[0].id), "n1", MovePrimary("b", "n1", live=True), "8"
    )
    before = replace(before, intents=(*before.intents, other))
    world = six(node("n1", drained=True), a=("n1", "n2"), b=("n1", "n2"), c=("n1", "n2"))
    results = {"1": Outcome.ERROR, "2": Outcome.RUNNING}
    decided = decide(before, seen(world, {"n1": EVACUATE}, results=results), POLICY, NOW)
    assert decided.ledger.incidents[0].status is Status.FAILED
    assert actions(decided.ledger) == [], "neither another move nor the tag"


def test_a_lost_job_whose_effect_is_seen_was_done() -> None:
    world = six(node("n1", drained=True))
    observed = seen(world, {"n1": EVACUATE}, results={"1": Outcome.LOST})
    decided = decide(with_job(Drain("n1")), observed, POLICY, NOW)
    assert decided.ledger.incidents[0].drained
    assert actions(decided.ledger) == [SetOffline("n1")]


def test_a_lost_job_whose_effect_is_not_seen_holds_until_a_person_says() -> None:
    before = with_job(Drain("n1"))
    lost = seen(six(), {"n1": EVACUATE}, results={"1": Outcome.LOST})
    decided = decide(before, lost, POLICY, NOW)
    assert actions(decided.ledger) == []
    assert decided.ledger.incidents[0].status is Status.PENDING
    assert kinds(decided.held) == [(Kind.LOST_JOB, "n1")]
    assert dict(decided.held[0].why.details)["job"] == "7"
    retry = wishing(lost, Retry(decided.ledger.incidents[0].id))
    assert actions(decide(decided.ledger, retry, POLICY, NOW).ledger) == [Drain("n1")]


def test_a_command_that_asks_for_time_is_tried_again_but_not_for_ever() -> None:
    state = with_job(RunCommand("n1", "fix-nic", REPAIR.text), diagnosis=REPAIR)
    now, orders = NOW, 1
    for _ in range(20):
        results = {i.id: Outcome.LATER for i in state.intents if i.job}
        decided = decide(state, seen(MARKED, {"n1": REPAIR}, results=results), POLICY, now)
        orders += sum(isinstance(a, RunCommand) for a in actions(decided.ledger))
        state, now = submitted(decided.ledger), now + MINUTE
    assert orders == 5
    assert state.incidents[0].status is Status.FAILED
    assert state.incidents[0].why.startswith("given up after 5 tries")


def test_a_promise_that_was_never_submitted_is_void_and_planned_anew() -> None:
    before = with_job(Drain("n1"))
    before = replace(before, intents=(replace(before.intents[0], job=None),))
    absent = seen(six(), {"n1": EVACUATE}, absent={"1": "the job queue is drained"})
    decided = decide(before, absent, POLICY, NOW)
    assert actions(decided.ledger) == []
    again = because(Kind.TRY_AGAIN, "n1", left=60_000, why="the job queue is drained")
    assert [one.why for one in decided.held] == [again]
    later = decide(decided.ledger, seen(six(), {"n1": EVACUATE}), POLICY, NOW + MINUTE)
    assert actions(later.ledger) == [Drain("n1")]
    assert later.ledger.intents[0].id != "1"


def test_why_a_promise_is_tried_again_later_outlives_the_success_of_another() -> None:
    """Both were submitted at once, and maintd was killed meanwhile."""
    before = with_job(Drain("n1"))
    first = before.intents[0]
    before = replace(before, intents=(first, replace(first, id="2", job=None)))
    absent = seen(six(), {"n1": EVACUATE}, absent={"2": "the job queue is drained"})
    state = decide(before, absent, POLICY, NOW).ledger
    done = seen(six(node("n1", drained=True)), {"n1": EVACUATE}, results={"1": Outcome.SUCCESS})
    decided = decide(state, done, POLICY, NOW + 1000)
    again = because(Kind.TRY_AGAIN, "n1", left=59_000, why="the job queue is drained")
    assert [one.why for one in decided.held] == [again]


def test_a_failure_tag_that_cannot_be_set_is_tried_again_later() -> None:
    """The old daemon's fault 16: it tried at once and for ever, and did nothing else."""
    one = incident(status=Status.FAILED)
    before = ledger(
        one, intents=(Intent("1", OfIncident(one.id), "n1", on_node(one), "7"),), round=1
    )
    observed = seen(six(), {"n1": EVACUATE}, results={"1": Outcome.ERROR})
    decided = decide(before, observed, POLICY, NOW)
    assert actions(decided.ledger) == []
    later = decide(decided.ledger, seen(six(), {"n1": EVACUATE}), POLICY, NOW + MINUTE)
    assert actions(later.ledger) == [on_node(one)]


def test_details_that_change_make_another_incident() -> None:
    other = need("evacuate", details="other")
    decided = decide(ledger(incident()), seen(six(), {"n1": other}), POLICY, NOW)
    assert [i.diagnosis for i in decided.ledger.incidents] == [other]


# The storm brake.


def test_the_storm_brake_lets_what_is_begun_end_and_is_reset_by_hand() -> None:
    world = six(node("n1", drained=True), a=("n1", "n2"))
    said = {"n1": EVACUATE, "n4": EVACUATE, "n5": EVACUATE}
    before = ledger(incident(status=Status.PENDING, drained=True))
    decided = decide(before, seen(world, said), POLICY, NOW)
    assert decided.ledger.storm is not None
    assert actions(decided.ledger)[0] == MovePrimary("a", "n1", live=True, target="n2")
    calm = wishing(seen(world, said), ResetStorm())
    reset = decide(decided.ledger, calm, replace(POLICY, storm=0.9), NOW + 1)
    assert reset.ledger.storm is None


# Wishes.


LATE = "maintd could run no round for 61 minutes: ask again if you still want it"


def wishing(observed: Observed, *asked: Asked) -> Observed:
    return replace(
        observed, wishes=tuple(Wish(f"w{n}", "root", NOW, one) for n, one in enumerate(asked))
    )


def test_a_canceled_incident_is_left_alone_and_told_in_ganeti() -> None:
    first = decide(Ledger(), seen(six(), {"n1": EVACUATE}), POLICY, NOW).ledger
    identity = first.incidents[0].id
    running = submitted(first)
    observed = seen(six(), {"n1": EVACUATE}, results={first.intents[0].id: Outcome.RUNNING})
    decided = decide(running, wishing(observed, Cancel(identity)), POLICY, NOW + 1)
    assert decided.ledger.incidents[0].why == "canceled by root"
    assert actions(decided.ledger) == [tag(Scope.NODE, "n1", f"maintd:canceled:{identity}")]
    drained_now = seen(
        six(node("n1", drained=True, tags=frozenset({f"maintd:canceled:{identity}"}))),
        {"n1": EVACUATE},
        results={i.id: Outcome.SUCCESS for i in decided.ledger.intents},
    )
    after = decide(submitted(decided.ledger), drained_now, POLICY, NOW + 2)
    assert not after.ledger.intents, "nothing more, and nothing undone"
    well = replace(drained_now, diagnoses={**drained_now.diagnoses, "n1": OK}, results={})
    gone = decide(after.ledger, well, POLICY, NOW + 3)
    assert gone.ledger.incidents == ()
    assert actions(gone.ledger) == [tag(Scope.NODE, "n1", remove=(f"maintd:canceled:{identity}",))]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (Cancel("nobody"), "there is no incident nobody"),
        (Retry("nobody"), "there is no incident nobody"),
        (Retry(incident().id), "none of its jobs is lost"),
        (Pause(Scope.NODE, "n77"), "there is no node n77"),
        (Resume(Scope.CLUSTER, ""), "the cluster is not paused"),
        (Resume(Scope.NODE, "n2"), "node n2 is not paused"),
        (Resume(Scope.NODE, "n77"), "there is no node n77"),
        (Pause(Scope.GROUP, "g77"), "there is no group g77"),
        (Pause(Scope.CLUSTER, "", until=NOW), "the pause would have ended at 2026-11-18T"),
        (ResetStorm(), "the storm brake has not tripped"),
    ],
)
def test_a_wish_that_cannot_be_granted_says_why(asked: Asked, why: str) -> None:
    before = ledger(incident(status=Status.FAILED, tag_seen=True))
    world = six(node("n1", tags=frozenset({before.incidents[0].tag})))
    decided = decide(before, wishing(seen(world), asked), POLICY, NOW)
    assert decided.refused["w0"].startswith(why)


@pytest.mark.parametrize(
    ("asked", "holds"),
    [
        (Resume(Scope.CLUSTER, ""), False),
        (ResetStorm(), False),
        (TrustLedger(), False),
        (AddEntry("unreachable", "r640", "192.0.2.1"), False),
        (SetQueue(enabled=True), False),
        (SetAutoRepair(enabled=True), False),
        (SetQueue(enabled=False), True),
        (SetAutoRepair(enabled=False), True),
        (Pause(Scope.NODE, "n1"), True),
        (Cancel(incident().id), True),
        (SetSchedule(Schedule()), True),
    ],
)
def test_what_is_for_now_is_not_granted_hours_later(asked: Asked, holds: bool) -> None:
    observed = wishing(seen(six(), {"n1": EVACUATE}), asked)
    before = ledger(incident())
    late = decide(before, observed, POLICY, NOW + PATIENCE + 60_000).refused
    assert late == ({} if holds else {"w0": LATE})
    assert LATE[:28] not in decide(before, observed, POLICY, NOW + PATIENCE).refused.get("w0", "")


def test_a_pause_begins_nothing_until_it_is_taken_back() -> None:
    """planning/test_holds.py has those of groups and nodes."""
    observed = seen(six(), {"n1": EVACUATE})
    held = decide(Ledger(), wishing(observed, Pause(Scope.CLUSTER, "")), POLICY, NOW)
    assert actions(held.ledger) == [tag(Scope.CLUSTER, "", "maintd:pause:yes")]
    assert kinds(held.held)[0] == (Kind.PAUSED, "")
    still = decide(submitted(held.ledger), observed, POLICY, NOW + 1)
    assert kinds(still.held)[0] == (Kind.PAUSED, "")
    free = decide(still.ledger, wishing(observed, Resume(Scope.CLUSTER, "")), POLICY, NOW + 2)
    assert Drain("n1") in actions(free.ledger)


@pytest.mark.parametrize(
    ("uncertain", "stays"), [(None, False), (Uncertain(NOW, Trouble.UNREADABLE), True)]
)
def test_a_pause_ends_at_its_time_unless_the_ledger_is_in_doubt(
    uncertain: Uncertain | None, *, stays: bool
) -> None:
    hold = Hold(Scope.NODE, "n1", "root", Ms(NOW - 2), tag_seen=True, until=Ms(NOW - 1))
    tagged = seen(six(node("n1", tags=frozenset({hold.tag}))), uncertain=uncertain)
    after = decide(Ledger(holds=(hold,)), tagged, POLICY, NOW).ledger
    assert (hold in after.holds) is stays


def test_a_pause_of_an_incident_that_is_forgotten_goes_with_its_tag() -> None:
    hold = Hold(Scope.NODE, "n1", "root", NOW, incident=incident().id, tag_seen=True)
    held, bare = seen(six(node("n1", tags=frozenset({hold.tag})))), seen(six())
    first = submitted(decide(Ledger(holds=(hold,)), held, POLICY, NOW).ledger)
    (untag,) = first.intents
    running = replace(held, results={untag.id: Result(Outcome.RUNNING)})
    still = decide(first, running, POLICY, NOW + 1).ledger
    done = replace(bare, results={untag.id: Result(Outcome.SUCCESS)})
    over = decide(still, done, POLICY, NOW + 2).ledger
    assert (over.holds, over.intents) == ((), ())


def test_one_incident_can_be_held() -> None:
    one = incident(status=Status.PENDING, drained=True)
    world = six(node("n1", drained=True), a=("n1", "n2"))
    observed = seen(world, {"n1": EVACUATE})
    pause = wishing(observed, Pause(Scope.NODE, "", "wait for the spare part", one.id))
    decided = decide(ledger(one), pause, POLICY, NOW)
    assert actions(decided.ledger) == [tag(Scope.NODE, "n1", f"maintd:hold:{one.id}")]
    (held,) = decided.held
    said = details([held], Kind.PAUSED)
    assert (said["what"], said["who"]) == ("incident", "root")
    assert said["why"] == "wait for the spare part"


# After a loss of memory.


def test_a_rebuilt_incident_waits_until_its_node_says_again_what_it_has() -> None:
    rebuilt = incident(status=Status.PENDING, drained=True)
    before = ledger(replace(rebuilt, diagnosis=UNKNOWN))
    world = six(node("n1", drained=True), a=("n1", "n2"))
    quiet = decide(before, seen(world, doubts={"n1": "silent"}), POLICY, NOW)
    assert actions(quiet.ledger) == []
    again = decide(before, seen(world, {"n1": EVACUATE}), POLICY, NOW + 1)
    assert [i.id for i in again.ledger.incidents] == [rebuilt.id]
    assert actions(again.ledger)[0] == MovePrimary("a", "n1", live=True, target="n2")


def test_numbers_of_intents_are_never_given_twice() -> None:
    first = decide(Ledger(), seen(six(), {"n1": EVACUATE}), POLICY, NOW).ledger
    lost = decide(Ledger(), seen(six(), {"n1": EVACUATE}), POLICY, NOW + 1).ledger
    assert int(lost.intents[0].id) > int(first.intents[0].id) >= NOW
