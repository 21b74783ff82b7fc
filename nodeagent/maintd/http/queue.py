"""The repair queue over HTTP, what may become its entry, and what sources report."""

from typing import TYPE_CHECKING

from nodeagent.maintd.http import parse as form
from nodeagent.maintd.http.sources import reported
from nodeagent.maintd.http.status import Json, View
from nodeagent.maintd.queue.entries import entry_json
from nodeagent.maintd.queue.sabakan import DEFAULT
from nodeagent.web.exchange import Request, Response, Route

if TYPE_CHECKING:
    from nodeagent.maintd.api import Api

_QUEUE = ("1", "queue")
_AUTO_REPAIR = (*_QUEUE, "auto-repair")
_CONSTRAINTS = ("1", "constraints")


class Queueing:
    """Answers for one Api."""

    def __init__(self, api: "Api") -> None:
        self._api = api
        tell, change = api.telling, api.changing
        self.routes = (
            Route("GET", _QUEUE, tell("queue", _queue)),
            Route("POST", _QUEUE, change(form.add_entry)),
            Route("POST", (*_QUEUE, "delete"), change(form.delete_entries)),
            Route("POST", (*_QUEUE, "enable"), change(form.enable_queue)),
            Route("POST", (*_QUEUE, "disable"), change(form.disable_queue)),
            Route("POST", (*_QUEUE, "reset-backoff"), change(form.reset_back_off)),
            Route("GET", _AUTO_REPAIR, tell("auto-repair", self._auto_repair)),
            Route("POST", (*_AUTO_REPAIR, "enable"), change(form.enable_auto_repair)),
            Route("POST", (*_AUTO_REPAIR, "disable"), change(form.disable_auto_repair)),
            Route("GET", (*_AUTO_REPAIR, "variables"), self._variables),
            Route("POST", (*_AUTO_REPAIR, "variables"), change(form.set_variables)),
            Route("GET", _CONSTRAINTS, tell("constraints", self._constraints)),
            Route("POST", _CONSTRAINTS, change(form.set_constraint)),
        )

    def _auto_repair(self, view: View) -> Json:
        return reported(view, self._api.maintd.engine.inventory)

    def _variables(self, _: Request) -> Response:
        """As they were given, to the byte."""
        view = self._api.view
        if view is None:
            return Response.error(503, self._api.no_round())
        if text := view.ledger.queue.variables:
            return Response(200, text.encode())
        return Response.error(404, f"none have been set; these are used: {DEFAULT}")

    def _constraints(self, view: View) -> Json:
        defaults, by_hand = self._api.maintd.engine.policy.constraints, view.ledger.queue.overrides
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
