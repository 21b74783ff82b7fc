"""What every shipped command keeps, whatever it does."""

import ast
import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

from tests import needs

from .shipped import DIAGNOSE, ETC, NAME, REPAIR

EXPECTED = {
    DIAGNOSE: {
        "clock drbd edac fs-full fs-readonly ganeti-certificates ganeti-daemons kernel links lvm",
        "mdraid nagios-example reboot-required smart temperature",
    },
    REPAIR: {
        "call-operator clear-kernel-baseline power-cycle power-off reboot-node remount-rw"
        " restart-unit stale-instances upgrade-packages"
    },
}
FILES = sorted(path for folder in (DIAGNOSE, REPAIR) for path in folder.iterdir())
PYTHON = [path for path in FILES if path.read_text().startswith("#!/usr/bin/python3")]
LONGEST = {"smart": 320}  # four kinds of disks, and the controllers that hide them
SAME_IN_REPAIRS = ("asked", "kernels", "own_name", "plain")

files = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
python = pytest.mark.parametrize("path", PYTHON, ids=lambda path: path.name)


@pytest.mark.parametrize("folder", EXPECTED, ids=lambda folder: folder.name)
def test_all_are_there_and_nothing_else(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == set(" ".join(EXPECTED[folder]).split())


@files
def test_it_is_short(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= LONGEST.get(path.name, 210)
    assert max(map(len, lines)) <= 100


@files
def test_the_whitelist_would_take_it(path: Path) -> None:
    mode = path.lstat().st_mode
    assert NAME.fullmatch(path.name)
    assert stat.S_ISREG(mode)
    assert stat.S_IMODE(mode) & 0o7755 == 0o755


@files
@needs.mark("git", "index")
def test_git_knows_it_as_executable(path: Path) -> None:
    line = ["git", "ls-files", "--stage", "--", str(path)]
    done = subprocess.run(line, cwd=ETC, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("100755 ")


@files
def test_its_interpreter_is_absolute_and_isolated(path: Path) -> None:
    assert path.read_text().splitlines()[0] in ("#!/usr/bin/python3 -I", "#!/bin/sh")


@files
def test_its_interpreter_can_read_it(path: Path) -> None:
    if path in PYTHON:
        compile(path.read_text(), path.name, "exec")
    else:
        subprocess.run(["/bin/sh", "-n", path], check=True)


@python
def test_it_needs_nothing_but_the_standard_library(path: Path) -> None:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module))
    standard = (
        "collections.abc contextlib datetime errno glob ipaddress json os os.path pathlib re socket"
        " ssl stat subprocess sys"
    )
    assert names <= set(standard.split()) | {"syslog", "time", "typing"}


@python
def test_it_finds_nothing_by_name_and_nothing_in_its_surroundings(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"os\.environ|getenv|__file__|sys\.argv|shell=True|os\.system|popen", text)
    for constant in re.findall(r"(?m)^(?:TOOLS?|[A-Z]+CTL|CHRONYC|OPENSSL|MOUNT) = (.*)$", text):
        tools = ast.literal_eval(constant)
        assert all(map(os.path.isabs, (tools,) if isinstance(tools, str) else tools))


def test_what_several_repairs_need_is_the_same_in_all() -> None:
    """Each file stands alone, so a few functions are written twice: never differently."""
    bodies: dict[str, set[str]] = {}
    for path in FILES:
        if path in PYTHON:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.FunctionDef) and node.name in SAME_IN_REPAIRS:
                    bodies.setdefault(node.name, set()).add(ast.dump(node))
    assert {name: len(texts) for name, texts in bodies.items()} == dict.fromkeys(SAME_IN_REPAIRS, 1)
