"""`maintd check-config`: check the settings, and that the daemon's user can read the files."""

import os
import pwd
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import click

from nodeagent.cli import usage
from nodeagent.drop_ins import read_files
from nodeagent.errors import ConfigError, NodeAgentError
from nodeagent.faults import Faults
from nodeagent.maintd.engine.helper_settings import DROP_INS
from nodeagent.maintd.engine.settings import Settings, parse
from nodeagent.maintd.http.listen import named_tls, tls_of
from nodeagent.maintd.http.users import parse_users
from nodeagent.power import settings as power
from nodeagent.secret import read_private, read_private_text, read_token
from nodeagent.section import place_of

USER = "maintd"  # the unit's
_CREDENTIALS = "/run/credentials/"  # systemd puts files here that root has read for the unit


@click.command("check-config")
@usage.CANDIDATE
@usage.AS
@click.pass_obj
def check_config(config: str, candidate: str | None, drop_in: str | None) -> None:
    """Check the settings, and print all that is wrong or `ok`.

    As root it also checks that the daemon's user can read the settings and the files they name, and
    the settings of power (see nodeagent-oob check-config), which a succession needs. With
    --candidate FILE --as 50-a.toml it does so as if FILE was installed as maintd.conf.d/50-a.toml.
    """
    faults = Faults(collect=True)
    judged = usage.judged(config, candidate, drop_in)
    values, places = read_files(
        judged.file, judged.owner, DROP_INS, faults=faults, candidate=judged.candidate
    )
    settings = parse(values, places, faults)
    if judged.whole:
        _judge_tls(settings, places, faults)
        _judge_for_daemon(judged, settings, places, faults)
        _judge_power(settings, faults)
    usage.die_of_faults("maintd", faults)
    if not judged.whole:
        click.echo(f"{candidate}: ok; whether maintd can read the files it names shows on a master")
        return
    usage.warn_of_unread("maintd", config, DROP_INS)
    missing = candidate is None and not os.path.exists(config)
    verdict = "ok: the file is missing, so the defaults hold" if missing else "ok"
    click.echo(f"{candidate or config}: {verdict}")


def _judge_tls(settings: Settings, places: Mapping[str, str], faults: Faults) -> None:
    path = settings.http.tls
    if not path or settings.http.plain:
        return
    try:
        tls_of(path, named_tls(path, any_owner=os.geteuid() == 0))
    except NodeAgentError as error:
        faults.add(f"{_file_of('http.tls', places)}{error}", "http.tls")


def _judge_power(settings: Settings, faults: Faults) -> None:
    needed = settings.succession.enabled or os.path.lexists(power.DEFAULT_FILE)
    if os.geteuid() != 0 or not needed:
        return
    try:
        power.load(power.DEFAULT_FILE, faults=faults)
    except ConfigError as error:
        faults.add(str(error))


def _judge_for_daemon(
    judged: usage.Judged, settings: Settings, places: Mapping[str, str], faults: Faults
) -> None:
    """Read the files as the daemon will: as its own user; take what it cannot read."""
    try:
        entry = pwd.getpwnam(USER)
    except KeyError:
        return  # no unit runs it here
    if os.geteuid() != 0:
        return  # only root can become another user
    theirs = Faults(collect=True)
    with usage.as_user(entry):
        read_files(judged.file, entry.pw_uid, DROP_INS, faults=theirs, candidate=judged.installed)
        _read_named(settings, places, theirs)
    faults.take_new(theirs, f"the daemon, as user {USER}, would say: ")


def _read_named(settings: Settings, places: Mapping[str, str], faults: Faults) -> None:
    """Take each file in the settings that is unreadable, after the key that names it."""
    for key, path, read in (*_secrets(settings), *((*each, _open) for each in _files(settings))):
        if path and not path.startswith(_CREDENTIALS):
            try:
                read(path)
            except ConfigError as error:
                faults.add(f"{_file_of(key, places)}{key} {error}", key)
            else:
                if key == "http.users":
                    _judge_users(f"{_file_of(key, places)}{key} {path}", path, faults)


def _judge_users(where: str, path: str, faults: Faults) -> None:
    wrong = Faults(collect=True)
    parse_users(read_private_text(path), wrong)
    for line in wrong.lines:
        faults.add(f"{where}: {line}", "http.users")


def _file_of(key: str, places: Mapping[str, str]) -> str:
    place = place_of(key, places)
    return f"{place}: " if place else ""


def _open(path: str) -> None:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def _secrets(settings: Settings) -> Iterator[tuple[str, str, Callable[[str], object]]]:
    """Yield each file with a secret by its key, with its reader; some are empty."""
    of_ganeti = partial(read_private, any_owner=True)  # they may belong to a user of Ganeti's
    yield "maintd.key", settings.maintd.key, of_ganeti
    yield "maintd.certificate", settings.maintd.certificate, of_ganeti
    if not settings.http.plain:
        yield "http.tls", settings.http.tls, read_private
    if os.path.lexists(settings.http.users):
        yield "http.users", settings.http.users, read_private_text
    if settings.sabakan.url:
        yield "sabakan.token", settings.sabakan.token, read_token
    for target in settings.targets:
        for key, path, reader in target.secrets():
            yield f"{target.table}.{key}", path, reader


def _files(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield each other required file by its key; some are empty."""
    if settings.sabakan.url:
        yield "sabakan.ca", settings.sabakan.ca
    for target in settings.targets:
        yield f"{target.table}.ca", target.ca
