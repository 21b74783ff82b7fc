"""The repair queue over HTTP: entries, limits, and reports of sources."""

import json
from collections.abc import Iterable
from typing import Any

from nodeagent.maintd.http import parse
from nodeagent.maintd.http.context import Context
from nodeagent.maintd.http.status import Json
from nodeagent.maintd.http.view import View
from nodeagent.maintd.queue.entries import entry_json, refusals_json
from nodeagent.maintd.queue.inventory import Inventory
from nodeagent.maintd.queue.sabakan import DEFAULT, SABAKAN
from nodeagent.model.sick import Sick
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
        return _reported(view, self._context.maintd.engine.inventory)

    def _variables(self, request: Request) -> Response:
        """The variables as they were given, to the byte."""
        view = self._context.seen()
        self._context.refuse_in_doubt(request)
        if text := view.ledger.queue.variables:
            return Response(200, text.encode())
        return Response.error(404, f"none are set; the default is used: {DEFAULT}")

    def _constraints(self, view: View) -> Json:
        defaults = self._context.maintd.engine.policy.constraints
        by_hand = view.ledger.queue.overrides
        limits = defaults.over(by_hand).named()
        return {"constraints": limits, "set": [name for name in limits if name in by_hand]}


def _queue(view: View) -> Json:
    queue, snapshot = view.ledger.queue, view.observed.snapshot
    entries = [entry_json(entry, snapshot) for entry in queue.entries]
    refused = refusals_json(queue)
    return {"enabled": queue.enabled, "entries": entries, "refused": refused}


def _reported(view: View, inventory: Inventory) -> Json:
    """Whether reports become entries, sabakan's query, and the answer of each source."""
    queue, sources = view.ledger.queue, view.sick
    names = [*([SABAKAN] if inventory.on else []), *sorted(sources.keys() - {SABAKAN})]
    off = "no round has asked it yet" if queue.auto_repair else "automatic repair is disabled"
    asked: Any = json.loads(queue.variables or DEFAULT)
    return {
        "enabled": queue.auto_repair,
        "variables": asked,
        "sources": [_source(name, sources.get(name, off), inventory) for name in names],
    }


def _source(name: str, reports: tuple[Sick, ...] | str, inventory: Inventory) -> Json:
    known = {
        "url": inventory.settings.url,
        "age": inventory.age,
        "failures": inventory.heard.failures,
        "failed": inventory.heard.failed / 1000 or None,
    }
    return {
        "name": name,
        "believed": not isinstance(reports, str),
        "why": reports if isinstance(reports, str) else "",
        "machines": None if isinstance(reports, str) else _machines(reports),
        **(known if name == SABAKAN else {}),
    }


def _machines(sick: Iterable[Sick]) -> list[Json]:
    return [
        {
            "address": machine.address,
            "serial": machine.serial,
            "machine_type": machine.machine_type,
            "operation": machine.operation,
            "state": machine.state,
            "domain": machine.domain,
            "since": machine.since / 1000 or None,
            "why": machine.why,
        }
        for machine in sick
    ]
