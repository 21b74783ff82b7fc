"""What maintd can be told in its own file, `maintd.toml`, and the drop-ins beside it.

What concerns the cluster rather than this machine may stand in Ganeti's tags as well, above
the file: see `setting`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from ipaddress import ip_address
from typing import Any

from nodeagent.errors import ConfigError
from nodeagent.maintd.engine.poll import PollSettings
from nodeagent.maintd.owners.webhook import ANY, Webhook
from nodeagent.maintd.planning.tag_settings import policy_of
from nodeagent.maintd.queue.inventory import InventorySettings
from nodeagent.maintd.queue.settings import constraints_of, procedures_of
from nodeagent.model.ledger import Policy
from nodeagent.model.offer import Announcing
from nodeagent.section import NAME, Section
from nodeagent.settings import read_files
from nodeagent.web.post import URL

DEFAULT_FILE = "/etc/nodeagent/maintd.toml"
AT_SIGHUP = ("maintd.every", "maintd.log")  # of all that is no policy


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How the cluster is reached: `luxi` on the master itself, or `rapi` with fewer rights.

    `node` is our own name in the cluster, found out where empty. `user` names the RAPI user,
    whose password is the first line of `password`; `ca` is the certificate that the RAPI server
    shows, or the one that has signed it. `grace` is after how many seconds a submission whose
    answer was lost has arrived or never will; 0 for the backend's own.
    """

    backend: str = "luxi"
    node: str = ""
    ganeti: str = "/var/lib/ganeti"
    luxi: str = "/run/ganeti/socket/ganeti-query"
    rapi: str = "127.0.0.1:5080"
    user: str = ""
    password: str = ""
    ca: str = "/var/lib/ganeti/rapi.pem"
    grace: float = 0.0


