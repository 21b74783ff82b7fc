"""The house plan's table of imports, held against the source itself."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "nodeagent"
LOW = {"errors", "model", "protocol"}
NODE = LOW | {"web", "settings", "service", "agent"}
MASTER = LOW | {
    "web",
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
    "settings": {"errors", "model", "section"},
    "service": {"errors"},
    "web": LOW,
    "placement": {"errors", "model"},
    "autorepair": {"errors", "model"},
    "cluster": LOW | {"web"},
    "store": LOW,
    "agent": NODE,
    "maintd": MASTER,
}
# What root runs on a node loads nothing of the master's; only the demo is both at once.
COMMAND_LINES = {
    "cli/nodeagent.py": NODE,
    "cli/demo.py": NODE | MASTER,
}
# Run as scripts in processes of their own, so they import nothing of ours.
ALONE = {"agent/supervisor.py", "agent/selfsigned.py", "protocol/signature.py"}
BACKENDS = {"nodeagent.cluster.simulated", "nodeagent.cluster.ganeti"}
MAY_NAME_BACKENDS = {"cli/demo.py"}
PURE = (
    "model/",
    "protocol/",
    "placement/",
    "autorepair/",
    "section",
    "store/codec",
    "web/exchange",
    "agent/diagnose",
    "agent/orders",
    "agent/run.py",
    "maintd/incidents",
    "maintd/steps",
    "maintd/admission",
    "maintd/windows",
    "maintd/queue",
    "maintd/decide",
)
NOT_PURE = {
    "asyncio",
    "datetime",
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
}
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
        if name in BACKENDS and part != "cluster" and here not in MAY_NAME_BACKENDS:
            said.append(f"{here} may not name the backend {name}")
        pure = here.startswith(PURE) and here not in ALONE
        if pure and first in NOT_PURE and name != "urllib.parse":
            said.append(f"{here} is pure and may not import {name}")
    return said


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_layers(path: Path) -> None:
    assert not faults(str(path.relative_to(ROOT)), imports(path))


@pytest.mark.parametrize(
    ("here", "name"),
    [
        ("agent/runner.py", "nodeagent.maintd.decide"),
        ("maintd/engine.py", "nodeagent.agent.orders"),
        ("model/incident.py", "nodeagent.protocol.canonical"),
        ("maintd/decide.py", "time"),
        ("protocol/messages.py", "socket"),
        ("agent/supervisor.py", "nodeagent.errors"),
        ("maintd/engine.py", "nodeagent.cluster.simulated"),
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
