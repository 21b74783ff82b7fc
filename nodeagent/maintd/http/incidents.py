"""Incidents over HTTP: show, cancel, retry; and the instances evacuated for them."""

from collections.abc import Callable

from nodeagent.maintd.http import parse
from nodeagent.maintd.http import status as show
from nodeagent.maintd.http.context import Context, in_doubt
from nodeagent.maintd.http.readers import discreet, discreet_events
from nodeagent.maintd.http.view import View
from nodeagent.maintd.planning.names import no_such
from nodeagent.model.asked import Asked
from nodeagent.model.wish import Retry
from nodeagent.web.exchange import ANY_UUID, Answer, Request, Response, Route

_INCIDENT = ("1", "incidents", ANY_UUID)
_OF_ONE = 10_000  # events of one incident that are read


class Cases:
    def __init__(self, context: Context) -> None:
        self._context = context
        self.routes = (
            Route("GET", ("1", "evacuated"), context.telling("evacuated", self._evacuated)),
            Route("GET", _INCIDENT, self._incident),
            Route("DELETE", _INCIDENT, self._on_incident(parse.cancel)),
            Route("POST", (*_INCIDENT, "retry"), self._on_incident(parse.named(Retry))),
        )

    def _evacuated(self, view: View) -> list[str]:
        """Instances that left, by the history; without failed moves and moves with a lost job.

        A rebuilt ledger has no history, so this misses everything before that.
        """
        return show.evacuated(
            event
            for incident in view.ledger.incidents
            for event in self._context.maintd.store.history(incident.id, limit=_OF_ONE)
        )

    async def _incident(self, request: Request) -> Response:
        view, identity = self._context.seen(), request.segments[2]

        def tell_all() -> Response:
            seen = view if request.full else discreet(view)
            incident = seen.ledger.incident(identity)
            if incident is None:
                return self._unknown(identity)
            kept = self._context.maintd.store.history(identity, limit=parse.MOST_EVENTS)
            events = kept if request.full else discreet_events(kept)
            return Response.json(show.incident_in_full(seen, incident, events))

        return await self._context.in_thread(tell_all, request)

    def _on_incident(self, asked: Callable[[Request], Asked]) -> Callable[[Request], Answer]:
        change = self._context.changing(asked)

        async def answer(request: Request) -> Response:
            self._context.access.changer(request)
            view = self._context.view
            if view is not None and view.ledger.incident(request.segments[2]) is None:
                return self._unknown(request.segments[2])
            return await change(request)

        return answer

    def _unknown(self, identity: str) -> Response:
        """404; or 503 while the newest ledger, which may have it, is unknown."""
        if why := self._context.doubt():
            return in_doubt(why)
        return Response.error(404, no_such("incident", identity))
