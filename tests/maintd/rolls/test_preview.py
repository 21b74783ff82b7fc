"""A roll is tried before it begins: whole sets, with the room that there is."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from nodeagent.maintd.rolls.members import members
from nodeagent.maintd.rolls.preview import Preview, preview
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.reason import AnyKind, Kind
from nodeagent.model.roll import REBOOT, Roll, Terms
from nodeagent.model.snapshot import Capacity, Instance, Observed, Snapshot
from tests.build import fleet, in_parts, mirrored
from tests.maintd.world import NOW, OK

ROOM = Capacity(1000, 1000)


def tried(
    instances: list[Instance],
    nodes: tuple[str, ...] = ("n2", "n3", "n4"),
    terms: Terms = Terms(REBOOT),
    room: Mapping[str, Capacity] = MappingProxyType({}),
) -> Preview:
    """Try a roll over these nodes of six; `room` is that of nodes with another than ROOM."""
    there = {node.name: node for node in fleet()}
    world = Snapshot("c", there, {one.name: one for one in instances}, master="n1")
    said = dict.fromkeys(there, OK)
    observed = Observed(world, said, capacity=dict.fromkeys(there, ROOM) | dict(room))
    roll = Roll(1, "", NOW, terms, members([there[name] for name in nodes], NOW))
    return preview(roll, Ledger(), observed, Policy(), NOW)


def stuck(found: Preview) -> list[tuple[str, AnyKind]]:
    return [(name, why.kind) for name, why in found.stuck]


TWO, THREE = Terms(REBOOT, at_once=2), Terms(REBOOT, at_once=3)


@pytest.mark.parametrize(
    ("places", "nodes", "terms", "sets"),
    [
        ([], ("n2", "n3", "n4"), Terms(REBOOT), [("n2",), ("n3",), ("n4",)]),
        ([], ("n2", "n3", "n4"), TWO, [("n2", "n3"), ("n4",)]),
        ([("n2", "n3")], ("n2", "n3", "n4"), TWO, [("n2", "n4"), ("n3",)]),
        ([("n3", "n2")], ("n2", "n3", "n4"), THREE, [("n2", "n4"), ("n3",)]),
        ([], ("n2", "n1"), TWO, [("n2",), ("n1",)]),
    ],
    ids=["one", "two", "shared", "shared-the-other-way", "master"],
)
def test_sets_are_those_that_can_be_away_together(
    places: list[tuple[str, str]],
    nodes: tuple[str, ...],
    terms: Terms,
    sets: list[tuple[str, ...]],
) -> None:
    found = tried(mirrored(*places), nodes, terms)
    assert found.sets == tuple(sets)
    assert found.stuck == ()


def test_nodes_that_have_only_some_disks_of_an_instance() -> None:
    found = tried([in_parts("web", "n3", "n2")], ("n2", "n3", "n4"), TWO)
    assert (found.sets, stuck(found)) == (
        (("n4",),),
        [("n2", Kind.MIRROR_CANNOT_MOVE), ("n3", Kind.CANNOT_MOVE)],
    )
    stay = replace(TWO, keep_secondaries=True)
    assert tried([in_parts("web", "n3", "n2")], ("n2", "n4"), stay).sets == (("n2", "n4"),)


def test_two_that_can_leave_only_one_after_the_other_are_no_set() -> None:
    """Only n6 has room, and for one instance."""
    full = dict.fromkeys(("n1", "n4", "n5"), Capacity(0, 0)) | {"n6": Capacity(150, 150)}
    instances = mirrored(("n2", "n4"), ("n3", "n5"))
    lax = Terms(REBOOT, at_once=2)
    assert tried(instances, ("n2", "n3"), lax, room=full).sets == ()
    enough = full | {"n4": Capacity(200, 0), "n5": Capacity(200, 0)}
    assert tried(instances, ("n2", "n3"), lax, room=enough).sets == (("n2",), ("n3",))
    more = enough | {"n6": Capacity(250, 250)}
    assert tried(instances, ("n2", "n3"), lax, room=more).sets == (("n2", "n3"),)


def test_a_node_that_cannot_be_emptied_is_named_with_the_reason() -> None:
    alone = Instance("i9", "n3", None, memory=100, disk=100, template="plain")
    assert stuck(tried([alone])) == [("n3", Kind.CANNOT_MOVE)]
    unknown = tried(mirrored(("n3", "n4")), room={"n4": replace(ROOM, memory=0)})
    assert [name for name, _ in stuck(unknown)] == ["n3"]


def test_secondaries_that_stay_need_no_room() -> None:
    full = dict.fromkeys(("n1", "n2", "n5", "n6"), Capacity(0, 0))
    instances = mirrored(("n3", "n4"))
    kept = Terms(REBOOT, keep_secondaries=True)
    assert [name for name, _ in stuck(tried(instances, ("n4",), room=full))] == ["n4"]
    assert tried(instances, ("n4",), kept, room=full).sets == (("n4",),)


def test_it_ends_when_it_is_late_and_names_the_rest() -> None:
    there = {node.name: node for node in fleet()}
    observed = Observed(Snapshot("c", there), dict.fromkeys(there, OK))
    roll = Roll(1, "", NOW, Terms(REBOOT), members(list(there.values()), NOW))
    late = iter([False, False, True])
    found = preview(roll, Ledger(), observed, Policy(), NOW, is_late=lambda: next(late))
    assert found.sets == (("n1",), ("n2",))
    assert found.untried == ("n3", "n4", "n5", "n6")
