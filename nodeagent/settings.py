"""Settings: TOML, drop-ins and Ganeti's tags become typed values; every complaint names its key.

The file `agent.toml` is read first, then `conf.d/*.toml` beside it in order of name; a later key
replaces an earlier one. Cluster tags `nodeagent:<key>:<value>` override the files, for the few keys
that may be set for a whole cluster. Anybody with write access to the remote API can set them, so no
path, address or limit is among them.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodeagent.drop_ins import read_files
from nodeagent.faults import Faults
from nodeagent.model.diagnosis import Need
from nodeagent.model.ganeti import GANETI_FOLDER
from nodeagent.model.setting import setting
from nodeagent.section import LEVELS, NAME, Section

DEFAULT_FILE = "/etc/nodeagent/agent.toml"
_UUID = "|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_MOST_CHECKS, _MOST_RUNS = 64, 192  # together as many names as a report has room for


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of one run of a command, in seconds and bytes."""

    timeout: float = setting("duration", 30.0, least=0.1, most=86400)
    output: int = setting("size", 256 * 2**10, least=2**10, most=256 * 2**10)
    memory: int = setting("size", 512 * 2**20, least=64 * 2**20, most=2**50)
    processes: int = setting("count", 64, least=1, most=100000)


@dataclass(frozen=True, slots=True)
class DiagnoseCommand:
    """Settings of one diagnose command, to run and read it. `audit`: run, show, never report."""

    limits: RunLimits
    drop: tuple[str, ...] = ()
    bucket: Mapping[str, float] = field(default_factory=dict)
    nagios: Mapping[int, Need] | None = None
    repair: str | None = None
    audit: bool = False


@dataclass(frozen=True, slots=True)
class DiagnoseSettings:
    """Which diagnose commands run, how often, and when a change counts."""

    folder: str = setting("path", "/etc/ganeti/node-diagnose-commands")
    link_folders: tuple[str, ...] = setting("paths", ("/usr/lib/nodeagent/node-diagnose-commands",))
    commands: tuple[str, ...] = setting("names", ())
    every: float = setting("duration", 60.0, least=1, most=86400)
    confirm: int = setting("count", 2, least=1, most=100)
    confirm_worse: int | None = None
    limits: RunLimits = RunLimits()
    each: Mapping[str, DiagnoseCommand] = field(default_factory=dict)

    def command(self, name: str) -> DiagnoseCommand:
        """Return the settings of one command; by default the section's own limits."""
        return self.each.get(name, DiagnoseCommand(self.limits))


@dataclass(frozen=True, slots=True)
class RepairSettings:
    """The folder of repair commands, and their limits.

    maintd may order `queue_commands` without a diagnosis: the repair queue those about other
    machines, a rolling maintenance those of its nodes. `queue_checks` are such commands that change
    nothing: `checks_at_once` of them run side by side.
    """

    enabled: bool = setting("flag", default=True)
    folder: str = setting("path", "/etc/ganeti/node-repair-commands")
    link_folders: tuple[str, ...] = setting("paths", ("/usr/lib/nodeagent/node-repair-commands",))
    limits: RunLimits = RunLimits(timeout=3600.0, memory=4 * 2**30, processes=512)
    queue_commands: tuple[str, ...] = setting("names", (), most=_MOST_RUNS)
    queue_checks: tuple[str, ...] = setting("names", (), most=_MOST_CHECKS)
    checks_at_once: int = setting("count", 8, least=1, most=32)

    @property
    def checks(self) -> tuple[str, ...]:
        """Return the checks that maintd may order now."""
        return self.queue_checks if self.enabled else ()

    @property
    def without_diagnosis(self) -> tuple[str, ...]:
        """Return the commands that maintd may order without a diagnosis now."""
        return (*self.queue_commands, *self.queue_checks) if self.enabled else ()


@dataclass(frozen=True, slots=True)
class ListenSettings:
    """The front's address. `address` is `primary` (the node's own in Ganeti) or numeric."""

    address: str = setting("address", "primary")
    port: int = setting("count", 1817, least=0, most=65535)
    tls: bool = setting("flag", default=True)
    connections: int = setting("count", 512, least=8, most=10000)
    per_peer: int = setting("count", 128, least=1, most=10000)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The agent's identity and paths.

    `node`, `uuid` and `cluster` come from Ganeti's ssconf files where empty. `front` is the system
    user that may talk to the runner.
    """

    node: str = setting("text", "")
    uuid: str = setting("text", "", pattern=_UUID, wanted="a UUID in lower case, or empty")
    cluster: str = setting("text", "")
    ganeti: str = setting("path", GANETI_FOLDER)
    state: str = setting("path", "/var/lib/nodeagent")
    socket: str = setting("path", "/run/nodeagent/runner.sock")
    front: str = setting("text", "nodeagent")
    log: str = setting("text", "info", **LEVELS)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of an agent.

    `tags_ignored` says why the cluster's tags are missing; empty if they are included.
    """

    agent: AgentSettings = AgentSettings()
    listen: ListenSettings = ListenSettings()
    diagnose: DiagnoseSettings = DiagnoseSettings()
    repair: RepairSettings = RepairSettings()
    tags_ignored: str = ""


def load(path: str, *, owner: int | None = 0) -> Settings:
    """Read a file and the drop-ins beside it, or raise ConfigError.

    `owner` is the uid that, or root, must own every file and every folder above it. Nobody else may
    write there, and no link may lead there; None skips the test. An absent file means the defaults;
    an unreadable one is a fault.
    """
    values, places = read_files(path, owner)
    return parse(values, places)


def parse(
    values: dict[str, Any],
    places: Mapping[str, str] | None = None,
    faults: Faults | None = None,
) -> Settings:
    """Turn the tables of a TOML document into Settings, or raise ConfigError naming the key.

    With `faults` that collect all mistakes are there instead, and defaults for the wrong values.
    """
    root = Section("", values, places=places, faults=faults)
    agent, listen = root.table("agent"), root.table("listen")
    diagnose, repair = root.table("diagnose"), root.table("repair")
    root.done()
    limits = repair.read(RunLimits, RepairSettings().limits)
    settings = Settings(
        agent.read(AgentSettings),
        listen.read(ListenSettings),
        _diagnose(diagnose),
        repair.read(RepairSettings, limits=limits),
    )
    for section in (agent, listen, diagnose, repair):
        section.done()
    return settings


def with_tags(settings: Settings, tags: Iterable[str], faults: Faults | None = None) -> Settings:
    """Lay the cluster's tags over the files; ignore other programs' tags."""
    faults = faults or Faults()
    values: dict[str, Any] = {}
    for tag in sorted(tags):
        if not tag.startswith("nodeagent:"):
            continue
        _, key, value = [*tag.split(":", 2), ""][:3]
        if key not in _FROM_TAG:
            faults.add(f"cluster tag {tag}: unknown setting {key!r}", tag)
        elif key in values:
            faults.add(f"cluster tag {tag}: {key!r} is set by another tag too", tag)
        else:
            values[key] = _FROM_TAG[key](value)
    if not values:
        return settings
    section = Section("tag nodeagent", values, faults=faults)
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


def _diagnose(section: Section) -> DiagnoseSettings:
    limits, tables = section.read(RunLimits), section.table("command")
    return section.read(
        DiagnoseSettings,
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
        section.missing("repair", "nagios", "a code is mapped to live-repair")
    command = DiagnoseCommand(
        limits=section.read(RunLimits, limits),
        drop=section.pointers("drop"),
        bucket=section.widths("bucket"),
        nagios=nagios,
        repair=repair,
        audit=section.flag("audit", default=False),
    )
    section.done()
    return command
