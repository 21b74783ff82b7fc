"""Capacity as maintd shows it: over HTTP, in metrics and on the page."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.maintd.balancing.headroom_thread import EVERY
from nodeagent.maintd.http.balance import OLDEST
from nodeagent.model.snapshot import Group as Ours
from nodeagent.model.window import Schedule
from nodeagent.model.wish import SetSchedule
from nodeagent.placement.cluster.cluster import Cluster, Group, Instance, Known, Node, Policy, Spec
from tests import golden
from tests.maintd.http.page.rigs import window
from tests.maintd.rig import Rig, fleet
from tests.maintd.served import Served

SMALL, LARGE = Spec(1024, 1, 1024, 1, 1, 1), Spec(2048, 1, 1024, 1, 1, 1)


def cluster(*there: Instance) -> Cluster:
    """Three nodes of 8 GiB."""
    nodes = (
        Node(
            f"n{n}",
            "a",
            8192.0,
            0,
            8192 - sum(one.memory for one in there if one.primary == f"n{n}"),
            1e6,
            10**6,
            64.0,
        )
        for n in (3, 4, 5)
    )
    group = Group("alpha", "a", policy=Policy(SMALL, ((SMALL, LARGE),)))
    return Cluster((group,), tuple(nodes), there)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Group a is counted; n4 leaves in a day for a window."""
    rig = Rig([replace(one, group="a") for one in fleet()])
    rig.cluster.world.groups = {"a": Ours("a", "alpha")}
    rows = (window(rig.time + 86_400, 3, "n4"),)
    rig.wish(SetSchedule(Schedule(rows), consents=(None,)), "root")
    found = Served(rig, tmp_path)
    found.tick()
    assert found.get("/1/capacity") == []
    rig.headrooms.take(Known(cluster(), {}), ["a"])
    found.tick()
    yield found
    found.close()


def page(served: Served, peer: str) -> str:
    """The text of the section, without its marks."""
    html = served.ask("GET", "/status", peer=peer).body.decode()
    (section,) = re.findall(r'<section id="capacity">(.*?)</section>', html, re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", section).split())


def told(served: Served) -> str:
    """In JSON, in metrics and on the page."""
    metrics = served.ask("GET", "/metrics").body.decode().splitlines()
    samples = [line for line in metrics if line.startswith("gnt_maint_ganeti_capacity_")]
    answer = json.dumps(served.get("/1/capacity"), indent=1)
    return "\n".join((answer, *samples, page(served, "uid:0"), ""))


def test_administrators_see_all(served: Served) -> None:
    """Then with two instances that have no room elsewhere."""
    before = told(served)
    there = Instance("big", 7000, 1024, 1, "n3", "n4"), Instance("db", 7000, 1024, 1, "n5", "n4")
    served.tick()
    served.rig.headrooms.take(Known(cluster(*there), {}), ["a"])
    served.tick(EVERY)
    golden.same(Path(__file__).parent / "answers" / "capacity.txt", f"{before}\n{told(served)}")


def test_who_sees_no_schedule_sees_no_departure(served: Served) -> None:
    answer = served.ask("GET", "/1/capacity", peer="127.0.0.1")
    (shown,) = json.loads(answer.body)
    assert (shown["next"], [size["away"] for size in shown["sizes"]]) == (None, [None, None])
    assert shown["sizes"][0]["worst"]["fits"] == 7
    assert "maintenance window" not in page(served, "127.0.0.1")


def test_an_old_count_is_not_shown(served: Served) -> None:
    served.tick(OLDEST / 1000)
    assert served.get("/1/capacity") == []
    assert "capacity_instances{" not in served.ask("GET", "/metrics").body.decode()
    assert 'id="capacity"' not in served.ask("GET", "/status").body.decode()
