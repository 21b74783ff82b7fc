"""The house plan's table of imports, held against the source itself."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "nodeagent"
LOW = {"errors", "model", "protocol"}
NODE = LOW | {"web", "settings", "folder", "service", "agent"}
MASTER = LOW | {
    "web",
    "section",
    "settings",
    "service",
    "store",
    "cluster",
    "placement",
    "autorepair",
    "maintd",
}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "model": {"errors"},
    "protocol": LOW,
    "section": {"errors", "model"},
    "folder": LOW,
    "drop_ins": {"errors", "folder"},
    "settings": {"errors", "model", "section", "drop_ins"},
    "service": {"errors"},
    "web": LOW,
    "placement": {"errors", "model"},
    "autorepair": {"errors", "model"},
    "cluster": LOW | {"web"},
    "store": LOW,
    "agent": NODE,
    "maintd": MASTER,
    "cli": MASTER,
}
# What root runs on a node loads nothing of the master's; only the demo is both at once.
VERBS = ("nodeagent", "check_config", "commands", "diagnose", "report", "terminal", "usage")
COMMAND_LINES = {
    **{f"cli/{verb}.py": NODE | {"cli"} for verb in VERBS},
    "cli/demo.py": NODE | MASTER | {"cli"},
    "cli/demo_kept.py": MASTER | {"cli"},
    "cli/demo_nodes.py": NODE,
    "cli/maintd.py": MASTER | {"cli"},
    "cli/iallocator.py": {"errors", "placement"},
    "cli/gnt_maint.py": MASTER | {"cli"},
}
# Run as scripts in processes of their own, so they import nothing of ours.
ALONE = {"agent/supervisor.py", "web/selfsigned.py", "protocol/signature.py"}
BACKENDS = ("nodeagent.cluster.simulated", "nodeagent.cluster.ganeti")
MAY_NAME_BACKENDS = {
    "cli/demo.py",
    "cli/maintd.py",
    "cli/gnt_maint.py",
    "cli/maint/repair.py",
    "cli/maint/explain.py",
    "cli/maint/harep_run.py",
    "cli/maint/hbal/options.py",
}
PURE = (
    "model/",
    "protocol/",
    "placement/",
    "autorepair/",
    "section",
    "store/codec",
    "store/shape",
    "web/exchange",
    "web/refusal",
    "agent/diagnose",
    "agent/orders",
    "agent/run.py",
    "maintd/incidents/lifecycle",
    "maintd/steps",
    "maintd/planning/evacuation_moves",
    "maintd/admission",
    "maintd/windows/schedule",
    "maintd/queue/strategy",
    "maintd/queue/state",
    "maintd/queue/settings",
    "maintd/queue/entries",
    "maintd/queue/guards",
    "maintd/queue/handover",
    "maintd/queue/plan",
    "maintd/decide",
    "maintd/http/status",
    "maintd/http/page/cluster_map",
    "maintd/history",
    "maintd/asked",
    "maintd/ledger/domain_events",
    "maintd/queue/failure_domains",
    "maintd/planning/machines",
    "maintd/queue/refusals",
    "maintd/queue/reports",
    "maintd/ledger/recover",
    "maintd/engine/vote",
    "maintd/planning/tag_settings.py",
    "maintd/wishes",
    "maintd/planning/resources",
    "maintd/planning/evacuation_targets",
    "maintd/autorepair/survey",
    "maintd/autorepair/targets",
    "maintd/autorepair/jobs",
    "maintd/http/autorepair",
    "maintd/planning/effects",
    "maintd/planning/intents",
    "maintd/planning/preconditions",
    "maintd/http/parse",
    "cli/maint/hbal/lines",
    "cli/maint/hbal/number_format",
    "cli/maint/hbal/hroller_lines",
    "cli/maint/hbal/tables",
    "cli/maint/hbal/script",
    "cli/maint/hbal/document",
    "cli/maint/hbal/picture_ribbons",
    "maintd/balancing/plan",
    "maintd/balancing/requests",
    "maintd/balancing/search.py",
    "maintd/http/calendar",
    "maintd/balancing/moves",
    "maintd/windows/plan",
    "maintd/planning/evacuation_time",
    "maintd/windows/timing",
    "maintd/http/balance",
    "maintd/balancing/load.py",
    "maintd/windows/mesos",
    "maintd/owners/offers",
    "maintd/owners/notify",
    "maintd/windows/propose",
    "maintd/queue/referral",
    "maintd/queue/sabakan",
    "maintd/balancing/past_moves",
    "maintd/windows/schedule",
    "maintd/windows/recurrence",
    "maintd/windows/series",
    "maintd/windows/occurrences",
    "maintd/windows/membership",
    "maintd/http/series",
    "maintd/http/page/weeks",
    "maintd/http/page/panels",
    "maintd/http/ical",
)
NOT_PURE = {
    "asyncio",
    "http",
    "logging",
    "os",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "urllib",
    "zoneinfo",
}
# What datetime makes of a given time is pure.
CLOCKS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
FILES = sorted(ROOT.rglob("*.py"))


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            found.add(node.module or "")
    return found


def clocks(here: str, text: str) -> list[str]:
    if not here.startswith(PURE):
        return []
    asked = {ast.unparse(n) for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Attribute)}
    return [f"{here} is pure and may not ask {name}" for name in sorted(asked & CLOCKS)]


def faults(here: str, names: set[str]) -> list[str]:
    part = here.partition("/")[0].removesuffix(".py")
    allowed = COMMAND_LINES.get(here, MAY_IMPORT.get(part, set()) | {part})
    said = []
    for name in names:
        first, _, rest = name.partition(".")
        if first == "nodeagent" and rest and rest.partition(".")[0] not in allowed:
            said.append(f"{here} may not import {name}")
        if first == "nodeagent" and here in ALONE:
            said.append(f"{here} runs alone and may not import {name}")
        if name.startswith(BACKENDS) and part != "cluster" and here not in MAY_NAME_BACKENDS:
            said.append(f"{here} may not name the backend {name}")
        pure = here.startswith(PURE) and here not in ALONE
        if pure and first in NOT_PURE and name != "urllib.parse":
            said.append(f"{here} is pure and may not import {name}")
    return said


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_layers(path: Path) -> None:
    assert not faults(str(path.relative_to(ROOT)), imports(path))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_clock(path: Path) -> None:
    assert not clocks(str(path.relative_to(ROOT)), path.read_text())


def test_the_rule_about_clocks_can_fail() -> None:
    assert clocks("maintd/decide.py", "from datetime import datetime\ndatetime.now()\n")


@pytest.mark.parametrize(
    ("here", "name"),
    [
        ("agent/runner.py", "nodeagent.maintd.decide"),
        ("maintd/engine/round.py", "nodeagent.agent.orders"),
        ("model/incident.py", "nodeagent.protocol.canonical"),
        ("maintd/decide.py", "time"),
        ("maintd/windows/recurrence.py", "zoneinfo"),
        ("protocol/messages.py", "socket"),
        ("agent/supervisor.py", "nodeagent.errors"),
        ("maintd/engine/round.py", "nodeagent.cluster.simulated"),
        ("cli/nodeagent.py", "nodeagent.cluster.backend"),
    ],
)
def test_the_rule_can_fail(here: str, name: str) -> None:
    assert faults(here, {name})


def test_modules_are_named_by_a_noun_or_verb_of_the_field() -> None:
    nothing_said = {
        "utils",
        "util",
        "helpers",
        "helper",
        "common",
        "base",
        "manager",
        "mixin",
        "misc",
    }
    assert not [path for path in FILES if path.stem in nothing_said]
