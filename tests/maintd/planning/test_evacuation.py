"""When a node is emptied at all: never where the rest would be too full."""

from dataclasses import replace

from nodeagent.maintd.decide import decide
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Capacity
from tests.maintd.decided import POLICY, kinds, new
from tests.maintd.world import EVACUATE, NOW, PLENTY, instance, node, seen, six


def test_nothing_is_emptied_while_nobody_knows_what_the_others_have_free() -> None:
    world = six(a=("n1", "n2"))
    asked_in_vain = seen(world, {"n1": EVACUATE}, capacity={})
    decision = decide(Ledger(), asked_in_vain, POLICY, NOW)
    assert new(decision) == []
    assert kinds(decision.held) == [
        (Kind.UNKNOWN_IF_ROOM, "n1"),
        (Kind.CANNOT_MOVE, "a"),
        (Kind.MIRROR_UNKNOWN, "n2"),
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
    assert kinds(decision.held)[0] == (Kind.NO_ROOM, "n1")
