"""Metrics of the outcome: a whole life is counted once, and the counters begin anew."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.maintd.deciding.requests import ROWS
from nodeagent.maintd.http.metrics.incidents import of_open_incidents
from nodeagent.maintd.http.view import View
from nodeagent.model.action import MovePrimary
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.model.wish import Cancel, Done, ResetStorm
from tests.maintd.http.metrics.samples import samples
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.served import Served
from tests.maintd.world import EVACUATE, NOW, OK, incident, need, seen, six

QUIET = replace(QUICK, settle=Ms(60_000), withdraw=Ms(60_000), return_after=Ms(300_000))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(Rig(fleet(), mirrored(("n3", "n4"), ("n2", "n3")), QUIET), tmp_path)
    served.tick()
    yield served
    served.close()


def until(served: Served, status: Status | None) -> None:
    for _ in range(200):
        known = {i.name: i.status for i in served.rig.ledger.incidents}
        if known.get("n3") is status:
            return
        served.tick()
    raise AssertionError(f"never {status}")


def ended(served: Served) -> dict[str, float]:
    found = samples(served)
    name = "gnt_maint_incidents_ended_total"
    return {key[1]: value for key, value in found.items() if key[0] == name}


NONE = dict.fromkeys(("completed", "failed", "canceled", "superseded", "passed"), 0.0)


def test_a_whole_life_is_counted_once(served: Served) -> None:
    assert ended(served) == NONE
    rig = served.rig
    rig.agents.says["n3"] = EVACUATE
    served.tick()
    began = rig.time
    until(served, Status.COMPLETED)
    took = rig.time - began
    found = samples(served)
    assert ended(served) == NONE | {"completed": 1}
    assert found["gnt_maint_evacuation_seconds_count",] == 1
    assert found["gnt_maint_evacuation_seconds_sum",] == took
    upto = [v for k, v in found.items() if k[0] == "gnt_maint_evacuation_seconds_bucket"]
    assert upto[0] == 0, "no node is evacuated within a minute here: it settles first"
    assert upto == sorted(upto)
    assert upto[-1] == 1
    assert found["gnt_maint_repair_seconds_count", "evacuate"] == 0, "nobody has repaired it"

    rig.agents.says["n3"] = OK
    rig.wish(Done("n3"))
    until(served, None)
    served.tick(times=5)
    found = samples(served)
    assert found["gnt_maint_repair_seconds_count", "evacuate"] == 1
    assert found["gnt_maint_repair_seconds_sum", "evacuate"] >= took + 300
    assert found["gnt_maint_evacuation_seconds_count",] == 1
    assert ended(served) == NONE | {"completed": 1}
    assert found["gnt_maint_requests_total", "granted", "done"] == 1


def test_a_fault_that_passes_is_no_repair(served: Served) -> None:
    served.rig.agents.says["n3"] = EVACUATE
    served.tick()
    served.rig.agents.says["n3"] = OK
    until(served, None)
    assert ended(served) == NONE | {"passed": 1}
    assert samples(served)["gnt_maint_repair_seconds_count", "evacuate"] == 0


def test_canceled_and_superseded(served: Served) -> None:
    rig = served.rig
    rig.agents.says["n3"] = EVACUATE
    served.tick()
    rig.wish(Cancel(rig.incident("n3").id))
    served.tick()
    assert ended(served) == NONE | {"canceled": 1}
    rig.agents.says["n2"] = EVACUATE
    rig.cluster.pauses = lambda action: isinstance(action, MovePrimary)
    served.tick(times=20)
    assert rig.status("n2") is Status.PENDING
    rig.agents.says["n2"] = need("evacuate", slot="CPU2")
    rig.cluster.pauses = lambda _: False
    for _ in range(20):
        served.tick()
        # Whoever reads the design's protocol sees only that the work goes on.
        rows = json.loads(served.ask("GET", "/1/status").body)
        there = {row["repair-status"] for row in rows if row["node-name"] == "n2"}
        assert there <= {"noted", "pending", "completed"}
    assert ended(served) == NONE | {"canceled": 1, "superseded": 1}


def test_requests_by_verb_and_result(served: Served) -> None:
    found = {k: v for k, v in samples(served).items() if k[0] == "gnt_maint_requests_total"}
    assert set(found.values()) == {0}, "each is there from the start, so the first one counts"
    assert len(found) == 2 * len(ROWS)
    served.rig.wish(ResetStorm())
    served.rig.wish(Done("nobody"))
    served.tick(times=2)
    after = samples(served)
    assert {k[1:]: after[k] for k in found if after[k]} == {
        ("refused", "done"): 1,
        ("refused", "reset-storm"): 1,
    }


def test_after_a_restart_counters_begin_at_0_and_what_ended_before_is_not_counted_again(
    served: Served, tmp_path: Path
) -> None:
    rig = served.rig
    rig.agents.says["n3"] = EVACUATE
    until(served, Status.COMPLETED)
    rig.crash()
    (folder := tmp_path / "again").mkdir()
    again = Served(rig, folder)
    again.tick(times=3)
    assert ended(again) == NONE
    rig.agents.says["n3"] = OK
    rig.wish(Done("n3"))
    until(again, None)
    count = samples(again)["gnt_maint_repair_seconds_count", "evacuate"]
    again.close()
    assert count == 1, "when it was detected outlives the restart"


def test_open_incidents_by_node_are_bounded_at_10_000_nodes() -> None:
    broken = [
        replace(incident(f"n{number}", status=status), noted_at=NOW - number)
        for number in range(10_000)
        for status in (Status.FAILED, Status.COMPLETED, Status.CANCELED)
    ]
    (family,) = of_open_incidents(View(NOW, Ledger(incidents=tuple(broken)), seen(six())))
    found = [(one.labels["node"], one.labels["status"]) for one in family.samples]
    assert len(set(found)) == len(found) == 200
    assert {status for _, status in found} == {"failed", "completed"}
    assert ("n9999", "failed") in found, "the oldest"
