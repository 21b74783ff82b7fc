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

from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv6Address, ip_address

from nodeagent.maintd.http.access import Access, Asker
from nodeagent.maintd.http.status import View
from nodeagent.maintd.queue.refusals import WINDOW
from nodeagent.model.event import Event
from nodeagent.model.queue import Entry
from nodeagent.model.reason import KINDS, Held, Kind, because
from nodeagent.web.exchange import ANY_NAME, ANY_UUID, Answer, Request, Response, Route

LOCAL, ANYONE, USERS = "local", "anyone", "users"
NOT_SHOWN = str(because(Kind.NOT_SHOWN))
SIGN_IN = "sign-in"  # a query parameter: a browser asks for a password once it is refused without

_OPEN = frozenset({("",), ("1",), ("1", "openapi.json"), ("healthz",), ("readyz",)})
_PLANS = frozenset({("1", "windows"), ("1", "maintenance.ics")})
_SCHEDULE, _STATUS = ("maintenance", "schedule"), ("maintenance", "status")
_DRILL = ("1", "nodes", ANY_NAME, "drill")
_ASK_THEMSELVES = frozenset(
    {
        _DRILL,
        ("1", "observation"),
        ("1", "offers"),
        _SCHEDULE,
        _STATUS,
        ("1", *_SCHEDULE),
        ("1", *_STATUS),
    }
)
_OF_WHO_ASKED = frozenset({("1", "wishes", ANY_UUID)})
_OWNERS = "owners' answers and the schedule are shown to users with the option read or write"
# Kinds of events only about owners or the schedule, and those whose text may be.
_LEFT_OUT = frozenset(
    {"offered", "accepted", "declined", "rescinded", "occurrence-planned", "occurrence-over"}
)
_HIDDEN = frozenset({"wish-granted", "wish-refused", "answers-refused", "entry-put-off"})
_PUBLIC = frozenset(kind.word for kind in KINDS if not kind.private)


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


# Hide parts, by kind and never by text: in doubt a text is hidden.


def discreet(view: View) -> View:
    """The view for all allowed readers: without private reasons."""
    ledger, queue = view.ledger, view.ledger.queue
    entries = tuple(replace(entry, why=_why_of(entry)) for entry in queue.entries)
    refusals = tuple(
        replace(one, why=NOT_SHOWN) if one.reason == WINDOW else one for one in queue.refusals
    )
    ledger = replace(ledger, queue=replace(queue, entries=entries, refusals=refusals))
    return replace(view, ledger=ledger, held=discreet_held(view.held), full=False)


def _why_of(entry: Entry) -> str:
    """Hide why it was put off, a stored sentence: a node may have been in a window."""
    return NOT_SHOWN if entry.why and not entry.status.finished else entry.why


def discreet_held(held: Iterable[Held]) -> tuple[Held, ...]:
    """The blocked work without private reasons."""
    return tuple(replace(one, why=one.why.public) for one in held)


def discreet_events(events: Iterable[Event]) -> list[Event]:
    """The events for all allowed readers."""
    return [
        replace(event, text=NOT_SHOWN) if _is_private(event) else event
        for event in events
        if event.kind not in _LEFT_OUT
    ]


def _is_private(event: Event) -> bool:
    if event.kind != "held":
        return event.kind in _HIDDEN
    kinds = event.details.get("kinds")  # an earlier release stored none
    return not kinds or not _PUBLIC.issuperset(kinds)
