"""A real Prometheus with our rules asks a whole maintd, and a real Alertmanager rings by name."""

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from nodeagent.model.incident import Status
from nodeagent.model.ledger import Ledger
from tests import needs
from tests.cli.live import Live
from tests.maintd.answering import serving
from tests.maintd.notices.alertmanager import Manager, alertmanager
from tests.maintd.notices.sinks import Receiver
from tests.maintd.rig import Rig, fleet
from tests.maintd.world import incident
from tests.patience import until
from tests.ports import free_port

RULES = Path(__file__).resolve().parents[2] / "packaging/alerts/nodeagent.yml"
DASHBOARD = RULES.parents[1] / "dashboards/nodeagent.json"
PROMETHEUS = needs.where("prometheus")


def configured(folder: Path, maintd: int, manager: str) -> Path:
    """The rules ring at once here: `promtool` holds how long they wait (alerts.yml)."""
    quick = re.sub(r"for: \d+[mh]", "for: 0s", RULES.read_text())
    (rules := folder / "rules.yml").write_text(quick)
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [manager]}]}]},
        "scrape_configs": [
            {"job_name": "maintd", "static_configs": [{"targets": [f"127.0.0.1:{maintd}"]}]}
        ],
    }
    (file := folder / "prometheus.json").write_text(json.dumps(config))
    return file


@needs.mark("prometheus", "prometheus-alertmanager")
def test_a_failed_repair_rings_with_the_node_and_what_helps(tmp_path: Path) -> None:
    rig = Rig(fleet())
    failed = replace(incident("n2", status=Status.FAILED), node=fleet()[1].uuid)
    rig.store.save(Ledger(incidents=(failed,)))
    rig.crash()
    live = Live(rig, tmp_path)
    assert PROMETHEUS
    maintd, port = live._do(live.api.server().start("127.0.0.1", 0)), free_port()
    with serving(Receiver()) as hook, alertmanager(tmp_path, hook) as manager:
        config = configured(tmp_path, maintd, manager.url.removeprefix("http://"))
        with (tmp_path / "prometheus.log").open("wb") as log:
            running = subprocess.Popen(
                [
                    *(PROMETHEUS, f"--config.file={config}"),
                    f"--storage.tsdb.path={tmp_path}/data",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=log,
                stderr=log,
            )
        try:
            until(lambda: ("MaintdIncidentFailed", "n2") in manager.alerts)
            said = manager.alerts["MaintdIncidentFailed", "n2"]["annotations"]
            assert said["summary"].startswith("n2: its repair failed and needs your action")
            assert said["runbook_url"].endswith("alerts.md#maintdincidentfailed")
            targets = Manager(port).get("/api/v1/targets")["data"]["activeTargets"]
            assert [target["lastError"] for target in targets] == [""]

            def ask(expression: str) -> list[dict[str, Any]]:
                asked = f"/api/v1/query?{urlencode({'query': expression})}"
                found: list[dict[str, Any]] = Manager(port).get(asked)["data"]["result"]
                return found

            (open_one,) = ask("gnt_maint_node_incident_timestamp_seconds")
            assert (open_one["metric"]["node"], open_one["metric"]["status"]) == ("n2", "failed")
            (masters,) = ask('sum(gnt_maint_ganeti_nodes{role="master"})')
            assert masters["value"][1] == "1"
            for panel in json.loads(DASHBOARD.read_text())["panels"]:
                for target in panel["targets"]:
                    ask(target["expr"])  # one that is wrong is refused
        finally:
            running.terminate()
            running.wait(20)
            live.close()
