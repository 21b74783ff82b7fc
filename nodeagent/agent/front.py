"""The front: the half of the agent that serves the network, unprivileged and without keys.

It parses HTTP, keeps the limits, serves the plain load collectors and passes sealed reports
and orders between the network and the runner without reading them.
"""

import asyncio
import json
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any

from nodeagent import service
from nodeagent.agent.collectors import STATUS, Sampler, report
from nodeagent.agent.collectors.cpu import CpuAvgLoad
from nodeagent.agent.collectors.disk import Diskstats
from nodeagent.agent.collectors.drbd import Drbd
from nodeagent.agent.collectors.kvm import KvmInstRss
from nodeagent.agent.link import Frame, Link
from nodeagent.errors import Unavailable
from nodeagent.protocol.canonical import canonical
from nodeagent.settings import Settings
from nodeagent.web.exchange import NOT_FOUND, Request, Response, Route, route
from nodeagent.web.refusal import Limits
from nodeagent.web.server import Server
from nodeagent.web.tls import fingerprint, make_certificate, server_tls

log = logging.getLogger(__name__)

TOTAL = 25.0  # seconds for a whole connection: a witness may have to wait 18 s for ganeti-mond
NODES_LAST, NODES_AGAIN = 300.0, 5.0  # seconds until it asks for the nodes' addresses again
KVM_EVERY = 60.0  # seconds: each time it looks at all processes of the node
ORDERS = 4  # concurrent requests to the runner: as a frame an order may grow sixfold
WAITING = 5.0  # seconds until an order must have its turn

# Why the runner does not answer, by the status that says so; a text of its own is passed on.
_STATUSES = {"bad": 400, "refused": 403, "unknown": 404, "busy": 429, "failed": 503}
_WORDS = {"refused": "refused", "unknown": "no such order was started here"}
_NO_REPORT = "Unable to produce a report for the requested resource"


