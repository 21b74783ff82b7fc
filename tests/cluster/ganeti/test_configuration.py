"""Ganeti's own configuration file, as a master candidate of a real cluster has it."""

import json
from pathlib import Path
from typing import Any

import pytest

from nodeagent.cluster.ganeti.configuration import read, snapshot_of
from nodeagent.errors import Unavailable

# Members of Ganeti 3.0's file that do not matter here are left out.
DOCUMENT: dict[str, Any] = {
    "version": 3000000,
    "cluster": {"cluster_name": "c.test", "master_node": "u1", "tags": ["maintd:pause:yes"]},
    "nodes": {
        "u1": {
            "name": "n1.test",
            "primary_ip": "10.0.0.1",
            "group": "g1",
            "drained": False,
            "offline": False,
            "master_candidate": True,
            "vm_capable": True,
            "tags": [],
        },
        "u2": {
            "name": "n2.test",
            "primary_ip": "10.0.0.2",
            "group": "g1",
            "drained": True,
            "offline": True,
            "master_candidate": False,
            "vm_capable": False,
            "tags": ["a:b"],
        },
    },
    "nodegroups": {"g1": {"name": "default", "tags": ["x"]}},
    "disks": {
        "d1": {"dev_type": "drbd", "logical_id": ["u2", "u1", 11000, 0, 1, "secret"]},
        "d2": {"dev_type": "plain", "logical_id": ["xenvg", "a.disk0"]},
    },
    "instances": {
        "i1": {"name": "web1", "primary_node": "u1", "disks": ["d1", "d2"], "admin_state": "up"},
        "i2": {"name": "web2", "primary_node": "u2", "disks": ["d2"], "admin_state": "down"},
        "i3": {"name": "web3", "primary_node": "u2", "disks": [], "admin_state": "offline"},
        "i4": {"name": "web4", "primary_node": "u1", "disks": ["d1"], "admin_state": "up"},
    },
}


def test_nodes_groups_tags_and_the_pairs_of_drbd() -> None:
    found = snapshot_of(DOCUMENT)
    assert (found.cluster, found.master, set(found.tags)) == (
        *("c.test", "n1.test"),
        {"maintd:pause:yes"},
    )
    one, two = found.nodes["n1.test"], found.nodes["n2.test"]
    assert (one.uuid, one.address, one.candidate, one.offline) == ("u1", "10.0.0.1", True, False)
    assert (two.drained, two.offline, two.vm_capable, set(two.tags)) == (
        *(True, True, False),
        {"a:b"},
    )
    places = {
        name: (one.primary, one.secondary, *one.partly_on) for name, one in found.instances.items()
    }
    assert places == {
        "web1": ("n1.test", None, "n2.test"),
        "web2": ("n2.test", None),
        "web3": ("n2.test", None),
        "web4": ("n1.test", "n2.test"),
    }
    assert found.groups["g1"].tags == {"x"}


def test_an_instance_that_is_down_has_no_disks_in_use() -> None:
    """Else DRBD disks that nobody has activated make a standby doubt its evidence for ever."""
    found = snapshot_of(DOCUMENT).instances
    assert {name: (one.running, one.offline, one.disks) for name, one in found.items()} == {
        "web1": (True, False, 1),
        "web2": (False, False, 0),
        "web3": (False, True, 0),
        "web4": (True, False, 1),
    }


def test_two_secondaries_of_one_instance() -> None:
    """A replacement of disks that broke off leaves it so; how many are on each is unknown."""
    nodes = DOCUMENT["nodes"] | {"u3": DOCUMENT["nodes"]["u2"] | {"name": "n3.test"}}
    other = {"dev_type": "drbd", "logical_id": ["u1", "u3", 11001, 0, 1, "secret"]}
    two = {"i4": DOCUMENT["instances"]["i4"] | {"disks": ["d1", "d4"]}}
    disks = DOCUMENT["disks"] | {"d4": other}
    found = snapshot_of(DOCUMENT | {"nodes": nodes, "disks": disks, "instances": two})
    web4 = found.instances["web4"]
    assert (web4.secondary, sorted(web4.partly_on)) == (None, ["n2.test", "n3.test"])
    assert web4.disks == 0


def test_an_instance_with_only_a_reserved_place_is_left_out() -> None:
    promised = {"forthcoming": True, "name": "web5", "primary_node": "u1", "disks": ["d1"]}
    placeless = {"forthcoming": True}
    instances = DOCUMENT["instances"] | {"i5": promised, "i6": placeless}
    assert snapshot_of(DOCUMENT | {"instances": instances}) == snapshot_of(DOCUMENT)


def without(member: str) -> str:
    return json.dumps({key: value for key, value in DOCUMENT.items() if key != member})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "[" * 100_000, without("nodes"), without("cluster")]
)
def test_nothing_else_is_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.data").write_text(text)
    with pytest.raises(Unavailable, match=r"config\.data: "):
        read(str(tmp_path / "config.data"))


@pytest.mark.parametrize("version", [2160000, 4000000, "3000000", None])
def test_another_ganetis_is_not_guessed_at(tmp_path: Path, version: object) -> None:
    (tmp_path / "config.data").write_text(json.dumps(DOCUMENT | {"version": version}))
    with pytest.raises(Unavailable, match=r"config\.data: "):
        read(str(tmp_path / "config.data"))


def test_a_node_that_is_no_candidate_has_none(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="No such file"):
        read(str(tmp_path / "config.data"))


@pytest.mark.parametrize("version", [3000000, 3010000, 3020000])
def test_it_is_read_as_it_lies_there(tmp_path: Path, version: int) -> None:
    (tmp_path / "config.data").write_text(json.dumps(DOCUMENT | {"version": version}))
    assert read(str(tmp_path / "config.data")) == snapshot_of(DOCUMENT)
