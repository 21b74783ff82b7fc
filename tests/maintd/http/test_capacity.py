"""Capacity as maintd shows it: over HTTP, in metrics and on the page."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nodeagent.maintd.balancing.headroom_thread import EVERY
from nodeagent.maintd.http.balance import OLDEST
from nodeagent.model.snapshot import Group as Ours
from nodeagent.model.window import Schedule
from nodeagent.model.wish import SetSchedule
from nodeagent.placement.cluster.cluster import Cluster, Group, Instance, Known, Node, Policy, Spec
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


def metrics(served: Served, name: str) -> dict[tuple[str, ...], float]:
    """The samples by nodes away, group and size: their labels in the order of the alphabet."""
    text = served.ask("GET", "/metrics").body.decode()
    return {
        tuple(value for _, value in sorted(one.labels.items())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.name == f"gnt_maint_ganeti_capacity_{name}"
    }


def page(served: Served, peer: str) -> str:
    """The text of the section, without its marks."""
    html = served.ask("GET", "/status", peer=peer).body.decode()
    (section,) = re.findall(r'<section id="capacity">(.*?)</section>', html, re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", section).split())


def test_administrators_see_all(served: Served) -> None:
    (told,) = served.get("/1/capacity")
    assert (told["group"], told["at"]) == ("alpha", served.rig.now() / 1000)
    assert told["next"]["why"] == "for a maintenance window"
    assert [
        (size["names"], size["today"]["fits"], size["worst"]["fits"], size["away"]["fits"])
        for size in told["sizes"]
    ] == [(["standard", "smallest"], 14, 7, 7), (["largest"], 6, 3, 3)]
    assert told["sizes"][0]["away"]["without"] == ["n4"]


def test_who_sees_no_schedule_sees_no_departure(served: Served) -> None:
    answer = served.ask("GET", "/1/capacity", peer="127.0.0.1")
    (told,) = json.loads(answer.body)
    assert (told["next"], [size["away"] for size in told["sizes"]]) == (None, [None, None])
    assert told["sizes"][0]["worst"]["fits"] == 7
    assert "maintenance window" not in page(served, "127.0.0.1")


def test_a_size_has_a_sample_for_each_of_its_names(served: Served) -> None:
    fits = {"standard": (14, 7), "smallest": (14, 7), "largest": (6, 3)}
    assert metrics(served, "instances") == {
        (away, "alpha", name): today if away == "none" else without
        for name, (today, without) in fits.items()
        for away in ("none", "worst", "next")
    }
    assert metrics(served, "homeless_instances") == {("worst", "alpha"): 0, ("next", "alpha"): 0}
    assert metrics(served, "timestamp_seconds") == {("alpha",): served.rig.now() / 1000}


def test_instances_without_room_are_named_and_counted(served: Served) -> None:
    there = Instance("big", 7000, 1024, 1, "n3", "n4"), Instance("db", 7000, 1024, 1, "n5", "n4")
    served.tick()
    served.rig.headrooms.take(Known(cluster(*there), {}), ["a"])
    served.tick(EVERY)
    assert metrics(served, "homeless_instances")["worst", "alpha"] == 1
    assert re.search(r"alpha : without n\d there is no room for (big|db)\.", page(served, "uid:0"))


def test_an_old_count_is_not_shown(served: Served) -> None:
    served.tick(OLDEST / 1000)
    assert served.get("/1/capacity") == []
    assert metrics(served, "instances") == {}
    assert 'id="capacity"' not in served.ask("GET", "/status").body.decode()
