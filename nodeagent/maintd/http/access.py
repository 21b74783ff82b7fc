"""Rights to make changes: root at the admin socket, or a user of the users file, over TLS."""

import logging
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import unquote

from nodeagent.maintd.http.users import REALM, Throttle, Users
from nodeagent.web.exchange import Request, Response

_LOGIN = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._@\\+$-]{0,63}")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asker:
    """A known user with its rights; `owners` are those it may answer for.

    A user with the right to write may answer for any owner.
    """

    name: str
    may_read: bool = True
    may_write: bool = True
    owners: frozenset[str] = frozenset()


class Access:
    """Check users against the file `users`. `clock` gives seconds of a steady clock."""

    def __init__(self, users: str, clock: Callable[[], float]) -> None:
        self.throttle = Throttle(clock)
        self._users = Users(users)

    def who(self, request: Request) -> str | Response:
        asker = self.asker(request)
        if isinstance(asker, Response):
            return asker
        return asker.name if asker.may_write else lacks_write(asker)

    def asker(self, request: Request) -> Asker | Response:
        if request.peer.startswith("uid:"):
            uid = int(request.peer.removeprefix("uid:"))
            if uid not in (0, os.geteuid()):
                return Response.error(403, "only root may do this here")
            return Asker(_person(request, "root" if uid == 0 else f"user {uid}"))
        if "origin" in request.headers:  # a browser adds credentials by itself: they prove nothing
            return Response.error(403, "not from a web page")
        if not request.secure:
            return Response.error(403, "only over TLS, or at the admin socket")
        given = request.headers.get("authorization")
        if given is None:
            return _unknown("a name and a password are needed")
        name = self._users.name(given)
        if wait := math.ceil(self.throttle.wait(request.peer, name)):
            said = Response.error(429, f"too many failed logins: try again in {wait} s")
            return replace(said, headers={"Retry-After": str(wait)})
        user = self._users.check(given)
        if user is None:
            self.throttle.failed(request.peer, name)
            log.warning("login-failed peer=%s", request.peer)
            return _unknown("the name or the password is wrong")
        self.throttle.succeeded(request.peer, name)
        return Asker(user.name, user.may_read, user.may_write, user.owners)


def _person(request: Request, name: str) -> str:
    """Name the person at root's terminal, as root's process reports it.

    Root can claim any name, and we see no process but our own: an aid, and no proof.
    """
    login = unquote(request.headers.get("nodeagent-login", ""))
    return f"{login} ({name})" if _LOGIN.fullmatch(login) and login != name else name


def _unknown(why: str) -> Response:
    said = Response.error(401, why)
    return replace(said, headers={"WWW-Authenticate": f'Basic realm="{REALM}"'})


def lacks_write(asker: Asker) -> Response:
    """Refuse a change by a user who may only read."""
    return Response.error(403, f"user {asker.name} lacks the option write")
