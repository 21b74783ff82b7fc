"""Alert rules and the dashboard ask for metrics there are, with labels that they can have."""

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nodeagent.agent.metrics import write
from nodeagent.maintd.balancing.inputs import stock_of
from nodeagent.maintd.queue.inventory import InventorySettings
from nodeagent.model.fencing import Deaf, Fencing, Stage
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Ledger
from nodeagent.model.notice import Sink
from nodeagent.model.snapshot import Capacity, Instance
from nodeagent.model.units import Ms
from nodeagent.model.wish import AddEntry
from nodeagent.web.server import Server
from simulation.demo import POLICY as DEMO
from simulation.machines import Control
from tests import needs
from tests.maintd.rig import Rig, fleet
from tests.maintd.served import Served
from tests.maintd.world import NOW, incident

TOP = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
RULES = TOP / "packaging/alerts/nodeagent.yml"
DASHBOARD = json.loads((TOP / "packaging/dashboards/nodeagent.json").read_text())
SELECTOR = re.compile(r"\b(gnt_\w+)(?:\{([^}]*)\})?")
ENDED_OR_NOT = (Status.FAILED, Status.COMPLETED, Status.PENDING)
LABEL = re.compile(r'(\w+)(=~|=|!=)"([^"]*)"')


def samples(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, dict(sample.labels)


@pytest.fixture(scope="module")
def maintd(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The metrics of a maintd that has something of most kinds."""
    # Silent, distrusted, fenced, not to be fenced, and without power control: who balances would
    # wait for them.
    apart = ("n4", "n5", "n7", "n8", "n9")
    rig = Rig([replace(n, group="other" if n.name in apart else "default") for n in fleet(9)])
    rig.cluster.world.size = Capacity(memory=4096, disk=65536)  # few fit: headroom counts them
    rig.asks = InventorySettings("http://127.0.0.1:1/graphql")  # where nobody answers
    broken = [
        replace(incident(node.name, status=status), node=node.uuid)
        for node, status in zip(fleet()[1:], ENDED_OR_NOT, strict=False)
    ]
    sinks = (Sink("ops", "command", command="tell"),)
    rig.policy = replace(
        rig.policy,
        notify=sinks,
        unreachable_after=Ms(0),
        procedures=DEMO.procedures,
        balance=True,
    )
    off, hung, deaf = (rig.cluster.nodes[name].uuid for name in apart[2:])
    rig.cluster.put(replace(rig.cluster.nodes["n7"], offline=True, candidate=False))
    rig.cluster.world.machines.controls["n9"] = (Control(dead=True),)
    later = Ms(NOW + 600_000)
    fencing = (
        Fencing(off, Stage.FENCED, NOW, NOW),
        Fencing(hung, Stage.PROVES, NOW, NOW, tries=1, not_before=later, said="no answer"),
    )
    known = Ledger(incidents=tuple(broken), fencing=fencing, deaf=(Deaf(deaf, later, "none"),))
    rig.store.save(known)
    rig.agents.says |= dict.fromkeys(("n4", "n8"))
    rig.agents.keys = {**dict.fromkeys(("n1", "n2", "n3", "n6"), "11" * 32), "n9": "99" * 32}
    rig.crash()
    rig.engine.succession = {"able": False}
    rig.cluster.world.instances["web"] = Instance("web", "n2", "n6", memory=100, disk=100)
    served = Served(rig, tmp_path_factory.mktemp("maintd"))
    served.rig.wish(AddEntry("unreachable", "demo", "127.0.0.5"))
    there = rig.cluster.snapshot()
    rig.headrooms.take(stock_of(rig.cluster, there, there.groups), there.groups)
    served.tick(times=2)
    inventory = rig.engine.inventory  # it answered once, and does not any more
    inventory.heard = replace(inventory.heard, failures=1, failed=rig.now(), believed=rig.time - 60)
    served.api.server().answered[200] += 1
    text = served.ask("GET", "/metrics").body.decode()
    served.close()
    return text


@pytest.fixture(scope="module")
def known(maintd: str) -> list[tuple[str, dict[str, str]]]:
    """Every sample that an agent and maintd serve."""
    health = {"runs": {"ok": 1}, "need": "Ok", "ready": True}
    server = SimpleNamespace(answered={200: 1}, shed=0)
    return [*samples(maintd), *samples(write(health, cast(Server, server)).decode())]


def expressions() -> list[str]:
    rules = re.findall(r"^        expr: (.*)$", RULES.read_text(), re.MULTILINE)
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    assert len(rules) > 10
    assert len(panels) > 10
    return [*rules, *panels]


def test_every_metric_is_served(known: list[tuple[str, dict[str, str]]]) -> None:
    for expression in expressions():
        selectors = SELECTOR.findall(expression)
        assert selectors, expression
        for name, labels in selectors:
            values = [labels for found, labels in known if found == name]
            assert values, name
            for label, how, value in LABEL.findall(labels):
                said = {labels[label] for labels in values}
                # Each alternative of a pattern, too, must be a value there is.
                wanted = set(value.split("|")) if how == "=~" else {value}
                assert wanted <= said, (name, label)
        for grouped in re.findall(r"by \(([^)]*)\)", expression):
            names = {label for found, labels in known for label in labels if found in expression}
            assert set(re.split(r", *", grouped)) - {"instance"} <= names, expression


def test_every_metric_of_maintd_is_in_the_docs_with_its_labels(maintd: str) -> None:
    text = (TOP / "docs/metrics.md").read_text()
    listed = re.findall(r"^\| `(gnt_maint_\w+)(?:\{([\w,]+)\})?` \|", text, re.M)
    told = {name: set(filter(None, labels.split(","))) for name, labels in listed}
    assert len(told) == len(listed) > 40
    served: dict[str, set[str] | None] = {}
    for family in text_string_to_metric_families(maintd):
        name = family.name + {"counter": "_total"}.get(family.type, "")
        labels = [one.labels.keys() - {"le"} for one in family.samples]
        served[name] = set[str]().union(*labels) if labels else None
    assert told.keys() == served.keys()
    assert {name: told[name] for name, labels in served.items() if labels is not None} == {
        name: labels for name, labels in served.items() if labels is not None
    }


def test_every_alert_says_how_bad_it_is_and_what_it_is() -> None:
    text = RULES.read_text()
    for alert in text.split("      - alert: ")[1:]:
        name = alert.partition("\n")[0]
        assert re.search(r"^        labels: \{severity: (critical|warning|info)\}$", alert, re.M), (
            name
        )
        assert re.search(r'^          summary: ".{20,}"$', alert, re.M), name
        assert re.search(r'^          description: ".{40,}"$', alert, re.M), name
        assert re.search(r"^        for: \d+[mh]$", alert, re.M) or "increase(" in alert, name
        (runbook,) = re.findall(r"^          runbook_url: (\S+)$", alert, re.M)
        assert runbook == f"file:///usr/share/doc/nodeagent/alerts.md#{name.lower()}"
    names = re.findall(r"- alert: (\w+)", text)
    assert re.findall(r"^## (\w+)$", (TOP / "docs/alerts.md").read_text(), re.M) == names
    assert len(names) == len(set(names))


def test_the_dashboard_is_one_that_grafana_imports() -> None:
    panels: list[dict[str, Any]] = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {panel["type"] for panel in panels} == {"row", "stat", "timeseries"}
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["datasource"] == {"type": "prometheus", "uid": "${source}"}
    assert [one["name"] for one in DASHBOARD["templating"]["list"]] == ["source"]


@needs.mark("promtool")
@pytest.mark.parametrize(
    "command", [("check", "rules", RULES), ("test", "rules", HERE / "alerts.yml")]
)
def test_prometheus_takes_the_rules_and_they_ring(command: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["promtool", *command], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs.mark("promtool")
def test_prometheus_finds_nothing_odd_about_the_metrics(maintd: str) -> None:
    check = ["promtool", "check", "metrics"]
    done = subprocess.run(check, input=maintd, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
