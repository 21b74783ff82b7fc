"""Readers over HTTP: who may read, and which parts are hidden from whom.

| reader                                            | sees                                        |
|---------------------------------------------------|---------------------------------------------|
| the admin socket (its mode says who may open it)  | everything                                  |
| a user with the option `read` or `write`, by TLS  | everything                                  |
| others, where `[http] read` lets them             | no owner's name or answer, no schedule,     |
|                                                   | nothing that administrators asked for       |
| anyone at all                                     | whether maintd is alive, and its protocol   |

Changes, offers, observations and Mesos' endpoints ask for credentials themselves.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv6Address, ip_address
from typing import Any

from nodeagent.maintd.http.access import Access, Asker
from nodeagent.model.event import Event
from nodeagent.model.reason import Held, Kind
from nodeagent.web.exchange import ANY_UUID, Answer, Request, Response, Route

LOCAL, ANYONE, USERS = "local", "anyone", "users"
NOT_SHOWN = "not shown: it takes a user with the option read"
SIGN_IN = "sign-in"  # a query parameter: a browser asks for a password once it is refused without

_OPEN = frozenset({("",), ("1",), ("1", ""), ("1", "openapi.json"), ("healthz",), ("readyz",)})
_PLANS = frozenset({("1", "windows"), ("1", "maintenance.ics")})
_SCHEDULE, _STATUS = ("maintenance", "schedule"), ("maintenance", "status")
_ASK_THEMSELVES = frozenset(
    {("1", "observation"), ("1", "offers"), _SCHEDULE, _STATUS, ("1", *_SCHEDULE), ("1", *_STATUS)}
)
_OF_WHO_ASKED = frozenset({("1", "wishes", ANY_UUID)})
_OWNERS = "owners' answers and the schedule are shown to users with the option read or write"
# Kinds of events only about owners or the schedule, and a pattern of sentences about them.
_LEFT_OUT = frozenset(
    {"offered", "accepted", "declined", "rescinded", "occurrence-planned", "occurrence-over"}
)
_ASKED = frozenset({"wish-granted", "wish-refused", "answers-refused"})
_SECRET = re.compile(
    r"\bowners?\b|\boffers?\b|\bseries/|\bmaintenance windows?\b|\b(its|another) window\b"
    r"|\bgnt-maint window (up|down)\b|^overdue: "
)
_PLANS_ALONE = {
    kind.word for kind in Kind if kind.metric in ("owner", "overdue", "window", "window-stopped")
}
_VERBATIM = "original"  # a node's own report


@dataclass(frozen=True, slots=True)
class Readers:
    """Readers without credentials: `read` is `local`, `anyone` or `users` (none).

    `here` is the address that maintd serves at: a request from it comes from this machine. A demo,
    where nothing is secret, shows `everything` to all allowed readers.
    """

    read: str = LOCAL
    here: str = ""
    everything: bool = False

    def may_look(self, peer: str) -> bool:
        return self.read == ANYONE or (self.read == LOCAL and _is_local(peer, self.here))


LOCAL_READERS = Readers()


class Reading:
    """Guards the routes of one Api."""

    def __init__(self, access: Access, readers: Readers) -> None:
        self._access = access
        self._readers = readers

    def guarded(self, row: Route) -> Route:
        """The same route, for allowed readers; its requests are `full` for those who see all."""
        if row.method != "GET" or row.segments in _OPEN | _ASK_THEMSELVES:
            return row

        def answer(request: Request) -> Answer:
            if row.segments in _OF_WHO_ASKED:
                asker = self._access.asker(request)
                return asker if isinstance(asker, Response) else row.handler(request)
            full = self._full(request, plans=row.segments in _PLANS)
            if isinstance(full, Response):
                return full
            return row.handler(replace(request, full=full))

        return replace(row, handler=answer)

    def _full(self, request: Request, *, plans: bool) -> bool | Response:
        """Return whether this request is shown everything, or the refusal."""
        if request.peer.startswith("uid:"):
            return True
        user: Asker | None = None
        if "authorization" in request.headers or SIGN_IN in request.query_names():
            said = self._access.asker(request)
            if isinstance(said, Response):
                return said
            if said.may_read:
                return True
            user = said
        if self._readers.may_look(request.peer) and (self._readers.everything or not plans):
            return self._readers.everything
        return self._refused(request, user, plans=plans)

    def _refused(self, request: Request, user: Asker | None, *, plans: bool) -> Response:
        if user is not None:
            return Response.error(403, f"user {user.name} lacks the option read (http.users)")
        who = "this machine and " if self._readers.read == LOCAL else ""
        why = _OWNERS if plans else f"maintd shows itself to {who}users with the option read"
        if not request.secure:
            how = "ask over TLS with a name and a password, or at the admin socket"
            return Response.error(403, f"{why}: {how}")
        said = self._access.asker(request)
        assert isinstance(said, Response)  # there are no credentials
        return said if said.status != 401 else replace(said, body=_no(why).body)


def _no(why: str) -> Response:
    return Response.error(401, f"{why}: a name and a password are needed")


def _is_local(peer: str, here: str) -> bool:
    try:
        address = ip_address(peer.partition("%")[0])
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return address.is_loopback or (here != "" and address == ip_address(here))
    except ValueError:
        return False


# Hide parts.


def discreet_text(text: str) -> str:
    """The text, unless it mentions owners or the schedule."""
    return NOT_SHOWN if _SECRET.search(text) else text


def reason_of(held: Held, *, full: bool) -> tuple[str, str]:
    """The reason and the command that helps, complete if `full`, or as other readers see them."""
    said = held.reason, held.why.help
    if full:
        return said
    hidden = held.why.kind.word in _PLANS_ALONE or any(map(_SECRET.search, said))
    return (NOT_SHOWN, "") if hidden else said


def discreet(value: Any) -> Any:
    """JSON without owners, their answers, the schedule, and events about them."""
    if isinstance(value, str):
        return discreet_text(value)
    if isinstance(value, list | tuple):
        return [discreet(one) for one in value if not _left_out(one)]
    if isinstance(value, dict):
        if value.get("kind") in _ASKED:
            value = {**value, "text": NOT_SHOWN}
        if "subject" in value and value.get("kind") in _PLANS_ALONE:
            hidden = {"kind": NOT_SHOWN, "subject": None, "reason": NOT_SHOWN, "help": None}
            value = {**value, **hidden}
        return {key: one if key == _VERBATIM else discreet(one) for key, one in value.items()}
    return value


def _left_out(one: object) -> bool:
    return isinstance(one, dict) and one.get("kind") in _LEFT_OUT


def discreet_events(events: Iterable[Event]) -> list[Event]:
    """The events for all allowed readers."""
    return [
        replace(event, text=NOT_SHOWN) if event.kind in _ASKED else event
        for event in events
        if event.kind not in _LEFT_OUT
    ]
