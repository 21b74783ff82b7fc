"""maintd over HTTP: the design's external reporting protocol, and administrators' requests.

`readers` decides who may read. Changes require root (or maintd's own user) at the admin socket, or
a user of the users file whose role allows it, over TLS (`access`). The next round gets a request
(`parse`); this module accepts none.
"""

import json
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from nodeagent import __version__
from nodeagent.errors import Unavailable
from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.engine.daemon import Maintd
from nodeagent.maintd.http import parse, roll
from nodeagent.maintd.http import status as show
from nodeagent.maintd.http.autorepair import explained, repairs
from nodeagent.maintd.http.balance import balances, capacities
from nodeagent.maintd.http.calendar import calendar
from nodeagent.maintd.http.context import Context, in_doubt, read_right
from nodeagent.maintd.http.drill import Drills
from nodeagent.maintd.http.fleet import commands, stage
from nodeagent.maintd.http.incidents import Cases
from nodeagent.maintd.http.ledger import Ledgers, ledger_json
from nodeagent.maintd.http.metrics.metrics import Metrics
from nodeagent.maintd.http.offers import Owners
from nodeagent.maintd.http.page.asked import read as read_asked
from nodeagent.maintd.http.page.attention import needs
from nodeagent.maintd.http.page.page import Page, page_for
from nodeagent.maintd.http.queue import Queueing
from nodeagent.maintd.http.readers import (
    LOCAL_READERS,
    Readers,
    Reading,
    discreet,
    discreet_events,
    discreet_held,
)
from nodeagent.maintd.http.users import Rejected
from nodeagent.maintd.http.view import View
from nodeagent.maintd.http.windows import Maintenance
from nodeagent.maintd.ledger import other_master
from nodeagent.maintd.ledger.doubt import doubt
from nodeagent.maintd.ledger.history import tell
from nodeagent.maintd.planning import node_keys
from nodeagent.maintd.planning.tag_settings import described, with_tags
from nodeagent.model.action import Scope
from nodeagent.model.event import Event
from nodeagent.model.ganeti import doubt as doubt_about
from nodeagent.model.ledger import PAUSE_TAG
from nodeagent.model.notice import Mailbox
from nodeagent.model.reason import Reason
from nodeagent.model.wish import ResetStorm, SendTestNotice, StopBalancing
from nodeagent.store.codec import encode_observation
from nodeagent.web.compress import compressed, wanted
from nodeagent.web.exchange import ANY_NAME, ANY_UUID, Answer, Request, Response, Route, route
from nodeagent.web.refusal import Limits
from nodeagent.web.server import Server

# A request waits for its answer up to a minute; its body is small.
LIMITS = Limits(
    body_bytes=parse.MOST_BYTES_OF_MOVES, total_seconds=90.0, connections=256, per_peer=64
)
_DRY_RUN = "/dry-run"
_NOT_FOUND = Response.error(404, "Resource not found")
_HERE = os.path.dirname(__file__)


