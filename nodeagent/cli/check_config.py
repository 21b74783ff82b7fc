"""`nodeagent check-config`: check the settings of both halves of the agent."""

import os
import pwd
import sys
from collections.abc import Iterator

import click

from nodeagent.cli import exits, usage
from nodeagent.cli.terminal import die
from nodeagent.cli.usage import as_user
from nodeagent.errors import ConfigError, NodeAgentError
from nodeagent.protocol.canonical import printable
from nodeagent.settings import Settings, load, parse, read_files


@click.command("check-config")
@usage.CANDIDATE
@click.pass_obj
def check_config(config: str, candidate: str | None) -> None:
    """Check the settings, and print all that is wrong or `ok`.

    Reads all settings, this node's identity and the cluster's key. Ends with 1 if a command that
    the files name cannot run.
    """
    from nodeagent.agent.daemon import read_settings
    from nodeagent.agent.ssconf import Ssconf

    def read(faults: list[str]) -> Settings:
        file, owner = usage.judged_file(config, candidate)
        values, places = read_files(file, owner)
        return parse(values, places, faults)

    usage.die_of_faults("nodeagent", read)
    if candidate is not None:
        click.echo(f"{candidate}: ok; whether its commands can run shows on a node")
        return
    try:
        settings = read_settings(config)
        identity = Ssconf(settings.agent).identity()
        Ssconf(settings.agent).key()
        _judge_for_front(config, settings.agent.front)
    except NodeAgentError as error:
        die(error)
    # A tag names commands for all nodes, and each node has its own set.
    own = set(load(config, owner=os.geteuid()).diagnose.commands)
    notes, failed = [*_unused(settings), *unmapped(settings)], False
    for kind in ("diagnose", "repair"):
        for name, why in _unfit(settings, kind):
            notes.append(why)
            failed = failed or kind == "repair" or name in own
    for note in notes:
        click.echo(f"nodeagent: {note}", err=True)
    if failed:
        sys.exit(exits.FAULT)
    count = f", with {len(notes)} warning{'s' * (len(notes) != 1)}" if notes else ""
    click.echo(f"ok{count}: node {identity.name} of cluster {identity.cluster}")


def _unused(settings: Settings) -> Iterator[str]:
    for name in sorted(set(settings.diagnose.each) - set(settings.diagnose.commands)):
        yield f"diagnose.command.{name} is set, but {name} does not run"


def unmapped(settings: Settings) -> Iterator[str]:
    """Yield the states of Nagios plug-ins that give no verdict; UNKNOWN never does."""
    for name, command in settings.diagnose.each.items():
        if command.nagios is not None:
            for code, state in ((0, "OK"), (1, "WARNING"), (2, "CRITICAL")):
                if code not in command.nagios:
                    yield (
                        f"diagnose.command.{name}.nagios does not map {code} ({state}):"
                        " such a run gives no verdict"
                    )


def _judge_for_front(config: str, user: str) -> None:
    """Read the files as the front will: as its own user. ConfigError if it cannot."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        click.echo(
            f"nodeagent: user {printable(user)} does not exist, so only root can talk to the"
            " runner: create it, or set agent.front",
            err=True,
        )
        return
    if os.geteuid() != 0:
        return  # only root can become another user
    with as_user(entry):
        try:
            load(config, owner=entry.pw_uid)
        except ConfigError as error:
            raise ConfigError(f"the front, as user {user}, cannot start: {error}") from None


def will_not_run(settings: Settings, kind: str) -> Iterator[str]:
    """Yield why configured commands of that kind will not run: absent in their folder, or unfit."""
    return (why for _, why in _unfit(settings, kind))


def _unfit(settings: Settings, kind: str) -> Iterator[tuple[str, str]]:
    """Yield the names of these commands, each with the reason."""
    from nodeagent.agent.whitelist import Refused, look_up

    part = settings.diagnose if kind == "diagnose" else settings.repair
    repairs = {one.repair for one in settings.diagnose.each.values() if one.repair is not None}
    for name in settings.diagnose.commands if kind == "diagnose" else sorted(repairs):
        found = look_up(part.folder, name, link_folders=part.link_folders)
        if isinstance(found, Refused):
            yield name, f"{kind} command {name} is configured, but will not run: {found.why}"
        else:
            found.close()
