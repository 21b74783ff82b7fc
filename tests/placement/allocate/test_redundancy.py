"""Whether any one node may fail: from the sums, as it comes out when it is tried."""

from collections import Counter

import pytest

from nodeagent.placement.allocate.groups import Site, open_site
from nodeagent.placement.allocate.redundancy import Redundancy
from nodeagent.placement.allocate.request import read_request
from tests.placement.allocate.asked import cluster, new
from tests.placement.requests import request


def site(seed: int) -> Site:
    asked, _ = request(seed)
    return open_site(read_request(asked), ignore_soft=False)


def test_what_is_plain_is_so_when_tried() -> None:
    seen: Counter[bool] = Counter()
    for seed in range(150):
        here = site(seed)
        asked = Redundancy(here)
        nodes = list(here.layout.nodes)
        for index, residents in asked._residents.items():
            plain = asked._empties(index, residents, nodes, None)
            assert plain == asked._tried(index, residents, nodes), (seed, index)
            seen[plain] += 1
        assert asked.holds({}) == all(
            asked._tried(index, residents, nodes) for index, residents in asked._residents.items()
        )
    assert min(seen.values()) > 50, seen


def mostly(templates: str, free: int) -> Redundancy:
    """Two nodes with that much free memory and an instance of 1000 on the first."""
    asked = cluster({"a1": 4, "a2": 4}, exclusive=False)
    for policy in asked["nodegroups"].values():
        policy["ipolicy"]["disk-templates"] = ["plain", "drbd", "rbd", "diskless", "file"]
    for node in asked["nodes"].values():
        node["free_memory"] = free
    nodes = ["a1", "a2"] if templates == "drbd" else ["a1"]
    asked["instances"]["i"] = {**new("", 1), "disk_template": templates, "nodes": nodes}
    asked["request"] = {"type": "node-evacuate", "instances": ["i"], "evac_mode": "all"}
    return Redundancy(open_site(read_request(asked), ignore_soft=False))


@pytest.mark.parametrize("template", ["drbd", "rbd", "plain", "file", "diskless"])
def test_a_node_is_not_filled_to_nothing(template: str) -> None:
    assert mostly(template, 1001).holds({})
    assert not mostly(template, 1000).holds({})


def test_nobody_needs_a_place() -> None:
    asked = cluster({"a1": 0})
    asked["request"] = {"type": "node-evacuate", "instances": [], "evac_mode": "all"}
    assert Redundancy(open_site(read_request(asked), ignore_soft=False)).holds({})
