"""Which stop holds up which kind of work, and which work shows in the cluster as done."""

from dataclasses import replace

import pytest

from nodeagent.maintd.planning.effects import is_of_nothing, is_seen, is_whole
from nodeagent.maintd.planning.situation import Stops
from nodeagent.model.action import (
    Action,
    Drain,
    Guarded,
    MovePrimary,
    MoveSecondary,
    Reinstall,
    Restore,
    Retag,
    RunCommand,
    Scope,
    SetOffline,
)
from nodeagent.model.reason import Kind, because
from nodeagent.model.snapshot import Group
from tests.build import node, six

WHY = because(Kind.PAUSED, "n1")
ROWS = [
    # what there is; the kinds of work that it stops at the node, and then at another one
    pytest.param(Stops(pauses={"n1": WHY}), "rpm", "", id="a pause stops all work there"),
    pytest.param(Stops(windows={"n1": WHY}), "rp", "", id="a window goes on itself"),
    pytest.param(Stops(rolls={"n1": WHY}), "rp", "", id="a roll goes on itself"),
    pytest.param(Stops(storm=WHY), "rpm", "rpm", id="the storm brake stops all work"),
    pytest.param(Stops(doubt=WHY), "pm", "pm", id="what a fault asks for goes on in doubt"),
    pytest.param(Stops(outside=WHY, incidents={"1": WHY}), "", "", id="these are of no node"),
]


@pytest.mark.parametrize(("stops", "there", "elsewhere"), ROWS)
def test_what_stops_which_work(stops: Stops, there: str, elsewhere: str) -> None:
    kinds = {"r": stops.repairs, "p": stops.plans, "m": stops.maintenance}
    for name, stopped in (("n1", there), ("n2", elsewhere)):
        assert "".join(kind for kind, stop in kinds.items() if stop.at(name)) == stopped, name


def test_what_stops_all_work_is_said_before_what_stops_it_at_a_node() -> None:
    storm, doubt = because(Kind.STORM, why="many"), because(Kind.DOUBT, "n1", doubt="silent")
    stops = Stops(pauses={"n1": WHY}, storm=storm)
    assert (stops.plans.at("n1"), stops.plans.at("n2")) == (storm, storm)
    assert Stops(storm=storm, doubt=doubt).plans.everywhere == doubt


TAGGED = frozenset({"x"})
NODES = (node("n1", drained=True, tags=TAGGED), node("n2", offline=True))
WORLD = replace(
    six(*NODES, a=("n1", "n2")), tags=TAGGED, groups={"uuid": Group("uuid", "gold", TAGGED)}
)
ON_CLUSTER, ON_NODE = Retag(Scope.CLUSTER, "", add=("x",)), Retag(Scope.NODE, "n1", add=("x",))
ON_GROUP, ON_INSTANCE = (Retag(scope, "gold", ("x",)) for scope in (Scope.GROUP, Scope.INSTANCE))
MOVED, GONE = MovePrimary("a", "n3", live=True), MovePrimary("gone", "n1", live=True)
SHOWN: list[Action] = [
    *(Drain("n1"), Drain("n2"), SetOffline("n2")),
    *(Restore("n3"), Restore("n1", drained=True), Restore("gone")),
    *(MOVED, GONE, MoveSecondary("a", "n3", "n4"), MoveSecondary("gone", "n2", "n4")),
    *(Guarded(ON_CLUSTER, MOVED), Reinstall("a", "n3", "n1", "n2"), Reinstall("gone", "n1", "n2")),
    *(ON_CLUSTER, ON_NODE, ON_GROUP, replace(ON_NODE, add=(), remove=("y",))),
]
NOT_SHOWN: list[Action] = [
    *(Drain("n3"), Drain("gone"), SetOffline("n1"), SetOffline("gone")),
    *(Restore("n1"), Restore("n2"), Restore("n2", drained=True)),
    *(replace(MOVED, node="n1"), MoveSecondary("a", "n1", "n4"), MoveSecondary("a", "n2", "n4")),
    *(Guarded(ON_CLUSTER, replace(MOVED, node="n1")), Reinstall("a", "n3", "n1")),
    *(replace(ON_NODE, name="gone"), replace(ON_NODE, add=(), remove=("x",)), ON_INSTANCE),
    *(replace(ON_NODE, add=("x", "y")), RunCommand("n1", "mend", "{}")),
]


def test_which_effects_show() -> None:
    for action in (*SHOWN, *NOT_SHOWN):
        assert is_seen(action, WORLD) is (action in SHOWN), action


def test_what_is_whole_as_it_shows_and_what_moves_nothing() -> None:
    whole: list[Action] = [Drain("n1"), SetOffline("n1"), Restore("n1"), ON_NODE]
    for action in (*whole, MOVED, Guarded(ON_NODE, MOVED), RunCommand("n1", "mend", "{}")):
        assert is_whole(action) is (action in whole), action
    assert all(is_of_nothing(one, WORLD) for one in (GONE, MoveSecondary("gone", "n1", "n2")))
    assert not any(is_of_nothing(one, WORLD) for one in (MOVED, Drain("gone"), None))
