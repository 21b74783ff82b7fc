"""Reader of `[[notify]]` in `maintd.toml`; every complaint names its key."""

from collections import Counter

from nodeagent.errors import ConfigError
from nodeagent.maintd.notices.mail import Server
from nodeagent.maintd.notices.post import Target
from nodeagent.maintd.notices.render import fault
from nodeagent.model.notice import Occasion, Severity, Sink, Way
from nodeagent.model.units import Ms, Seconds
from nodeagent.section import NAME, Section
from nodeagent.web.post import URL, wrong_port

MOST = 20  # sinks
_ADDRESS = r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+"
_SERVER = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?"
_PORTS = {"starttls": 587, "tls": 465, "none": 25}
_TEXT = r"[^\x00]{0,20000}"
_KINDS = "|".join(way.value for way in Way)
_EVENTS = [one.value for one in Occasion if one is not Occasion.TEST]


def sinks_of(root: Section) -> tuple[tuple[Sink, ...], tuple[Target, ...]]:
    """Read the sinks, and the addresses of those without an agent's command."""
    tables = root.tables("notify")
    if len(tables) > MOST:
        raise ConfigError(f"notify: there are {len(tables)} tables, and may be {MOST}")
    read = [_sink(section) for section in tables]
    for name, times in Counter(sink.name for sink, _ in read).items():
        if times > 1:
            raise ConfigError(f"notify: {times} tables have the name {name!r}")
    return tuple(sink for sink, _ in read), tuple(target for _, target in read if target)


def _sink(section: Section) -> tuple[Sink, Target | None]:
    name = section.text("name", "", NAME.pattern, "a name: letters, digits, - and _")
    kind = section.text("kind", "", _KINDS, _KINDS.replace("|", ", "))
    for key, value in (("name", name), ("kind", kind)):
        if not value:
            raise ConfigError(f"{section.shown}.{key} is missing")
    way = Way(kind)
    default = Sink(name, way)
    levels = [level.value for level in Severity]
    events = section.words("events", "|".join(_EVENTS), f"a list of these: {', '.join(_EVENTS)}")
    severity = section.text("min-severity", "info", "|".join(levels), ", ".join(levels))
    sink = Sink(
        name=name,
        kind=way,
        events=events,
        severity=Severity(severity),
        interval=Ms(round(section.duration("interval", default.interval / 1000, 1, 86400) * 1000)),
        give_up=Ms(
            round(section.duration("give-up", default.give_up / 1000, 60, 30 * 86400) * 1000)
        ),
        title=section.text("title", "", _TEXT, "a template") if way is not Way.ALERTMANAGER else "",
        body=section.text("body", "", _TEXT, "a template") if way in _WITH_BODY else "",
        command=_command(section) if way is Way.COMMAND else "",
        seconds=Seconds(
            round(section.duration("seconds", 30, 1, 3600)) if way is Way.COMMAND else 30
        ),
    )
    target = None if way is Way.COMMAND else _target(section, sink)
    if why := fault(sink):
        raise ConfigError(f"{section.shown}.{why}")
    section.done()
    return sink, target


_WITH_BODY = (Way.WEBHOOK, Way.SMTP)


def _command(section: Section) -> str:
    told = "the name of a whitelisted repair command: letters, digits, - and _"
    command = section.text("command", "", NAME.pattern, told)
    if not command:
        raise ConfigError(f"{section.shown}.command is missing")
    return command


def _target(section: Section, sink: Sink) -> Target:
    seconds, ca = section.duration("seconds", 10.0, 0.1, 300), section.path("ca", "")
    if sink.kind is Way.SMTP:
        return Target(sink.name, ca=ca, seconds=seconds, mail=_mail(section))
    target = Target(
        sink.name,
        url=section.text("url", "", f"({URL})?", "of the form https://HOST:PORT/PATH"),
        url_file=section.path("url-file", ""),
        secret=section.path("secret", "") if sink.kind is Way.WEBHOOK else "",
        token=section.path("token", ""),
        ca=ca,
        seconds=seconds,
    )
    if bool(target.url) == bool(target.url_file):
        raise ConfigError(f"{section.shown} needs url, or url-file, and not both")
    if target.url.startswith("http:"):
        for key, value in (("ca", ca), ("token", target.token)):
            if value:
                raise ConfigError(f"{section.shown}.{key} needs an https: url")
    if why := wrong_port(target.url):
        raise ConfigError(f"{section.shown}.url {why}")
    return target


def _mail(section: Section) -> Server:
    tls = section.text("tls", "starttls", "starttls|tls|none", "starttls, tls or none")
    place = section.text("server", "", _SERVER, "HOST or HOST:PORT")
    sender = section.text("from", "", _ADDRESS, "a mail address")
    to = section.words("to", _ADDRESS)
    user = section.text("user", "", r"[^\x00-\x20\x7f]*", "a name without space")
    password = section.path("password", "")
    for key, value in (("server", place), ("from", sender), ("to", to)):
        if not value:
            raise ConfigError(f"{section.shown}.{key} is missing or empty")
    if bool(user) != bool(password):
        raise ConfigError(f"{section.shown} needs user and password, or neither")
    if password and tls == "none":
        raise ConfigError(f'{section.shown}.tls "none" sends a password without TLS: set starttls')
    alone = place.endswith("]") or ":" not in place
    host, _, named = (place, "", "") if alone else place.rpartition(":")
    port = int(named or _PORTS[tls])
    if not 0 < port <= 65535:
        raise ConfigError(f"{section.shown}.server has the port {port}; it must be from 1 to 65535")
    return Server(host.strip("[]"), port, sender, to, tls, user, password)
