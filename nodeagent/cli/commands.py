"""`nodeagent commands`: list the files that may run on this node, with the reasons."""

import json
import os
import sys
from typing import Any

import click

from nodeagent.cli import exits
from nodeagent.cli.check_config import unmapped, will_not_run
from nodeagent.cli.terminal import read, table
from nodeagent.settings import DiagnoseSettings, RepairSettings, Settings

FOLDER_REFUSED = "folder refused"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.pass_obj
def commands(config: str, *, as_json: bool) -> None:
    """Show both command folders: which files run, and why.

    Names states of Nagios plug-ins that give no verdict, too. Exit code 1 if a file is refused, or
    a configured command is missing.
    """
    settings = read(config)
    rows: list[dict[str, Any]] = []
    for kind, part in (("diagnose", settings.diagnose), ("repair", settings.repair)):
        rows += _rows(kind, part, settings)
    refused = {row["kind"] for row in rows if row["verdict"] == FOLDER_REFUSED}
    missing: set[str] = set()
    if "diagnose" not in refused:
        existing = {row["name"] for row in rows if row["kind"] == "diagnose"}
        missing = set(settings.diagnose.commands) - existing
    unfit = [] if "repair" in refused else list(will_not_run(settings, "repair"))
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        table(rows, ("kind", "name", "verdict", "why"))
    for name in sorted(missing):
        click.echo(
            f"nodeagent: diagnose command {name} is configured, but does not exist", err=True
        )
    for note in (*unfit, *unmapped(settings)):
        click.echo(f"nodeagent: {note}", err=True)
    bad = missing or unfit or any(row["verdict"].endswith("refused") for row in rows)
    sys.exit(exits.FAULT if bad else 0)


def _rows(
    kind: str, part: DiagnoseSettings | RepairSettings, settings: Settings
) -> list[dict[str, Any]]:
    from nodeagent.agent.whitelist import Vetted, judge_folder, list_names, look_up

    folder = part.folder
    if not os.path.isdir(folder):
        return [{"kind": kind, "name": "-", "verdict": "none", "why": f"no {folder}"}]
    if why := judge_folder(folder):
        return [{"kind": kind, "name": folder, "verdict": FOLDER_REFUSED, "why": why}]
    rows = []
    for name in list_names(folder):
        vetted = look_up(folder, name, link_folders=part.link_folders)
        if isinstance(vetted, Vetted):
            vetted.close()
            verdict, why = _when(kind, name, settings), f"from {vetted.path}"
        else:
            verdict, why = "refused", vetted.why
        rows.append({"kind": kind, "name": name, "verdict": verdict, "why": why})
    return rows


def _when(kind: str, name: str, settings: Settings) -> str:
    """Say whether the settings let a permitted command run."""
    if kind == "repair":
        return "runs" if settings.repair.enabled else "may run, but repair.enabled is false"
    if name not in settings.diagnose.commands:
        return "may run, not configured"
    return "runs, not reported (audit)" if settings.diagnose.command(name).audit else "runs"
