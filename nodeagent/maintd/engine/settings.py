"""Settings of maintd in its own file, `maintd.toml`, and the drop-ins beside it.

Settings of the cluster (not of this machine) may also be Ganeti tags, which override the file: see
`tag_settings`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from ipaddress import ip_address
from typing import Any

from nodeagent.drop_ins import read_files
from nodeagent.faults import Faults
from nodeagent.maintd.engine.helper_settings import (
    DROP_INS,
    ClusterSettings,
    PollSettings,
    SuccessionSettings,
    poll_settings,
)
from nodeagent.maintd.notices.delivery import Target
from nodeagent.maintd.notices.settings import sinks_of
from nodeagent.maintd.notices.sinks.webhook import of_owners
from nodeagent.maintd.planning.tag_settings import policy_of
from nodeagent.maintd.queue.inventory import InventorySettings
from nodeagent.maintd.queue.settings import constraints_of, procedures_of
from nodeagent.model.ledger import Policy
from nodeagent.model.offer import Announcing
from nodeagent.model.setting import setting
from nodeagent.model.units import Seconds
from nodeagent.section import LEVELS, NAME, Section
from nodeagent.web.blocking import wrong_port

LOCAL, ANYONE, USERS = "local", "anyone", "users"  # who reads without credentials
MASTER = "master"  # the address of whichever node is the master
_ON_THE_MASTER = "maintd runs on Ganeti's master, and asks it by LUXI; remove this line"
_GONE = {
    "store": "Ganeti's configuration keeps the ledger, see gnt-maint ledger; remove the section",
    **{f"cluster.{key}": _ON_THE_MASTER for key in ("backend", "rapi", "user", "password", "ca")},
    "poll.require-node-keys": "no agent without a key is trusted; remove this line",
}
AT_SIGHUP = ("maintd.every", "maintd.log")  # of the settings that are not policy


@dataclass(frozen=True, slots=True)
class MaintdSettings:
    """Settings of the daemon itself; durations in seconds.

    `key` and `certificate` are the cluster's HMAC key and this master candidate's client.pem; if
    empty, systemd's credentials `hmac.key` and `client.pem`, else the files of these names in the
    folder `ganeti`. With `standby` a maintd that does not act waits for its turn, and shows what
    the other one does.
    """

    state: str = setting("path", "/var/lib/maintd")
    socket: str = setting("path", "/run/maintd/admin.sock")
    every: float = setting("duration", 60.0, least=0.1, most=86400)
    vote: bool = setting("flag", default=True)
    standby: bool = setting("flag", default=False)
    key: str = setting("path", "")
    certificate: str = setting("path", "")
    log: str = setting("text", "info", **LEVELS)


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Address of the status page. `users` is a file in RAPI's format.

    Without a certificate for `tls` maintd makes one at start. `address` is `master` (the cluster's
    own, and loopback) or numeric. `read` lists the readers without credentials.
    """

    address: str = setting("text", MASTER)
    port: int = setting("count", 1816, least=0, most=65535)
    tls: str = setting("path", "")
    plain: bool = setting("flag", default=False)
    users: str = setting("path", "/etc/nodeagent/maintd.users")
    read: str = setting(
        "text",
        LOCAL,
        pattern=f"{LOCAL}|{ANYONE}|{USERS}",
        wanted=f"{LOCAL}, {ANYONE} or {USERS}",
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of maintd. `port` was given at the command line, and overrides `http.port`."""

    maintd: MaintdSettings = field(default_factory=MaintdSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    poll: PollSettings = field(default_factory=PollSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    succession: SuccessionSettings = field(default_factory=SuccessionSettings)
    sabakan: InventorySettings = field(default_factory=InventorySettings)
    targets: tuple[Target, ...] = ()
    policy: Policy = field(default_factory=Policy)
    port: int | None = None


def needing_restart(began: Settings, fresh: Settings) -> list[str]:
    """The changed keys that only a restart applies, by their names in the file."""
    changed = []
    for table in ("maintd", "cluster", "succession", "poll", "http", "sabakan"):
        old, new = getattr(began, table), getattr(fresh, table)
        keys = [
            field.name
            for field in fields(old)
            if getattr(old, field.name) != getattr(new, field.name)
        ]
        changed += [f"{table}.{key}" for key in keys if f"{table}.{key}" not in AT_SIGHUP]
    return [name.replace("_", "-") for name in changed]  # as it is written in the file


def load(path: str, *, owner: int | None = 0, port: int | None = None) -> Settings:
    """Read the file and its drop-ins, or raise ConfigError with the key and its file.

    A `port` of the command line counts instead of `http.port`.
    """
    values, places = read_files(path, owner, DROP_INS)
    settings = parse(values, places)
    if port is None:
        return settings
    return replace(settings, port=port, http=replace(settings.http, port=port))


def parse(
    values: dict[str, Any],
    places: Mapping[str, str] | None = None,
    faults: Faults | None = None,
) -> Settings:
    """Turn the tables of a TOML document into Settings, or raise ConfigError naming the key.

    With `faults` that collect all mistakes are there instead, and defaults for the wrong values.
    """
    root = Section("", values, places=places, faults=faults)
    cluster = root.table("cluster")
    names = ("maintd", "poll", "http", "sabakan", "policy", "queue", "constraints", "owners")
    maintd, poll, http, sabakan, policy, queue, limits, owners = map(root.table, names)
    for section in (cluster, poll, root):
        _refuse_gone(section)
    succession = root.table("succession")
    sinks, targets = sinks_of(root)
    root.done()
    settings = Settings(
        maintd.read(MaintdSettings),
        cluster.read(ClusterSettings),
        poll_settings(poll),
        _http(http),
        succession.read(SuccessionSettings),
        _sabakan(sabakan),
        (*targets, *of_owners(owners)),
        replace(
            policy_of(policy, Policy()),
            procedures=procedures_of(queue),
            constraints=constraints_of(limits),
            announcing=_announcing(owners),
            notify=sinks,
        ),
    )
    for section in (maintd, cluster, succession, poll, http, sabakan, policy, owners):
        section.done()
    judged = succession.is_right("enabled") and maintd.is_right("standby") and maintd.whole
    if judged and settings.succession.enabled and not settings.maintd.standby:
        key = succession.where("enabled")
        complaint = f"{key} needs maintd.standby = true: a standby succeeds"
        succession.complain(complaint, "enabled")
    judged = sabakan.is_right("url", "oldest") and maintd.is_right("every") and maintd.whole
    if judged and settings.sabakan.url and settings.sabakan.oldest <= settings.maintd.every:
        sabakan.complain(
            f"{sabakan.where('oldest')} is not longer than maintd.every:"
            " no answer would count in any round",
            "oldest",
        )
    return settings


def _refuse_gone(section: Section) -> None:
    """Refuse the settings of version 0.2 that are gone, and say why."""
    for key in section.keys():  # noqa: SIM118
        full = f"{section.name}.{key}".lstrip(".")
        if full in _GONE:
            section.gone(key, _GONE[full])


def _http(section: Section) -> HttpSettings:
    settings = section.read(HttpSettings)
    if settings.address != MASTER:
        try:
            ip_address(settings.address)
        except ValueError:
            complaint = f'is {settings.address!r}; it must be "master" or a numeric address'
            section.complain(f"{section.where('address')} {complaint}", "address")
    if section.is_right("plain", "read") and settings.plain and settings.read == USERS:
        section.complain(
            f'{section.where("read")} "{USERS}" needs TLS, for nobody sends a password without it:'
            " set http.plain = false",
            "read",
        )
    return settings


def _priorities(section: Section) -> Mapping[str, int]:
    return {role: section.count(role, 0, -1000, 1000) for role in section.keys()}  # noqa: SIM118


def _sabakan(section: Section) -> InventorySettings:
    settings = section.read(InventorySettings, priorities=_priorities(section.table("priorities")))
    if why := wrong_port(settings.url):
        section.complain(f"{section.where('url')} {why}", "url")
    judged = section.is_right("oldest", "every", "seconds") and section.whole
    if judged and settings.oldest < settings.every + settings.seconds:
        complaint = "is less than sabakan.every and sabakan.seconds together"
        section.complain(f"{section.where('oldest')} {complaint}", "oldest")
    for key, value in (("ca", settings.ca), ("token", settings.token)):
        if value and settings.url.startswith("http:"):
            section.complain(f"{section.where(key)} needs an https: sabakan.url", key)
    return settings


def _announcing(section: Section) -> Announcing:
    default = Announcing()
    name = "the name of a whitelisted repair command: letters, digits, - and _"
    return Announcing(
        section.text("command", default.command, f"({NAME.pattern})?", name),
        Seconds(round(section.duration("seconds", default.seconds, 1, 86400))),
    )
