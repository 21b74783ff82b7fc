"""Nodes that leave soon take only what no other node can, least soon first."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from nodeagent.errors import MessageError
from nodeagent.model.departure import Cause, Departure, document, ranks
from nodeagent.model.units import Ms
from nodeagent.placement.allocate.candidates import Terms
from nodeagent.placement.allocate.iallocator import answer
from nodeagent.placement.allocate.request import read_request
from nodeagent.placement.cluster.leaving import read_leaving
from tests.placement.allocate.asked import Asked, cluster, new
from tests.placement.requests import request

HOUR = 3_600_000
TODAY = Ms(1_795_000_000_000)
NIGHT = {
    "a1": Departure(Ms(TODAY + HOUR), Ms(TODAY + 2 * HOUR)),
    "a2": Departure(Ms(TODAY + 3 * HOUR), None, Cause.PERSON),
}


def answered(asked: Asked, leaving: Mapping[str, Departure], *, hail: bool = False) -> Asked:
    return answer(read_request(asked), Terms(capacity=False), hail=hail, leaving=leaving)


def instance(*nodes: str, template: str = "drbd") -> Asked:
    there = new("", 1) | {"nodes": list(nodes), "disk_template": template, "admin_state": "up"}
    del there["name"], there["required_nodes"]
    return there


def asking(kind: str, nodes: dict[str, int], exclusive: bool, **members: Any) -> Asked:
    asked = cluster(nodes, exclusive=exclusive)
    for group in asked["nodegroups"].values():
        group["ipolicy"]["disk-templates"] += ["ext", "diskless"]
    asked["request"] = {"type": kind, **members}
    return asked


@pytest.mark.parametrize("exclusive", [True, False], ids=["dedicated", "ordinary"])
@pytest.mark.parametrize(
    ("free", "place"),
    [
        pytest.param({"a1": 1, "a2": 2, "a3": 4}, "a3", id="stays"),
        pytest.param({"a1": 1, "a2": 2, "a3": 0}, "a2", id="leaves last"),
        pytest.param({"a1": 1, "a2": 0, "a3": 0}, "a1", id="the only place"),
    ],
)
def test_a_new_instance(free: dict[str, int], place: str, exclusive: bool) -> None:
    asked = asking("allocate", free, exclusive, **new("new", 1))
    told = answered(asked, NIGHT)
    assert told["result"] == [place]
    assert (f"({place} leaves service at 2026-" in told["info"]) is (place in NIGHT)
    as_hail = answered(asked, NIGHT, hail=True)
    assert as_hail == answered(asked, {}, hail=True)


def test_the_answer_says_why_and_when() -> None:
    asked = asking("allocate", {"a1": 4}, True, **new("new", 1))
    info = answered(asked, NIGHT)["info"]
    assert info.endswith(" (a1 leaves service at 2026-11-18T12:06:40Z for a maintenance window)")


@pytest.mark.parametrize("exclusive", [True, False], ids=["dedicated", "ordinary"])
def test_both_nodes_of_a_new_instance(exclusive: bool) -> None:
    mirrored = new("new", 1) | {"disk_template": "drbd", "required_nodes": 2}
    free = {"a1": 4, "a2": 4, "a3": 2, "a4": 2}
    told = answered(asking("allocate", free, exclusive, **mirrored), NIGHT)
    assert set(told["result"]) == {"a3", "a4"}
    told = answered(asking("allocate", free | {"a4": 0}, exclusive, **mirrored), NIGHT)
    assert set(told["result"]) == {"a2", "a3"}


def test_the_allocation_policies_of_groups_come_first() -> None:
    asked = asking("allocate", {"a1": 4, "b1": 4}, True, **new("new", 1))
    assert answered(asked, NIGHT)["result"] == ["b1"]
    asked["nodegroups"]["uuid-b"]["alloc_policy"] = "last_resort"
    assert answered(asked, NIGHT)["result"] == ["a1"], "a window does not make a group full"


def test_several_new_instances() -> None:
    instances = [new(f"new{number}", 1) for number in range(3)]
    asked = asking("multi-allocate", {"a1": 4, "a2": 4, "a3": 2}, True, instances=instances)
    told = answered(asked, NIGHT)
    assert [nodes for _, nodes in told["result"][0]] == [["a3"], ["a3"], ["a2"]]
    assert "a2 leaves service" in told["info"]


@pytest.mark.parametrize(
    ("leaving", "place"), [({}, "a1"), (NIGHT, "a3")], ids=["most room", "stays"]
)
def test_other_nodes_for_instances(leaving: Mapping[str, Departure], place: str) -> None:
    """A new secondary, another one, and places for what leaves a node."""
    free = {"a1": 8, "a2": 6, "a3": 3, "a4": 3}
    one = {"instances": {"web": instance("a4", template="plain")}}
    asked = asking("allocate-secondary", free, False, name="web", required_nodes=1) | one
    assert answered(asked, leaving)["result"] == place
    free |= {"a5": 3}
    one = {"instances": {"web": instance("a4", "a5")}}
    members = {"name": "web", "relocate_from": ["a5"], "required_nodes": 1}
    asked = asking("relocate", free, False, **members) | one
    assert answered(asked, leaving)["result"] == [place]
    members = {"instances": ["web"], "evac_mode": "secondary-only"}
    asked = asking("node-evacuate", free, False, **members) | one
    assert answered(asked, leaving)["result"][0] == [["web", "a", ["a4", place]]]
    one = {"instances": {"web": instance("a4", template="ext")}}
    members = {"instances": ["web"], "evac_mode": "primary-only"}
    asked = asking("node-evacuate", free | {"a5": 0}, False, **members) | one
    assert answered(asked, leaving)["result"][0] == [["web", "a", [place]]]


def test_what_leaves_both_its_nodes() -> None:
    free = {"a1": 8, "a2": 8, "a3": 3, "a4": 3, "a5": 3, "a6": 3}
    one = {"instances": {"web": instance("a5", "a6")}}
    members = {"instances": ["web"], "evac_mode": "all"}
    asked = asking("node-evacuate", free, False, **members) | one
    told = answered(asked, NIGHT)
    assert {name for _, _, nodes in told["result"][0] for name in nodes} == {"a3", "a4"}
    assert "leaves" not in told["info"]
    without = asking("node-evacuate", {n: free[n] for n in free if n != "a4"}, False, **members)
    told = answered(without | one, NIGHT)
    assert {name for _, _, nodes in told["result"][0] for name in nodes} == {"a2", "a3"}
    assert "a2 leaves service" in told["info"]


def test_a_place_on_a_node_that_leaves_is_one_only_where_there_is_no_other() -> None:
    """Of generated requests, with the nodes drawn by lot."""
    seen = 0
    for seed in range(120):
        asked, options = request(seed, "allocate")
        names = sorted(asked["nodes"])
        chance = random.Random(seed)
        some = chance.sample(names, chance.randint(0, len(names)))
        leaving = {name: Departure(Ms(TODAY + chance.randint(1, 3) * HOUR)) for name in some}
        terms = Terms(ignore_soft="--ignore-soft-errors" in options, capacity=seed % 2 == 0)
        read = read_request(asked)
        told = answer(read, terms, leaving=leaving)
        assert told["success"] == answer(read, terms)["success"]
        order = ranks(leaving, names)
        worst = max((order.get(name, 0) for name in told["result"]), default=0)
        if worst:
            group = asked["nodes"][told["result"][0]]["group"]
            there = (name for name in names if asked["nodes"][name]["group"] == group)
            later = {name for name in there if order.get(name, 0) < worst}
            fewer = frozenset(later if read.only is None else later & read.only)
            assert not answer(read, replace(terms, only=fewer))["success"], seed
            seen += 1
    assert seen > 5


def test_what_is_written_is_read() -> None:
    assert read_leaving(document(NIGHT), TODAY) == NIGHT
    assert list(read_leaving(document(NIGHT), Ms(TODAY + 2 * HOUR))) == ["a2"], "a1 is back"


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([], "is not an object"),
        ({}, "departures: is missing"),
        ({"departures": {"a": 1}}, "departures.a: is not an object"),
        ({"departures": {"a": {"leaves": -1, "cause": "x"}}}, "leaves: -1 is less than nothing"),
        ({"departures": {"a": {"leaves": 10**15, "cause": "x"}}}, "is too late"),
        ({"departures": {"a": {"leaves": 1, "returns": "x", "cause": "x"}}}, "returns: is not"),
        ({"departures": {"a": {"leaves": 1, "cause": "x"}}}, "cause: is unknown"),
    ],
)
def test_what_maintd_did_not_write_is_refused(found: object, why: str) -> None:
    with pytest.raises(MessageError, match=why):
        read_leaving(found, TODAY)
