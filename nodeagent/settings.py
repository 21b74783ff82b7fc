"""Settings: TOML, drop-ins and Ganeti's tags become typed values; every complaint names its key.

A file `agent.toml` is read first, then `conf.d/*.toml` beside it in order of name; a later
key replaces an earlier one. Cluster tags `nodeagent:<key>:<value>` stand above the files,
for the few keys that may be set for a whole cluster (they can be set by anybody with write
access to the remote API, so no path, address or limit is among them).
"""

import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any, TypeVar

from nodeagent.errors import ConfigError
from nodeagent.model.diagnosis import Need

T = TypeVar("T")

DEFAULT_FILE = "/etc/nodeagent/agent.toml"
_DURATION = re.compile(r"(\d{1,6})(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(\d{1,6})(KiB|MiB|GiB)")
_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What one run of a command may use; seconds and bytes."""

    timeout: float = 30.0
    output: int = 256 * 2**10
    memory: int = 512 * 2**20
    processes: int = 64


@dataclass(frozen=True, slots=True)
class DiagnoseCommand:
    """How one diagnose command is run and read. `audit`: run and shown, never reported."""

    limits: RunLimits
    drop: tuple[str, ...] = ()
    bucket: Mapping[str, float] = field(default_factory=dict)
    nagios: Mapping[int, Need] | None = None
    repair: str | None = None
    audit: bool = False


@dataclass(frozen=True, slots=True)
class DiagnoseSettings:
    """Which diagnose commands run, how often, and when a change is believed."""

    folder: str = "/etc/ganeti/node-diagnose-commands"
    link_folders: tuple[str, ...] = ("/usr/lib/nodeagent/node-diagnose-commands",)
    commands: tuple[str, ...] = ()
    every: float = 60.0
    confirm: int = 2
    confirm_worse: int | None = None
    limits: RunLimits = RunLimits()
    each: Mapping[str, DiagnoseCommand] = field(default_factory=dict)

    def command(self, name: str) -> DiagnoseCommand:
        """The settings of one command; the section's own limits where it has none."""
        return self.each.get(name, DiagnoseCommand(self.limits))


@dataclass(frozen=True, slots=True)
class RepairSettings:
    """Where repair commands stand, and what they may use."""

    enabled: bool = True
    folder: str = "/etc/ganeti/node-repair-commands"
    link_folders: tuple[str, ...] = ("/usr/lib/nodeagent/node-repair-commands",)
    limits: RunLimits = RunLimits(timeout=3600.0, memory=4 * 2**30, processes=512)


@dataclass(frozen=True, slots=True)
class ListenSettings:
    """Where the front serves. `address` is `primary` (the node's own in Ganeti) or numeric."""

    address: str = "primary"
    port: int = 1817
    tls: bool = True
    connections: int = 512
    per_peer: int = 128


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Who we are and where our things lie.

    `node`, `uuid` and `cluster` are learnt from Ganeti's ssconf files where empty. `front`
    is the system user that may talk to the runner.
    """

    node: str = ""
    uuid: str = ""
    cluster: str = ""
    ganeti: str = "/var/lib/ganeti"
    state: str = "/var/lib/nodeagent"
    socket: str = "/run/nodeagent/runner.sock"
    front: str = "nodeagent"
    log: str = "info"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything an agent can be told."""

    agent: AgentSettings = AgentSettings()
    listen: ListenSettings = ListenSettings()
    diagnose: DiagnoseSettings = DiagnoseSettings()
    repair: RepairSettings = RepairSettings()


