"""Rights to make changes: root at the admin socket, or a user of the users file, over TLS.

That file is in RAPI's format, and failed logins are limited.

Each line is `name password [options]`; the password is plain, `{CLEARTEXT}plain` or `{HA1}` and the
MD5 of `name:Ganeti Remote API:password`. The options are roles, and `owner:NAME`: its user answers
for that owner of instances. `%group options` gives roles to a Unix group at the admin socket.
"""

import base64
import binascii
import grp
import hashlib
import hmac
import logging
import math
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote

from nodeagent.errors import NodeAgentError
from nodeagent.faults import Faults
from nodeagent.model.asked import Asked
from nodeagent.model.role import Role, changes, may, roles_of, takers, words_of
from nodeagent.secret import read_private_text
from nodeagent.web.exchange import Request, Response
from nodeagent.web.places import network_of

log = logging.getLogger(__name__)
REALM = "Ganeti Remote API"
MAX_BYTES = 256 * 1024
_MAX_HEADER = 1024
_FAILURES = 10  # of a user at one address, before it must wait; as many return in a minute
_FAILURES_IN_ALL = 60  # of an address, or of a user
_BACK_IN_ALL = 0.5  # tries that return each second
_REMEMBERED = 4096  # addresses and users


_OWNER = "owner:"
GROUP = "%"  # before the name of a Unix group, as in sudoers


@dataclass(frozen=True, slots=True)
class User:
    name: str
    scheme: str
    secret: str
    options: frozenset[str] = frozenset()

    @property
    def roles(self) -> frozenset[Role]:
        return roles_of(self.options)

    @property
    def owners(self) -> frozenset[str]:
        """The owners of instances for whom it may answer offers."""
        return frozenset(
            option.removeprefix(_OWNER) for option in self.options if option.startswith(_OWNER)
        )

    def accepts(self, password: str) -> bool:
        """Check the password, in a time that does not depend on how much of it is right."""
        if self.scheme == "{HA1}":
            text = f"{self.name}:{REALM}:{password}".encode()
            given = hashlib.md5(text, usedforsecurity=False).hexdigest()
            return _equal(given, self.secret.lower())
        return _equal(password, self.secret)


_NOBODY = User("", "{CLEARTEXT}", "\0")


def _equal(one: str, other: str) -> bool:
    first, second = (hashlib.sha256(text.encode()).digest() for text in (one, other))
    return hmac.compare_digest(first, second)


def parse_users(text: str, faults: Faults | None = None) -> dict[str, User]:
    """Read a users file; ConfigError names the wrong line. The last line of a name counts.

    With `faults` that collect all wrong lines are there instead.
    """
    faults = faults or Faults()
    users: dict[str, User] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        user = _user(line, faults, f"line {number}: ")
        if user is not None:
            users[user.name] = user
    return users


def _user(line: str, faults: Faults, where: str) -> User | None:
    """Return the user of a line; None if it is wrong, which is among the mistakes then."""
    name, *rest = line.split(None, 2)
    scheme, secret = "{CLEARTEXT}", rest[0] if rest else ""
    if secret.startswith("{"):
        scheme, end, secret = secret.partition("}")
        scheme = scheme.upper() + end
    wrong = ""
    if name.startswith(GROUP):
        return _group(line, faults, where)
    if not rest:
        wrong = "a name and no password"
    elif scheme not in ("{CLEARTEXT}", "{HA1}"):
        wrong = "a password is plain, {CLEARTEXT} or {HA1}"
    elif not secret:
        wrong = "the password is empty"
    elif not name.isprintable() or ":" in name:
        wrong = "no name that could be sent"
    if wrong:
        faults.add(f"{where}{wrong}")
        return None
    return User(name, scheme, secret, _options(rest[1] if rest[1:] else ""))


def _group(line: str, faults: Faults, where: str) -> User | None:
    """Return the group of a line, which has no password."""
    name, _, text = line.strip().partition(" ")
    options = _options(text)
    if not roles_of(options) or any(option.startswith(_OWNER) for option in options):
        roles = ", ".join(role.value for role in Role)
        faults.add(f"{where}a group has no password, and roles of these: {roles}")
        return None
    return User(name, "", "", options)


def _options(text: str) -> frozenset[str]:
    return frozenset(filter(None, (part.strip() for part in text.split(","))))


