"""Metrics of Ganeti itself: by group, and bounded; no question more than maintd asks anyway."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nodeagent.errors import Unavailable
from nodeagent.maintd.engine.jobs import COUNTED
from nodeagent.maintd.http.metrics.ganeti import OLDEST
from nodeagent.model.action import MovePrimary
from nodeagent.model.snapshot import Group, Instance
from tests import golden
from tests.cluster.by_hand import ByHand
from tests.maintd.rig import Between, Rig, fleet
from tests.maintd.served import Served
from tests.maintd.world import EVACUATE


def values(served: Served, name: str) -> dict[tuple[str, ...], float]:
    """The samples of a family by their labels' values that are not 0."""
    text = served.ask("GET", "/metrics").body.decode()
    return {
        tuple(one.labels.values()): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.name == f"gnt_maint_ganeti_{name}" and one.value
    }


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """n1 to n3 in group a, the others in group b; n2 is drained, n6 offline."""
    nodes = [
        replace(one, group=group, candidate=one.name < "n4")
        for one, group in zip(fleet(), "aaabbb", strict=True)
    ]
    nodes[1], nodes[5] = replace(nodes[1], drained=True), replace(nodes[5], offline=True)
    instances = [
        Instance("up", "n3", "n1", memory=100, disk=100),
        Instance("down", "n4", "n5", running=False),
        Instance("off", "n6", "n5", running=False, offline=True),
    ]
    rig = Rig(nodes, instances)
    rig.cluster.world.groups = {g: Group(g, {"a": "alpha", "b": "beta"}[g]) for g in "ab"}
    served = Served(rig, tmp_path)
    served.tick()
    yield served
    served.close()


def test_of_groups(served: Served) -> None:
    """With n3 sick, so that all nodes are asked what they have; and when nobody has for long."""
    served.rig.agents.says["n3"] = EVACUATE
    served.tick()
    assert values(served, "score").keys() == {("alpha",), ("beta",)}
    lines = served.ask("GET", "/metrics").body.decode().splitlines()
    told = [one for one in lines if one.startswith("gnt_maint_ganeti_") and "_score{" not in one]
    golden.same(Path(__file__).with_name("groups.txt"), "\n".join((*told, "")))
    served.rig.agents.says |= dict.fromkeys(served.rig.cluster.nodes)  # they are silent
    served.tick(OLDEST / 1000)
    assert values(served, "score") == {}, "too old to be shown"


class Counting(Between):
    """Counts how often the job queue is asked for; where nobody answers, too."""

    asked = 0
    answers = True

    def unfinished(self) -> Mapping[str, int]:
        self.asked += 1
        if not self.answers:
            raise Unavailable("luxid is busy")
        return self.cluster.unfinished()


def test_the_job_queue_is_counted_once_a_minute(tmp_path: Path) -> None:
    between: list[Counting] = []

    def through(cluster: ByHand) -> Counting:
        between.append(Counting(cluster))
        return between[-1]

    rig = Rig(fleet(), [Instance("up", "n3", "n2")], through=through)
    served, counting = Served(rig, tmp_path), between[0]
    rig.cluster.pauses = lambda _: True
    rig.cluster.submit_foreign(MovePrimary("up", "n3", live=True))
    served.tick()
    assert values(served, "jobs") == {("queued",): 1}
    for _ in range(5):
        served.tick(COUNTED / 6)
    assert counting.asked == 1
    rig.cluster.pauses = lambda _: False
    served.tick(COUNTED / 6)
    assert counting.asked == 2
    served.tick(COUNTED)
    assert values(served, "jobs") == {}, "all 0"

    counting.answers = False
    served.tick(COUNTED)
    text = served.ask("GET", "/metrics").body.decode()
    served.close()
    assert "gnt_maint_ganeti_jobs{" not in text, "not known is not 0"
    assert served.maintd.latest is not None
    assert served.maintd.latest.at == rig.now(), "the round was held all the same"
