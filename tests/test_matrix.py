"""The README's table of versions is what CI runs, and what is installed where a test runs."""

import re
import subprocess
from pathlib import Path

import pytest

from nodeagent import __version__
from nodeagent.model.ganeti import KNOWN
from tests import needs

pytestmark = pytest.mark.story

TOP = Path(__file__).parent.parent
ROW = re.compile(r"^\| (3\.\S+) \| (\d+) \| (3\.\d+) \| (\S+) \| (.+) \|$", re.MULTILINE)
ROWS = ROW.findall((TOP / "README.md").read_text())
SUITES = {"12": "bookworm", "13": "trixie"}


def run_by_ci() -> str:
    """The commands of CI: those that must pass, and those that take turns."""
    return (TOP / ".ci/run").read_text() + (TOP / "packaging/turning").read_text()


def test_the_versions_of_ganeti_are_those_that_are_known() -> None:
    minors = [tuple(map(int, said.split(".")[:2])) for said, *_ in ROWS]
    assert minors == list(KNOWN)


def test_the_version_of_nodeagent_is_the_one_that_is_built() -> None:
    assert {agent for _, _, _, agent, _ in ROWS} == {__version__}
    assert f'version = "{__version__}"' in (TOP / "pyproject.toml").read_text()
    assert f"\nVersion: {__version__}\n" in (TOP / "packaging/rpm/nodeagent.spec").read_text()
    assert f"nodeagent ({__version__})" in (TOP / "packaging/debian/changelog").read_text()


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_ci_runs_what_the_row_names(row: tuple[str, ...]) -> None:
    commands = re.findall(r"`([^`]+)`", row[4])
    assert commands
    assert [one for one in commands if one not in run_by_ci()] == []


def test_each_debian_has_its_ganeti() -> None:
    ways = (TOP / "packaging/with-ganeti").read_text()
    for said, debian, *_ in ROWS[1:]:
        minor = ".".join(said.split(".")[:2])
        assert f"{minor}) suite={SUITES[debian]} ;;" in ways
        assert f"GANETI={minor}" in run_by_ci()
    assert set(re.findall(r"GANETI=(\d\.\d)", run_by_ci())) == {
        ".".join(said.split(".")[:2]) for said, *_ in ROWS[1:]
    }


def test_every_night_all_of_it_is_run() -> None:
    nightly = (TOP / "Makefile").read_text().partition("\nnightly:  ")[2]
    suites = " conformance test-real oracle "
    for said, *_ in ROWS[1:]:
        assert f"{suites}GANETI={said[:3]}\n" in nightly
    assert f"test{suites}fresh-test" in nightly
    assert f'package-test SUITE="{" ".join(SUITES[row[1]] for row in ROWS)}"\n' in nightly


def test_the_oldest_python_is_the_one_that_is_demanded() -> None:
    oldest = min((row[2] for row in ROWS), key=lambda said: int(said.split(".")[1]))
    assert f'requires-python = ">={oldest}"' in (TOP / "pyproject.toml").read_text()
    control = (TOP / "packaging/debian/control").read_text()
    assert set(re.findall(r"python3 \(>= (\S+)\)", control)) == {oldest}


def test_this_machine_has_the_versions_of_its_row() -> None:
    system = dict(
        re.findall(r'^(\w+)="?([^"\n]*)', Path("/etc/os-release").read_text(), re.MULTILINE)
    )
    row = next(
        (r for r in ROWS if ("debian", r[1]) == (system["ID"], system.get("VERSION_ID"))), None
    )
    if row is None:
        needs.lacking("debian")
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    assert output("/usr/bin/python3", "-c", code) == row[2]
    ganeti = output("dpkg-query", "-W", "-f", "${Version}", "ganeti")
    if not ganeti:
        needs.lacking("ganeti")
    assert ganeti.rpartition("-")[0] == row[0]


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
