"""Each package holds what its commands import: the agent's alone, maintd's on top of it."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
CONTROL = (TOP / "packaging/debian/control").read_text()
MODULES = "usr/lib/nodeagent"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return laid_out("agent", tmp_path_factory.mktemp("agent"))


@pytest.fixture(scope="module")
def maintd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return laid_out("maintd", tmp_path_factory.mktemp("maintd"))


def laid_out(part: str, root: Path) -> Path:
    """What the package would put on a node."""
    path = f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    command = [str(TOP / "packaging/install"), part, str(root), str(TOP)]
    subprocess.run(command, check=True, env={"PATH": path, "LC_ALL": "C.UTF-8"}, timeout=60)
    return root


def files(root: Path, under: str) -> set[str]:
    found = (root / under).rglob("*")
    return {str(path.relative_to(root)) for path in found if not path.is_dir()}


@cache
def imported(path: Path) -> set[str]:
    """Full names of all that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def missing(roots: list[Path]) -> set[tuple[str, str]]:
    """Imports of ours by the first folder's modules that none of the folders has."""
    modules = {
        str(path.relative_to(root / MODULES).with_suffix(""))
        for root in roots
        for path in (root / MODULES).rglob("*")
    }
    first, found = roots[0] / MODULES, set()
    for path in first.rglob("*.py"):
        for name in imported(path):
            # A name within a module, a module, or a package.
            place = name.replace(".", "/")
            there = place in modules or place.rpartition("/")[0] in modules
            if name.startswith("nodeagent.") and not there:
                found.add((str(path.relative_to(first)), name))
    return found


def test_the_agents_package_is_whole_by_itself(agent: Path) -> None:
    assert missing([agent]) == set()


def test_both_packages_together_are_whole(agent: Path, maintd: Path) -> None:
    assert missing([maintd, agent]) == set()


def test_together_they_are_the_python_package_and_neither_has_the_others(
    agent: Path, maintd: Path
) -> None:
    python = {
        f"{MODULES}/{path.relative_to(TOP)}"
        for path in (TOP / "nodeagent").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyi"
    }
    ours, theirs = (files(root, f"{MODULES}/nodeagent") for root in (agent, maintd))
    assert ours & theirs == set()
    assert ours | theirs == python


@pytest.mark.parametrize(
    ("package", "part"), [("nodeagent", "agent"), ("nodeagent-maintd", "maintd")]
)
def test_every_library_is_a_dependency(
    package: str, part: str, request: pytest.FixtureRequest
) -> None:
    root: Path = request.getfixturevalue(part)
    library = {
        name.partition(".")[0].replace("_", "-")
        for path in root.rglob("*.py")
        for name in imported(path)
    }
    others = library - {name.replace("_", "-") for name in sys.stdlib_module_names} - {"nodeagent"}
    stanza = CONTROL.partition(f"\nPackage: {package}\n")[2].partition("\n\n")[0]
    depends = set(re.findall(r"\bpython3-([a-z0-9-]+)", stanza))
    if part == "maintd":
        depends |= set(re.findall(r"\bpython3-([a-z0-9-]+)", CONTROL.split("\n\n")[1]))
    depends |= {"cattrs"} if "cattr" in depends else set()  # python3-cattr in Debian
    assert others - {"markupsafe"} <= depends  # which is a part of jinja2's own interface


def test_commands_are_found_and_complete_themselves(agent: Path, maintd: Path) -> None:
    assert files(agent, "usr/sbin") == {"usr/sbin/nodeagent"}
    assert files(maintd, "usr/sbin") == {
        f"usr/sbin/{name}" for name in ("maintd", "gnt-maint", "nodeagent-oob", "nodeagent-succeed")
    }
    for name in ("maintd", "gnt-maint", "nodeagent-oob", "nodeagent-succeed"):
        bash = (maintd / "usr/share/bash-completion/completions" / name).read_text()
        variable = f"_{name.upper().replace('-', '_')}_COMPLETE"
        assert f"{variable}=bash_complete $1" in bash


def test_every_manual_page_is_in_one_of_them(agent: Path, maintd: Path) -> None:
    written = {path.name for path in (TOP / "docs/man").iterdir()}
    shipped = [Path(page).name for root in (agent, maintd) for page in files(root, "usr/share/man")]
    assert sorted(shipped) == sorted(written)


def test_ganeti_finds_the_allocator_and_it_starts_bare(maintd: Path) -> None:
    """Root runs it from `/` for every question: isolated, and without the site's packages."""
    script = maintd / "usr/lib/ganeti/iallocators/nodeagent-iallocator"
    assert script.stat().st_mode & 0o777 == 0o755
    lines = script.read_text().splitlines()
    assert lines[0] == "#!/usr/bin/python3 -IS"
    assert 'sys.path.insert(0, "/usr/lib/nodeagent")' in lines
    assert (maintd / "usr/share/man/man8/nodeagent-iallocator.8").exists()
