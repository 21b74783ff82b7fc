"""Places that must say the same: versions, dependencies, manual pages, the example settings."""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from nodeagent.cli import iallocator, oob
from nodeagent.cluster.ganeti.opcodes import POWER_WITHIN
from nodeagent.maintd.engine import settings as maintd_settings
from nodeagent.maintd.http.users import parse_users
from nodeagent.model.queue import Procedures
from nodeagent.model.role import Role
from nodeagent.power.settings import LONGEST
from nodeagent.power.settings import load as load_power
from nodeagent.settings import DiagnoseCommand, Settings, load, parse
from tests.verbs import MANUALS, manual, plain, verbs_of

TOP = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
CONTROL = (TOP / "packaging/debian/control").read_text()
SPEC = (TOP / "packaging/rpm/nodeagent.spec").read_text()
EXAMPLE = TOP / "packaging/agent.toml"
LISTS = ("repair_procedures", "incidents")  # of tables
MAINTD_EXAMPLE = TOP / "packaging/maintd.toml"


CHAPTERS = {
    plain(chapter).partition("\n")[0]: plain(chapter)
    for chapter in (MANUALS / "nodeagent.toml.5").read_text().split("\n.SH ")
}


def search(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    assert found, pattern
    return found[1]


def test_the_installed_suite_has_the_files_that_tests_read() -> None:
    """autopkgtest runs it on the installed package: all but `nodeagent` comes from the source."""
    script = (TOP / "packaging/debian/tests/installed").read_text()
    copied = set(search(r"^cp -R (.*) \"\$suite\"$", script).split())
    pages = {page.name for page in TOP.glob("*.md")} if "./*.md" in copied else set()
    tests = "".join(path.read_text() for path in sorted((TOP / "tests").rglob("*.py")))
    read = set(re.findall(r'TOP / "([\w.-]+)', tests))
    assert {"docs", "README.md", "CONTRIBUTING.md", ".ci"} <= read
    assert read - copied - pages <= {"nodeagent", "build"}


IN_DEBIAN = {"cattrs": "cattr"}  # what Debian calls the library


@pytest.mark.parametrize("line", PROJECT["dependencies"])
def test_every_dependency_is_one_of_the_packages(line: str) -> None:
    name = search(r"^([a-z0-9-]+)", line)
    debian = IN_DEBIAN.get(name, name)
    assert re.search(rf"^Depends:.*(\n .*)*?\bpython3-{debian},", CONTROL, re.MULTILINE)
    assert re.search(rf"^Requires: .*python3-{name}\)?$", SPEC, re.MULTILINE)


def keys(settings: Any, section: str = "") -> Iterator[tuple[str, str]]:
    """Every (section, key), as the files have them, from the settings' own types."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.name == "limits":
            yield from keys(value, section)
        elif field.name == "each":
            yield from keys(DiagnoseCommand(settings.limits), f"{section}.command.example")
        elif is_dataclass(value):
            yield from keys(value, f"{section}.{field.name}".lstrip("."))
        elif section:  # above the tables stands nothing that a file may say
            yield section, field.name.replace("_", "-")


ALL = list(keys(Settings()))


@pytest.mark.parametrize(("section", "key"), ALL)
def test_the_manual_explains_every_setting(section: str, key: str) -> None:
    chapter = CHAPTERS[f"[{section.replace('.example', '.NAME')}]"]
    # Each has an entry of its own, or stands in one line with others that share theirs.
    assert re.search(rf"^(\w+, |\w+ and )*{key}\b", chapter, re.MULTILINE)


def uncommented() -> str:
    return re.sub(r"^#(?! )", "", EXAMPLE.read_text(), flags=re.MULTILINE)


def test_the_example_as_shipped_changes_nothing() -> None:
    assert load(str(EXAMPLE), owner=None) == Settings()


def test_the_example_shows_every_setting() -> None:
    shown = tomllib.loads(uncommented())
    shown["diagnose.command.example"] = shown["diagnose"].pop("command")["example"]
    limits = {"timeout", "output", "memory", "processes"}
    here = {(section, key) for section, table in shown.items() for key in table}
    missing = set(ALL) - here
    assert {key for _, key in missing} <= limits
    assert {section for section, _ in missing} <= {"diagnose.command.example"}
    assert here <= set(ALL)


def test_the_example_shows_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(uncommented())
    load(str(file), owner=None)
    shown = tomllib.loads(uncommented())
    del shown["diagnose"]["command"], shown["diagnose"]["confirm-worse"]
    assert parse(shown) == Settings()


def test_maintds_example_as_shipped_changes_nothing() -> None:
    assert maintd_settings.load(str(MAINTD_EXAMPLE), owner=None) == maintd_settings.Settings()


def test_maintds_example_shows_every_setting_and_its_default() -> None:
    shown = tomllib.loads(re.sub(r"^#(?! )", "", MAINTD_EXAMPLE.read_text(), flags=re.MULTILINE))
    default = maintd_settings.Settings()
    wanted = {
        (section.name, field.name.replace("_", "-"))
        for section in fields(default)
        if is_dataclass(getattr(default, section.name))
        for field in fields(getattr(default, section.name))
    }
    here = {(section, key) for section, table in shown.items() for key in table}
    queue = {("queue", f.name) for f in fields(Procedures) if f.name not in LISTS}
    limits = {("constraints", name) for name in default.policy.constraints.named()}
    owners = {("owners", field.name) for field in fields(default.policy.announcing)}
    own_tables = {
        ("policy", name) for name in ("procedures", "constraints", "announcing", "notify")
    }
    own_tables |= {("sabakan", "priorities")}
    wanted = (wanted | queue | limits | owners) - own_tables - {("policy", "unchecked")}
    assert here == wanted | {("policy", "ignore-consistency")}
    # By default these are empty, which cannot be written as a path.
    for section, key in (
        ("maintd", "key"),
        ("maintd", "certificate"),
        ("http", "tls"),
        ("sabakan", "ca"),
        ("sabakan", "token"),
    ):
        assert str(shown[section].pop(key)).startswith("/")
        assert getattr(getattr(default, section), key) == ""
    assert maintd_settings.parse(shown) == default


def test_the_example_of_users_lets_nobody_in_and_its_lines_are_right() -> None:
    text = (TOP / "packaging/maintd.users").read_text()
    assert parse_users(text) == {}
    users = parse_users(re.sub(r"^#(?! )", "", text, flags=re.MULTILINE))
    assert {user.name: user.roles for user in users.values()} == {
        "alice": {Role.ADMIN},
        "bob": {Role.OPERATOR, Role.PLANNER},
        "prometheus": {Role.OBSERVER},
        "%noc": {Role.OPERATOR, Role.PLANNER},
        "dbuser": frozenset(),
    }


def events(path: Path) -> Iterator[str]:
    """Names of the log lines a module writes, told by their form: `name-of-event key=`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            logged = isinstance(node.func.value, ast.Name) and node.func.value.id == "log"
            first: ast.AST = node.args[0]
            pattern = EVENT if logged else KEYED
        else:
            first, pattern = node, KEYED
        first = first.values[0] if isinstance(first, ast.JoinedStr) else first
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield from pattern.findall(first.value)


EVENT = re.compile(r"\A([a-z]+(?:-[a-z]+)+)\b")
KEYED = re.compile(r"\A([a-z]+(?:-[a-z]+)+) [a-z]+=")


def test_the_handbook_lists_every_line_of_the_journal() -> None:
    halves = [TOP / "nodeagent/service.py", *(TOP / "nodeagent/agent").rglob("*.py")]
    halves += (TOP / "nodeagent/web").rglob("*.py")
    chapter = (TOP / "docs/operating.md").read_text().split("\n## The journal\n")[1]
    listed = re.findall(r"`([a-z-]+)`", chapter.partition("\n## ")[0])
    assert sorted(listed) == sorted({event for path in halves for event in events(path)})


def test_the_allocators_manual_tells_every_option() -> None:
    page = manual("nodeagent-iallocator.8")
    told = set(re.findall(r"(?<!\S)--?[a-zA-Z][a-z-]*", page.partition("OPTIONS")[2]))
    options = {*iallocator._FLAGS, *iallocator._VALUES, "-V", "--version", "-h", "--help"}
    assert options <= told
    assert options <= set(re.findall(r"--?[a-zA-Z][a-z-]*", iallocator.USAGE))


def test_the_manual_of_power_tells_every_command_and_setting() -> None:
    page = manual("nodeagent-oob.8")
    for name, command in verbs_of(oob.cli).items():
        entry = re.search(rf"^{re.escape(name)}\b.*", page, re.MULTILINE)
        assert entry, name
        options = [one for one in command.params if isinstance(one, click.Option)]
        assert {one.opts[-1] for one in options} == set(re.findall(r"--[a-z-]+", entry[0])), name
    shown = tomllib.loads((TOP / "packaging/power.toml").read_text())
    keys = {"outlet", *shown["power"], *(k for d in shown["device"].values() for k in d)}
    for key in keys | {k for row in shown["nodes"].values() for k in row}:
        assert re.search(rf"^{key}\b", page, re.MULTILINE), key


def test_ganeti_lets_the_power_control_end_by_itself() -> None:
    """It ends five seconds after its terminate signal, so ten seconds are left."""
    assert LONGEST <= POWER_WITHIN - 10


def test_the_example_of_power_has_levels_for_three_kinds(tmp_path: Path) -> None:
    file = tmp_path / "power.toml"
    file.write_text((TOP / "packaging/power.toml").read_text())
    settings = load_power(str(file), owner=None)
    assert (settings.time_limit, settings.proven_within) == (50, 7 * 86400)
    names = ("node1.example.org", "node2.example.org", "node3.example.org")
    assert [len(settings.levels(name)) for name in names] == [2, 1, 1]