class Section:
    """One table: each key is read once, into its type; whatever is left over is a mistake."""

    def __init__(
        self, name: str, values: object, *, places: Mapping[str, str] | None = None
    ) -> None:
        if not isinstance(values, dict):
            raise ConfigError(f"{name} must be a table, written [{name}]")
        self.name = name
        self._left = dict(values)
        self._places = places or {}

    def _wrong(self, key: str, wanted: str) -> ConfigError:
        value = self._left.get(key)
        return ConfigError(f"{self._where(key)} is {value!r}; it must be {wanted}")

    def _where(self, key: str) -> str:
        full = f"{self.name}.{key}" if self.name else key
        place = self._places.get(full)
        return f"{place}: {full}" if place else full

    def _take(self, key: str, default: T, read: Callable[[Any], T | None], wanted: str) -> T:
        if key not in self._left:
            return default
        value = read(self._left[key])
        if value is None:
            raise self._wrong(key, wanted)
        del self._left[key]
        return value

    def text(self, key: str, default: str, pattern: str = r"[^\x00-\x1f\x7f]*") -> str:
        def read(value: Any) -> str | None:
            good = isinstance(value, str) and re.fullmatch(pattern, value)
            return value if good else None

        return self._take(key, default, read, f"a text of the form {pattern}")

    def path(self, key: str, default: str) -> str:
        return self._take(key, default, _path, "an absolute path without ..")

    def paths(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        return self._take(key, default, _each(_path), "a list of absolute paths without ..")

    def names(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        wanted = "a list of command names (letters, digits, - and _), each once"
        return self._take(key, default, _names, wanted)

    def pointers(self, key: str) -> tuple[str, ...]:
        wanted = 'a list of JSON pointers such as "/details/*/temperature"'
        return self._take(key, (), _each(_pointer), wanted)

    def widths(self, key: str) -> Mapping[str, float]:
        def read(value: Any) -> Mapping[str, float] | None:
            good = isinstance(value, dict) and all(
                _pointer(path) and _is_number(width) and width > 0 for path, width in value.items()
            )
            return value if good else None

        wanted = 'a table of JSON pointers and widths such as {"/details/used" = 10}'
        return self._take(key, {}, read, wanted)

    def needs(self, key: str) -> Mapping[int, Need] | None:
        wanted = 'a table of exit codes and needs such as {0 = "Ok", 2 = "evacuate"}'
        return self._take(key, None, _needs, wanted)

    def flag(self, key: str, *, default: bool) -> bool:
        return self._take(
            key, default, lambda v: v if isinstance(v, bool) else None, "true or false"
        )

    def count(self, key: str, default: int, least: int, most: int) -> int:
        def read(value: Any) -> int | None:
            return value if type(value) is int and least <= value <= most else None

        return self._take(key, default, read, f"a whole number from {least} to {most}")

    def count_or_none(self, key: str, least: int, most: int) -> int | None:
        return self.count(key, 0, least, most) if key in self._left else None

    def duration(self, key: str, default: float, least: float, most: float) -> float:
        def read(value: Any) -> float | None:
            seconds = _duration(value)
            return seconds if seconds is not None and least <= seconds <= most else None

        wanted = f"a duration such as 500ms, 30s, 5m, 2h, 1d, from {least:g}s to {most:g}s"
        return self._take(key, default, read, wanted)

    def size(self, key: str, default: int, least: int, most: int) -> int:
        def read(value: Any) -> int | None:
            found = _SIZE.fullmatch(value) if isinstance(value, str) else None
            size = int(found[1]) * _BYTES[found[2]] if found else -1
            return size if least <= size <= most else None

        wanted = f"a size such as 256KiB, 512MiB, 2GiB, from {least} to {most} bytes"
        return self._take(key, default, read, wanted)

    def table(self, key: str) -> "Section":
        return Section(
            f"{self.name}.{key}".lstrip("."), self._left.pop(key, {}), places=self._places
        )

    def keys(self) -> list[str]:
        return list(self._left)

    def done(self) -> None:
        """Refuse what nobody has read."""
        if self._left:
            raise ConfigError(f"{self._where(min(self._left))} is not a known setting")


def load(path: str, *, owner: int | None = 0, tags: Iterable[str] = ()) -> Settings:
    """Read a file, the drop-ins beside it, and the cluster's tags; or raise ConfigError.

    `owner` is the uid that must own every file, which nobody else may write; None skips
    the test. An absent file is the defaults.
    """
    merged: dict[str, Any] = {}
    places: dict[str, str] = {}
    folder = os.path.join(os.path.dirname(os.path.abspath(path)), "conf.d")
    try:
        drops = sorted(name for name in os.listdir(folder) if name.endswith(".toml"))
    except OSError:
        drops = []
    for file in (path, *(os.path.join(folder, name) for name in drops)):
        values = _read_file(file, owner)
        _overlay(merged, values, file, "", places)
    return with_tags(parse(merged, places), tags)


def parse(values: dict[str, Any], places: Mapping[str, str] | None = None) -> Settings:
    """Turn the tables of a TOML document into Settings, or raise ConfigError naming the key."""
    root = Section("", values, places=places)
    agent, listen = root.table("agent"), root.table("listen")
    diagnose, repair = root.table("diagnose"), root.table("repair")
    root.done()
    settings = Settings(_agent(agent), _listen(listen), _diagnose(diagnose), _repair(repair))
    for section in (agent, listen, diagnose, repair):
        section.done()
    return settings


def with_tags(settings: Settings, tags: Iterable[str]) -> Settings:
    """Lay the cluster's tags over the files; other people's tags are none of our business."""
    values: dict[str, Any] = {}
    for tag in sorted(tags):
        if not tag.startswith("nodeagent:"):
            continue
        _, key, value = [*tag.split(":", 2), ""][:3]
        if key not in _FROM_TAG:
            raise ConfigError(f"cluster tag {tag}: unknown setting {key!r}")
        if key in values:
            raise ConfigError(f"cluster tag {tag}: {key!r} is set by another tag too")
        values[key] = _FROM_TAG[key](value)
    if not values:
        return settings
    section = Section("tag nodeagent", values)
    old = settings.diagnose
    diagnose = replace(
        old,
        commands=section.names("diagnose", old.commands),
        every=section.duration("every", old.every, 1, 86400),
        confirm=section.count("confirm", old.confirm, 1, 100),
        confirm_worse=section.count_or_none("confirm-worse", 1, 100) or old.confirm_worse,
    )
    section.done()
    return replace(settings, diagnose=diagnose)


def _whole(text: str) -> int | str:
    return int(text) if re.fullmatch(r"[0-9]{1,6}", text) else text


_FROM_TAG: Mapping[str, Callable[[str], Any]] = {
    "diagnose": lambda text: text.split("+") if text else [],
    "every": str,
    "confirm": _whole,
    "confirm-worse": _whole,
}


def _agent(section: Section) -> AgentSettings:
    default = AgentSettings()
    return AgentSettings(
        node=section.text("node", default.node),
        uuid=section.text("uuid", default.uuid, "|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        cluster=section.text("cluster", default.cluster),
        ganeti=section.path("ganeti", default.ganeti),
        state=section.path("state", default.state),
        socket=section.path("socket", default.socket),
        front=section.text("front", default.front),
        log=section.text("log", default.log, "debug|info|warning|error"),
    )


def _listen(section: Section) -> ListenSettings:
    default = ListenSettings()
    address = section.text("address", default.address)
    if address != "primary":
        try:
            ip_address(address)
        except ValueError:
            raise ConfigError(
                f'listen.address is {address!r}; it must be "primary" or a numeric address'
            ) from None
    return ListenSettings(
        address=address,
        port=section.count("port", default.port, 0, 65535),
        tls=section.flag("tls", default=default.tls),
        connections=section.count("connections", default.connections, 8, 10000),
        per_peer=section.count("per-peer", default.per_peer, 1, 10000),
    )


def _limits(section: Section, default: RunLimits) -> RunLimits:
    return RunLimits(
        timeout=section.duration("timeout", default.timeout, 0.1, 86400),
        output=section.size("output", default.output, 2**10, 256 * 2**10),
        memory=section.size("memory", default.memory, 64 * 2**20, 2**50),
        processes=section.count("processes", default.processes, 1, 100000),
    )


def _diagnose(section: Section) -> DiagnoseSettings:
    default = DiagnoseSettings()
    limits = _limits(section, default.limits)
    tables = section.table("command")
    return DiagnoseSettings(
        folder=section.path("folder", default.folder),
        link_folders=section.paths("link-folders", default.link_folders),
        commands=section.names("commands", default.commands),
        every=section.duration("every", default.every, 1, 86400),
        confirm=section.count("confirm", default.confirm, 1, 100),
        confirm_worse=section.count_or_none("confirm-worse", 1, 100),
        limits=limits,
        each={name: _command(tables.table(name), limits) for name in tables.keys()},  # noqa: SIM118
    )


def _command(section: Section, limits: RunLimits) -> DiagnoseCommand:
    nagios = section.needs("nagios")
    repair = section.text("repair", "", f"|{_NAME.pattern}") or None
    if nagios and Need.LIVE_REPAIR in nagios.values() and repair is None:
        raise ConfigError(f"{section.name}.repair is missing: a code is mapped to live-repair")
    command = DiagnoseCommand(
        limits=_limits(section, limits),
        drop=section.pointers("drop"),
        bucket=section.widths("bucket"),
        nagios=nagios,
        repair=repair,
        audit=section.flag("audit", default=False),
    )
    section.done()
    return command


def _repair(section: Section) -> RepairSettings:
    default = RepairSettings()
    return RepairSettings(
        enabled=section.flag("enabled", default=default.enabled),
        folder=section.path("folder", default.folder),
        link_folders=section.paths("link-folders", default.link_folders),
        limits=_limits(section, default.limits),
    )


def _read_file(path: str, owner: int | None) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            info = os.fstat(file.fileno())
            if owner is not None and (info.st_uid != owner or stat.S_IMODE(info.st_mode) & 0o022):
                mode = stat.S_IMODE(info.st_mode)
                raise ConfigError(
                    f"{path}: owned by uid {info.st_uid}, mode {mode:04o};"
                    f" it must be owned by uid {owner} and not be writable by others"
                )
            return tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None


def _overlay(
    under: dict[str, Any], over: dict[str, Any], file: str, prefix: str, places: dict[str, str]
) -> None:
    for key, value in over.items():
        full = f"{prefix}.{key}".lstrip(".")
        places[full] = file
        if isinstance(value, dict) and isinstance(under.get(key, {}), dict):
            _overlay(under.setdefault(key, {}), value, file, full, places)
        else:
            under[key] = value


def _duration(value: Any) -> float | None:
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    return int(found[1]) * _SECONDS[found[2]] if found else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _path(value: Any) -> str | None:
    good = isinstance(value, str) and value.startswith("/") and "\0" not in value
    return value if good and ".." not in value.split("/") else None


def _pointer(value: Any) -> str | None:
    return value if isinstance(value, str) and re.fullmatch(r"(/[^/\x00-\x1f]+)+", value) else None


def _each(read: Callable[[Any], str | None]) -> Callable[[Any], tuple[str, ...] | None]:
    def read_all(value: Any) -> tuple[str, ...] | None:
        if not isinstance(value, list):
            return None
        items = [read(item) for item in value]
        return tuple(item for item in items if item is not None) if None not in items else None

    return read_all


def _names(value: Any) -> tuple[str, ...] | None:
    if not isinstance(value, list) or len(set(map(str, value))) != len(value):
        return None
    good = all(isinstance(name, str) and _NAME.fullmatch(name) for name in value)
    return tuple(value) if good else None


def _needs(value: Any) -> Mapping[int, Need] | None:
    if not isinstance(value, dict):
        return None
    try:
        return {int(code): Need.from_wire(need) for code, need in value.items()}
    except (KeyError, ValueError, TypeError):
        return None
