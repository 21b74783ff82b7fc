"""The files that name clusters: for each the URL of its maintd, a user, and the place of a secret.

A person's own file counts before the one of all, name by name. No file holds a password.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import click

from nodeagent.cli.maint.console.client import Where
from nodeagent.errors import ConfigError, unmarked

SHARED = "/etc/nodeagent/clusters.toml"
OWN = "~/.config/nodeagent/clusters.toml"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class NamedCluster:
    """A named cluster, as its file has it."""

    name: str
    file: str
    values: Any

    def where(self) -> Where:
        """Return the address of its maintd; ConfigError names file and key."""
        from nodeagent.section import Section  # not for --help

        place = f"clusters.{self.name}"
        section = Section(place, self.values, places={place: self.file})
        wanted = "the address of maintd, such as https://HOST:1816"
        url = section.text("url", "", wanted=wanted)
        user = section.text("user", "")
        password_file, ca = (self._beside(section.text(key, "")) for key in ("password-file", "ca"))
        section.done()
        section.require({"url": url})
        return Where(
            url=url,
            user=user,
            password_file=password_file,
            ca=ca,
            cluster=self.name,
            place=f"{self.file}: {place}",
        )

    def _beside(self, path: str) -> str:
        """Return the path of a file named beside this one, or in a home."""
        return path and os.path.join(os.path.dirname(self.file), os.path.expanduser(path))


def entries() -> Mapping[str, NamedCluster]:
    """Return the entries of both files by name, in its order; ConfigError names the file."""
    by_name = {entry.name: entry for path in files() for entry in _entries(path)}
    return dict(sorted(by_name.items()))


def files() -> tuple[str, str]:
    """Return the paths of the files, the one that counts last."""
    return SHARED, os.path.expanduser(OWN)


def resolved(where: Where) -> Where:
    """Return the address that `--cluster` names, if it is given.

    ConfigError: a wrong file, or a name that does not exist. A usage error: an address beside it.
    """
    if where.cluster is None:
        return where
    if where != Where(config=where.config, cluster=where.cluster):
        beside = "--socket, --url, --user, --password-file and --ca"
        raise click.UsageError(f"--cluster names the whole address: it goes without {beside}")
    known = entries()
    if where.cluster in known:
        return replace(known[where.cluster].where(), config=where.config)
    choices = f"there are {', '.join(known)}" if known else "they name none"
    raise ConfigError(f"--cluster: {where.cluster!r} is not in {' or '.join(files())}; {choices}")


def _entries(path: str) -> Iterator[NamedCluster]:
    from nodeagent.section import Section

    values = _read(path)
    root = Section("", values, places=dict.fromkeys(values, path))
    table = root.table("clusters")
    root.done()
    for name in table.keys():  # noqa: SIM118
        if not _NAME.fullmatch(name):
            wanted = "up to 64 letters, digits, . - and _, a letter or digit first"
            raise ConfigError(f"{path}: clusters.{name!r}: the name must have {wanted}")
        yield NamedCluster(name, path, values["clusters"][name])


def _read(path: str) -> dict[str, Any]:
    """Read the tables of a file; none if it is missing.

    Only the person and root may write it: it chooses the host that gets a password.
    """
    import tomllib

    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            info = os.fstat(handle)
            if info.st_uid not in (0, os.geteuid()):
                raise ConfigError(
                    f"{path}: it belongs to user {info.st_uid}, and must to you or root"
                )
            if info.st_mode & 0o022:
                raise ConfigError(f"{path}: others may write it: chmod go-w {path}")
            return tomllib.loads(unmarked(file.read().decode(), path))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