@dataclass(frozen=True, slots=True)
class MaintdSettings:
    """The daemon itself; seconds. `key` and `certificate` are the cluster's HMAC key and this
    master candidate's client.pem; where empty, what systemd hands over as credentials
    `hmac.key` and `client.pem`, else the files of these names in the folder `ganeti`."""

    state: str = "/var/lib/maintd"
    socket: str = "/run/maintd/admin.sock"
    every: float = 60.0
    vote: bool = True
    key: str = ""
    certificate: str = ""
    log: str = "info"


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Where the status is served. `users` is a file in RAPI's format; without a certificate for
    `tls` one is made at start. `address` is `master` (the cluster's own) or numeric."""

    address: str = "127.0.0.1"
    port: int = 1816
    tls: str = ""
    plain: bool = False
    users: str = "/etc/nodeagent/maintd.users"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything maintd can be told."""

    maintd: MaintdSettings = field(default_factory=MaintdSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    poll: PollSettings = field(default_factory=PollSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    sabakan: InventorySettings = field(default_factory=InventorySettings)
    webhooks: tuple[Webhook, ...] = ()
    policy: Policy = field(default_factory=Policy)


def needing_restart(began: Settings, fresh: Settings) -> list[str]:
    """The keys whose values differ and are read at a start only, as they are called in the file."""
    found = []
    for table in ("maintd", "cluster", "poll", "http", "sabakan"):
        old, new = getattr(began, table), getattr(fresh, table)
        keys = [one.name for one in fields(old) if getattr(old, one.name) != getattr(new, one.name)]
        found += [f"{table}.{key}" for key in keys if f"{table}.{key}" not in AT_SIGHUP]
    return found + ["owners.webhooks"] * (began.webhooks != fresh.webhooks)


def load(path: str, *, owner: int | None = 0) -> Settings:
    """Read the file and its drop-ins, or raise ConfigError naming the key and its file."""
    return parse(*read_files(path, owner, "maintd.conf.d"))


def parse(values: dict[str, Any], places: Mapping[str, str] | None = None) -> Settings:
    """Turn the tables of a TOML document into Settings."""
    root = Section("", values, places=places)
    names = ("maintd", "cluster", "poll", "http", "sabakan", "policy", "queue")
    maintd, cluster, poll, http, sabakan, policy, queue = map(root.table, names)
    limits, owners = root.table("constraints"), root.table("owners")
    root.done()
    settings = Settings(
        _maintd(maintd),
        _cluster(cluster),
        _poll(poll),
        _http(http),
        _sabakan(sabakan),
        _webhooks(owners),
        replace(
            policy_of(policy, Policy()),
            procedures=procedures_of(queue),
            constraints=constraints_of(limits),
            announcing=_announcing(owners),
        ),
    )
    for section in (maintd, cluster, poll, http, sabakan, policy, owners):
        section.done()
    if settings.sabakan.url and settings.sabakan.oldest <= settings.maintd.every:
        raise ConfigError(
            "sabakan.oldest is not longer than maintd.every: no answer would count in any round"
        )
    return settings


def _maintd(section: Section) -> MaintdSettings:
    default = MaintdSettings()
    return MaintdSettings(
        state=section.path("state", default.state),
        socket=section.path("socket", default.socket),
        every=section.duration("every", default.every, 0.1, 86400),
        vote=section.flag("vote", default=default.vote),
        key=section.path("key", default.key),
        certificate=section.path("certificate", default.certificate),
        log=section.text(
            "log", default.log, "debug|info|warning|error", "debug, info, warning or error"
        ),
    )


def _cluster(section: Section) -> ClusterSettings:
    default = ClusterSettings()
    settings = ClusterSettings(
        backend=section.text("backend", default.backend, "luxi|rapi", "luxi or rapi"),
        node=section.text("node", default.node),
        ganeti=section.path("ganeti", default.ganeti),
        luxi=section.path("luxi", default.luxi),
        rapi=section.text(
            "rapi", default.rapi, r"(\[[0-9a-fA-F:]+\]|[^:\s]+):[0-9]{1,5}", "HOST:PORT"
        ),
        user=section.text("user", default.user, r"[^\s:]*", "a name without space or colon"),
        password=section.path("password", default.password),
        ca=section.path("ca", default.ca),
        grace=section.duration("grace", default.grace, 0, 3600),
    )
    if settings.backend == "rapi" and not (settings.user and settings.password):
        raise ConfigError('cluster.backend "rapi" needs cluster.user and cluster.password')
    return settings


def _poll(section: Section) -> PollSettings:
    default = PollSettings()
    return PollSettings(
        port=section.count("port", default.port, 1, 65535),
        seconds=section.duration("seconds", default.seconds, 0.1, 60),
        tls=section.flag("tls", default=default.tls),
        total=section.duration("total", default.total, 1, 600),
        oldest=round(section.duration("oldest", default.oldest / 1000, 1, 86400) * 1000),
        load=section.text("load", default.load, "agent|mond", "agent or mond"),
    )


def _http(section: Section) -> HttpSettings:
    default = HttpSettings()
    address = section.text("address", default.address)
    if address != "master":
        try:
            ip_address(address)
        except ValueError:
            raise ConfigError(
                f'http.address is {address!r}; it must be "master" or a numeric address'
            ) from None
    return HttpSettings(
        address=address,
        port=section.count("port", default.port, 0, 65535),
        tls=section.path("tls", default.tls),
        plain=section.flag("plain", default=default.plain),
        users=section.path("users", default.users),
    )


def _priorities(section: Section) -> Mapping[str, int]:
    return {role: section.count(role, 0, -1000, 1000) for role in section.keys()}  # noqa: SIM118


def _sabakan(section: Section) -> InventorySettings:
    default = InventorySettings()
    settings = InventorySettings(
        url=section.text("url", default.url, f"({URL})?", "of the form http://HOST:10080/graphql"),
        every=section.duration("every", default.every, 1, 86400),
        seconds=section.duration("seconds", default.seconds, 0.1, 300),
        oldest=section.duration("oldest", default.oldest, 1, 86400),
        ca=section.path("ca", default.ca),
        token=section.path("token", default.token),
        priorities=_priorities(section.table("priorities")),
    )
    port = re.fullmatch(URL, settings.url)
    if port is not None and not 0 < int(port[3] or 1) <= 65535:
        raise ConfigError(f"sabakan.url has the port {port[3]}; it must be from 1 to 65535")
    if settings.oldest < settings.every + settings.seconds:
        raise ConfigError("sabakan.oldest is less than sabakan.every and sabakan.seconds together")
    if settings.url.startswith("http:") and (settings.ca or settings.token):
        key = "ca" if settings.ca else "token"
        raise ConfigError(f"sabakan.{key} needs an https: sabakan.url")
    return settings


def _announcing(section: Section) -> Announcing:
    default = Announcing()
    name = "the name of a whitelisted repair command: letters, digits, - and _"
    return Announcing(
        section.text("command", default.command, f"({NAME.pattern})?", name),
        round(section.duration("seconds", default.seconds, 1, 86400)),
    )


def _webhooks(section: Section) -> tuple[Webhook, ...]:
    hooks = tuple(map(_webhook, section.tables("webhooks")))
    for hook in hooks:
        if sum(other.owner == hook.owner for other in hooks) > 1:
            raise ConfigError(f"{section.name}.webhooks: owner {hook.owner!r} has two of them")
    return hooks


def _webhook(section: Section) -> Webhook:
    hook = Webhook(
        owner=section.text("owner", ANY, r"[A-Za-z0-9_.+*/:@-]{1,115}", "an owner's name, or *"),
        url=section.text("url", "", URL, "of the form https://HOST:PORT/PATH"),
        secret=section.path("secret", ""),
        ca=section.path("ca", ""),
        seconds=section.duration("seconds", 10.0, 0.1, 300),
    )
    if not hook.url:
        raise ConfigError(f"{section.name}.url is missing")
    port = re.fullmatch(URL, hook.url)
    if port is not None and not 0 < int(port[3] or 1) <= 65535:
        raise ConfigError(f"{section.name}.url has the port {port[3]}; it must be from 1 to 65535")
    if hook.ca and hook.url.startswith("http:"):
        raise ConfigError(f"{section.name}.ca needs an https: url")
    section.done()
    return hook
