"""gnt-maint queue, and what is served of it. `tests/cli/test_screens.py` has what is shown."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from nodeagent.model.queue import RepairStep
from nodeagent.model.units import Seconds
from tests.agent.place import safe_folder
from tests.cli.live import Live
from tests.cli.maint.samples import samples
from tests.cli.run import at, said
from tests.maintd.queue.mender import Mender, policy
from tests.maintd.rig import Rig, fleet
from tests.maintd.world import EVACUATE

ADD = ("add", "--force", "unreachable", "r640")


@pytest.fixture
def live() -> Iterator[Live]:
    with safe_folder() as folder:
        rig = Mender(policy(RepairStep("try-1", watch_seconds=Seconds(600))), heals="nothing")
        found = Live(rig, folder)
        yield found
        found.close()


def run(live: Live, *words: str, code: int = 0) -> str:
    return said(live, "queue", *words, code=code)


def entries(live: Live) -> Any:
    return at(live, "queue", "list", "--json").json


def test_disabled_it_waits_and_enabled_it_works(live: Live) -> None:
    run(live, "disable")
    assert run(live, "is-enabled") == "false\n"
    run(live, *ADD, "n3", "S3")
    live.tick(times=6)
    (entry,) = entries(live)
    assert (entry["index"], entry["nodename"], entry["status"]) == ("0", "n3", "queued")
    run(live, "enable")
    assert run(live, "is-enabled") == "true\n"
    live.tick(times=4)
    assert [(e["status"], e["step_status"]) for e in entries(live)] == [("processing", "watching")]
    assert "1 entry is left after 1 s." in run(live, "wait", "--timeout", "1s", code=4)
    assert "1 entry is left after 0 s." in run(live, "wait", "--timeout-seconds=0", code=4)


def test_entries_are_deleted_by_index_by_machine_or_by_how_they_stand(live: Live) -> None:
    run(live, *ADD, "n3")
    run(live, *ADD, "10.9.9.9")
    assert at(live, "queue", "delete-finished", "--json").json["deleted"] == []
    assert [e["index"] for e in entries(live)] == ["0", "1"]
    assert run(live, "delete", "0") == "0 is deleted.\n"
    live.tick(times=3)
    run(live, *ADD, "10.9.9.8")
    assert run(live, "delete", "10.9.9.9") == "1 is deleted.\n"
    done = at(live, "queue", "delete-unfinished")
    assert (done.code, done.out, done.err) == (0, "2\n", "")
    live.tick(times=3)
    assert entries(live) == []
    done = at(live, "queue", "delete-unfinished")
    assert (done.out, done.err.partition(":")[0]) == ("", "No entry was deleted")


def test_a_node_that_reports_a_fault_is_queued_without_force(live: Live) -> None:
    live.rig.agents.says["n3"] = EVACUATE
    live.tick(times=2)
    assert run(live, "add", "unreachable", "r640", "n3") == "n3 is queued.\n"


def test_what_is_before_the_first_dot_will_do() -> None:
    named = [replace(node, name=f"{node.name}.example.org") for node in fleet()]
    with safe_folder() as folder:
        rig = Rig(named, policy=policy(RepairStep("try-1")), me="n1.example.org")
        rig.agents.master = rig.me
        live = Live(rig, folder)
        try:
            assert run(live, *ADD, "n3") == "n3.example.org is queued.\n"
            assert [entry["nodename"] for entry in entries(live)] == ["n3.example.org"]
        finally:
            live.close()


def test_reset_backoff_zeroes_both(live: Live) -> None:
    run(live, *ADD, "n3")
    ledger = live.rig.ledger
    late = replace(ledger.queue.entries[0], backoffs=3, backoff_until=live.rig.now() + 10**7)
    live.rig.engine._ledger = replace(ledger, queue=ledger.queue.put(late))
    run(live, "reset-backoff")
    (entry,) = entries(live)
    assert (entry["drain_backoff_count"], entry["drain_backoff_expire"][:4]) == (0, "0001")


def test_metrics_are_ckes(live: Live) -> None:
    run(live, "disable")
    empty = samples(live)
    assert empty["gnt_maint_repair_queue_enabled"] == "0.0"
    for status in ("queued", "processing", "succeeded", "failed"):
        assert empty[f'gnt_maint_repair_queue_items{{status="{status}"}}'] == "0.0"
    assert not [name for name in empty if "_entries" in name]
    run(live, "enable")
    run(live, *ADD, "n3")
    run(live, *ADD, "10.9.9.9")
    live.tick(times=5)
    found = samples(live)
    assert found["gnt_maint_repair_queue_enabled"] == "1.0"
    assert found['gnt_maint_repair_queue_items{status="processing"}'] == "1.0"
    about = 'address="127.0.0.3",index="0",operation="unreachable",status="processing",step="0"'
    plain = {"".join(sorted(name)): value for name, value in found.items()}
    assert plain["".join(sorted(f"gnt_maint_repair_queue_entries{{{about}}}"))] == "1.0"
    matrix = [name for name in found if name.startswith("gnt_maint_machine_repair_status")]
    assert len(matrix) == 4 * 7, "six nodes and one that is none"
