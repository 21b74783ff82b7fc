"""Which nodes take arrivals: only what is true now closes one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from nodeagent.maintd.planning.resources import open_room
from nodeagent.model.action import Reinstall
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import UNKNOWN, Status
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.snapshot import Capacity, Instance, Size
from tests.maintd.world import (
    EVACUATE,
    FAILOVER,
    OK,
    REPAIR,
    incident,
    ledger,
    need,
    node,
    seen,
    six,
)

OVER = [Status.COMPLETED, Status.FAILED, Status.CANCELED]
SILENT = "does not answer: timed out"
IN_WINDOW = because(Kind.IN_WINDOW, "n2")


@pytest.mark.parametrize("status", OVER)
@pytest.mark.parametrize("about", [REPAIR, EVACUATE, FAILOVER, UNKNOWN], ids=lambda d: d.need.wire)
def test_an_incident_that_is_over_closes_no_node_that_says_ok(
    status: Status, about: Diagnosis
) -> None:
    one = incident("n2", about, status)
    world = six(node("n2", tags=frozenset({one.tag})))
    room = open_room(ledger(one), seen(world), {})
    assert room.why_not("n2", "another") is None
    assert "n2" in room.fit["default"]


DOUBT = because(Kind.IN_DOUBT, "n2", doubt=SILENT)
LEAVES = because(Kind.ASKS, "n2", need="evacuate-failover")
DRAINED = because(Kind.OUT_OF_SERVICE, "n2", state="drained")
OFFLINE = because(Kind.OUT_OF_SERVICE, "n2", state="offline")
NO_VM = because(Kind.OUT_OF_SERVICE, "n2", state="not vm-capable")


@pytest.mark.parametrize(
    ("said", "doubts", "paused", "flags", "why", "rescued"),
    [
        (REPAIR, {}, {}, {}, because(Kind.ASKS, "n2", need="live-repair"), None),
        (EVACUATE, {}, {}, {}, because(Kind.ASKS, "n2", need="evacuate"), None),
        (FAILOVER, {}, {}, {}, LEAVES, LEAVES),
        (None, {"n2": SILENT}, {}, {}, DOUBT, DOUBT),
        (OK, {}, {"n2": IN_WINDOW}, {}, because(Kind.ON_HOLD, "n2", why=IN_WINDOW), None),
        (OK, {}, {}, {"drained": True}, DRAINED, DRAINED),
        (OK, {}, {}, {"offline": True}, OFFLINE, OFFLINE),
        (OK, {}, {}, {"vm_capable": False}, NO_VM, NO_VM),
    ],
)
def test_what_is_true_now_closes_a_node(
    said: Diagnosis | None,
    doubts: Mapping[str, str],
    paused: Mapping[str, Reason],
    flags: Mapping[str, Any],
    why: Reason,
    rescued: Reason | None,
) -> None:
    """Less of it closes it to what runs nowhere else: any place is better than none."""
    says = {} if said is None else {"n2": said}
    room = open_room(ledger(), seen(six(node("n2", **flags)), says, doubts), paused)
    assert room.why_not("n2", "another") == why
    assert room.why_not_rescued("n2") == rescued
    room.claim("n1", "another")
    assert (room.why_not("n1", "another"), room.why_not_rescued("n1")) == (None, None)
    assert room.why_not("n1", "a third") == because(Kind.CLAIMED, "n1", who="another repair")


@pytest.mark.parametrize("status", [Status.NOTED, Status.PENDING])
def test_an_open_incident_closes_its_node_though_it_says_ok_for_the_moment(status: Status) -> None:
    one = incident("n2", EVACUATE, status)
    room = open_room(ledger(one), seen(six()), {})
    assert room.why_not("n2", "another") == because(Kind.OPEN_INCIDENT, "n2", incident=one.id)


def test_which_nodes_are_closed_only_for_a_while() -> None:
    """Those in a window or paused, and those that are repaired while they run."""
    mending = incident("n3", REPAIR, Status.PENDING)
    by_hand = incident("n4", need("live-repair"), Status.NOTED)
    leaving = incident("n5", EVACUATE, Status.PENDING)
    world = six(node("n1", drained=True), node("n6", drained=True))
    says = {one.name: one.diagnosis for one in (mending, by_hand, leaving)}
    paused, windows = dict.fromkeys(("n2", "n6"), IN_WINDOW), {"n1": IN_WINDOW}
    room = open_room(ledger(mending, by_hand, leaving), seen(world, says), paused, windows)
    assert room.briefly_closed == {"n1", "n2", "n3"}
    assert room.evacuated == {"n5"}
    silent = open_room(ledger(mending), seen(world, {}, {"n3": SILENT}), {})
    assert silent.briefly_closed == frozenset()


def test_what_is_planned_and_promised_takes_room() -> None:
    has = Capacity(1000, 1000, Size(4096, 0, 10_000, 8, free_spindles=12))
    soon = Instance("soon", "n2", "n3", memory=100, disk=50, spindles=2)
    world = replace(six(a=("n1", None)), forthcoming={"soon": soon})
    one = replace(world.instances["a"], memory=300, disk=200, spindles=3)
    world = replace(world, instances={"a": one})
    room = open_room(ledger(), seen(world, capacity=dict.fromkeys(world.nodes, has)), {})
    room.plan(Reinstall("a", "n1", "n2", "n4"), "another")

    def left(name: str) -> tuple[int, int, int]:
        size = room.capacity[name].size
        assert size is not None
        return room.capacity[name].memory, room.capacity[name].disk, size.free_spindles

    assert left("n2") == (1000 - 100 - 300, 1000 - 50 - 200, 12 - 2 - 3)
    assert (left("n3"), left("n4")) == ((1000, 950, 12), (1000, 800, 12))
    assert room.placed["a"] == ("n2", "n4")
    assert {room.claims["n2"], room.claims["n4"]} == {"another"}
