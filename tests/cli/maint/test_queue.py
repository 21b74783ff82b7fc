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