class Front:
    def __init__(self, settings: Settings, *, samplers: list[Sampler] | None = None) -> None:
        self.settings = settings
        self.port = 0
        self.started = asyncio.Event()
        self._fingerprint = ""
        self._link = Link(settings.agent.socket, on_connect=self._hello)
        # Judging an order takes a process and up to seconds; reports must not wait for it.
        self._orders = Link(settings.agent.socket, on_connect=self._hello)
        self._turns = asyncio.Semaphore(ORDERS)
        self._witnessing = 0
        self._samplers = samplers or [
            Sampler(CpuAvgLoad()),
            Sampler(Diskstats()),
            Sampler(KvmInstRss(), KVM_EVERY),
        ]
        self._drbd = Drbd()
        self._drbd_sampler = Sampler(self._drbd)  # its sample is not reported
        self._named = {
            (s.collector.category or "default", s.collector.name): s for s in self._samplers
        }
        self._table = (
            Route("GET", ("",), lambda _: Response.json([1])),
            Route("GET", ("1",), lambda _: Response.json(None)),
            Route("GET", ("1", ""), lambda _: Response.json(None)),
            Route("GET", ("1", "list", "collectors"), self._list, open_ended=True),
            Route("GET", ("1", "report", "all"), self._all, open_ended=True),
            Route("GET", ("1", "report"), self._one, open_ended=True),
            Route("GET", ("1", "order"), self._receipt, open_ended=True),
            Route("POST", ("1", "order"), self._order),
            Route("POST", ("1", "witness"), self._witness),
            Route("GET", ("metrics",), self._metrics),
            Route("GET", ("healthz",), lambda _: Response.text("ok\n")),
            Route("GET", ("readyz",), self._ready),
        )
        listen = settings.listen
        limits = Limits(
            total_seconds=TOTAL, connections=listen.connections, per_peer=listen.per_peer
        )
        self._nodes: frozenset[str] = frozenset()  # the addresses of all nodes
        self.server = Server(self._handle, limits, self._is_node)

    async def run(self, stop: asyncio.Event) -> None:
        listen = self.settings.listen
        tls = self._own_tls() if listen.tls else None
        # It is ready before it serves. A repair may keep the runner busy for an hour, and waiting
        # is not a failed start. /readyz and the status show the rest.
        service.notify("READY=1", "STATUS=starting")
        alive = asyncio.create_task(service.keep_alive(lambda: True))
        learning = asyncio.create_task(self._learn_nodes())
        address = await self._address(stop)
        if address is None:
            alive.cancel()
            learning.cancel()
            return
        for sampler in (*self._samplers, self._drbd_sampler):
            sampler.start()
        self.port = await self.server.start(address, listen.port, tls)
        scheme = "https" if tls else "http"
        log.info("front-started url=%s://%s:%d", scheme, address, self.port)
        service.notify(f"STATUS=serving {scheme}://{address}:{self.port}")
        self.started.set()
        await stop.wait()
        service.notify("STOPPING=1")
        alive.cancel()
        learning.cancel()
        await self.server.close()
        self._link.close()
        self._orders.close()
        for sampler in (*self._samplers, self._drbd_sampler):
            sampler.stop()
        log.info("front-stopped")

    def _own_tls(self) -> ssl.SSLContext:
        made = make_certificate()
        self._fingerprint = fingerprint(made)
        return server_tls(made)

    async def _address(self, stop: asyncio.Event) -> str | None:
        """Return the address to listen on; the runner knows the node's primary address."""
        if self.settings.listen.address != "primary":
            return self.settings.listen.address
        logged = ""
        while not stop.is_set():
            try:
                await self._link.ask({"verb": "health"})
                if address := str(self._link.greeting.get("address", "")):
                    return address
                why = "the runner does not know this node's primary address yet"
            except Unavailable as error:
                why = str(error)
            self._link.close()
            if why != logged:
                log.warning("front-waiting why=%r", why)
                service.notify(f"STATUS=waiting: {why}")
                logged = why
            await asyncio.sleep(1)
        return None

    def _is_node(self, peer: str) -> bool:
        return peer in self._nodes or not self._nodes

    async def _learn_nodes(self) -> None:
        """Know who is served first when strangers flood us."""
        while True:
            try:
                answer = await self._link.ask({"verb": "nodes"})
            except Unavailable:
                answer = {}
            nodes = answer.get("nodes")
            if isinstance(nodes, list):
                self._nodes = frozenset(map(str, nodes))
            await asyncio.sleep(NODES_LAST if self._nodes else NODES_AGAIN)

    def _hello(self) -> Frame:
        return {"verb": "hello", "tls": self._fingerprint}

    # The routes.

    def _handle(self, request: Request) -> Any:
        if request.method == "HEAD":
            return NOT_FOUND
        if "%00" in request.target:  # a frame cannot hold it: it would end the link for everybody
            return Response.error(400, "a NUL character in the target")
        answer = route(self._table, request)
        return answer if isinstance(answer, Response) else _unless_unavailable(answer)

    def _list(self, _: Request) -> Response:
        rows = [[name, category, 0] for category, name in self._named]
        return Response.json([*rows, ["diagnose", "node", STATUS]])

    async def _all(self, request: Request) -> Response:
        parts = [sampler.text() for sampler in self._samplers]
        if (sealed := await self._sealed_report(request.query("salt"))) is not None:
            parts.append(sealed.encode())
        return Response(200, b"[" + b", ".join(parts) + b"]")

    def _one(self, request: Request) -> Any:
        place = request.segments[2:4]
        if place == ("node", "diagnose"):
            return self._diagnosis(request)
        sampler = self._named.get((place[0], place[1])) if len(place) == 2 else None
        if sampler is None:
            return Response.text(_NO_REPORT, 404)
        return Response(200, sampler.text())

    async def _diagnosis(self, request: Request) -> Response:
        salt = request.query("salt")
        answer = await self._link.ask(_with_salt({"verb": "report"}, salt))
        if isinstance(sealed := answer.get("sealed"), str):
            answer = {"sealed": _wrapped(sealed)}
        return _response(answer, "this node cannot report now; its log says why")

    async def _sealed_report(self, salt: str | None) -> str | None:
        try:
            answer = await self._link.ask(_with_salt({"verb": "report"}, salt))
        except Unavailable:
            return None
        sealed = answer.get("sealed")
        return _wrapped(sealed) if isinstance(sealed, str) else None

    async def _order(self, request: Request) -> Response:
        return await _in_turn(self._turns, self._give, request)

    async def _give(self, request: Request) -> Response:
        if (text := _text(request)) is None:
            return _response({"refused": True})
        answer = await self._orders.ask({"verb": "order", "order": text}, seconds=15)
        return _response(answer, "this node cannot take orders now", sealed=202)

    async def _witness(self, request: Request) -> Response:
        if (refused := _not_json(request)) is not None:
            return refused
        if self._witnessing >= ORDERS:
            return Response.error(503, "too many questions at once")
        self._witnessing += 1
        try:
            return await self._testify(request)
        finally:
            self._witnessing -= 1

    async def _testify(self, request: Request) -> Response:
        """Try another node for the runner, and bring it the words to seal."""
        from nodeagent.agent.probe import words

        if (text := _text(request)) is None:
            return _response({"refused": True})
        task = await self._orders.ask({"verb": "witness", "question": text}, seconds=15)
        if "ticket" not in task:
            return _response(task, "this node cannot be a witness now; its log says why")
        tls, ports = self.settings.listen.tls, (int(task["noded"]), int(task["agent"]))
        ages = self._drbd.ages()
        document = canonical((await words(task["addresses"], *ports, ages, tls=tls)).body())
        testimony = {"verb": "testify", "ticket": task["ticket"], "words": document}
        # A disk that hangs may keep its voice waiting; the words count all the same.
        answer = await self._orders.ask(testimony, seconds=10)
        return _response(answer, "this node cannot seal its answer")

    async def _receipt(self, request: Request) -> Response:
        segments = request.segments
        if len(segments) != 3:
            return NOT_FOUND
        question = {"verb": "receipt", "id": segments[2], "salt": request.query("salt")}
        answer = await self._link.ask(question)
        return _response(answer, "this node cannot tell now; its log says why")

    async def _ready(self, _: Request) -> Response:
        health = await self._ask_health()
        if health.get("ready"):
            return Response.text("ready\n")
        return Response.text("not ready; the runner's log says why\n", 503)

    async def _metrics(self, _: Request) -> Response:
        health = await self._ask_health()
        text = await asyncio.to_thread(_written, health, self.server)
        return Response(200, text, "text/plain; version=0.0.4; charset=utf-8")

    async def _ask_health(self) -> Frame:
        """Ask the runner for its health; empty if it does not answer."""
        try:
            return await self._link.ask({"verb": "health"})
        except Unavailable:
            return {}


