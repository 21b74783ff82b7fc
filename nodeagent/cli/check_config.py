"""`nodeagent check-config`: check the settings of both halves of the agent."""

import os
import pwd
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from nodeagent.cli import exits, usage
from nodeagent.cli.usage import as_user
from nodeagent.drop_ins import read_files, unread_drop_ins
from nodeagent.errors import ConfigError, NodeAgentError, plain
from nodeagent.faults import Faults
from nodeagent.protocol.canonical import printable
from nodeagent.settings import Settings, parse, with_tags

if TYPE_CHECKING:
    from nodeagent.agent.ssconf import Identity


@click.command("check-config")
@usage.CANDIDATE
@usage.AS
@click.pass_obj
def check_config(config: str, candidate: str | None, drop_in: str | None) -> None:
    """Check the settings, and print all that is wrong or `ok`.

    Reads all settings, this node's identity and the cluster's key. Ends with 1 if a command that
    the files name cannot run. With --candidate FILE --as 50-a.toml it does so as if FILE was
    installed as conf.d/50-a.toml.
    """
    faults = Faults(collect=True)
    judged = usage.judged(config, candidate, drop_in)
    values, places = read_files(
        judged.file, judged.owner, faults=faults, candidate=judged.candidate
    )
    of_files = parse(values, places, faults)
    if not judged.whole:
        usage.die_of_faults("nodeagent", faults)
        click.echo(f"{candidate}: ok; whether its commands can run shows on a node")
        return
    settings, identity, unavailable = _judge_node(of_files, faults)
    if not faults.has("agent.front"):
        _judge_for_front(judged, settings.agent.front, faults)
    # A tag names commands for all nodes, and each node has its own set.
    own = set(of_files.diagnose.commands)
    notes, failed = _notes(settings, own, faults)
    notes += [plain(note, 500) for note in unread_drop_ins(config)]
    for note in [*map(str, unavailable), *notes]:
        click.echo(f"nodeagent: {note}", err=True)
    usage.die_of_faults("nodeagent", faults)
    if failed or identity is None:
        sys.exit(exits.FAULT)
    count = f", with {len(notes)} warning{'s' * (len(notes) != 1)}" if notes else ""
    click.echo(f"ok{count}: node {identity.name} of cluster {identity.cluster}")


def _notes(settings: Settings, own: set[str], faults: Faults) -> tuple[list[str], bool]:
    """Return warnings of commands, and whether one of the files' own will not run.

    Of a part with mistakes nobody knows which commands it means.
    """
    notes, failed = list[str](), False
    right = [kind for kind in ("diagnose", "repair") if not faults.has(kind)]
    if faults.incomplete:
        return notes, failed
    if "diagnose" in right:
        notes += [*_unused(settings), *unmapped(settings)]
    for kind in right:
        for name, why in _unfit(settings, kind):
            notes.append(why)
            failed = failed or kind == "repair" or name in own
    return notes, failed


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


def _judge_node(
    settings: Settings, faults: Faults
) -> "tuple[Settings, Identity | None, list[NodeAgentError]]":
    """Lay the tags over the files, read this node's identity and the key, and judge all of them.

    Return the settings, the identity if it is known, and failures that are no mistakes.
    """
    from nodeagent.agent.ssconf import Ssconf

    unavailable = list[NodeAgentError]()
    identity: Identity | None = None
    if faults.incomplete or faults.has("agent"):  # nobody knows where Ganeti's files are
        return settings, identity, unavailable
    ssconf = Ssconf(settings.agent)
    try:
        settings = with_tags(settings, ssconf.tags(), faults)
    except NodeAgentError as error:
        unavailable.append(error)
    try:
        identity = ssconf.identity()
    except ConfigError as error:
        faults.add(str(error))
    except NodeAgentError as error:
        unavailable.append(error)
    try:
        ssconf.key()
    except ConfigError as error:
        faults.add(str(error))
    except NodeAgentError as error:
        unavailable.append(error)
    return settings, None if unavailable else identity, unavailable


def _judge_for_front(judged: usage.Judged, user: str, faults: Faults) -> None:
    """Read the files as the front will: as its own user; take what it cannot read."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        if not faults.lines:  # else one thing after the other
            click.echo(
                f"nodeagent: user {printable(user)} does not exist, so only root can talk to the"
                " runner: create it, or set agent.front",
                err=True,
            )
        return
    if os.geteuid() != 0:
        return  # only root can become another user
    theirs = Faults(collect=True)
    with as_user(entry):
        read_files(judged.file, entry.pw_uid, faults=theirs, candidate=judged.installed)
    faults.take_new(theirs, f"the front, as user {user}, cannot start: ")


def will_not_run(settings: Settings, kind: str) -> Iterator[str]:
    """Yield why configured commands of that kind will not run: absent in their folder, or unfit."""
    return (why for _, why in _unfit(settings, kind))


def _unfit(settings: Settings, kind: str) -> Iterator[tuple[str, str]]:
    """Yield the names of these commands, each with the reason."""
    from nodeagent.agent.whitelist import Refused, look_up
    from nodeagent.protocol.commands import State

    part = settings.diagnose if kind == "diagnose" else settings.repair
    for name, key in _configured(settings, kind).items():
        vetted = look_up(part.folder, name, link_folders=part.link_folders)
        if isinstance(vetted, Refused):
            missing = vetted.state is State.MISSING
            help_ = f": put it there, or remove it from {key}" if missing else ""
            yield (
                name,
                f"{kind} command {name} is configured, but will not run: {vetted.why}{help_}",
            )
        else:
            vetted.close()


def _configured(settings: Settings, kind: str) -> dict[str, str]:
    """Return the names of the configured commands of that kind, each with its key."""
    if kind == "diagnose":
        return dict.fromkeys(settings.diagnose.commands, "diagnose.commands or its cluster tag")
    repair = settings.repair
    keys = {
        command.repair: f"diagnose.command.{name}.repair"
        for name, command in settings.diagnose.each.items()
        if command.repair is not None
    }
    if repair.enabled:
        keys |= dict.fromkeys(repair.queue_commands, "repair.queue-commands")
        keys |= dict.fromkeys(repair.queue_checks, "repair.queue-checks")
    return dict(sorted(keys.items()))
