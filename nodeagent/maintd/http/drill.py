"""The fire drill over HTTP: what maintd would do if a node died now."""

from dataclasses import replace

from nodeagent.errors import NodeAgentError
from nodeagent.maintd.deciding.drill import Forecast, Hearing, forecast, refusal
from nodeagent.maintd.fencing.judgement import apart
from nodeagent.maintd.http import parse
from nodeagent.maintd.http.context import Context
from nodeagent.maintd.http.status import Json, fate_json
from nodeagent.maintd.http.view import View
from nodeagent.model.evidence import Testimony
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.web.exchange import ANY_NAME, Request, Response, Route

PATH = ("1", "nodes", ANY_NAME, "drill")


class Drills:
    """Tell it only to those who may change something: a drill asks the witnesses of a node."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.routes = (
            Route("GET", PATH, self._forecast),
            Route("POST", PATH, context.changing(parse.drill_power)),
        )

    async def _forecast(self, request: Request) -> Response:
        self._context.access.admin(request)
        view = self._context.seen()
        name, maintd = request.segments[2], self._context.maintd
        if why := refusal(view.observed, name):
            return Response.error(409 if name in view.observed.snapshot.nodes else 404, why)
        snapshot = view.observed.snapshot
        try:
            capacity, testimonies, missing = await maintd.engine.rehearse(name, snapshot)
        except NodeAgentError as error:
            return Response.error(503, str(error))
        seen = replace(view, observed=replace(view.observed, capacity=capacity))
        heard = Hearing(testimonies, missing)
        return await self._context.in_thread(lambda: self._shown(seen, name, heard), request)

    def _shown(self, view: View, name: str, heard: Hearing) -> Response:
        maintd = self._context.maintd
        outcome = forecast(
            view.ledger,
            view.observed,
            maintd.engine.policy,
            name,
            heard,
            every=Ms(round(1000 * maintd.every)),
            now=maintd.now(),
        )
        return Response.json(_json(outcome, heard, name, view.observed.snapshot))


def _json(forecast: Forecast, heard: Hearing, name: str, snapshot: Snapshot) -> Json:
    node, began = snapshot.nodes[name], forecast.steps[0].at
    return {
        "node": name,
        "dead-nodes": forecast.mode,
        "done": forecast.done,
        "fenced": forecast.fenced,
        "steps": [
            {"at": step.at / 1000, "after": (step.at - began) / 1000, "text": step.text}
            for step in forecast.steps
        ],
        "instances": [fate_json(instance_fate) for instance_fate in forecast.fates],
        "down": list(forecast.down),
        "reasons": [
            {"kind": why.kind.word, "reason": str(why), "help": why.help or None}
            for why in forecast.whys
        ],
        "witnesses": [
            _witness(testimony, node, heard, snapshot) for testimony in heard.testimonies
        ],
        "missing": list(heard.missing),
    }


def _witness(testimony: Testimony, node: Node, heard: Hearing, snapshot: Snapshot) -> Json:
    return {
        "node": testimony.witness,
        "elsewhere": apart(node, snapshot.nodes[testimony.witness], snapshot),
        "reaches": testimony.witness not in heard.blind,
        "disks": testimony.why or ("read" if testimony.mirrors is not None else "not read"),
    }
