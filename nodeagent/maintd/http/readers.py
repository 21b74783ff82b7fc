"""Readers over HTTP: who may read, and which parts are hidden from whom.

| reader                                            | sees                                        |
|---------------------------------------------------|---------------------------------------------|
| the admin socket (its mode says who may open it)  | everything                                  |
| a user with a role, by TLS                        | everything                                  |
| others, where `[http] read` lets them             | no owner's name or answer, no schedule,     |
|                                                   | nothing that administrators asked for       |
| a node of the cluster                             | `/1/status` as those others, also without   |
|                                                   | TLS, unless `[http] read` is `users`        |
| anyone at all                                     | whether maintd is alive, and its protocol   |

Changes, offers, observations and Mesos' endpoints ask for credentials themselves.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from nodeagent.maintd.engine.settings import ANYONE, LOCAL, USERS
from nodeagent.maintd.http.users import Access, Asker, Rejected
from nodeagent.maintd.http.view import View
from nodeagent.maintd.queue.guards import WINDOW
from nodeagent.model.address import plain_form
from nodeagent.model.event import Event
from nodeagent.model.incident import Incident, Status
from nodeagent.model.outage import Outage
from nodeagent.model.queue import Entry
from nodeagent.model.reason import KINDS, SOMEBODY, Held, Kind, because
from nodeagent.model.roll import Phase, Roll
from nodeagent.web.exchange import ANY_NAME, ANY_UUID, Answer, Request, Response, Route
from nodeagent.web.own_addresses import is_own

NOT_SHOWN = str(because(Kind.NOT_SHOWN))
SIGN_IN = "sign-in"  # a query parameter: a browser asks for a password once it is refused without

_DESIGN = ("1", "status")  # with ("",) all of the design's reporting protocol
_SHOWN = 200  # characters of a target in a refusal
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
_OWNERS = "owners' answers and the schedule are shown to users with a role"
# Kinds of events only about owners or the schedule, and those whose text may be.
_LEFT_OUT = frozenset(
    {"offered", "accepted", "declined", "rescinded", "occurrence-planned", "occurrence-over"}
)
_HIDDEN = frozenset(
    {
        "wish-granted",
        "wish-refused",
        "answers-refused",
        "canceled",
        "entry-put-off",
        "paused",
        "returning",
        "requests-dropped",
        "roll-over",
        "roll-skipped",
        "roll-started",
    }
)
_PUBLIC = frozenset(x.word for x in KINDS if not x.private and not x.personal)


@dataclass(frozen=True, slots=True)
class Readers:
    """Readers without credentials: `read` is `local`, `anyone` or `users` (none).

    `ours` tells whether an address is this machine's. A demo, where nothing is secret, shows
    `everything` to all allowed readers.
    """

    read: str = LOCAL
    everything: bool = False
    ours: Callable[[str], bool] = is_own

    def may_look(self, peer: str) -> bool:
        return self.read == ANYONE or (self.read == LOCAL and self.ours(peer))

    def may_see_status(self, peer: str, nodes: Collection[str]) -> bool:
        """Tell whether an address of this machine or of a node may see the status as a stranger.

        The design has it served to all nodes, without a password and without TLS.
        """
        return self.read != USERS and (self.ours(peer) or plain_form(peer) in nodes)


LOCAL_READERS = Readers()


class Reading:
    """Guards the routes of one Api."""

    def __init__(
        self, access: Access, readers: Readers, nodes: Callable[[], Collection[str]]
    ) -> None:
        self._access = access
        self._readers = readers
        self._nodes = nodes  # their addresses

    def clear(self, request: Request, url: str) -> Response | None:
        """Refuse a request without TLS, and say where to ask; None for the design's protocol.

        No password, no schedule and no change ever comes or goes without TLS.
        """
        path = request.segments
        path = path[:-1] if path[:-1] == _DESIGN and path[-1] == "" else path
        password = "authorization" in request.headers
        near = self._readers.ours(request.peer) or plain_form(request.peer) in self._nodes()
        may = near and (path == ("",) or (path == _DESIGN and self._sees_status(request)))
        if request.method == "GET" and may and not password and "?" not in request.target:
            return None
        target = request.target if len(request.target) <= _SHOWN else ""
        why = f"this port speaks HTTPS: use {url}{target}"
        if password:
            why += "; and change the password, which has just been sent without encryption"
        return Response.json({"error": why, "https": f"{url}{target}"}, 400)

    def _sees_status(self, request: Request) -> bool:
        return self._readers.may_see_status(request.peer, self._nodes())

    def guarded(self, row: Route) -> Route:
        """The same route, for allowed readers; its requests are `full` for those who see all."""
        if row.method != "GET" or row.segments in _OPEN | _ASK_THEMSELVES:
            return row

        def answer(request: Request) -> Answer:
            if row.segments in _OF_WHO_ASKED:
                self._access.asker(request)
                return row.handler(request)
            stranger = not self._signs_in(request)
            if stranger and row.segments == _DESIGN and self._sees_status(request):
                return row.handler(replace(request, full=self._readers.everything))
            full = self._full(request, plans=row.segments in _PLANS)
            return row.handler(replace(request, full=full))

        return replace(row, handler=answer)

    @staticmethod
    def _signs_in(request: Request) -> bool:
        known = request.peer.startswith("uid:") or "authorization" in request.headers
        return known or SIGN_IN in request.query_names()

    def _full(self, request: Request, *, plans: bool) -> bool:
        """Return whether this request is shown everything; refuse who may not read."""
        if request.peer.startswith("uid:"):
            return True
        user = self._access.asker(request) if self._signs_in(request) else None
        if user is not None and user.may_read:
            return True
        if self._readers.may_look(request.peer) and (self._readers.everything or not plans):
            return self._readers.everything
        raise Rejected(self._refusal(request, user, plans=plans))

    def _refusal(self, request: Request, user: Asker | None, *, plans: bool) -> Response:
        if user is not None:
            return Response.error(
                403, f"user {user.name} has no role; this takes observer (http.users)"
            )
        who = "this machine and " if self._readers.read == LOCAL else ""
        why = _OWNERS if plans else f"maintd shows itself to {who}users with a role"
        if not request.secure:
            how = "ask over TLS with a name and a password, or at the admin socket"
            return Response.error(403, f"{why}: {how}")
        try:
            self._access.asker(request)
        except Rejected as refused:
            if refused.answer.status != 401:
                raise
            needed = Response.error(401, f"{why}: a name and a password are needed")
            return replace(refused.answer, body=needed.body)
        raise AssertionError("there are no credentials")


# Hide parts, by kind and never by text: in doubt a text is hidden.


def discreet(view: View) -> View:
    """The view for all allowed readers: without private reasons and who asked for what, and why."""
    ledger, queue = view.ledger, view.ledger.queue
    entries = tuple(replace(entry, why=_why_of(entry)) for entry in queue.entries)
    refusals = tuple(
        replace(refusal, why=NOT_SHOWN) if refusal.reason == WINDOW else refusal
        for refusal in queue.refusals
    )
    holds = tuple(replace(hold, who="", why=NOT_SHOWN) for hold in ledger.holds)
    ledger = replace(
        ledger,
        queue=replace(queue, entries=entries, refusals=refusals),
        holds=holds,
        incidents=tuple(map(_without_who_canceled, ledger.incidents)),
        outages=tuple(map(_without_who_asked, ledger.outages)),
        agenda=tuple(replace(agenda, who=SOMEBODY) for agenda in ledger.agenda),
        roll=ledger.roll and _without_persons(ledger.roll),
    )
    held = discreet_held(view.held)
    return replace(view, ledger=ledger, held=held, full=False, complaint="")


def _without_who_canceled(incident: Incident) -> Incident:
    canceled = incident.status is Status.CANCELED
    return replace(incident, why=NOT_SHOWN) if canceled else incident


def _without_who_asked(outage: Outage) -> Outage:
    wanted, back = outage.wanted, outage.back
    return replace(
        outage,
        wanted=wanted and replace(wanted, who="", why=NOT_SHOWN),
        back=back and replace(back, who=SOMEBODY),
    )


def _without_persons(roll: Roll) -> Roll:
    nodes = tuple(
        replace(node, why=NOT_SHOWN) if node.phase is Phase.SKIPPED else node for node in roll.nodes
    )
    terms = replace(roll.terms, why="")
    paused = SOMEBODY if roll.paused else ""
    return replace(roll, who="", terms=terms, paused=paused, nodes=nodes)


def _why_of(entry: Entry) -> str:
    """Hide why it was put off, a stored sentence: a node may have been in a window."""
    return NOT_SHOWN if entry.why and not entry.status.finished else entry.why


def discreet_held(held: Iterable[Held]) -> tuple[Held, ...]:
    """The blocked work without private reasons."""
    return tuple(replace(blocked, why=blocked.why.public) for blocked in held)


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
