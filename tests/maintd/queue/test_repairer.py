"""Automatic repair from end to end: an inventory reports, and gnt-maint tells of it.

The limit is 3; n2 to n5 are silent. The rules are rows of `test_guards.py`.
"""

import json
from dataclasses import replace

from click.testing import CliRunner

from nodeagent.cli import gnt_maint
from nodeagent.maintd.queue.inventory import InventorySettings
from nodeagent.model.constraints import Constraints
from tests.agent.place import safe_folder
from tests.cli.live import Live
from tests.cli.maint.samples import ask, samples
from tests.maintd.answering import serving
from tests.maintd.queue.mender import Mender, policy
from tests.maintd.queue.sabakan_answers import Json, answer, machine
from tests.maintd.rig import fleet

SILENT = ("n2", "n3", "n4", "n5")
REPORTED = [
    machine(spec_serial=f"S{n}", spec_ipv4=[f"127.0.0.{n + 1}"], status_duration=3000.0)
    for n in (1, 2, 3)
]


def test_more_than_the_limit_is_nothing_and_told() -> None:
    """The queue is disabled: what is in it stays as it came, which disables no source."""
    limits = Constraints(maximum_repair_queue_entries=3)
    reports: list[Json] = []
    with serving(lambda _, __: (200, answer(*reports))) as port, safe_folder() as folder:
        rig = Mender(replace(policy(), constraints=limits), instances=[], nodes=fleet(12))
        rig.asks = InventorySettings(f"http://127.0.0.1:{port}/graphql", every=5)
        rig.agents.says |= dict.fromkeys(SILENT)
        rig.crash()
        live = Live(rig, folder)
        try:
            run(live, "queue", "disable")
            for address in ("127.0.0.3", "127.0.0.5"):
                run(live, "queue", "add", "unreachable", "r640", address)
            reports += REPORTED
            live.tick(times=3)
            assert reported(live) == []
            why = "Not repaired, 2 machines (limit): 2 entries and 2 reports"
            assert why in run(live, "queue", "list")
            assert samples(live)['gnt_maint_auto_repair_refused{reason="limit"}'] == "2.0"
            since = [name for name in samples(live) if "refused_since_timestamp" in name]
            name = "gnt_maint_auto_repair_refused_since_timestamp_seconds"
            assert since == [f'{name}{{reason="limit"}}']
            assert "no queue entry for what is reported (2 machines)" in run(live, "held")
            assert "Not repaired automatically" in ask(live, "GET", "/status")[1]
            live.tick(times=5)
            history = json.loads(ask(live, "GET", "/1/history?limit=1000")[1])
            told = [one for one in history if "maximum-repair-queue" in one["text"]]
            assert len(told) == 1, "once, not in every round"
            run(live, "constraints", "set", "maximum-repair-queue-entries", "4")
            live.tick(times=3)
            assert reported(live) == ["S1", "S3"]
        finally:
            live.close()


def run(live: Live, *words: str) -> str:
    line = ["--socket", live.socket, *words]
    done = CliRunner().invoke(gnt_maint.cli, line, standalone_mode=False)
    assert (done.exception, done.return_value or 0) == (None, 0)
    return done.output


def reported(live: Live) -> list[str]:
    """The serials of the entries that have become of reports."""
    entries = json.loads(run(live, "queue", "list", "--json"))
    return [entry["serial"] for entry in entries if entry["serial"]]
