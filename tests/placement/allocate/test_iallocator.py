"""Answers to Ganeti's requests, beside the real hail's; and where they differ on purpose."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from nodeagent.errors import MessageError
from nodeagent.placement.allocate.candidates import Terms
from nodeagent.placement.allocate.iallocator import answer
from nodeagent.placement.allocate.request import read_request
from tests.placement.allocate.asked import Asked, cluster, new
from tests.placement.hail import FILES, hail, mistaken, ours, real, same
from tests.placement.hbal import shipped
from tests.placement.requests import TYPES, request


def agree(seeds: range, folder: Path, kind: str | None = None) -> None:
    for seed in seeds:
        asked, options = request(seed, kind)
        if not mistaken(asked, options):
            same(ours(asked, options), hail(folder, asked, options), seed)


def test_an_instance_with_several_kinds_of_disks_stops_no_other() -> None:
    """Hail refuses every request as soon as the cluster has one."""
    asked = cluster({"a1": 4, "a2": 4}, exclusive=False)
    odd = new("", 1) | {"nodes": ["a1", "a2"], "disk_template": "mixed", "admin_state": "up"}
    asked["instances"]["odd"] = odd
    asked["request"] = {"type": "allocate", **new("new", 1)}
    assert answer(read_request(asked), Terms(capacity=False))["success"]
    asked["request"] = {"type": "node-evacuate", "instances": ["odd"], "evac_mode": "all"}
    assert answer(read_request(asked), Terms())["result"][:2] == [
        [],
        [["odd", "Instances of type plain cannot be relocated"]],
    ]


@real
def test_shipped_requests(tmp_path: Path) -> None:
    for file in shipped(FILES, but=["hail-invalid-reloc"]):
        asked = json.loads(file.read_text())
        for options in ([], ["--no-capacity-checks"], ["--ignore-soft-errors"]):
            same(ours(asked, options), hail(tmp_path, asked, options))


@real
def test_generated_requests(tmp_path: Path) -> None:
    agree(range(80), tmp_path)


@real
@pytest.mark.oracle
@pytest.mark.parametrize("kind", sorted(set(TYPES)))
def test_more_generated_requests(kind: str, tmp_path: Path) -> None:
    agree(range(80, 900), tmp_path, kind)


def test_most_requests_are_compared() -> None:
    passed_over = sum(mistaken(*request(seed)) for seed in range(320))
    assert passed_over < 10


def several(
    nodes: dict[str, int],
    *quarters: int,
    group: str | None = None,
    sizes: tuple[int, ...] = (1, 2, 4),
) -> Asked:
    asked = cluster(nodes, sizes=sizes)
    instances = [new(f"new{n}", size) for n, size in enumerate(quarters)]
    asked["request"] = {"type": "multi-allocate", "instances": instances}
    if group:
        asked["request"]["group_name"] = group
    return asked


def test_a_the_first_ones_group_does_not_bind_the_others() -> None:
    asked = several({"a1": 1, "b1": 4}, 4, 1)
    theirs, own = ours(asked, []), ours(asked, [], as_hail=False)
    assert theirs["success"] is False
    assert own["result"] == [[["new0", ["b1"]], ["new1", ["a1"]]], []]


def test_b_later_instances_see_the_earlier_ones() -> None:
    asked = several({"a1": 2, "a2": 4}, 1, 1, 1, group="a")
    assert ours(asked, [])["result"][0] == [[f"new{n}", ["a1"]] for n in range(3)]
    own = ours(asked, [], as_hail=False)
    assert own["result"] == [[["new0", ["a1"]], ["new1", ["a1"]], ["new2", ["a2"]]], []]


def test_c_one_that_has_no_place_does_not_fail_the_others() -> None:
    asked = several({"a1": 2}, 4, 1)
    assert ours(asked, [])["success"] is False
    own = ours(asked, [], as_hail=False)
    assert own["success"] is True
    # Ganeti wants names alone here; the reasons are in the log.
    assert own["result"] == [[["new1", ["a1"]]], ["new0"]]
    assert "1 instances failed to allocate and 1 were" in own["info"]
    assert "new0: Group a (preferred): No valid allocation solutions" in own["info"]


def test_d_the_largest_first_if_that_saves_a_slot() -> None:
    """In the order asked for the first two leave no place for the third."""
    asked = several({"a1": 3, "a2": 4}, 2, 2, 3, group="a", sizes=(2, 3))
    theirs = ours({**asked, "request": {**asked["request"], "group_name": None}}, [])
    assert theirs["success"] is False
    own = ours(asked, [], as_hail=False)
    assert own["result"] == [[["new0", ["a2"]], ["new1", ["a2"]], ["new2", ["a1"]]], []]


def test_d_otherwise_in_the_order_asked_for() -> None:
    asked = several({"a1": 4}, 1, 4)
    assert ours(asked, [], as_hail=False)["result"] == [[["new0", ["a1"]]], ["new1"]]


def by_uuid() -> Asked:
    asked = cluster({"a1": 2, "a2": 4}, exclusive=False)
    asked["request"] = {"type": "allocate", **new("new", 1), "group_name": "uuid-a"}
    return asked


def test_e_a_group_may_be_given_by_its_uuid() -> None:
    asked = by_uuid()
    assert "score: ([" in ours(asked, ["--no-capacity-checks"])["info"]
    own = ours(asked, ["--no-capacity-checks"], as_hail=False)
    assert "score: 2." in own["info"]
    asked["request"]["group_name"] = "a"
    assert own == ours(asked, ["--no-capacity-checks"])


def beside_a_drained_node(kind: str, **more: Any) -> Asked:
    """One instance on a1, mirrored to a2 but where it is to be; a2 is drained, a3 has no disk."""
    mirrored = kind != "allocate-secondary"
    asked = cluster({"a1": 2, "a2": 4, "a3": 0, "b1": 4, "b2": 4}, exclusive=False)
    asked["nodes"]["a2"]["drained"] = True
    asked["instances"]["db"] = {
        **new("", 1),
        "nodes": ["a1", "a2"] if mirrored else ["a1"],
        "disk_template": "drbd" if mirrored else "plain",
    }
    asked["request"] = {"type": kind, "name": "db", "instances": ["db"], **more}
    return asked


@pytest.mark.parametrize("off", ["drained", "offline"])
def test_g_no_instance_fails_over_to_a_node_that_is_drained(off: str) -> None:
    asked = beside_a_drained_node("node-evacuate", evac_mode="primary-only")
    (((_, _, nodes),), failed, jobs) = ours(asked, [])["result"]
    assert (nodes, failed, len(jobs)) == (["a2", "a1"], [], 1)
    asked["nodes"]["a2"][off] = True
    why = "its secondary node a2 is drained or offline"
    assert ours(asked, [], as_hail=False)["result"] == [[], [["db", why]], []]


def emptied() -> Asked:
    """Both nodes of the instance are drained; in the other group there is room."""
    asked = beside_a_drained_node("change-group", evac_mode="all", target_groups=["uuid-b"])
    asked["nodes"]["a1"]["drained"] = True
    return asked


def test_g_nor_on_the_way_to_somewhere_else() -> None:
    assert ours(emptied(), [])["result"][1] == []
    moved, ((name, why),), jobs = ours(emptied(), [], as_hail=False)["result"]
    assert (moved, name, jobs) == ([], "db", [])
    assert why.endswith(": its secondary node a2 is drained or offline")


def test_g_nor_is_it_mirrored_to_one() -> None:
    asked = beside_a_drained_node("allocate-secondary")
    assert ours(asked, [])["result"] == "a2"
    own = ours(asked, [], as_hail=False)
    assert (own["success"], own["result"]) == (False, [])
    assert own["info"].endswith("failure reasons: FailDisk: 1")
    asked["nodes"]["a3"]["drained"] = True
    own = ours(asked, [], as_hail=False)
    assert (own["success"], own["info"]) == (False, "Request failed: Not enough online nodes")


@real
def test_these_differences_are_hails(tmp_path: Path) -> None:
    for asked in (
        several({"a1": 1, "b1": 4}, 4, 1),
        several({"a1": 2, "a2": 4}, 1, 1, 1, group="a"),
        several({"a1": 2}, 4, 1),
        several({"a1": 3, "a2": 4}, 2, 2, 3, sizes=(2, 3)),
        by_uuid(),
        beside_a_drained_node("node-evacuate", evac_mode="primary-only"),
        beside_a_drained_node("allocate-secondary"),
        emptied(),
    ):
        assert ours(asked, []) == hail(tmp_path, asked, [])


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("nodes.a1.free_memory", "many", "nodes.a1.free_memory: is not a whole number"),
        ("nodes.a1.free_memory", ..., "nodes.a1.free_memory: is missing"),
        ("nodes.a1.free_disk", 10**18, "nodes.a1.free_disk: 1000000000000000000 is too much"),
        ("nodes.a1.total_memory", float("inf"), "nodes.a1.total_memory: is too much"),
        ("nodes.a1.total_memory", -1, "nodes.a1.total_memory: -1 is less than nothing"),
        ("nodes.a1.total_disk", None, "nodes.a1.total_disk: is not a number"),
        ("nodes.a1.offline", 1, "nodes.a1.offline: is not true or false"),
        ("nodes.a1.group", "uuid-c", "nodes.a1.group: there is no group uuid-c"),
        ("nodes.a1.ndparams", [], "nodes.a1.ndparams: is not an object"),
        ("nodes.a1.tags", ["x", 3], "nodes.a1.tags[1]: is not a text"),
        ("nodes", ..., "nodes: is missing"),
        (
            "nodegroups.uuid-a.alloc_policy",
            "maybe",
            "alloc_policy: 'maybe' is not one of preferred,",
        ),
        ("nodegroups.uuid-a.ipolicy.minmax", [3], "uuid-a.ipolicy.minmax[0]: is not an object"),
        (
            "nodegroups.uuid-a.ipolicy.disk-templates",
            ["tape"],
            "disk-templates: 'tape' is not one of",
        ),
        ("nodegroups.uuid-a.ipolicy.std.disk-size", -3, "std.disk-size: -3 is less than nothing"),
        ("request.type", "dance", "request.type: 'dance' is not one of allocate,"),
        ("request.disks", [{"size": "1"}], "request.disks[0].size: is not a whole number"),
        ("request.disk_template", "tape", "request.disk_template: 'tape' is not one of diskless"),
        (
            "request.admin_state",
            "ill",
            "request.admin_state: 'ill' is not one of up, down, offline",
        ),
        ("request.restrict-to-nodes", "a1", "request.restrict-to-nodes: is not a list"),
        ("request", ..., "request: is missing"),
        ("instances.i1.nodes", [], "instances.i1.nodes: there is none"),
        ("instances.i1.nodes", ["a7"], "instances.i1.nodes: there is no node a7"),
        ("instances.i1.disk_template", "drbd", "instances.i1.nodes: drbd needs two"),
        ("cluster_tags", {}, "cluster_tags: is not a list"),
    ],
)
def test_bad_requests_are_refused_with_the_place(place: str, value: object, said: str) -> None:
    asked = cluster({"a1": 1, "a2": 4})
    asked["request"] = {"type": "allocate", **new("new", 1)}
    asked["instances"]["i1"] = {**new("", 1), "nodes": ["a1"]}
    read_request(copy.deepcopy(asked))
    *path, last = place.split(".")
    inner = asked
    for key in path:
        inner = inner[key]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    with pytest.raises(MessageError) as refused:
        read_request(asked)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"type": "relocate", "name": "i7"}, "request.name: there is no instance i7"),
        (
            {"type": "relocate", "name": "i1", "required_nodes": 1, "relocate_from": ["a9"]},
            "request.relocate_from: there is no node a9",
        ),
        ({"type": "node-evacuate", "instances": ["i9"]}, "instances: there is no instance i9"),
        (
            {"type": "node-evacuate", "instances": ["i1"], "evac_mode": "some"},
            "request.evac_mode: 'some' is not one of primary-only, secondary-only, all",
        ),
        (
            {"type": "change-group", "instances": ["i1"], "target_groups": ["c"]},
            "request.target_groups: there is no group c",
        ),
    ],
)
def test_what_a_request_names_must_be_there(request_: Asked, said: str) -> None:
    asked = cluster({"a1": 1, "a2": 4})
    asked["instances"]["i1"] = {**new("", 1), "nodes": ["a1"]}
    with pytest.raises(MessageError) as refused:
        read_request({**asked, "request": {"relocate_from": ["a1"], **request_}})
    assert said in str(refused.value)
