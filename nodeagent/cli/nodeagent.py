"""The `nodeagent` command: parse, call, print."""

import asyncio
import json
import os
import secrets
import sys
import time
from typing import Any, NoReturn

import click

from nodeagent import __version__
from nodeagent.errors import ConfigError, NodeAgentError
from nodeagent.settings import DEFAULT_FILE, Settings

EXIT_CONFIG = 78  # EX_CONFIG of sysexits
EXIT_UNAVAILABLE = 69
EXIT_FAULT = 1


def _die(error: Exception) -> NoReturn:
    click.echo(f"nodeagent: {error}", err=True)
    sys.exit(EXIT_CONFIG if isinstance(error, ConfigError) else EXIT_FAULT)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nodeagent")
@click.option(
    "-c",
    "--config",
    default=DEFAULT_FILE,
    show_default=True,
    type=click.Path(dir_okay=False),
    help="Settings; conf.d/*.toml beside it is read too.",
)
@click.pass_context
def cli(context: click.Context, config: str) -> None:
    """Say how this node is, and repair it when the cluster's master orders so."""
    context.obj = config


def _read(config: str) -> Settings:
    """As the runner reads them: files that root or the caller owns, and the cluster's tags."""
    from nodeagent.agent.daemon import read_settings

    return read_settings(config)


@cli.command()
@click.pass_obj
def run(config: str) -> None:
    """Run front and runner together in the foreground."""
    from nodeagent.agent.daemon import run_both, settings_to_start_with

    try:
        settings_to_start_with(config)
    except NodeAgentError as error:
        _die(error)
    sys.exit(run_both(config))


@cli.command()
@click.pass_obj
def runner(config: str) -> None:
    """Run the half that is root, runs commands and holds the cluster's key."""
    from nodeagent.agent.daemon import become

    become("runner", config)


@cli.command()
@click.pass_obj
def front(config: str) -> None:
    """Run the half that is on the network; needs no privilege."""
    from nodeagent.agent.daemon import become

    become("front", config)


@cli.command()
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@click.pass_obj
def diagnose(config: str, names: tuple[str, ...], *, as_json: bool) -> None:
    """Run the diagnose commands now (all configured, or NAMES) and print the diagnosis.

    Nothing is stabilised or reported: this shows what one run says. Exit code 0 if every
    command gave a usable diagnosis, else 1.
    """
    from nodeagent.agent.diagnose import merge
    from nodeagent.model.diagnosis import Diagnosis, Steady, Unusable

    try:
        settings = _read(config)
        wanted = names or settings.diagnose.commands
        said = asyncio.run(_diagnose(settings, wanted))
    except NodeAgentError as error:
        _die(error)
    now = time.time_ns() // 1_000_000
    steadies = {
        name: Steady(current=one, checked=now)
        if isinstance(one, Diagnosis)
        else Steady(why=one.why)
        for name, one in said.items()
    }
    verdict = merge(steadies, tuple(wanted), now)
    text = verdict.diagnosis.text if verdict.diagnosis else None
    if as_json:
        each = {
            name: {"unusable": str(one)} if isinstance(one, Unusable) else json.loads(one.text)
            for name, one in said.items()
        }
        merged = json.loads(text) if text else None
        click.echo(json.dumps({"diagnosis": merged, "commands": each}, indent=2))
    else:
        for name, one in said.items():
            if isinstance(one, Unusable):
                click.echo(f"nodeagent: {name}: {one}", err=True)
        if text is not None:
            click.echo(text)
    sys.exit(EXIT_FAULT if verdict.unusable else 0)


async def _diagnose(settings: Settings, names: tuple[str, ...]) -> dict[str, Any]:
    from nodeagent.agent.cgroup import Cages
    from nodeagent.agent.command import Commands
    from nodeagent.agent.runner import run_diagnose
    from nodeagent.agent.whitelist import ROOT

    commands = Commands(spare=0, cages=Cages([]))  # a login session's groups are not ours
    try:
        return {name: await run_diagnose(commands, settings, name, ROOT) for name in names}
    finally:
        await commands.close()


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.pass_obj
def commands(config: str, *, as_json: bool) -> None:
    """Show every file in both command folders, with the verdict and its reason."""
    from nodeagent.agent.whitelist import Vetted, judge_folder, list_names, look_up

    try:
        settings = _read(config)
    except NodeAgentError as error:
        _die(error)
    rows: list[dict[str, Any]] = []
    for kind, part in (("diagnose", settings.diagnose), ("repair", settings.repair)):
        folder: str = part.folder
        if not os.path.isdir(folder):
            rows.append({"kind": kind, "name": "-", "verdict": "none", "why": f"no {folder}"})
            continue
        if why := judge_folder(folder):
            rows.append({"kind": kind, "name": folder, "verdict": "folder refused", "why": why})
            continue
        for name in list_names(folder):
            found = look_up(folder, name, link_folders=part.link_folders)
            good = isinstance(found, Vetted)
            why = f"from {found.path}" if isinstance(found, Vetted) else found.why
            if isinstance(found, Vetted):
                found.close()
            enabled = kind == "repair" or name in settings.diagnose.commands
            verdict = ("runs" if enabled else "may run, not configured") if good else "refused"
            rows.append({"kind": kind, "name": name, "verdict": verdict, "why": why})
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        _table(rows, ("kind", "name", "verdict", "why"))
    missing = set(settings.diagnose.commands) - {r["name"] for r in rows if r["kind"] == "diagnose"}
    for name in sorted(missing):
        click.echo(f"nodeagent: diagnose command {name} is configured, but there is none", err=True)
    bad = missing or any(row["verdict"].endswith("refused") for row in rows)
    sys.exit(EXIT_FAULT if bad else 0)


