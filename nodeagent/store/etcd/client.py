"""A client of etcd's JSON gateway: one deadline for a call, its members in turn, a token.

It asks the member that answered last first. It believes no member of another etcd cluster, and none
that has fallen behind the newest term that it has seen.
"""

import asyncio
import json
import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from nodeagent.errors import ConfigError, Unavailable
from nodeagent.store.contract import Unsure
from nodeagent.store.etcd.answers import Reply, Verdict, number, reply
from nodeagent.web.client import NoAnswer, TooLarge, fetch
from nodeagent.web.tls import trusting_tls

ENDPOINT = r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})/?"
SECONDS = 6.0  # for one call, over all members
_MOST = 16 * 1024 * 1024  # bytes of an answer
_LEAST = 0.05  # seconds for one member


class Full(Unavailable):
    """etcd has reached its quota: it takes no writes, and reads go on."""


class Refused(Unavailable):
    """etcd refuses the request, and every member would; `code` is gRPC's."""

    def __init__(self, why: str, code: int) -> None:
        super().__init__(why)
        self.code = code


class Compacted(Refused):
    """The wanted revision is gone: read anew."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The client address of one member."""

    tls: bool
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' * self.tls}://{host}:{self.port}"


def endpoint(text: str) -> Endpoint:
    """Read https://HOST:PORT, or raise ConfigError."""
    match = re.fullmatch(ENDPOINT, text)
    if match is None or not 0 < int(match[3]) <= 65535:
        raise ConfigError(f"{text[:200]!r} is not of the form https://HOST:PORT")
    return Endpoint(match[1] == "https", match[2].strip("[]"), int(match[3]))


def client_tls(ca: str, certificate: str, key: str) -> ssl.SSLContext:
    """Return TLS to members whose certificates `ca` has signed, with ours if there is one."""
    context = trusting_tls(ca)
    if certificate:
        try:
            context.load_cert_chain(certificate, key or None)
        except ssl.SSLError as error:
            why = (error.reason or str(error)).replace("_", " ").lower()
            raise ConfigError(f"{certificate}: not usable with its key: {why}") from None
        except OSError as error:
            raise ConfigError(f"{key or certificate}: {error.strerror}") from None
    return context


