"""What the manual pages say, held against the commands and the settings."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from nodeagent.cli import gnt_maint, maintd, nodeagent
from nodeagent.maintd.engine.settings import Settings, parse
from nodeagent.maintd.http import routes
from tests.verbs import manual, verbs_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
# The daemon's own names for two settings of the policy.
NAMES = {"unchecked": "ignore-consistency"}

# Told once, for all commands that show something, or print a table.
OF_LISTS = (
    "--output",
    "--no-headers",
    "--separator",
    "--watch",
    "--interval",
    "--dry-run",
    "--yes",
)


def commands() -> Iterator[tuple[str, click.Command]]:
    yield from (("gnt-maint.8", command) for command in verbs_of(gnt_maint.cli).values())
    yield from (("maintd.8", command) for command in verbs_of(maintd.cli).values())
    yield from (("nodeagent.8", command) for command in verbs_of(nodeagent.cli).values())


def test_every_command_with_every_option() -> None:
    for page, command in commands():
        chapter = manual(page).partition("\nCOMMANDS\n")[2].partition("\nEXIT STATUS\n")[0]
        entries = re.findall(rf"^{command.name}\b.*\n(?:.+\n)*", chapter, re.M)
        assert entries, command.name
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                told = "".join(entries) if parameter.opts[-1] not in OF_LISTS else chapter
                assert {*parameter.opts} & {*re.findall(r"--[a-z-]+", told)}, parameter.opts


@pytest.mark.parametrize(
    ("page", "group"), [("gnt-maint.8", gnt_maint.cli), ("maintd.8", maintd.cli)]
)
def test_every_option_of_all_commands(page: str, group: click.Group) -> None:
    told = manual(page).partition("\nOPTIONS\n")[2].partition("\nCOMMANDS\n")[0]
    for parameter in group.params:
        assert parameter.opts[-1] in re.findall(r"--[a-z-]+", told)


def test_every_exit_code_is_told() -> None:
    told = manual("gnt-maint.8").partition("\nEXIT STATUS\n")[2].partition("\nEXAMPLES\n")[0]
    codes = [int(code) for code in re.findall(r"^(\d+)$", told, re.M)]
    assert codes == [0, 1, 2, 3, 4, 5, 64, 69, 70, 75, 78, 130]


def keys() -> Iterator[tuple[str, str, Any]]:
    settings = Settings()
    for table in fields(settings):
        values = getattr(settings, table.name)
        if table.name in ("webhooks", "targets", "port"):
            continue  # lists of tables, and an option of the command line
        assert is_dataclass(values)
        for field in fields(values):
            if field.name in ("procedures", "constraints", "announcing", "priorities", "notify"):
                continue  # a table of its own
            name = NAMES.get(field.name, field.name.replace("_", "-"))
            yield table.name, name, getattr(values, field.name)
    for field in fields(settings.policy.procedures):
        if field.name not in ("repair_procedures", "incidents"):
            yield "queue", field.name, getattr(settings.policy.procedures, field.name)
    for field in fields(settings.policy.announcing):
        yield "owners", field.name, getattr(settings.policy.announcing, field.name)
    for name, value in settings.policy.constraints.named().items():
        yield "constraints", name, value


def test_every_setting_with_its_default() -> None:
    """Said in the file, the default changes nothing."""
    page = manual("maintd.toml.5")
    for table, key, default in keys():
        chapter = page.partition(f"\n[{table}]\n")[2].partition("\n[")[0]
        entry = re.search(rf"^{key} \(([^)]*)[,;] ([^,;)]*)\)$", chapter, re.M)
        assert entry, key
        kind, told = entry[1], entry[2]
        document: Any = {"true": True, "false": False, "empty": ""}.get(told, told)
        if isinstance(document, str) and document.isdecimal():
            document = int(document)
        same = default in ("", ()) or parse({table: {key: document}}) == Settings()
        assert same, (table, key, kind, told)


def test_the_guide_to_http_has_every_resource() -> None:
    told = (DOCS / "maintd-http.md").read_text().partition("\n## Resources\n")[2]
    told = told.partition("\n## ")[0]
    resources = json.loads(Path(routes.__file__).with_name("openapi.json").read_text())["paths"]
    for path in resources:
        words = path.replace("series/{name}", "series/NUMBER")
        words = words.replace("agents/{name}", "agents/NODE")
        words = words.replace("nodes/{name}", "nodes/NODE").replace("status/{name}", "status/NODE")
        words = words.replace("{uuid}", "UUID").replace("{name}", "INSTANCE")
        if words not in (
            "/",
            "/1",
            "/1/",
        ):  # the reporting protocol's own, of which there is no more
            assert re.search(rf"`(GET |POST |DELETE )?{re.escape(words)}[`?]", told), path
