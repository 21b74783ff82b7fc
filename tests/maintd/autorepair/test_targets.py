"""Where an instance is installed anew whose disks are physical ones, for itself alone."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from nodeagent.autorepair.steps import Step
from nodeagent.autorepair.tags import RepairType
from nodeagent.maintd.autorepair.targets import move
from nodeagent.maintd.planning.resources import Room, open_room
from nodeagent.model.action import MoveSecondary, Reinstall, Retag, Scope
from nodeagent.model.departure import Departure
from nodeagent.model.ledger import Ledger
from nodeagent.model.purpose import AUTOREPAIR
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.snapshot import Capacity, Instance, Size
from tests.maintd.leaving import DAY, HOUR, ahead
from tests.maintd.world import node, seen, snapshot

SIZE = Size(65_536, 1024, 1_000_000, 16, 1, 12, 1)
PLAIN = Instance("p", "n1", template="plain", memory=4096, disk=200_000, spindles=2)
FREE = {
    "n2": Capacity(60_000, 1_000_000, SIZE),
    "n3": Capacity(50_000, 1_000_000, replace(SIZE, free_spindles=6)),
}


def room(
    *there: str,
    exclusive: bool = True,
    leaving: Mapping[str, Departure] = MappingProxyType({}),
    **members: object,
) -> Room:
    """n1 is dead; n2 has the most memory, and n3 the disks."""
    lost = node("n1", offline=True, exclusive=exclusive)
    nodes = [node(name, exclusive=exclusive) for name in there or FREE]
    cluster = replace(snapshot(lost, *nodes), **members)  # type: ignore[arg-type]
    return open_room(Ledger(), seen(cluster, capacity=FREE), {}, departures=leaving)


def anew(instance: Instance, into: Room) -> object:
    swap = Retag(Scope.INSTANCE, instance.name, ("x",))
    return move(instance, Step(RepairType.REINSTALL, "r", swap, "why"), into)


def test_it_is_installed_where_its_physical_disks_are_free() -> None:
    assert anew(PLAIN, room()) == Reinstall("p", "n1", "n3")
    assert anew(PLAIN, room(exclusive=False)) == Reinstall("p", "n1", "n2")


NIGHT = {"n2": Departure(ahead(HOUR)), "n3": Departure(ahead(2 * HOUR))}


@pytest.mark.parametrize(
    ("leaving", "target"),
    [
        pytest.param({}, "n2", id="the most memory"),
        pytest.param({"n2": NIGHT["n2"]}, "n3", id="the node that stays"),
        pytest.param(NIGHT, "n3", id="the last to leave"),
        pytest.param({**NIGHT, "n2": Departure(ahead(DAY))}, "n2", id="the other way round"),
    ],
)
def test_a_node_that_leaves_soon_is_the_last_resort(
    leaving: Mapping[str, Departure], target: str
) -> None:
    plain = replace(PLAIN, spindles=0)
    assert anew(plain, room(exclusive=False, leaving=leaving)) == Reinstall("p", "n1", target)
    there = room(leaving=leaving)
    assert anew(PLAIN, there) == Reinstall("p", "n1", "n3"), "only it has the disks"
    mirrored = replace(plain, template="drbd", secondary="n9", disk=10)
    swap = Step(RepairType.FIX_STORAGE, "r", Retag(Scope.INSTANCE, "p", ("x",)), "why")
    up = room(exclusive=False, leaving=leaving)
    up.unreachable = {}  # n1 is drained only
    assert move(mirrored, swap, up) == MoveSecondary("p", "n9", target)


def test_it_waits_for_physical_disks() -> None:
    full = because(Kind.NO_FREE_NODE, "default", wanted=("2 free physical disks",))
    assert anew(PLAIN, room("n2")) == because(Kind.NO_PLACE_ANEW, "p", why=full)


@pytest.mark.parametrize(
    ("instance", "into"),
    [
        (replace(PLAIN, spindles=None), room()),
        (replace(PLAIN, template="drbd", secondary="n4", spindles=None), room()),
    ],
)
def test_what_is_not_known_to_have_how_many_is_not_touched(instance: Instance, into: Room) -> None:
    unknown = because(Kind.UNKNOWN_DISKS, "p")
    assert anew(instance, into) == because(Kind.NO_PLACE_ANEW, "p", why=unknown)


def test_a_node_that_does_not_tell_of_its_disks_is_no_place() -> None:
    into = room()
    into.capacity["n3"] = replace(FREE["n3"], size=None)
    assert isinstance(anew(PLAIN, into), Reason)


def test_what_is_planned_and_promised_takes_them() -> None:
    names = {name: replace(PLAIN, name=name) for name in "pqrs"}
    into = room(instances=names)
    for name in "pqr":
        found = anew(names[name], into)
        assert isinstance(found, Reinstall)
        into.plan(found, AUTOREPAIR)
    assert isinstance(anew(names["s"], into), Reason)
    soon = replace(PLAIN, name="soon", primary="n3", spindles=5)
    assert isinstance(anew(PLAIN, room(forthcoming={"soon": soon})), Reason)