def _response(answer: Frame, otherwise: str = "", *, sealed: int = 200) -> Response:
    """Pass on what the runner has sealed, or say why it has not; `otherwise` if it does not."""
    if isinstance(text := answer.get("sealed"), str):
        return Response(sealed, text.encode())
    for outcome, status in _STATUSES.items():
        if outcome in answer:
            return Response.error(status, _WORDS.get(outcome) or str(answer[outcome]))
    return Response.error(503, otherwise)


def _written(health: Frame, server: Server) -> bytes:
    """Write the metrics. Only a front that is asked for them loads the 4.6 MB of their library."""
    from nodeagent.agent.metrics import write

    return write(health, server)


async def _unless_unavailable(answer: Awaitable[Response]) -> Response:
    """Answer 503 where the runner cannot be asked."""
    try:
        return await answer
    except Unavailable as error:
        return Response.error(503, str(error))


async def _in_turn(
    turns: asyncio.Semaphore, give: Callable[[Request], Awaitable[Response]], request: Request
) -> Response:
    """Pass a request on once those before it have ended, which may take too long."""
    if (refused := _not_json(request)) is not None:
        return refused
    try:
        async with asyncio.timeout(WAITING):
            await turns.acquire()
    except TimeoutError:
        return Response.error(503, "the requests before this one take too long")
    try:
        return await give(request)
    finally:
        turns.release()


def _not_json(request: Request) -> Response | None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return None if kind == "application/json" else Response.error(415, "send application/json")


def _text(request: Request) -> str | None:
    """The body as a text that a frame can hold, or None."""
    try:
        text = request.body.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _with_salt(question: Frame, salt: str | None) -> Frame:
    return question if salt is None else {**question, "salt": salt}


def _wrapped(sealed: str) -> str:
    """Put the sealed text, unread, into the data of mond's report."""
    head = json.dumps(report("diagnose", "node", STATUS, time.time_ns(), None))
    return head.removesuffix("null}") + sealed + "}"
