"""What every shipped command keeps, whatever it does."""

import ast
import os
import re
import stat
import subprocess
from pathlib import Path

from tests import needs

from .recordings import FOLDER
from .shipped import DIAGNOSE, ETC, NAME, REPAIR

EXPECTED = {
    DIAGNOSE: {
        "clock drbd edac fs-full fs-readonly ganeti-certificates ganeti-daemons ipmi kernel links",
        "lvm mdraid multipath nagios-example reboot-required smart ssacli storcli temperature",
    },
    REPAIR: {
        "call-operator clear-kernel-baseline power-cycle power-off reboot-node remount-rw"
        " restart-unit stale-instances upgrade-packages"
    },
}
FILES = sorted(path for folder in (DIAGNOSE, REPAIR) for path in folder.iterdir())
PYTHON = [path for path in FILES if path.read_text().startswith("#!/usr/bin/python3")]
LONGEST = {
    "smart": 365,  # four kinds of disks, and the controllers and drivers that hide them
    "links": 334,  # bonds, teams, bridges, switches, instances, addresses, and their neighbors
    "storcli": 232,  # arrays, disks, batteries, controllers, and who uses a lost array
}
SAME = ("asked", "carries", "kernels", "own_name", "plain", "stands_alone")

STANDARD = """
collections.abc contextlib datetime errno glob ipaddress json os os.path pathlib re socket ssl stat
subprocess sys syslog time typing
"""


def test_all_are_there_and_nothing_else() -> None:
    for folder, names in EXPECTED.items():
        assert {path.name for path in folder.iterdir()} == set(" ".join(names).split())


def test_each_is_short() -> None:
    for path in FILES:
        lines = path.read_text().splitlines()
        assert len(lines) <= LONGEST.get(path.name, 210), path
        assert max(map(len, lines)) <= 100, path


def test_the_whitelist_would_take_them() -> None:
    for path in FILES:
        mode = path.lstat().st_mode
        assert NAME.fullmatch(path.name)
        assert stat.S_ISREG(mode), path
        assert stat.S_IMODE(mode) & 0o7755 == 0o755, path


@needs.mark("git", "index")
def test_git_knows_them_as_executable() -> None:
    line = ["git", "ls-files", "--stage", "--", *map(str, FILES)]
    done = subprocess.run(line, cwd=ETC, capture_output=True, text=True, check=False)
    modes = [entry.split()[0] for entry in done.stdout.splitlines()]
    assert modes == ["100755"] * len(FILES), done.stdout


def test_their_interpreters_are_absolute_and_isolated_and_can_read_them() -> None:
    for path in FILES:
        first = path.read_text().splitlines()[0]
        assert first in ("#!/usr/bin/python3 -I", "#!/bin/sh"), path
        if path in PYTHON:
            compile(path.read_text(), path.name, "exec")
        else:
            subprocess.run(["/bin/sh", "-n", path], check=True)


def test_they_need_nothing_but_the_standard_library() -> None:
    for path in PYTHON:
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(str(node.module))
        assert names <= set(STANDARD.split()), path


def test_they_find_nothing_by_name_and_nothing_in_their_surroundings() -> None:
    looks = re.compile(r"os\.environ|getenv|__file__|sys\.argv|shell=True|os\.system|popen")
    of_tools = re.compile(r"(?m)^(?:TOOLS?|[A-Z]+CTL|CHRONYC|OPENSSL|MOUNT) = (.*)$")
    for path in PYTHON:
        text = path.read_text()
        assert not looks.search(text), path
        for constant in of_tools.findall(text):
            tools = ast.literal_eval(constant)
            assert all(map(os.path.isabs, (tools,) if isinstance(tools, str) else tools)), path


def test_what_several_commands_need_is_the_same_in_all() -> None:
    """Each file stands alone, so a few functions are written twice: never differently."""
    bodies: dict[str, set[str]] = {}
    for path in FILES:
        if path in PYTHON:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.FunctionDef) and node.name in SAME:
                    bodies.setdefault(node.name, set()).add(ast.dump(node))
    assert {name: len(texts) for name, texts in bodies.items()} == dict.fromkeys(SAME, 1)


def test_each_recording_names_its_source_and_is_judged() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    for path in FOLDER.iterdir():
        if path.suffix != ".py" and path.is_file():
            assert path.read_text().startswith("# Source: "), path
            assert f'recordings.read("{path.name}")' in tests or f'recorded("{path.name}")' in tests
