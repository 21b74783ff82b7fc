"""Settings: TOML, drop-ins and Ganeti's tags become typed values; every complaint names its key.

A file `agent.toml` is read first, then `conf.d/*.toml` beside it in order of name; a later
key replaces an earlier one. Cluster tags `nodeagent:<key>:<value>` stand above the files,
for the few keys that may be set for a whole cluster (they can be set by anybody with write
access to the remote API, so no path, address or limit is among them).
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodeagent.drop_ins import read_all
from nodeagent.errors import ConfigError
from nodeagent.model.diagnosis import Need
from nodeagent.section import NAME, Section

DEFAULT_FILE = "/etc/nodeagent/agent.toml"
_UUID = "|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_LEVELS = "debug|info|warning|error"


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
    """Where repair commands stand, and what they may use.

    `queue_commands` are those that the repair queue may run on this node, about other machines.
    """

    enabled: bool = True
    folder: str = "/etc/ganeti/node-repair-commands"
    link_folders: tuple[str, ...] = ("/usr/lib/nodeagent/node-repair-commands",)
    limits: RunLimits = RunLimits(timeout=3600.0, memory=4 * 2**30, processes=512)
    queue_commands: tuple[str, ...] = ()


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
    """Everything an agent can be told.

    `tags_ignored` is why the cluster's tags are not among it; empty where they are.
    """

    agent: AgentSettings = AgentSettings()
    listen: ListenSettings = ListenSettings()
    diagnose: DiagnoseSettings = DiagnoseSettings()
    repair: RepairSettings = RepairSettings()
    tags_ignored: str = ""


def load(path: str, *, owner: int | None = 0, tags: Iterable[str] = ()) -> Settings:
    """Read a file, the drop-ins beside it, and the cluster's tags; or raise ConfigError.

    `owner` is the uid that, or root, must own every file and every folder above it, which
    nobody else may write and no link may lead to; None skips the test. An absent file is
    the defaults; one that cannot be read is a fault.
    """
    return with_tags(parse(*read_files(path, owner)), tags)


def read_files(
    path: str, owner: int | None, drops: str = "conf.d"
) -> tuple[dict[str, Any], dict[str, str]]:
    """A file and the drop-ins in the folder `drops` beside it as one table; each key's file."""
    merged: dict[str, Any] = {}
    places: dict[str, str] = {}
    for file, values in read_all(os.path.abspath(path), owner, drops):
        try:
            _overlay(merged, values, file, "", places)
        except RecursionError:
            raise ConfigError(f"{file}: nested too deeply") from None
    return merged, places


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
        uuid=section.text("uuid", default.uuid, _UUID, "a UUID in lower case, or empty"),
        cluster=section.text("cluster", default.cluster),
        ganeti=section.path("ganeti", default.ganeti),
        state=section.path("state", default.state),
        socket=section.path("socket", default.socket),
        front=section.text("front", default.front),
        log=section.text("log", default.log, _LEVELS, "debug, info, warning or error"),
    )


def _listen(section: Section) -> ListenSettings:
    default = ListenSettings()
    return ListenSettings(
        address=section.address("address", default.address),
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
    repair = (
        section.text("repair", "", f"|{NAME.pattern}", "a name: letters, digits, - and _") or None
    )
    if nagios and Need.LIVE_REPAIR in nagios.values() and repair is None:
        raise section.missing("repair", "nagios", "a code is mapped to live-repair")
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
        queue_commands=section.names("queue-commands", default.queue_commands),
    )


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
