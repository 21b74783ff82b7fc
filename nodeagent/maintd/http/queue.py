"""The repair queue over HTTP: entries, limits, and reports of sources."""

from nodeagent.maintd.http import parse
from nodeagent.maintd.http.context import Context
from nodeagent.maintd.http.sources import reported
from nodeagent.maintd.http.status import Json, View
from nodeagent.maintd.queue.entries import entry_json
from nodeagent.maintd.queue.sabakan import DEFAULT
from nodeagent.model.wish import AddEntry, ResetBackOff, SetAutoRepair, SetQueue
from nodeagent.web.exchange import Request, Response, Route

_QUEUE = ("1", "queue")
_SOURCES = (*_QUEUE, "sources")
_CONSTRAINTS = ("1", "constraints")


class Queueing:
    def __init__(self, context: Context) -> None:
        self._context = context
        tell, change = context.telling, context.changing
        self.routes = (
            Route("GET", _QUEUE, tell("queue", _queue, plans=True)),
            Route("POST", _QUEUE, change(parse.texts(AddEntry))),
            Route("POST", (*_QUEUE, "delete"), change(parse.delete_entries)),
            Route("POST", (*_QUEUE, "enable"), change(parse.bare(SetQueue(enabled=True)))),
            Route("POST", (*_QUEUE, "disable"), change(parse.bare(SetQueue(enabled=False)))),
            Route("POST", (*_QUEUE, "reset-backoff"), change(parse.bare(ResetBackOff()))),
            Route("GET", _SOURCES, tell("sources", self._sources, plans=True)),
            Route("POST", (*_SOURCES, "enable"), change(parse.bare(SetAutoRepair(enabled=True)))),
            Route("POST", (*_SOURCES, "disable"), change(parse.bare(SetAutoRepair(enabled=False)))),
            Route("GET", (*_SOURCES, "variables"), self._variables),
            Route("POST", (*_SOURCES, "variables"), change(parse.set_variables)),
            Route("GET", _CONSTRAINTS, tell("constraints", self._constraints, plans=True)),
            Route("POST", _CONSTRAINTS, change(parse.set_constraint)),
        )

    def _sources(self, view: View) -> Json:
        return reported(view, self._context.maintd.engine.inventory)

    def _variables(self, request: Request) -> Response:
        """The variables as they were given, to the byte."""
        view = self._context.view
        if view is None:
            return Response.error(503, self._context.no_round())
        if refused := self._context.unknown(request):
            return refused
        if text := view.ledger.queue.variables:
            return Response(200, text.encode())
        return Response.error(404, f"none are set; the default is used: {DEFAULT}")

    def _constraints(self, view: View) -> Json:
        defaults, by_hand = (
            self._context.maintd.engine.policy.constraints,
            view.ledger.queue.overrides,
        )
        there = defaults.over(by_hand).named()
        return {"constraints": there, "set": [name for name in there if name in by_hand]}


def _queue(view: View) -> Json:
    queue, snapshot = view.ledger.queue, view.observed.snapshot
    entries = [entry_json(entry, snapshot) for entry in queue.entries]
    refused = [
        {
            "reason": one.reason,
            "machines": one.machines,
            "since": one.since / 1000,
            "why": one.why,
        }
        for one in queue.refusals
    ]
    return {"enabled": queue.enabled, "entries": entries, "refused": refused}
