"""Incidents over HTTP: looked at, canceled, and let go of; and what was evacuated for them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from nodeagent.maintd.http import parse as form
from nodeagent.maintd.http import status as show
from nodeagent.maintd.http.status import View
from nodeagent.model.wish import Asked, Cancel, Retry
from nodeagent.web.exchange import ANY_UUID, Answer, Request, Response, Route

if TYPE_CHECKING:
    from nodeagent.maintd.api import Api

_INCIDENT = ("1", "incidents", ANY_UUID)
_OF_ONE = 10_000  # events of one incident that are looked through


class Cases:
    """Answers for one Api."""

    def __init__(self, api: "Api") -> None:
        self._api = api
        self.routes = (
            Route("GET", ("1", "evacuated"), api.telling("evacuated", self._evacuated)),
            Route("GET", _INCIDENT, self._incident),
            Route("DELETE", _INCIDENT, self._on_incident(Cancel)),
            Route("POST", (*_INCIDENT, "retry"), self._on_incident(Retry)),
        )

    def _evacuated(self, view: View) -> list[str]:
        """By the history: an instance whose moving failed, or left with a lost job, is none.

        A ledger that was rebuilt has no history, and then this knows of nothing before that.
        """
        return show.evacuated(
            event
            for incident in view.ledger.incidents
            for event in self._api.maintd.memory.history(incident.id, limit=_OF_ONE)
        )

    async def _incident(self, request: Request) -> Response:
        view, identity = self._api.view, request.segments[2]
        if view is None:
            return Response.error(503, self._api.no_round())
        incident = view.ledger.incident(identity)
        if incident is None:
            return _unknown(identity)

        def tell_all() -> Response:
            events = self._api.maintd.memory.history(identity, limit=form.MOST_EVENTS)
            return Response.json(show.incident_in_full(view, incident, events))

        return await self._api.in_thread(tell_all)

    def _on_incident(self, wish: type[Cancel] | type[Retry]) -> Callable[[Request], Answer]:
        def asked(request: Request) -> Asked:
            form.body(request, {})
            return wish(request.segments[2])

        change = self._api.changing(asked)

        async def answer(request: Request) -> Response:
            who, view = self._api.access.who(request), self._api.view
            if isinstance(who, Response):
                return who
            if view is not None and view.ledger.incident(request.segments[2]) is None:
                return _unknown(request.segments[2])
            return await change(request)

        return answer


def _unknown(identity: str) -> Response:
    return Response.error(404, f"there is no incident {identity}")
