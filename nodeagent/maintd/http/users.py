"""Who may change anything over HTTP: a users file in RAPI's format, and patience that ends.

Each line is `name password [options]`; the password is plain, `{CLEARTEXT}plain` or `{HA1}` and
the MD5 of `name:Ganeti Remote API:password`. Of the options `write` is what is asked for here,
and `owner:NAME` of who may do no more than answer for an owner of instances.
"""

import base64
import binascii
import hashlib
import hmac
import logging
import os
import stat
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

from nodeagent.errors import ConfigError, NodeAgentError, Unavailable

log = logging.getLogger(__name__)
REALM = "Ganeti Remote API"
MAX_BYTES = 256 * 1024
_MAX_HEADER = 1024
_FAILURES = 10  # of one peer, within
_WITHIN = 60.0  # seconds
_PEERS = 4096


_OWNER = "owner:"


@dataclass(frozen=True, slots=True)
class User:
    """One line of the users file."""

    name: str
    scheme: str
    secret: str
    options: frozenset[str] = frozenset()

    @property
    def may_write(self) -> bool:
        """Whether it may change anything."""
        return "write" in self.options

    @property
    def may_read(self) -> bool:
        """Whether it may see what is not told to everybody."""
        return self.may_write or "read" in self.options

    @property
    def owners(self) -> frozenset[str]:
        """For whom it may answer what owners of instances are asked."""
        return frozenset(
            option.removeprefix(_OWNER) for option in self.options if option.startswith(_OWNER)
        )

    def accepts(self, password: str) -> bool:
        """Whether this is the password, in a time that does not tell how much of it is."""
        if self.scheme == "{HA1}":
            text = f"{self.name}:{REALM}:{password}".encode()
            given = hashlib.md5(text, usedforsecurity=False).hexdigest()
            return _equal(given, self.secret.lower())
        return _equal(password, self.secret)


_NOBODY = User("", "{CLEARTEXT}", "\0")


def _equal(one: str, other: str) -> bool:
    first, second = (hashlib.sha256(text.encode()).digest() for text in (one, other))
    return hmac.compare_digest(first, second)


def parse_users(text: str) -> dict[str, User]:
    """Read a users file; ConfigError names the line that is wrong. The last of a name counts."""
    found: dict[str, User] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, *rest = line.split(None, 2)
        if not rest:
            raise ConfigError(f"line {number}: a name and no password")
        scheme, secret = "{CLEARTEXT}", rest[0]
        if secret.startswith("{"):
            scheme, end, secret = secret.partition("}")
            scheme = scheme.upper() + end
        if scheme not in ("{CLEARTEXT}", "{HA1}"):
            raise ConfigError(f"line {number}: a password is plain, {{CLEARTEXT}} or {{HA1}}")
        if not secret:
            raise ConfigError(f"line {number}: the password is empty")
        if not name.isprintable() or ":" in name:
            raise ConfigError(f"line {number}: no name that could be sent")
        options = frozenset(part.strip() for part in rest[1].split(",")) if rest[1:] else ()
        found[name] = User(name, scheme, secret, frozenset(options))
    return found


class Users:
    """The users file, read again whenever it has changed; a wrong one lets nobody in."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._known: Mapping[str, User] = {}
        self._mark: tuple[int, ...] | None = (-1,)  # of no file there is

    def check(self, authorization: str) -> User | None:
        """Whose credentials these are (HTTP Basic); None if nobody's."""
        self._refresh()
        name, password = _basic(authorization)
        user = self._known.get(name)
        # Of somebody unknown as much is looked at as of anybody.
        accepted = (user or _NOBODY).accepts(password)
        return user if accepted else None

    def _refresh(self) -> None:
        mark = _mark(self.path)
        if mark == self._mark:
            return
        self._mark = mark
        try:
            self._known = parse_users(_read_private(self.path))
            log.info("users-read path=%s users=%d", self.path, len(self._known))
        except NodeAgentError as error:
            self._known = {}
            log.warning("users-unusable path=%s why=%r", self.path, str(error))


def _mark(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def _read_private(path: str) -> str:
    """A file that root or we own, nobody else may write to, and not everybody read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise Unavailable(f"nobody may log in: {error.strerror}") from None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError("it is no file")
        if found.st_uid not in (0, os.geteuid()):
            raise ConfigError(f"it belongs to user {found.st_uid}, and must to root or to us")
        if found.st_mode & 0o027:
            mode = stat.S_IMODE(found.st_mode)
            raise ConfigError(f"its mode is {mode:04o}, and may be 0640 at the most")
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"it is larger than {MAX_BYTES} bytes")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ConfigError("it is not UTF-8") from None


def _basic(header: str) -> tuple[str, str]:
    """Name and password; both empty where there are none to be read."""
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "basic" or len(text) > _MAX_HEADER:
        return "", ""
    try:
        name, _, password = base64.b64decode(text.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return "", ""
    return name, password


class Throttle:
    """Counts failed logins; after too many a peer is not listened to for a while.

    `clock` gives seconds. An IPv6 peer is its network of 64 bits: it has as many addresses as
    it likes. Bounded: who has not failed for longest is forgotten first.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.failures = 0
        self._clock = clock
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()

    def wait(self, peer: str) -> float:
        """For how many seconds the peer is not listened to; 0 if it is."""
        times = self._failed.get(_network(peer))
        if times is None or len(times) < _FAILURES:
            return 0.0
        return max(0.0, times[0] + _WITHIN - self._clock())

    def failed(self, peer: str) -> None:
        """Note a failure of a peer that was listened to."""
        self.failures += 1
        times = self._failed.setdefault(_network(peer), deque(maxlen=_FAILURES))
        times.append(self._clock())
        self._failed.move_to_end(_network(peer))
        if len(self._failed) > _PEERS:
            self._failed.popitem(last=False)


def _network(peer: str) -> str:
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if not isinstance(address, IPv6Address):
        return peer
    return str(address.ipv4_mapped or ip_network((address, 64), strict=False))