class Client:
    """The members of one etcd cluster. All its methods run on one event loop.

    With a `user` it logs in with the `password`, and again when etcd has forgotten the token.
    `away` says why the last call got no answer; it is empty if it got one.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        tls: ssl.SSLContext | None = None,
        user: str = "",
        password: str = "",
        seconds: float = SECONDS,
    ) -> None:
        self._endpoints = [endpoint(text) for text in endpoints]
        self._tls = tls
        self._user, self._password = user, password
        self._seconds = seconds
        self._first = 0  # the member that answered last
        self._token = ""
        self._cluster = 0
        self._term = 0
        self.revision = 0  # the newest one seen
        self.away = ""

    async def call(
        self, path: str, body: Mapping[str, Any], *, seconds: float | None = None
    ) -> dict[str, Any]:
        """Ask for `/v3/` + path something that does no harm, whether or how often it arrives.

        Unavailable: nobody answers. Full, Refused, Compacted, TooLarge: etcd answers no.
        """
        try:
            return await self.change(path, body, seconds=seconds)
        except Unsure as error:
            raise Unavailable(str(error)) from None

    async def change(
        self, path: str, body: Mapping[str, Any], *, seconds: float | None = None
    ) -> dict[str, Any]:
        """Ask for a change that may arrive twice, but matters.

        Unsure: it may have happened. Unavailable: it has not. Full, Refused: as with `call`.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + (self._seconds if seconds is None else seconds)
        raw, unsure, said = json.dumps(body).encode(), False, []
        many = len(self._endpoints)
        for turn in range(many):
            nth = (self._first + turn) % many
            left = end - loop.time()
            if left < _LEAST:
                break
            found = await self._member(self._endpoints[nth], path, raw, left / (many - turn))
            why = f"{self._endpoints[nth]}: {found.why}"
            if found.verdict in (Verdict.AWAY, Verdict.UNKNOWN):
                unsure = unsure or found.verdict is Verdict.UNKNOWN
                said.append(why)
                continue
            self.away = ""
            if found.verdict is Verdict.DONE:
                self._first = nth
                return found.document
            if found.verdict is Verdict.FULL:
                raise Full(why)
            if found.verdict is Verdict.COMPACTED:
                raise Compacted(why, found.code)
            raise Refused(why, found.code)
        self.away = f"etcd does not answer: {'; '.join(said)}"
        raise (Unsure if unsure else Unavailable)(self.away)

    async def _member(self, member: Endpoint, path: str, raw: bytes, seconds: float) -> Reply:
        """Ask one member; if it wants a login, log in and ask once more."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        if self._user and not self._token:
            refusal = await self._log_in(member, seconds)
            if refusal is not None:
                return refusal
        found = await self._ask(member, path, raw, end - loop.time())
        if found.verdict is Verdict.LOGIN and self._user:
            self._token = ""
            refusal = await self._log_in(member, end - loop.time())
            found = refusal or await self._ask(member, path, raw, end - loop.time())
        return found

    async def _log_in(self, member: Endpoint, seconds: float) -> Reply | None:
        """Take a token; return the reason if there is none."""
        asked = {"name": self._user, "password": self._password}
        found = await self._ask(member, "auth/authenticate", json.dumps(asked).encode(), seconds)
        token = found.document.get("token")
        if found.verdict is Verdict.DONE and type(token) is str:
            self._token = token
            return None
        # A login changes nothing: what follows it has not happened.
        lost = found.verdict in (Verdict.DONE, Verdict.UNKNOWN)
        why = f"login as {self._user!r}: {found.why or 'no token'}"
        return Reply(Verdict.AWAY if lost else found.verdict, {}, why, found.code)

    async def _ask(self, member: Endpoint, path: str, raw: bytes, seconds: float) -> Reply:
        if seconds < _LEAST:
            return Reply(Verdict.AWAY, {}, "no time is left")
        if member.tls and self._tls is None:
            self._tls = trusting_tls()
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        try:
            async with asyncio.timeout(seconds):
                address = await _address(member)
        except (OSError, UnicodeError, TimeoutError) as error:
            why = getattr(error, "strerror", None) or "the name has no address in time"
            return Reply(Verdict.AWAY, {}, why)
        try:
            answer = await fetch(
                *(address, member.port, f"/v3/{path}"),
                seconds=max(_LEAST, round(end - loop.time(), 2)),
                method="POST",
                body=raw,
                tls=self._tls if member.tls else None,
                most=_MOST,
                host=member.host,
                headers=(("Authorization", self._token),) if self._token else (),
            )
        except TooLarge:
            raise
        except NoAnswer as error:
            verdict = Verdict.UNKNOWN if error.sent else Verdict.AWAY
            return Reply(verdict, {}, str(error))
        found = reply(answer.status, answer.body)
        return found if found.verdict is not Verdict.DONE else self._believed(found)

    def _believed(self, found: Reply) -> Reply:
        """Refuse an answer of another cluster, or of a member that is behind."""
        header = found.document.get("header")
        if type(header) is not dict:
            return found
        cluster, term = number(header, "cluster_id"), number(header, "raft_term")
        if self._cluster and cluster and cluster != self._cluster:
            why = f"it belongs to another etcd cluster ({cluster:x}, not {self._cluster:x})"
            return Reply(Verdict.UNKNOWN, {}, why)
        if term and term < self._term:
            return Reply(Verdict.UNKNOWN, {}, f"it is behind: term {term}, not {self._term}")
        self._cluster, self._term = cluster or self._cluster, max(term, self._term)
        self.revision = max(self.revision, number(header, "revision"))
        return found


async def _address(member: Endpoint) -> str:
    with suppress(ValueError):
        return str(ip_address(member.host))
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(member.host, member.port, type=socket.SOCK_STREAM)
    found.sort(key=lambda one: one[0] != socket.AF_INET)  # "localhost" is often both
    return str(found[0][4][0])