class Users:
    """The users file, read again after each change; a wrong one lets nobody in."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._known: Mapping[str, User] = {}
        self._groups: Mapping[int, frozenset[Role]] = {}
        self._mark: tuple[int, ...] | None = (-1,)  # differs from every file

    @staticmethod
    def name(authorization: str) -> str:
        """The name in these credentials, right or wrong."""
        return _basic(authorization)[0]

    def check(self, authorization: str) -> User | None:
        """The user with these credentials (HTTP Basic); None if they are wrong."""
        self._refresh()
        name, password = _basic(authorization)
        user = None if name.startswith(GROUP) else self._known.get(name)
        # Unknown users take the same time as known ones.
        accepted = (user or _NOBODY).accepts(password)
        return user if accepted else None

    def roles_of_groups(self, groups: Iterable[int]) -> frozenset[Role]:
        """Return the roles that Unix groups have by the file."""
        self._refresh()
        return frozenset(role for group in groups for role in self._groups.get(group, ()))

    def _refresh(self) -> None:
        mark = _mark(self.path)
        if mark == self._mark:
            return
        self._mark = mark
        try:
            self._known = parse_users(read_private_text(self.path, MAX_BYTES))
            self._groups = _numbered(self._known.values())
            log.info("users-read path=%s users=%d", self.path, len(self._known))
        except NodeAgentError as error:
            self._known, self._groups = {}, {}
            log.warning("users-unusable path=%s why=%r", self.path, str(error))


def _numbered(users: Iterable[User]) -> dict[int, frozenset[Role]]:
    """The roles of groups, by their numbers on this machine."""
    roles_by_group: dict[int, frozenset[Role]] = {}
    for user in users:
        if user.name.startswith(GROUP):
            name = user.name.removeprefix(GROUP)
            try:
                roles_by_group[grp.getgrnam(name).gr_gid] = user.roles
            except KeyError:
                log.warning("group-unknown name=%s", name)
    return roles_by_group


def _mark(path: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def _basic(header: str) -> tuple[str, str]:
    """Name and password; both empty if they cannot be read."""
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "basic" or len(text) > _MAX_HEADER:
        return "", ""
    try:
        name, _, password = base64.b64decode(text.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return "", ""
    return name, password


class Throttle:
    """Slow down password guessing. `clock` gives seconds of a steady clock.

    A failed login takes a try from three stocks: the user's at this address, the address's for all
    users, and the user's at all addresses. Tries return with time. A user who has given the right
    password from an address needs only the first stock there: nobody locks a user out by guesses
    for other users or from elsewhere. An IPv6 address is its network of 64 bits.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.failures = 0
        self._here = _Tries(_FAILURES, _FAILURES / 60, clock)
        self._address = _Tries(_FAILURES_IN_ALL, _BACK_IN_ALL, clock)
        self._user = _Tries(_FAILURES_IN_ALL, _BACK_IN_ALL, clock)
        self._known: OrderedDict[int, None] = OrderedDict()

    def wait(self, peer: str, user: str) -> float:
        address = network_of(peer)
        here = hash((address, user))
        wait = self._here.wait(here)
        if here in self._known:
            return wait
        return max(wait, self._address.wait(hash(address)), self._user.wait(hash(user)))

    def failed(self, peer: str, user: str) -> None:
        self.failures += 1
        address = network_of(peer)
        self._here.take(hash((address, user)))
        self._address.take(hash(address))
        self._user.take(hash(user))

    def succeeded(self, peer: str, user: str) -> None:
        here = hash((network_of(peer), user))
        self._known[here] = None
        self._known.move_to_end(here)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)


class _Tries:
    """A stock of `limit` tries for each key; `back` of them return each second.

    Bounded: the key that failed longest ago is dropped first.
    """

    def __init__(self, limit: float, back: float, clock: Callable[[], float]) -> None:
        self._most, self._back, self._clock = limit, back, clock
        self._left: OrderedDict[int, tuple[float, float]] = OrderedDict()  # tries, at that moment

    def __len__(self) -> int:
        return len(self._left)

    def wait(self, key: int) -> float:
        """Return the seconds until there is a try; 0 if there is one."""
        return max(0.0, (1 - self._now(key)) / self._back)

    def take(self, key: int) -> None:
        self._left[key] = max(0.0, self._now(key) - 1), self._clock()
        self._left.move_to_end(key)
        if len(self._left) > _REMEMBERED:
            self._left.popitem(last=False)

    def _now(self, key: int) -> float:
        tries, at = self._left.get(key, (self._most, 0.0))
        return min(self._most, tries + (self._clock() - at) * self._back)


