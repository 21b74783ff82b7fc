"""Places that must say the same: versions, dependencies, manual pages, the example settings."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from nodeagent import __version__
from nodeagent.cli.nodeagent import cli
from nodeagent.settings import DiagnoseCommand, Settings, load, parse

TOP = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
CONTROL = (TOP / "packaging/debian/control").read_text()
SPEC = (TOP / "packaging/rpm/nodeagent.spec").read_text()
EXAMPLE = TOP / "packaging/agent.toml"


def plain(roff: str) -> str:
    """A manual page's text without what only marks it."""
    words = re.sub(r"\\f[A-Z]|^\.[A-Z]+ ?", "", roff, flags=re.MULTILINE)
    bare = words.replace('" "', "").replace('"', "").replace("\\", "")
    return re.sub(r" +(?=[ ,.])", "", bare)


MANUAL = plain((TOP / "docs/man/nodeagent.8").read_text())
CHAPTERS = {
    plain(chapter).partition("\n")[0]: plain(chapter)
    for chapter in (TOP / "docs/man/nodeagent.toml.5").read_text().split("\n.SH ")
}


def search(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    assert found, pattern
    return found[1]


def test_versions() -> None:
    changelog = (TOP / "packaging/debian/changelog").read_text()
    assert PROJECT["version"] == __version__
    assert search(r"\Anodeagent \(([^)]*)\)", changelog) == __version__
    assert search(r"^Version: (\S+)$", SPEC) == __version__


@pytest.mark.parametrize("line", PROJECT["dependencies"])
def test_every_dependency_is_one_of_the_packages(line: str) -> None:
    name = search(r"^([a-z0-9-]+)", line)
    assert re.search(rf"^Depends:.*(\n .*)*?\bpython3-{name},", CONTROL, re.MULTILINE)
    assert re.search(rf"^Requires: .*python3-{name}\)?$", SPEC, re.MULTILINE)


def test_no_package_depends_on_a_library_that_is_none_of_ours() -> None:
    ours = {"python3-" + search(r"^([a-z0-9-]+)", line) for line in PROJECT["dependencies"]}
    binary = CONTROL.split("\n\n", 1)[1]
    assert set(re.findall(r"python3-[a-z0-9-]+", binary)) == ours


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_the_manual_tells_every_command(name: str) -> None:
    command = cli.commands[name]
    entry = search(rf"^({re.escape(name)}\b.*(\n(?!TP).*)*)", MANUAL.partition("COMMANDS")[2])
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert set(parameter.opts) <= set(re.findall(r"--[a-z-]+", entry))


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
        else:
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
