"""maintd over HTTP: the design's external reporting protocol, and what administrators ask.

Whoever can connect may look. To change anything takes root (or maintd's own user) at the admin
socket, or a user of the users file with the option `write`, over TLS (`access`). What is asked
for (`form`) is put to the next round as a wish; this module grants nothing.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from nodeagent.errors import MessageError, NodeAgentError, Unavailable
from nodeagent.maintd.daemon import Maintd
from nodeagent.maintd.decide import decide
from nodeagent.maintd.history import tell
from nodeagent.maintd.http import ical as ics
from nodeagent.maintd.http import parse as form
from nodeagent.maintd.http import series as almanac
from nodeagent.maintd.http import status as show
from nodeagent.maintd.http.access import Access
from nodeagent.maintd.http.autorepair import explained, repairs
from nodeagent.maintd.http.balance import balances
from nodeagent.maintd.http.calendar import calendar
from nodeagent.maintd.http.incidents import Cases
from nodeagent.maintd.http.metrics import Metrics
from nodeagent.maintd.http.offers import Owners
from nodeagent.maintd.http.page.page import Page
from nodeagent.maintd.http.queue import Queueing
from nodeagent.maintd.http.status import View
from nodeagent.maintd.http.windows import Maintenance
from nodeagent.maintd.ledger import other_master as away
from nodeagent.maintd.planning.tag_settings import described
from nodeagent.model.action import Scope
from nodeagent.model.event import Event
from nodeagent.model.ledger import PAUSE_TAG
from nodeagent.model.wish import Asked
from nodeagent.store.codec import encode_observation
from nodeagent.web.exchange import ANY_NAME, ANY_UUID, UUID, Answer, Request, Response, Route, route
from nodeagent.web.refusal import Limits
from nodeagent.web.server import Server

# A wish is waited for up to a minute; a request is small.
LIMITS = Limits(
    body_bytes=form.MOST_BYTES_OF_MOVES, total_seconds=90.0, connections=256, per_peer=64
)
_FRESH = 1.0  # seconds for which an answer serves everybody
_HERE = os.path.dirname(__file__)
_NO_ROUND = "no round has been held yet"


class Api:
    """Answers requests about one Maintd. `clock` gives seconds that only pass."""

    def __init__(
        self, maintd: Maintd, users: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.maintd = maintd
        self.access = Access(users, clock)
        self.servers: list[Server] = []
        self._clock = clock
        self._metrics = Metrics(self)
        self._drawn = Page()
        # Not the loop's own pool: whoever only looks never keeps a round waiting.
        self._pool = ThreadPoolExecutor(2, "api")
        self._shared: dict[str, tuple[float, asyncio.Future[Response]]] = {}
        with open(os.path.join(_HERE, "http", "openapi.json"), "rb") as file:
            self._openapi = Response(200, file.read())
        self.table = (
            Route("GET", ("",), lambda _: Response.json([1])),
            Route("GET", ("1",), lambda _: Response.json(None)),
            Route("GET", ("1", ""), lambda _: Response.json(None)),
            Route("GET", ("1", "status"), self.telling("status", show.status)),
            Route("GET", ("1", "jobs"), self.telling("jobs", show.jobs)),
            *Cases(self).routes,
            Route("GET", ("1", "round"), self.telling("round", self._round)),
            Route("GET", ("1", "plan"), self.telling("plan", self._plan)),
            Route("GET", ("1", "held"), self.telling("held", _held)),
            Route("GET", ("1", "nodes"), self.telling("nodes", show.nodes)),
            Route("GET", ("1", "autorepair"), self.telling("autorepair", self._repairs)),
            Route("GET", ("1", "explain", ANY_NAME), self._explain),
            Route("GET", ("1", "history"), self._history),
            Route("GET", ("1", "observation"), self._observation),
            Route("GET", ("1", "wishes", ANY_UUID), self._wish),
            Route("POST", ("1", "pause"), self.changing(form.pause)),
            Route("POST", ("1", "resume"), self.changing(form.resume)),
            Route("POST", ("1", "storm", "reset"), self.changing(form.reset)),
            Route("POST", ("1", "ledger", "resume"), self.changing(form.trust)),
            Route("GET", ("1", "balance"), self.telling("balance", self._balance)),
            Route("POST", ("1", "balance"), self.changing(form.balance)),
            Route("POST", ("1", "balance", "stop"), self.changing(form.stop_balancing)),
            Route("GET", ("1", "windows"), self.telling("windows", calendar)),
            Route("GET", ("1", "maintenance.ics"), self._ics),
            Route("POST", ("1", "series"), self.changing(almanac.read_new)),
            Route("POST", ("1", "series", ANY_NAME), self.changing(almanac.read_change)),
            Route("DELETE", ("1", "series", ANY_NAME), self.changing(almanac.read_end)),
            *Maintenance(self).routes,
            *Owners(self).routes,
            *Queueing(self).routes,
            Route("GET", ("1", "openapi.json"), lambda _: self._openapi),
            Route("GET", ("status",), self._page),
            Route("GET", ("metrics",), self._metrics.answer),
            Route("GET", ("healthz",), lambda _: Response.text("ok\n")),
            Route("GET", ("readyz",), self._ready),
        )

    def handle(self, request: Request) -> Answer:
        """Answer one request."""
        return route(self.table, request)

    def server(self) -> Server:
        """One more server of this; the caller starts and closes it."""
        server = Server(self.handle, LIMITS)
        self.servers.append(server)
        return server

    def close(self) -> None:
        """Let nobody wait for what only looks."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    # Looking.

    @property
    def view(self) -> View | None:
        """What there is to tell; None before the first round."""
        done, ledger = self.maintd.latest, self.maintd.engine.ledger
        if done is None or ledger is None:
            return None
        ledger = show.shown(ledger, done.decision, done.idle)
        decided = done.decision
        return View(
            *(done.at, ledger, done.observed, decided.held, done.looks, done.idle), decided.sick
        )

    def telling(self, name: str, words: Callable[[View], Any]) -> Callable[[Request], Answer]:
        """Tell something of the newest view, worked out once for all who ask at the same time."""

        def answer(_: Request) -> Answer:
            return self.share(name, lambda view: Response.json(words(view)))

        return answer

    async def share(self, name: str, build: Callable[[View], Response]) -> Response:
        """What `build` makes of the view, by a thread; kept for a moment, for it may take long."""
        view = self.view
        if view is None:
            return Response.error(503, self.no_round())
        now = self._clock()
        until, made = self._shared.get(name, (0.0, None))
        if made is None or until <= now:
            made = asyncio.ensure_future(self.in_thread(lambda: build(view)))
            self._shared[name] = now + _FRESH, made
        return await asyncio.shield(made)

    async def in_thread(self, work: Callable[[], Response]) -> Response:
        """Have a thread of ours make an answer; 503 where the store does not answer."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except Unavailable as error:
            return Response.error(503, str(error))

    def no_round(self) -> str:
        """Why there is nothing to tell yet."""
        trouble = self.maintd.trouble
        return f"{_NO_ROUND}: {trouble[1]}" if trouble else _NO_ROUND

    def _round(self, view: View) -> show.Json:
        maintd, snapshot = self.maintd, view.observed.snapshot
        storm = view.ledger.storm
        return {
            "at": view.at / 1000,
            "now": maintd.now() / 1000,
            "every": maintd.every,
            "rounds": maintd.rounds,
            "cluster": snapshot.cluster,
            "master": snapshot.master,
            "dry-run": maintd.engine.conduct.dry,
            "idle": view.idle,
            "trouble": show.trouble_json(maintd.trouble),
            "storm": {"at": storm.at / 1000, "why": storm.why} if storm else None,
            "outdated": away.doubt(view.ledger),
            "holds": show.holds(view),
            "paused": _cluster_paused(view),
            "policy": dict(described(maintd.engine.policy)),
        }

    def _plan(self, view: View) -> show.Json:
        maintd, done = self.maintd, self.maintd.latest
        assert done is not None
        now, observed = maintd.now(), replace(view.observed, wishes=())
        after = decide(view.ledger, observed, maintd.engine.policy, now)
        events = tell(view.ledger, after.ledger, after, done.decision, now, observed)
        return show.plan(view, done.decision, after, now, events)

    def _repairs(self, view: View) -> show.Json:
        return repairs(view, self.maintd.engine.policy)

    def _balance(self, view: View) -> list[show.Json]:
        return balances(view, self.maintd.engine.policy)

    async def _ics(self, _: Request) -> Response:
        return await self.share("ics", lambda view: Response(200, ics.calendar(view), ics.KIND))

    async def _explain(self, request: Request) -> Response:
        view, name = self.view, request.segments[2]
        if view is None:
            return Response.error(503, self.no_round())
        told = explained(view, self.maintd.engine.policy, name)
        return Response.json(told) if told else Response.error(404, f"there is no instance {name}")

    async def _history(self, request: Request) -> Response:
        try:
            incident, since, limit = form.which_events(request)
        except MessageError as error:
            return Response.error(400, str(error))

        def events() -> Response:
            found = self.maintd.memory.history(incident, since, limit)
            return Response.json([show.event_json(event) for event in found])

        return await self.in_thread(events)

    async def _observation(self, request: Request) -> Response:
        who = self.access.who(request)
        if isinstance(who, Response):
            return who
        maintd = self.maintd

        def encode(view: View) -> Response:
            observed = replace(view.observed, wishes=())
            text = encode_observation(view.ledger, observed, maintd.engine.policy, maintd.now())
            return Response(200, text.encode())

        return await self.share("observation", encode)

    async def _wish(self, request: Request) -> Response:
        wish = request.segments[2]

        def answer() -> Response:
            said = self.maintd.memory.answer(wish)
            if said is None:
                return Response.error(404, f"wish {wish} waits for a round, or is none")
            return Response.json({"granted": said == "", "why": said})

        return await self.in_thread(answer)

    async def _page(self, _: Request) -> Response:
        def build(view: View) -> Response:
            return self._drawn.answer(view, self._round(view), self._balance(view), self._events)

        if self.view is None:
            trouble = show.trouble_json(self.maintd.trouble)
            return self._drawn.answer(None, {"cluster": "", "trouble": trouble}, (), self._events)
        return await self.share("page", build)

    def _events(self, incident: str | None, limit: int) -> Sequence[Event]:
        return self.maintd.memory.history(incident, limit=limit)

    def _ready(self, _: Request) -> Response:
        why = self.unready()
        return Response.text(f"not ready: {why}\n" if why else "ready\n", 503 if why else 200)

    def unready(self) -> str | None:
        """Why no round was held lately; None if one was."""
        maintd = self.maintd
        if maintd.latest is None:
            return _NO_ROUND
        age = (maintd.now() - maintd.latest.at) / 1000
        return f"the last round was {age:.0f} s ago" if age > 3 * maintd.every + 60 else None

    # Changing.

    def changing(
        self, read_wish: Callable[[Request], Asked]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Put what a request asks for to the next round, and answer as it does."""

        async def answer(request: Request) -> Response:
            who = self.access.who(request)
            if isinstance(who, Response):
                return who
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if request.body and kind != "application/json":
                return Response.error(415, "the body must have the Content-Type application/json")
            try:
                asked = read_wish(request)
            except MessageError as error:
                return Response.error(400, str(error))
            return await self.put(asked, who)

        return answer

    async def put(self, asked: Asked, who: str) -> Response:
        """Put a wish to the next round: 200 if it was granted, 409 if not, 503 if nobody knows."""
        try:
            refused = await self.maintd.ask(asked, who)
        except NodeAgentError as error:
            noted = UUID.search(str(error))
            wish = noted[0] if noted else None
            return Response.json({"error": str(error), "wish": wish}, 503)
        self._shared.clear()
        if refused:
            return Response.error(409, refused)
        return Response.json({"granted": True, "why": ""})


def _held(view: View) -> list[show.Json]:
    return [show.held_json(held) for held in view.held]


def _cluster_paused(view: View) -> bool:
    held = any(h.scope is Scope.CLUSTER and not h.incident for h in view.ledger.holds)
    return held or PAUSE_TAG in view.observed.snapshot.tags