class Rejected(Exception):
    """The request gets this answer, whatever else was to be done for it."""

    def __init__(self, answer: Response) -> None:
        super().__init__(answer.status)
        self.answer = answer


_LOGIN = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._@\\+$-]{0,63}")


@dataclass(frozen=True, slots=True)
class Asker:
    """A known user with its roles; `owners` are those it may answer for, an admin for any."""

    name: str
    roles: frozenset[Role] = frozenset({Role.ADMIN})
    owners: frozenset[str] = frozenset()

    @property
    def is_admin(self) -> bool:
        """Tell whether it may do everything."""
        return Role.ADMIN in self.roles

    @property
    def may_read(self) -> bool:
        """Tell whether it may see what is hidden from others."""
        return bool(self.roles)

    @property
    def title(self) -> str:
        """Return its name for the history; with its roles, unless it may do everything."""
        plain = self.is_admin or not self.roles
        return self.name if plain else f"{self.name} ({words_of(self.roles)})"

    def why_not(self, asked: type[Asked] | None = None) -> str:
        """Say why it may not make such a request, or without one any at all; "" if it may."""
        if changes(self.roles) if asked is None else may(self.roles, asked):
            return ""
        has = f"the role {words_of(self.roles)}" if self.roles else "no role"
        return f"user {self.name} has {has}; this takes {takers(asked)} (http.users)"


class Access:
    """Check users against the file `users`. `clock` gives seconds of a steady clock."""

    def __init__(self, users: str, clock: Callable[[], float]) -> None:
        self.throttle = Throttle(clock)
        self._users = Users(users)

    def admin(self, request: Request) -> Asker:
        """Return who asks; refuse all but admins."""
        asker = self.asker(request)
        if not asker.is_admin:
            raise Rejected(Response.error(403, asker.why_not(Asked)))
        return asker

    def changer(self, request: Request) -> Asker:
        """Return who asks; refuse those who may change nothing at all."""
        asker = self.asker(request)
        if why := asker.why_not():
            raise Rejected(Response.error(403, why))
        return asker

    def asker(self, request: Request) -> Asker:
        """Return who asks; refuse those who are unknown."""
        if request.peer.startswith("uid:"):
            return self._local(request)
        if "origin" in request.headers:  # a browser adds credentials by itself: they prove nothing
            raise Rejected(Response.error(403, "not from a web page"))
        if not request.secure:
            raise Rejected(Response.error(403, "only over TLS, or at the admin socket"))
        given = request.headers.get("authorization")
        if given is None:
            raise Rejected(_unknown("a name and a password are needed"))
        name = self._users.name(given)
        if wait := math.ceil(self.throttle.wait(request.peer, name)):
            response = Response.error(429, f"too many failed logins: try again in {wait} s")
            raise Rejected(replace(response, headers={"Retry-After": str(wait)}))
        user = self._users.check(given)
        if user is None:
            self.throttle.failed(request.peer, name)
            log.warning("login-failed peer=%s", request.peer)
            raise Rejected(_unknown("the name or the password is wrong"))
        self.throttle.succeeded(request.peer, name)
        return Asker(user.name, user.roles, user.owners)

    def _local(self, request: Request) -> Asker:
        """Return who asks at the admin socket: root, we ourselves, or a member of a known group."""
        text, _, groups = request.peer.removeprefix("uid:").partition(":")
        uid = int(text)
        if uid in (0, os.geteuid()):
            return Asker(_person(request, "root" if uid == 0 else f"user {uid}"))
        roles = self._users.roles_of_groups(map(int, filter(None, groups.split(","))))
        if not roles:
            why = "only root and groups in http.users may do this here"
            raise Rejected(Response.error(403, why))
        return Asker(_person(request, f"user {uid}"), roles)


def _person(request: Request, name: str) -> str:
    """Name the person at root's terminal, as root's process reports it.

    Root can claim any name, and we see no process but our own: an aid, and no proof.
    """
    login = unquote(request.headers.get("nodeagent-login", ""))
    return f"{login} ({name})" if _LOGIN.fullmatch(login) and login != name else name


def _unknown(why: str) -> Response:
    response = Response.error(401, why)
    return replace(response, headers={"WWW-Authenticate": f'Basic realm="{REALM}"'})
