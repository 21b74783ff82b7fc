"""`nodeagent check-config`: are the settings right, for both halves of the agent?"""

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
    """Say what is wrong with the settings, or `ok`.

    Read are all of them, this node's identity and the cluster's key.
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
    for name in sorted(set(settings.diagnose.each) - set(settings.diagnose.commands)):
        click.echo(f"nodeagent: diagnose.command.{name} is set, but {name} does not run", err=True)
    for note in _will_not_run(settings):
        click.echo(f"nodeagent: {note}", err=True)
    click.echo(f"ok: node {identity.name} of cluster {identity.cluster}")


def _judge_for_front(config: str, user: str) -> None:
    """Read the files as the front will: as its own user. ConfigError if it cannot."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        click.echo(
            f"nodeagent: agent.front is {printable(user)}, and there is no such user:"
            " a front can ask the runner only as the runner's own user",
            err=True,
        )
        return
    if os.geteuid() != 0:
        return  # nobody else can try it
    with as_user(entry):
        try:
            load(config, owner=entry.pw_uid)
        except ConfigError as error:
            raise ConfigError(f"the front, as user {user}, cannot start: {error}") from None


def _will_not_run(settings: Settings) -> Iterator[str]:
    """What the settings name and the folders do not hold, or hold unfit.

    No fault: a tag names commands for all nodes, and which exist is each node's own matter.
    """
    from nodeagent.agent.whitelist import Refused, look_up

    diagnose, repair = settings.diagnose, settings.repair
    repairs = {one.repair for one in diagnose.each.values() if one.repair is not None}
    for kind, part, names in (
        ("diagnose", diagnose, diagnose.commands),
        ("repair", repair, sorted(repairs)),
    ):
        for name in names:
            found = look_up(part.folder, name, link_folders=part.link_folders)
            if isinstance(found, Refused):
                yield f"{kind} command {name} is configured, but will not run: {found.why}"
            else:
                found.close()
