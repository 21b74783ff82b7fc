"""`maintd check-config`: are the settings right, and may the daemon's user read all they name?"""

import os
import pwd
from collections.abc import Iterator

import click

from nodeagent.cli import usage
from nodeagent.errors import ConfigError, NodeAgentError
from nodeagent.maintd.http.listen import public_tls
from nodeagent.maintd.settings import Settings, load
from nodeagent.web.post import read_secret

USER = "maintd"  # the unit's
_CREDENTIALS = "/run/credentials/"  # where systemd puts what root has read for the unit


@click.command("check-config")
@click.pass_obj
def check_config(config: str) -> None:
    """Say what is wrong with the settings, or `ok`.

    Called by root it also tries, as the daemon's user, to read them and the files they name.
    """
    try:
        http = load(config, owner=os.geteuid()).http
        if http.tls and not http.plain:
            public_tls(http.tls)
        _judge_for_daemon(config)
    except NodeAgentError as error:
        usage.die("maintd", error)
    there = "ok" if os.path.exists(config) else "ok: there is none, so the defaults hold"
    click.echo(f"{config}: {there}")


def _judge_for_daemon(config: str) -> None:
    """Read the files as the daemon will: as its own user. ConfigError if it cannot."""
    try:
        entry = pwd.getpwnam(USER)
    except KeyError:
        return  # here no unit runs it
    if os.geteuid() != 0:
        return  # nobody else can try it
    with usage.as_user(entry):
        try:
            _read_named(load(config, owner=entry.pw_uid))
        except ConfigError as error:
            raise ConfigError(f"the daemon, as user {USER}, would say: {error}") from None


def _read_named(settings: Settings) -> None:
    """ConfigError if a file that the settings name cannot be read; it begins with the key."""
    named = [(*each, read_secret) for each in _secrets(settings)]
    for key, path, read in (*named, *((*each, _open) for each in _files(settings))):
        if path and not path.startswith(_CREDENTIALS):
            try:
                read(path)
            except ConfigError as error:
                raise ConfigError(f"{key} {error}") from None


def _open(path: str) -> None:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def _secrets(settings: Settings) -> Iterator[tuple[str, str]]:
    """By its key each file that is read only when something is sent; some are empty."""
    if settings.sabakan.url:
        yield "sabakan.token", settings.sabakan.token
    for number, hook in enumerate(settings.webhooks):
        yield f"owners.webhooks[{number}].secret", hook.secret


def _files(settings: Settings) -> Iterator[tuple[str, str]]:
    """By its key each other file that must be there; some are empty."""
    yield "maintd.key", settings.maintd.key
    yield "maintd.certificate", settings.maintd.certificate
    if settings.cluster.backend == "rapi":
        yield "cluster.password", settings.cluster.password
        yield "cluster.ca", settings.cluster.ca
    if not settings.http.plain:
        yield "http.tls", settings.http.tls
    if os.path.lexists(settings.http.users):
        yield "http.users", settings.http.users
    if settings.sabakan.url:
        yield "sabakan.ca", settings.sabakan.ca
    for number, hook in enumerate(settings.webhooks):
        yield f"owners.webhooks[{number}].ca", hook.ca
