"""`power.toml`: devices, and for each node the ordered levels that switch its power.

Only root may read or write the file. A level is one device or several that must all agree, such as
the two outlets of a machine with two power supplies.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any

from nodeagent.drop_ins import read_files
from nodeagent.errors import ConfigError
from nodeagent.faults import Faults
from nodeagent.model.setting import setting
from nodeagent.section import NAME, Section

DEFAULT_FILE = "/etc/nodeagent/power.toml"
DROP_INS = "power.conf.d"
LONGEST = 50.0  # seconds of a call: Ganeti ends the program after 60 s
MOST_LEVELS = 8  # of a node, and devices of a level
_MOST_OPTIONS = 32
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,253}")
_PATTERN = re.compile(r"[][A-Za-z0-9.*?!-]{1,253}")
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9-]{0,63})\}")
_AGENT = r"fence_[a-z0-9_]{1,58}"
_OPTION = re.compile(r"[a-z][a-z0-9_-]{0,63}")

# These switch no power, or say that they have without doing anything.
NO_POWER = {
    "fence_ack_manual": "it waits for a person",
    "fence_dummy": "it switches nothing",
    "fence_compute": "it evacuates OpenStack's instances",
    "fence_evacuate": "it evacuates OpenStack's instances",
    "fence_heuristics_ping": "it switches nothing",
    "fence_kdump": "it waits for a crashed kernel",
    "fence_sbd": "it relies on the node's own watchdog",
}
# An outlet that is on says nothing about the machine behind it; one that is off does.
OUTLETS = frozenset(
    f"fence_{name}"
    for name in """
        apc apc_snmp cdu cyberpower_ssh eaton_snmp emerson eps ipdu lindypdu netio powerman raritan
        raritan_px3 tripplite_snmp wti
    """.split()
)
IPMI = frozenset(
    f"fence_{name}" for name in ("idrac", "ilo3", "ilo4", "ilo5", "imm", "ipmilan", "ipmilanplus")
)
_SECRET = frozenset(("password", "passwd", "snmp_priv_passwd", "snmp-priv-passwd", "community")) | {
    "hexadecimal_kg",
    "hexadecimal-kg",
}
_OURS = {
    **dict.fromkeys(("action", "option"), "nodeagent-oob sets the action"),
    **dict.fromkeys(("nodename", "delay", "disable_timeout"), "nodeagent-oob has its own limits"),
    **dict.fromkeys(("missing_as_off",), "a missing outlet proves nothing"),
    **dict.fromkeys(("debug", "debug_file", "verbose", "verbose_level"), "it may write secrets"),
    **dict.fromkeys(("help", "version", "quiet"), "it changes what the agent says"),
    **dict.fromkeys(
        ("password_script", "passwd_script", "snmp_priv_passwd_script"), "use password-file"
    ),
}
# These say how a device is asked, not which one; others of the kind end in these words.
_MANNER = frozenset(
    """
    username login auth privlvl method lanplus cipher identity_file ssl ssl_secure ssl_insecure
    notls tls1.0 secure ssh ssh_options inet4_only inet6_only command_prompt cmd_prompt
    separator plug_separator retry_on power_wait stonith_status_sleep use_sudo sudo snmp_version
    snmp_auth_prot snmp_sec_level snmp_priv_prot
    """.split()
)
_MANNERS = ("_timeout", "_path")
_NOW_NAMED = {"ipaddr": "ip", "port": "plug"}  # agents take the old names too


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """A fence agent with its options, which switches power; its secrets are files."""

    name: str
    agent: str
    options: Mapping[str, str]
    secret_files: Mapping[str, str]
    ca_file: str = ""
    outlet: bool = False

    @property
    def place(self) -> tuple[str, ...]:
        """Identify the BMC or outlet: agent, address, outlet or system; not how it is asked."""
        given = {key.replace("-", "_"): value for key, value in self.options.items()}
        named = {_NOW_NAMED.get(key, key): value for key, value in given.items()}
        one_machine = self.agent in IPMI or self.agent == "fence_redfish"
        if named.pop("port_as_ip", "0") not in ("0", "false", "off", "no"):
            named["ip"] = named.pop("plug", "")
        elif one_machine:
            named.pop("plug", None)  # these agents do not look at it
        if "ip" in named:
            named["ip"] = named["ip"].casefold().rstrip(".")
        if "systems_uri" in named:
            named["systems_uri"] = named["systems_uri"].rstrip("/")
        which = (key for key in sorted(named) if key not in _MANNER and not key.endswith(_MANNERS))
        agent = "fence_ipmilan" if self.agent in IPMI else self.agent
        return agent, *(f"{key}={named[key]}" for key in which)


@dataclass(frozen=True, slots=True)
class Level:
    """Devices that together switch a node's power, as number 1 to 8 of its levels."""

    number: int
    devices: tuple[Device, ...]

    @property
    def outlet(self) -> bool:
        return any(device.outlet for device in self.devices)

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(device.agent for device in self.devices)

    @property
    def label(self) -> str:
        return f"level {self.number} ({', '.join(dict.fromkeys(self.agents))})"

    @property
    def fingerprint(self) -> str:
        """Identify which devices these are: proof of one outlet is not proof of another.

        A digest of agents and options in canonical form; secrets are not among the options.
        """
        devices = [[device.agent, dict(device.options)] for device in self.devices]
        text = json.dumps(devices, sort_keys=True, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class _Row:
    pattern: str
    levels: tuple[tuple[str, ...], ...]
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PowerSettings:
    """All of power.toml."""

    time_limit: float = setting("duration", 50.0, least=5, most=600)
    proven_within: float = setting("duration", 7 * 86400.0, least=3600, most=90 * 86400)
    devices: Mapping[str, Device] = field(default_factory=dict)
    rows: tuple[_Row, ...] = ()

    def has(self, node: str) -> bool:
        """Tell whether a table is for this node."""
        return self._row(node) is not None

    def levels(self, node: str) -> tuple[Level, ...]:
        """Return the levels of a node, by its own name or the first pattern; none if unnamed."""
        row = self._row(node)
        if row is None:
            return ()
        values = {**row.values, "node": node, "short": node.partition(".")[0]}
        return tuple(
            Level(number, tuple(_filled(self.devices[name], values) for name in names))
            for number, names in enumerate(row.levels, 1)
        )

    def _row(self, node: str) -> _Row | None:
        if not is_node(node):
            raise ConfigError(f"{node[:80]!r} is not a node's name")
        exact = (row for row in self.rows if row.pattern == node)
        fitting = (row for row in self.rows if fnmatchcase(node, row.pattern))
        return next(exact, None) or next(fitting, None)

    def clashes(self, nodes: Iterable[str]) -> dict[str, dict[int, str]]:
        """Find levels with a device that is another node's too, or that they name twice.

        Return by node and number of the level why it proves nothing about the node.
        """
        users = defaultdict[tuple[str, ...], list[tuple[str, int, str]]](list)
        for node in dict.fromkeys(nodes):
            for level in self.levels(node):
                for device in level.devices:
                    users[device.place].append((node, level.number, device.name))
        reasons = defaultdict[str, dict[int, str]](dict)
        for uses in users.values():
            for at, (node, number, name) in enumerate(uses):
                others = [user for user, _, _ in uses if user != node]
                again = [x for n, other, x in uses[:at] if (n, other) == (node, number)]
                if others:
                    why = f"device {name} also switches {others[0]}: each node needs its own"
                    reasons[node].setdefault(number, why)
                elif again:
                    why = f"devices {again[0]} and {name} are the same one"
                    reasons[node].setdefault(number, why)
        return dict(reasons)


def is_node(name: str) -> bool:
    return _NODE.fullmatch(name) is not None


def load(
    path: str = DEFAULT_FILE, *, owner: int | None = 0, faults: Faults | None = None
) -> PowerSettings:
    """Read power.toml, or raise ConfigError with the key and what to do; see `parse`."""
    if not os.path.lexists(path):
        raise ConfigError(f"{path}: it does not exist, so no node has power control")
    values, places = read_files(path, owner, DROP_INS, private=True, faults=faults)
    return parse(values, places, faults)


def parse(
    values: dict[str, Any],
    places: Mapping[str, str] | None = None,
    faults: Faults | None = None,
) -> PowerSettings:
    """Turn the tables of a TOML document into settings, or raise ConfigError naming the key.

    With `faults` that collect all mistakes are there instead, and only sound devices and levels are
    in the settings.
    """
    root = Section("", values, places=places, faults=faults)
    power, devices, nodes = root.table("power"), root.table("device"), root.table("nodes")
    root.done()
    tables = {name: devices.table(name) for name in devices.keys()}  # noqa: SIM118
    known = {name: _device(name, section) for name, section in tables.items()}
    sound = {name: device for name, device in known.items() if tables[name].sound}
    complete = devices.whole
    rows = tuple(
        _row(pattern, nodes.table(pattern), known, sound, complete=complete)
        for pattern in nodes.keys()  # noqa: SIM118
    )
    settings = power.read(PowerSettings, devices=sound, rows=rows)
    power.done()
    if settings.time_limit > LONGEST:
        power.complain(
            f"{power.where('time-limit')} is {settings.time_limit:g}s, but Ganeti ends"
            f" nodeagent-oob after 60 s, and nothing is proven then: set at most {LONGEST:g}s",
            "time-limit",
        )
    return settings


def _device(name: str, section: Section) -> Device:
    if not NAME.fullmatch(name):
        section.complain(f"{section.shown}: a device is named by letters, digits, - and _")
    agent = section.text("agent", "", _AGENT, "the name of a fence agent, such as fence_ipmilan")
    section.require({"agent": agent})
    if agent in NO_POWER:
        problem = f"is {agent}, which proves nothing: {NO_POWER[agent]}"
        section.complain(f"{section.where('agent')} {problem}", "agent")
    secrets = section.table("secret-files")
    files = {option: secrets.path(option, "") for option in secrets.keys()}  # noqa: SIM118
    if password := section.path("password-file", ""):
        files["password"] = password
    device = Device(
        name=name,
        agent=agent,
        options=_options(agent, section.table("options")),
        secret_files=files,
        ca_file=section.path("ca-file", ""),
        outlet=section.flag("outlet", default=agent in OUTLETS),
    )
    section.done()
    for option in files:
        if option in device.options or option in _OURS or not _OPTION.fullmatch(option):
            section.complain(f"{section.shown}: {option[:80]} cannot come from a file of secrets")
    return device


def _options(agent: str, section: Section) -> dict[str, str]:
    keys = section.keys()
    if len(keys) > _MOST_OPTIONS:
        section.complain(f"{section.shown} has more than {_MOST_OPTIONS} options")
    for key in keys:
        if why := _not_allowed(key):
            section.complain(f"{section.where(key)} {why}", key)
    # Nobody is shown the value of a key that is a secret.
    options = {key: section.scalar(key) for key in keys if section.is_right(key)}
    for key, value in options.items():
        if value.startswith('"') or "\\" in value:
            section.complain(f"{section.where(key)} has a quotation mark or a backslash", key)
    return _judged(agent, section, options)


def _not_allowed(key: str) -> str:
    """Say why there may be no such option; "" if there may be."""
    if not _OPTION.fullmatch(key):
        return "is not the name of an option"
    if why := _OURS.get(key.replace("-", "_")):
        return f"is not allowed: {why}"
    if key in _SECRET:
        return (
            "is a secret: put it into a file of its own, mode 0600,"
            " and name that as password-file or under secret-files"
        )
    return ""


def _judged(agent: str, section: Section, options: dict[str, str]) -> dict[str, str]:
    """Refuse options with which an agent lies; add those without which it is slow or open."""
    plain = {key.replace("-", "_"): value for key, value in options.items()}
    if agent == "fence_redfish" and "systems_uri" not in plain and section.whole:
        problem = "is missing: without it the agent takes the last of all systems"
        section.complain(f"{section.where('systems_uri')} {problem}", "systems_uri")
    if plain.get("snmp_version", "1") not in ("1", "3") and section.is_right("snmp_version"):
        problem = 'must be "1" or "3": with 2c a missing outlet is said to be off'
        section.complain(f"{section.where('snmp_version')} {problem}", "snmp_version")
    if agent in IPMI:
        if plain.get("cipher") == "0":
            problem = "is 0, which asks for no password"
            section.complain(f"{section.where('cipher')} {problem}", "cipher")
        # Without a cipher ipmitool asks the BMC for a list, and some answer after ten seconds.
        return {"lanplus": "1", "cipher": "17", **options}
    return options


def _row(
    pattern: str,
    section: Section,
    known: Mapping[str, Device],
    sound: Mapping[str, Device],
    *,
    complete: bool,
) -> _Row:
    """Read the levels of nodes; `complete`: all devices are known."""
    if not _PATTERN.fullmatch(pattern):
        section.complain(f"{section.shown}: it is neither a node's name nor a pattern of such")
    levels = section.name_lists("levels", MOST_LEVELS)
    section.require({"levels": levels})
    given = section.table("values")
    values = {key: given.scalar(key) for key in given.keys()}  # noqa: SIM118
    section.done()
    for name in dict.fromkeys(name for names in levels for name in names):
        if name in known:
            _judge_values(section, given, values, known[name])
        elif complete:
            problem = f"names {name}, but there is no [device.{name}]"
            section.complain(f"{section.where('levels')} {problem}", "levels")
    if not section.sound:
        return _Row(pattern, (), values)
    usable = (tuple(name for name in names if name in sound) for names in levels)
    return _Row(pattern, tuple(usable), values)


def _judge_values(
    section: Section, given: Section, values: Mapping[str, str], device: Device
) -> None:
    """Refuse names in braces that have no value."""
    words = [word for text in _texts(device) for word in _PLACEHOLDER.findall(text)]
    for word in dict.fromkeys(words):
        if word not in (*values, "node", "short") and given.whole:
            place = f"{section.shown}.values.{word}"
            section.complain(f"{place} is missing: device {device.name} has {{{word}}}")


def _texts(device: Device) -> Iterator[str]:
    yield from device.options.values()
    yield from device.secret_files.values()


def _filled(device: Device, values: Mapping[str, str]) -> Device:
    def fill(text: str) -> str:
        return _PLACEHOLDER.sub(lambda match: values[match[1]], text)

    return replace(
        device,
        options={key: fill(value) for key, value in device.options.items()},
        secret_files={key: fill(value) for key, value in device.secret_files.items()},
    )
