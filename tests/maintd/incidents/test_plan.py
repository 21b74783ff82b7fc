"""What is done for an incident on a node that others have taken or emptied."""

from dataclasses import replace

import pytest

from nodeagent.maintd.deciding.decide import decide
from nodeagent.model.action import MovePrimary, SetOffline
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger, Outcome
from nodeagent.model.purpose import OfIncident
from nodeagent.model.reason import Kind
from tests.maintd.decided import POLICY, kinds, new
from tests.maintd.world import EVACUATE, NOW, REPAIR, incident, ledger, node, seen, six


@pytest.mark.parametrize("diagnosis", [REPAIR, EVACUATE], ids=["live-repair", "evacuate"])
@pytest.mark.parametrize("status", [Status.NOTED, Status.PENDING])
def test_on_a_node_that_somebody_took_offline_nothing_is_done(
    diagnosis: object, status: Status
) -> None:
    one = incident(diagnosis=diagnosis, status=status)  # type: ignore[arg-type]
    world = six(node("n1", offline=True, tags=frozenset({one.mark})), b=("n2", "n1"))
    decision = decide(ledger(one), seen(world), POLICY, NOW)
    assert new(decision) == []
    orders = Kind.OFFLINE_NO_ORDER if diagnosis is REPAIR else Kind.NOT_FOR_MAINTD
    wanted = Kind.OFFLINE if status is Status.NOTED else orders
    assert kinds(decision.held)[-1] == (wanted, "n1")


@pytest.mark.parametrize("what", ["silent", "offline"])
def test_a_mirror_whose_instance_is_out_of_reach_holds_and_fails_nothing(what: str) -> None:
    world = six(
        node("n1", drained=True),
        *([node("n3", offline=True)] if what == "offline" else []),
        b=("n3", "n1"),
        c=("n4", "n1"),
    )
    doubts = {"n3": "does not answer: timed out"} if what == "silent" else {}
    decision = decide(Ledger(), seen(world, {"n1": EVACUATE}, doubts), POLICY, NOW)
    assert [getattr(a, "instance", None) for a in new(decision)] == ["c"]
    held = kinds(decision.held)
    assert held[held.index((Kind.MIRROR_CANNOT_MOVE, "b")) + 1][1] == "n3"
    assert SetOffline("n1") not in new(decision)


def test_a_move_of_an_instance_that_was_just_removed_is_no_failure() -> None:
    """Ganeti takes the disks off first: for a moment a plain instance could go anywhere."""
    one = incident(status=Status.PENDING, drained=True)
    move = Intent(
        "1", OfIncident(one.id), "n1", MovePrimary("a", "n1", live=True, target="n3"), "7"
    )
    there, gone = six(node("n1", drained=True), a=("n1", None)), six(node("n1", drained=True))
    before = ledger(one, intents=(move,))
    failed = {"1": Outcome.ERROR}
    over = decide(before, seen(gone, {"n1": EVACUATE}, results=failed), POLICY, NOW)
    assert new(over) == [SetOffline("n1")]
    still = decide(before, seen(there, {"n1": EVACUATE}, results=failed), POLICY, NOW)
    assert still.ledger.incidents[0].status is Status.FAILED


def test_secondaries_with_nowhere_to_go_are_left_only_where_a_setting_says_so() -> None:
    """A third node of the group that is only in doubt may be back in a minute."""
    told = (Kind.MIRROR_CANNOT_MOVE, "b")
    tag = frozenset({"maintd:degraded:yes"})
    leaves = replace(POLICY, degraded=True)
    for tags, policy, third, doubts, ends in (
        (frozenset[str](), POLICY, "other", {}, False),
        (frozenset[str](), leaves, "other", {}, True),
        (tag, POLICY, "other", {}, True),
        (tag, POLICY, "two", {"n3": "silent"}, False),
    ):
        pair = (node("n1", group="two", drained=True, tags=tags), node("n2", group="two"))
        world = six(*pair, node("n3", group=third), b=("n2", "n1"))
        decision = decide(Ledger(), seen(world, {"n1": EVACUATE}, doubts), policy, NOW)
        assert (SetOffline("n1") in new(decision)) is ends, (tags, policy, third)
        assert (told in kinds(decision.held)) is not ends, (tags, policy, third)
        left = [held.why for held in decision.held if held.why.kind is told[0]]
        alone = third == "other" and not ends
        assert {why.help for why in left} == (
            {"gnt-node add-tags n1 maintd:degraded:yes"} if alone else {""} if left else set()
        )