class Api:
    """Answer requests about one Maintd. `clock` gives seconds of a steady clock."""

    def __init__(
        self,
        maintd: Maintd,
        users: str,
        clock: Callable[[], float] = time.monotonic,
        readers: Readers = LOCAL_READERS,
    ) -> None:
        self.context = context = Context(maintd, users, clock)
        self._metrics = Metrics(context)
        self._drawn = {full: page_for(full=full) for full in (True, False)}
        with open(os.path.join(_HERE, "openapi.json"), "rb") as file:
            self._openapi = Response(200, file.read())
        self._openapi_small = compressed(self._openapi)
        rows = (
            Route("GET", ("",), lambda _: Response.json([1])),
            Route("GET", ("1",), lambda _: Response.json(None)),
            Route("GET", ("1", "status"), context.status),
            Route("GET", ("1", "jobs"), context.telling("jobs", show.jobs)),
            *Cases(context).routes,
            *Ledgers(context).routes,
            Route("GET", ("1", "round"), context.telling("round", self._round)),
            Route("GET", ("1", "plan"), context.telling("plan", self._plan)),
            Route("GET", ("1", "held"), context.telling("held", _held)),
            Route("GET", ("1", "needs-you"), context.telling("needs-you", needs)),
            Route("GET", ("1", "nodes"), context.telling("nodes", show.nodes_json)),
            Route("GET", ("1", "names"), context.telling("names", show.names)),
            Route("POST", ("1", "nodes", ANY_NAME, "done"), context.changing(parse.done)),
            Route("POST", ("1", "nodes", ANY_NAME, "evacuate"), context.changing(parse.evacuate)),
            Route("POST", ("1", "nodes", ANY_NAME, "fenced"), context.changing(parse.pulled_plug)),
            Route("GET", ("1", "agents"), context.telling("agents", _agents)),
            Route("POST", ("1", "agents", ANY_NAME, "trust"), context.changing(parse.trust_key)),
            Route("GET", ("1", "autorepair"), context.telling("autorepair", self._repairs)),
            Route("GET", ("1", "explain", ANY_NAME), self._explain),
            Route("GET", ("1", "history"), self._history),
            Route("GET", ("1", "observation"), self._observation),
            Route("GET", ("1", "wishes", ANY_UUID), self._wish),
            Route("POST", ("1", "pause"), context.changing(parse.pause)),
            Route("POST", ("1", "resume"), context.changing(parse.resume)),
            Route("POST", ("1", "storm", "reset"), context.changing(parse.bare(ResetStorm()))),
            Route("GET", ("1", "balance"), context.telling("balance", self._balance, plans=True)),
            Route("GET", ("1", "capacity"), context.telling("capacity", self._capacity)),
            Route("POST", ("1", "balance"), context.changing(parse.balance)),
            Route("POST", ("1", "balance", "stop"), context.changing(parse.texts(StopBalancing))),
            Route("GET", ("1", "windows"), context.telling("windows", calendar, plans=True)),
            Route("GET", ("1", "maintenance.ics"), self._ics),
            Route("POST", ("1", "series"), context.changing(parse.add_series)),
            Route("POST", ("1", "series", ANY_NAME), context.changing(parse.edit_series)),
            Route("DELETE", ("1", "series", ANY_NAME), context.changing(parse.end_series)),
            *Drills(context).routes,
            *Maintenance(context).routes,
            *Owners(context).routes,
            *Queueing(context).routes,
            *roll.routes(context),
            *commands.routes(context),
            *stage.routes(context),
            Route("GET", ("1", "notify"), context.telling("notify", self._sinks)),
            Route("POST", ("1", "notify", "test"), context.changing(parse.texts(SendTestNotice))),
            Route("GET", ("1", "openapi.json"), self._described),
            Route("GET", ("status",), self._page),
            Route("GET", ("status", ANY_NAME), self._node_page),
            Route("GET", ("metrics",), self._metrics.answer),
            Route("GET", ("healthz",), lambda _: Response.text("ok\n")),
            Route("GET", ("readyz",), self._ready),
        )
        rows = tuple(replace(row, slash=row.segments != ("",)) for row in rows)
        self.reading = Reading(context.access, readers, context.nodes)
        self.table = tuple(map(self.reading.guarded, rows))

    def handle(self, request: Request) -> Answer:
        """Answer; a change below /dry-run is only described, and a standby takes none."""
        if request.method != "GET" and (who := self.context.maintd.standby):
            return Response.error(503, f"this maintd is a standby, and {who}: ask that one")
        if request.method != "GET" and request.target.startswith(f"{_DRY_RUN}/"):
            target = request.target.removeprefix(_DRY_RUN)
            request = replace(request, target=target, dry=True)
        try:
            answer = route(self.table, request, _NOT_FOUND)
        except Rejected as refused:
            return refused.answer
        return answer if isinstance(answer, Response) else _unless_refused(answer)

    def server(self) -> Server:
        server = Server(self.handle, LIMITS)
        self.context.servers.append(server)
        return server

    # Read.

    def _described(self, request: Request) -> Response:
        return self._openapi_small if wanted(request) else self._openapi

    def _round(self, view: View) -> show.Json:
        maintd, snapshot = self.context.maintd, view.observed.snapshot
        storm = view.ledger.storm
        return {
            "at": view.at / 1000,
            "now": maintd.now() / 1000,
            "every": maintd.every,
            "rounds": maintd.rounds,
            "cluster": snapshot.cluster,
            "master": snapshot.master,
            "ganeti": _ganeti(snapshot.ganeti),
            "version": __version__,
            "dry-run": maintd.engine.conduct.dry,
            "idle": view.idle,
            "standby": maintd.standby or None,
            "succession": maintd.engine.succession,
            "trouble": _trouble(view.trouble),
            "storm": {"at": storm.at / 1000, "why": storm.why} if storm else None,
            "outdated": str(why) if (why := _outdated(view)) else None,
            "ledger": ledger_json(view.kept, maintd.store, snapshot),
            "refused-settings": view.complaint or None,
            "holds": show.holds(view),
            "paused": _cluster_paused(view),
            "stage": with_tags(maintd.engine.policy, snapshot).stage,
            "policy": dict(described(maintd.engine.policy)),
        }

    def _plan(self, view: View) -> show.Json:
        maintd, done = self.context.maintd, self.context.maintd.latest
        assert done is not None
        if who := maintd.standby:
            raise Unavailable(f"a standby plans nothing: {who}")
        now, observed = maintd.now(), replace(view.observed, wishes=())
        after = decide(view.ledger, observed, maintd.engine.policy, now)
        events = tell(view.ledger, after.ledger, after, done.decision, now, observed)
        if not view.full:
            after = replace(after, held=discreet_held(after.held))
            events = tuple(discreet_events(events))
        return show.plan(view, done.decision, after, now, events)

    def _repairs(self, view: View) -> show.Json:
        return repairs(view, self.context.maintd.engine.policy)

    def _balance(self, view: View) -> list[show.Json]:
        return balances(view, self.context.maintd.engine.policy)

    def _capacity(self, view: View) -> list[show.Json]:
        return capacities(view, self.context.maintd.engine.headrooms.found)

    def _sinks(self, view: View) -> list[show.Json]:
        engine = self.context.maintd.engine
        boxes = {box.sink: box for box in view.ledger.notices.boxes}
        results = engine.outbox.results
        return [
            show.sink_json(sink, boxes.get(sink.name, Mailbox(sink.name)), results)
            for sink in engine.policy.notify
        ]

    async def _ics(self, request: Request) -> Response:
        def build(view: View) -> Response:
            from nodeagent.maintd.http import ical  # 6 MB of a library: loaded only for this

            return Response(200, ical.calendar(view), ical.KIND)

        self.context.refuse_in_doubt(request)
        return await self.context.share("ics", build, request)

    async def _explain(self, request: Request) -> Response:
        view, name = self.context.seen(), request.segments[2]
        view = view if request.full else discreet(view)
        assessment = explained(view, self.context.maintd.engine.policy, name)
        return (
            Response.json(assessment)
            if assessment
            else Response.error(404, f"there is no instance {name}")
        )

    async def _history(self, request: Request) -> Response:
        incident, since, limit = read_right(request, parse.which_events)

        def events() -> Response:
            kept = self.context.maintd.store.history(incident, since, limit)
            shown = kept if request.full else discreet_events(kept)
            answer = Response.json([show.event_json(event) for event in shown])
            return compressed(answer) if wanted(request) else answer

        return await self.context.in_thread(events, request)

    async def _observation(self, request: Request) -> Response:
        self.context.access.admin(request)
        maintd = self.context.maintd

        def encode(view: View) -> Response:
            observed = replace(view.observed, wishes=())
            text = encode_observation(view.ledger, observed, maintd.engine.policy, maintd.now())
            return Response(200, text.encode())

        return await self.context.share("observation", encode, replace(request, full=True))

    async def _wish(self, request: Request) -> Response:
        wish = request.segments[2]

        def answer() -> Response:
            refusal = self.context.maintd.store.answer(wish)
            if refusal is None and (why := self.context.doubt()):
                return in_doubt(why)
            if refusal is None:
                return Response.error(404, f"wish {wish} waits for a round, or does not exist")
            return Response.json({"granted": refusal == "", "why": refusal})

        response = await self.context.in_thread(answer, request)
        is_granted = response.status == 200 and json.loads(response.body)["granted"]
        return await self.context.granted() if is_granted else response

    async def _page(self, request: Request) -> Response:
        page, asked = self._drawn[request.full], read_asked(request)

        def build(view: View) -> Response:
            groups, room = self._balance(view), self._capacity(view)
            return page.answer(view, self._round(view), groups, room, self._events, asked)

        return await self._drawing(request, f"page {asked.key}", page, build)

    async def _node_page(self, request: Request) -> Response:
        page, asked, name = self._drawn[request.full], read_asked(request), request.segments[1]

        def build(view: View) -> Response:
            return page.node(view, self._round(view), name, self._events, asked)

        return await self._drawing(request, f"node {name} {asked.key}", page, build)

    async def _drawing(
        self, request: Request, name: str, page: Page, build: Callable[[View], Response]
    ) -> Response:
        if self.context.view is None:
            trouble = _trouble(self.context.maintd.trouble)
            return page.before({"cluster": "", "trouble": trouble}, read_asked(request))
        return await self.context.share(name, build, request)

    def _events(self, incident: str | None, limit: int) -> Sequence[Event]:
        """The history for a page, which shows the rest where it cannot be read."""
        try:
            return self.context.maintd.store.history(incident, limit=limit)
        except Unavailable:
            return ()

    def _ready(self, _: Request) -> Response:
        doubt = self.context.view and _outdated(self.context.view)
        why = self.context.unready() or self._damage() or (str(doubt) if doubt else None)
        return Response.text(f"not ready: {why}\n" if why else "ready\n", 503 if why else 200)

    def _damage(self) -> str | None:
        troubled = self.context.maintd.store.troubles()
        return "something is wrong with the ledger: see gnt-maint held" if troubled else None

    # Change.


async def _unless_refused(answer: Awaitable[Response]) -> Response:
    try:
        return await answer
    except Rejected as refused:
        return refused.answer


def _trouble(trouble: tuple[int, str] | None) -> show.Json | None:
    return None if trouble is None else {"since": trouble[0] / 1000, "why": trouble[1]}


def _ganeti(version: str) -> show.Json | None:
    return {"version": version, "doubt": doubt_about(version) or None} if version else None


def _held(view: View) -> list[show.Json]:
    return [show.held_json(held) for held in view.held]


def _agents(view: View) -> list[show.Json]:
    return node_keys.agents(view.observed.snapshot, view.looks)


def _outdated(view: View) -> Reason | None:
    return doubt(view.observed.uncertain) or other_master.doubt(view.ledger)


def _cluster_paused(view: View) -> bool:
    held = any(h.scope is Scope.CLUSTER and not h.incident for h in view.ledger.holds)
    return held or PAUSE_TAG in view.observed.snapshot.tags