def _table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    """Print rows as aligned columns; control characters others chose are shown, not obeyed."""
    cells = [[_shown(str(row[column])) for column in columns] for row in rows]
    widths = [max([len(c), *(len(row[i]) for row in cells)]) for i, c in enumerate(columns)]
    for row in [[c.upper() for c in columns], *cells]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


@cli.command()
@click.argument("host")
@click.option("--port", default=None, type=click.IntRange(1, 65535), help="Default: our own.")
@click.option("--node", default=None, help="Ganeti's name of the node, where HOST is an address.")
@click.option("--plain", is_flag=True, help="Use plain HTTP.")
@click.option("--timeout", default=5.0, show_default=True, help="Seconds for the whole request.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.pass_obj
def report(
    config: str,
    host: str,
    port: int | None,
    node: str | None,
    *,
    plain: bool,
    timeout: float,
    as_json: bool,
) -> None:
    """Fetch the report of HOST (a node's name or address), verify it, and show it.

    Needs to read the cluster's key. Exit code 0 if the report is genuine, 69 if there was
    no answer, 1 if it cannot be trusted.
    """
    from nodeagent.agent.daemon import settings_to_start_with
    from nodeagent.agent.ssconf import Ssconf
    from nodeagent.protocol.look import Distrusted, Seen, Silent

    try:
        settings = settings_to_start_with(config)
        ssconf = Ssconf(settings.agent)
        addresses = ssconf.addresses()
        name = node or next((n for n, a in addresses.items() if host in (n, a)), host)
        tls = settings.listen.tls and not plain
        look = asyncio.run(
            _look(
                ssconf,
                name,
                addresses.get(host, host),
                port or settings.listen.port,
                tls=tls,
                seconds=timeout,
            )
        )
    except NodeAgentError as error:
        _die(error)
    match look:
        case Silent(why):
            click.echo(f"nodeagent: {host}: no report: {_shown(why)}", err=True)
            sys.exit(EXIT_UNAVAILABLE)
        case Distrusted(why):
            click.echo(f"nodeagent: {host}: NOT TRUSTED: {_shown(why)}", err=True)
            sys.exit(EXIT_FAULT)
        case Seen(report=genuine):
            body = genuine.body()
            if as_json:
                click.echo(json.dumps(body, indent=2))
            else:
                _show(body)


async def _look(
    ssconf: Any, name: str, address: str, port: int, *, tls: bool, seconds: float
) -> Any:
    from nodeagent.errors import Unavailable
    from nodeagent.protocol.look import Expected, Silent, judge_answer
    from nodeagent.web.client import fetch, untrusting_tls

    salt = secrets.token_hex(16)
    target = f"/1/report/node/diagnose?salt={salt}"
    try:
        answer = await fetch(
            address, port, target, seconds=seconds, tls=untrusting_tls() if tls else None
        )
    except Unavailable as error:
        return Silent(str(error))
    cluster = ssconf.identity().cluster
    expected = Expected(cluster, name, "", salt, answer.certificate)
    now = time.time_ns() // 1_000_000
    return judge_answer(answer.status, answer.body, ssconf.key(), expected, now)


def _show(body: dict[str, Any]) -> None:
    now = time.time() * 1000
    for label, value in (
        ("node", f"{body['name']} {body['node'] or '(UUID not known to it)'}"),
        ("cluster", body["cluster"]),
        ("master, as it believes", body["master"]),
        ("diagnosis", body["diagnosis"] or "none confirmed yet"),
        ("checked", _ago(body["checked"], now)),
        ("changed", _ago(body["changed"], now)),
        ("agent", f"{body['software']}, report {body['seq']} of {body['epoch']}"),
        *((f"unusable: {name}", why) for name, why in sorted(body["unusable"].items())),
    ):
        click.echo(f"{label + ':':26}{_shown(str(value))}")


def _ago(when: int | None, now: float) -> str:
    return "never" if when is None else f"{max(0.0, now - when) / 1000:.0f} s ago"


@cli.command("check-config")
@click.pass_obj
def check_config(config: str) -> None:
    """Read all settings and this node's identity; say what is wrong, or `ok`."""
    from nodeagent.agent.ssconf import Ssconf

    try:
        settings = _read(config)
        identity = Ssconf(settings.agent).identity()
        Ssconf(settings.agent).key()
    except NodeAgentError as error:
        _die(error)
    for name in sorted(set(settings.diagnose.each) - set(settings.diagnose.commands)):
        click.echo(f"nodeagent: diagnose.command.{name} is set, but {name} does not run", err=True)
    click.echo(f"ok: node {identity.name} of cluster {identity.cluster}")


def main() -> None:
    """Entry point."""
    cli(prog_name="nodeagent")


if __name__ == "__main__":
    main()
