"""`nodeagent check-config`: check the settings of both halves of the agent."""

import os
import pwd
from collections.abc import Iterator

import click

from nodeagent.cli.terminal import die
from nodeagent.cli.usage import as_user
from nodeagent.errors import ConfigError, NodeAgentError
from nodeagent.protocol.canonical import printable
from nodeagent.settings import Settings, load


@click.command("check-config")
@click.pass_obj
def check_config(config: str) -> None:
    """Check the settings, and print what is wrong or `ok`.

    Reads all settings, this node's identity and the cluster's key.
    """
    from nodeagent.agent.daemon import read_settings
    from nodeagent.agent.ssconf import Ssconf

    try:
        settings = read_settings(config)
        identity = Ssconf(settings.agent).identity()
        Ssconf(settings.agent).key()
        _judge_for_front(config, settings.agent.front)
    except NodeAgentError as error:
        die(error)
    notes = [*_unused(settings), *unmapped(settings)]
    notes += [*will_not_run(settings, "diagnose"), *will_not_run(settings, "repair")]
    for note in notes:
        click.echo(f"nodeagent: {note}", err=True)
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
    """Yield the configured commands of that kind that their folder lacks, or that are unfit.

    This is not a fault: a tag names commands for all nodes, and each node has its own set.
    """
    from nodeagent.agent.whitelist import Refused, look_up

    part = settings.diagnose if kind == "diagnose" else settings.repair
    repairs = {one.repair for one in settings.diagnose.each.values() if one.repair is not None}
    for name in settings.diagnose.commands if kind == "diagnose" else sorted(repairs):
        found = look_up(part.folder, name, link_folders=part.link_folders)
        if isinstance(found, Refused):
            yield f"{kind} command {name} is configured, but will not run: {found.why}"
        else:
            found.close()
