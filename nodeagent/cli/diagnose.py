"""`nodeagent diagnose`: run the commands now and print the diagnosis."""

import asyncio
import json
import sys
from typing import TYPE_CHECKING

import click

from nodeagent.cli import exits
from nodeagent.cli.terminal import read, shown
from nodeagent.clocks import unix_ms
from nodeagent.model.units import Ms
from nodeagent.settings import Settings

if TYPE_CHECKING:
    from nodeagent.agent.diagnose import Interpreted
    from nodeagent.model.diagnosis import Steady

_LINE = 500  # characters of a line that a command writes to standard error


@click.command()
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@click.pass_obj
def diagnose(config: str, names: tuple[str, ...], *, as_json: bool) -> None:
    """Run the diagnose commands now and print the diagnosis.

    Runs all configured commands, or NAMES. This shows one run: it stabilises and reports
    nothing. Commands with `audit` run and are shown, but do not count in the diagnosis. The
    commands' own messages go to standard error. Exit code 0 if every command gave a usable
    diagnosis, and the repair commands they name can run; else 1.
    """
    from nodeagent.agent.diagnose import merge
    from nodeagent.model.diagnosis import Diagnosis, Unusable

    settings = read(config)
    wanted = tuple(dict.fromkeys(names or settings.diagnose.commands))
    results = asyncio.run(_run(settings, wanted))
    audited = [name for name in wanted if settings.diagnose.command(name).audit]
    order = [name for name in wanted if name not in audited]
    now = unix_ms()
    verdict = merge({name: _steady(result, now) for name, result in results.items()}, order, now)
    # Named commands that are all audited give no diagnosis; the configured ones give Ok. While the
    # tags are ignored, the configured ones are unknown.
    unknown = not names and bool(settings.tags_ignored)
    merged = verdict.diagnosis if (order or not names) and not unknown else None
    faults = verdict.unusable | {
        name: str(result) for name, result in results.items() if isinstance(result, Unusable)
    }
    faults |= _without_repair(results, settings)
    if as_json:
        each = {
            name: json.loads(result.text)
            if isinstance(result, Diagnosis)
            else {"unusable": str(result)}
            for name, result in results.items()
        }
        document = json.loads(merged.text) if merged else None
        whole = {"diagnosis": document, "commands": each, "audit": audited}
        click.echo(json.dumps(whole, indent=2))
    else:
        for name, why in faults.items():
            click.echo(f"nodeagent: {name}: {shown(why)}", err=True)
        for name in audited:
            if isinstance(result := results[name], Diagnosis):
                click.echo(f"nodeagent: {name} (audit, not reported) says {result.text}", err=True)
        if merged is not None:
            click.echo(merged.text)
    sys.exit(exits.FAULT if faults or unknown else 0)


def _without_repair(results: "dict[str, Interpreted]", settings: Settings) -> dict[str, str]:
    """Say by diagnose command why the repair command in its diagnosis will not run."""
    from nodeagent.agent.whitelist import Refused, look_up
    from nodeagent.model.diagnosis import Diagnosis

    why: dict[str, str] = {}
    for name, result in results.items():
        if isinstance(result, Diagnosis) and result.command is not None:
            repair = settings.repair
            vetted = look_up(repair.folder, result.command, link_folders=repair.link_folders)
            if isinstance(vetted, Refused):
                why[name] = f"its repair command will not run: {vetted}"
            else:
                vetted.close()
    return why


def _steady(result: "Interpreted", now: Ms) -> "Steady":
    from nodeagent.model.diagnosis import Diagnosis, Steady

    if isinstance(result, Diagnosis):
        return Steady(current=result, checked=now)
    return Steady(why=result.why)


async def _run(settings: Settings, names: tuple[str, ...]) -> dict[str, "Interpreted"]:
    from nodeagent.agent.cgroup import Cages
    from nodeagent.agent.command import Commands
    from nodeagent.agent.execute import run_diagnose
    from nodeagent.agent.run import Finished, Limits, Ran
    from nodeagent.agent.whitelist import ROOT, Vetted
    from nodeagent.protocol.bounds import cut

    class Aloud(Commands):
        """Prints the commands' standard error; a runner only logs its head."""

        async def run(
            self, vetted: Vetted, stdin: bytes, limits: Limits, *, alias: str = ""
        ) -> Ran:
            ran = await super().run(vetted, stdin, limits, alias=alias)
            for line in ran.stderr.splitlines() if isinstance(ran, Finished) else ():
                text = cut(line.decode("utf-8", "replace"), _LINE)
                click.echo(f"{vetted.name}: {shown(text)}", err=True)
            return ran

    commands = Aloud(cages=Cages([]))  # a login session's groups are not ours
    try:
        return {name: await run_diagnose(commands, settings, name, ROOT) for name in names}
    finally:
        await commands.close()
