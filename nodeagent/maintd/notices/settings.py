"""Reader of `[[notify]]` in `maintd.toml`; every complaint names its key."""

from collections.abc import Collection
from dataclasses import replace

from nodeagent.maintd.notices.mail import Server
from nodeagent.maintd.notices.post import Target
from nodeagent.maintd.notices.render import fault
from nodeagent.model.notice import Occasion, Severity, Sink, Way
from nodeagent.model.units import Ms, Seconds
from nodeagent.section import NAME, Section, each_once
from nodeagent.web.blocking import URL, wrong_port

MOST = 20  # sinks
_ADDRESS = r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+"
_SERVER = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?"
_PORTS = {"starttls": 587, "tls": 465, "none": 25}
_TEXT = r"[^\x00]{0,20000}"
_KINDS = "|".join(way.value for way in Way)
_EVENTS = [one.value for one in Occasion if one is not Occasion.TEST]


_WITH_TITLE = frozenset((Way.WEBHOOK, Way.SMTP, Way.COMMAND))
_WITH_BODY = frozenset((Way.WEBHOOK, Way.SMTP))
_WITH_URL = frozenset((Way.WEBHOOK, Way.ALERTMANAGER))


def sinks_of(root: Section) -> tuple[tuple[Sink, ...], tuple[Target, ...]]:
    """Read the sinks, and the addresses of those without an agent's command."""
    tables = root.tables("notify")
    if len(tables) > MOST:
        said = f"there are {len(tables)} tables, and may be {MOST}"
        root.complain(f"{root.where('notify')}: {said}", "notify")
    read = [_sink(section, number) for number, section in enumerate(tables)]
    each_once(tables, "name", [[sink.name] for sink, _ in read])
    return tuple(sink for sink, _ in read), tuple(target for _, target in read if target)


def _sink(section: Section, number: int) -> tuple[Sink, Target | None]:
    name = section.text("name", "", NAME.pattern, "a name: letters, digits, - and _")
    kind = section.text("kind", "", _KINDS, _KINDS.replace("|", ", "))
    section.require({"name": name, "kind": kind})
    # A table of an unknown kind may have the keys of every kind, and needs none of them.
    ways = frozenset((Way(kind),)) if kind else frozenset(Way)
    sink = _read_sink(section, name, ways)
    if ways == {Way.COMMAND}:
        section.require({"command": sink.command})
    target = None if ways == {Way.COMMAND} else _target(section, name, number, ways)
    for alone in (replace(sink, body=""), replace(sink, title="")):
        if why := fault(alone):
            section.complain(f"{section.shown}.{why}", "body" if alone.body else "title")
    section.done()
    return sink, target


def _read_sink(section: Section, name: str, ways: Collection[Way]) -> Sink:
    default = Sink(name, Way.COMMAND)
    events = section.words("events", "|".join(_EVENTS), f"a list of these: {', '.join(_EVENTS)}")
    levels = [level.value for level in Severity]
    severity = section.text("min-severity", "info", "|".join(levels), ", ".join(levels))
    interval = section.duration("interval", default.interval / 1000, 1, 86400)
    give_up = section.duration("give-up", default.give_up / 1000, 60, 30 * 86400)
    told = "the name of a whitelisted repair command: letters, digits, - and _"
    seconds = section.duration("seconds", 30, 1, 3600) if ways == {Way.COMMAND} else 30
    return Sink(
        name=name,
        kind=next(iter(ways)) if len(ways) == 1 else default.kind,
        events=events,
        severity=Severity(severity),
        interval=Ms(round(interval * 1000)),
        give_up=Ms(round(give_up * 1000)),
        title=""
        if _WITH_TITLE.isdisjoint(ways)
        else section.text("title", "", _TEXT, "a template"),
        body="" if _WITH_BODY.isdisjoint(ways) else section.text("body", "", _TEXT, "a template"),
        command=section.text("command", "", NAME.pattern, told) if Way.COMMAND in ways else "",
        seconds=Seconds(round(seconds)),
    )


def _target(section: Section, name: str, number: int, ways: Collection[Way]) -> Target:
    most = 3600 if Way.COMMAND in ways else 300
    target = Target(
        name,
        ca=section.path("ca", ""),
        seconds=section.duration("seconds", 10.0, 0.1, most),
        mail=_mail(section, ways) if Way.SMTP in ways else None,
        number=number,
    )
    if _WITH_URL.isdisjoint(ways):
        return target
    target = replace(
        target,
        url=section.text("url", "", f"({URL})?", "of the form https://HOST:PORT/PATH"),
        url_file=section.path("url-file", ""),
        secret=section.path("secret", "") if Way.WEBHOOK in ways else "",
        token=section.path("token", ""),
    )
    both, neither = target.url and target.url_file, not (target.url or target.url_file)
    if both or (neither and len(ways) == 1 and section.is_right("url", "url-file")):
        section.complain(f"{section.shown} needs url, or url-file, and not both", "url")
    if target.url.startswith("http:"):
        for key, value in (("ca", target.ca), ("token", target.token)):
            if value:
                section.complain(f"{section.where(key)} needs an https: url", key)
    if why := wrong_port(target.url):
        section.complain(f"{section.where('url')} {why}", "url")
    return target


def _mail(section: Section, ways: Collection[Way]) -> Server:
    tls = section.text("tls", "starttls", "starttls|tls|none", "starttls, tls or none")
    place = section.text("server", "", _SERVER, "HOST or HOST:PORT")
    sender = section.text("from", "", _ADDRESS, "a mail address")
    to = section.words("to", _ADDRESS, "a list of mail addresses, each once")
    user = section.text("user", "", r"[^\x00-\x20\x7f]*", "a name without space")
    password = section.path("password", "")
    if len(ways) == 1:
        section.require({"server": place, "from": sender, "to": to})
    if section.is_right("user", "password") and bool(user) != bool(password):
        section.complain(f"{section.shown} needs user and password, or neither", "user")
    if password and tls == "none":
        said = f'{section.where("tls")} "none" sends a password without TLS: set starttls'
        section.complain(said, "tls")
    alone = place.endswith("]") or ":" not in place
    host, _, named = (place, "", "") if alone else place.rpartition(":")
    port = int(named or _PORTS[tls])
    if not 0 < port <= 65535:
        said = f"has the port {port}; it must be from 1 to 65535"
        section.complain(f"{section.where('server')} {said}", "server")
    return Server(host.strip("[]"), port, sender, to, tls, user, password)
