"""The storm brake, and which failures hold up what comes after them."""

from dataclasses import replace

import pytest

from nodeagent.maintd.decide import decide
from nodeagent.maintd.planning.admission import failed_before
from nodeagent.maintd.planning.storm_brake import brake
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.reason import Kind, because
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms
from nodeagent.model.wish import ResetStorm
from tests.maintd.decided import kinds
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import (
    EVACUATE,
    NOW,
    OK,
    REPAIR,
    incident,
    ledger,
    need,
    node,
    seen,
    six,
    snapshot,
)

POLICY = Policy(settle=Ms(0), cooldown=Ms(0))
MINUTE = 60_000


def why(before: Ledger, said: dict[str, object], *special: Node, policy: Policy = POLICY) -> str:
    """Why the brake trips, in the round that sees this; nothing if it does not."""
    observed = seen(six(*special), said)  # type: ignore[arg-type]
    storm = decide(before, observed, policy, NOW + MINUTE).ledger.storm
    return storm.why if storm else ""


def healed(name: str, status: Status = Status.COMPLETED) -> Incident:
    return incident(name, REPAIR, status, tag_seen=True)


def tagged(one: Incident) -> Node:
    return node(one.name, tags=frozenset({one.tag}))


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED])
def test_a_healed_node_with_a_tag_is_no_sick_one(status: Status) -> None:
    before = [healed("n2", status), healed("n3", status), healed("n4", status)]
    nodes = [tagged(one) for one in before]
    assert why(ledger(*before), {"n1": EVACUATE}, *nodes) == ""
    lasting: dict[str, object] = {"n1": EVACUATE, "n2": REPAIR, "n3": REPAIR}
    assert why(ledger(*before), lasting, *nodes) == (
        "3 of 6 nodes are unhealthy, more than 30%: n1, n2, n3"
    )


def test_a_node_in_work_that_says_ok_by_now_is_no_sick_one() -> None:
    before = [incident(f"n{n}", EVACUATE, Status.PENDING, missed_at=NOW) for n in (2, 3, 4)]
    known, policy = Ledger(incidents=tuple(before)), Policy(storm=0.3)
    assert brake(known, seen(six()), policy, NOW).storm is None
    still = seen(six(), dict.fromkeys(("n2", "n3", "n4"), EVACUATE))
    assert brake(known, still, policy, NOW).storm is not None


def test_a_node_that_was_well_before_it_fell_silent_is_no_sick_one() -> None:
    before = [healed("n2"), healed("n3")]
    nodes = [tagged(one) for one in before]
    silent = dict.fromkeys(("n2", "n3"), "does not answer: timed out")
    for said, trips in ((OK, False), (REPAIR, True)):
        first = decide(ledger(*before), seen(six(*nodes), {"n2": said, "n3": said}), POLICY, NOW)
        late = seen(six(*nodes), {"n1": EVACUATE}, silent)
        assert (decide(first.ledger, late, POLICY, NOW + 1).ledger.storm is not None) is trips


def test_nodes_that_are_offline_count_by_their_last_word() -> None:
    """Else a bad batch of scripts that comes to node after node would empty them all."""
    before = [incident(f"n{i}", EVACUATE, Status.COMPLETED, tag_seen=True) for i in (2, 3)]
    nodes = [replace(tagged(one), offline=True) for one in before]
    assert why(ledger(*before), {"n1": EVACUATE}, *nodes).endswith("more than 30%: n1, n2, n3")


def test_a_node_that_asks_for_something_else_now_counts_once() -> None:
    before = [healed("n2"), incident("n2", EVACUATE)]
    assert why(ledger(*before), {"n2": EVACUATE}) == ""


def test_a_burst_counts_new_incidents_only_and_lists_them() -> None:
    policy = replace(POLICY, storm=1.0, burst=2)
    old = [replace(healed(f"n{i}"), noted_at=NOW - 60 * MINUTE) for i in (4, 5, 6)]
    nodes = [tagged(one) for one in old]
    two = {f"n{i}": need("live-repair", command="x", details=i) for i in (1, 2)}
    assert why(ledger(*old), {**two}, *nodes, policy=policy) == ""
    three = {**two, "n3": REPAIR}
    assert why(ledger(*old), {**three}, *nodes, policy=policy) == (
        "3 incidents within 10 min, more than 2: n1, n2, n3"
    )


def test_the_list_of_a_thousand_nodes_is_bounded() -> None:
    names = [f"node{i:04}.example.org" for i in range(1000)]
    world = snapshot(*map(node, names))
    many = ledger(*(incident(name) for name in names))
    storm = brake(many, seen(world, dict.fromkeys(names, EVACUATE)), POLICY, NOW).storm
    assert storm is not None
    assert storm.why.startswith(
        "1000 of 1000 nodes are unhealthy, more than 30%:"
        " node0000.example.org,"
        " node0001.example.org, "
    )
    assert storm.why.endswith(" more")
    assert len(storm.why) < 300


def test_a_day_after_a_live_repair_the_next_sick_node_is_worked_on() -> None:
    """The default policy, six nodes, and nobody has removed the tag."""
    rig = Rig(fleet(), mirrored(("n3", "n5")), Policy())
    rig.agents.says["n4"] = REPAIR
    rig.settle()
    assert rig.status("n4") is Status.COMPLETED
    rig.agents.says["n4"] = OK
    for _ in range(3):
        rig.tick(28_800)
    rig.agents.says["n3"] = EVACUATE
    rig.settle()
    assert rig.ledger.storm is None
    assert rig.status("n3") is Status.COMPLETED


def test_the_brake_stays_until_somebody_resets_it_though_all_are_well_again() -> None:
    rig = Rig(fleet(), [], replace(QUICK, storm=0.3))
    rig.agents.says |= dict.fromkeys(("n3", "n4", "n5"), REPAIR)
    rig.tick()
    rig.agents.says = {}
    rig.tick()
    assert rig.ledger.storm is not None
    rig.wish(ResetStorm())
    rig.tick()
    assert rig.ledger.storm is None


# What has failed before.


def failed(well_for: int) -> Incident:
    since = NOW - well_for if well_for else 0
    return incident("n1", REPAIR, Status.FAILED, tag_seen=True, missed_at=since)


@pytest.mark.parametrize(
    ("minutes", "holds"), [(0, True), (9, True), (10, False)], ids=["never", "too short", "healed"]
)
def test_a_failure_whose_node_was_well_for_a_while_holds_up_nothing(
    minutes: int, holds: bool
) -> None:
    one = failed(minutes * MINUTE)
    found = failed_before(incident("n1", EVACUATE), ledger(one), POLICY)
    assert (found is not None) is holds
    assert not found or found == because(Kind.FAILED_BEFORE, "n1")


def test_a_node_that_was_mended_by_hand_is_evacuated_for_its_next_fault() -> None:
    """Its failed repair's tag is still there; a fault at once after the failure waits for it."""
    rig = Rig(fleet(), mirrored(("n3", "n4")), replace(QUICK, withdraw=Ms(600_000)))
    rig.cluster.fails = lambda action: False
    rig.agents.refuses = lambda _: True
    rig.agents.says["n3"] = REPAIR
    rig.settle()
    assert rig.status("n3") is Status.FAILED
    rig.agents.says["n3"] = EVACUATE
    for _ in range(100):
        done = rig.tick()
    assert rig.status("n3") is Status.NOTED
    assert (Kind.FAILED_BEFORE, "n3") in kinds(done.decision.held)
    rig.agents.says["n3"] = OK
    for _ in range(100):
        rig.tick()
    rig.agents.says["n3"] = EVACUATE
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED
