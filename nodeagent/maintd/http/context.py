"""Context of endpoints: the newest view, a way to answer from it, a way to request changes."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from nodeagent.errors import Corrupt, MessageError, NodeAgentError, Unavailable
from nodeagent.maintd.deciding import inquiries
from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.deciding.requests import outlives, would_be_void
from nodeagent.maintd.engine.daemon import Maintd, Waiting
from nodeagent.maintd.engine.timezones import read_zones
from nodeagent.maintd.http import parse
from nodeagent.maintd.http import status as show
from nodeagent.maintd.http.readers import discreet
from nodeagent.maintd.http.users import Access, Rejected
from nodeagent.maintd.http.view import View, shown
from nodeagent.maintd.ledger import other_master
from nodeagent.maintd.ledger.doubt import doubt
from nodeagent.model.asked import Asked
from nodeagent.model.reason import Held, Kind, LedgerKind, Reason, because
from nodeagent.model.wish import Wish
from nodeagent.protocol.canonical import printable
from nodeagent.web.compress import compressed, wanted
from nodeagent.web.exchange import Answer, Request, Response
from nodeagent.web.server import Server

_DRY = "dry-run"  # the id of a request that is not saved
_NO_CAPACITY = (
    "maintd asks the nodes for their free resources once it has this request: it may start more"
)
T = TypeVar("T")
_FRESH = 1.0  # seconds for which all readers share an answer
_Kept: TypeAlias = tuple[float, asyncio.Future[Response]]  # until when, and the answer
_NO_ROUND = "no round has been held yet"
# A client that knows of the doubt sends it with the value "show": it sees the ledger of this node,
# and may change one that only waits for a person.
IN_DOUBT = "nodeagent-in-doubt"
_LONGEST = 500  # characters of a reason in a header


def _knows(request: Request) -> bool:
    return request.headers.get(IN_DOUBT) == "show"


def in_doubt(why: Reason) -> Response:
    """Say that the ledger, and so what is planned, is unknown: 503, and never an empty 200."""
    return Response.json({"error": str(why), "doubt": show.reason_json(why)}, 503)


def read_json(request: Request, read_it: Callable[[Request], T]) -> T:
    """Read a request whose body is JSON; refuse it if that is wrong."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.body and kind != "application/json":
        why = "the body must have the Content-Type application/json"
        raise Rejected(Response.error(415, why))
    return read_right(request, read_it)


def read_right(request: Request, read_it: Callable[[Request], T]) -> T:
    """Read a request; refuse it if it is wrong."""
    try:
        return read_it(request)
    except MessageError as error:
        raise Rejected(Response.error(400, str(error))) from None


class Context:
    """One Maintd as endpoints see it. `clock` gives seconds of a steady clock."""

    def __init__(self, maintd: Maintd, users: str, clock: Callable[[], float]) -> None:
        self.maintd = maintd
        self.access = Access(users, clock)
        self.servers: list[Server] = []
        self._clock = clock
        # Not the loop's own pool: readers never delay a round. And a crowd without passwords does
        # not delay readers who see everything.
        self._pools = {full: ThreadPoolExecutor(2, "api") for full in (True, False)}
        self._shared: dict[str, _Kept] = {}

    def close(self) -> None:
        """Stop the readers' threads without waiting for them."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    @property
    def view(self) -> View | None:
        """The state to show; None before the first round."""
        done, ledger = self.maintd.latest, self.maintd.engine.ledger
        if done is None or ledger is None:
            return None
        ledger = shown(ledger, done.decision, done.idle)
        decided = done.decision
        troubles = self.maintd.store.troubles()
        held = (*decided.held, *(Held(because(Kind.LEDGER, why=why)) for why in troubles))
        return View(
            done.at,
            ledger,
            done.observed,
            held,
            done.looks,
            done.idle,
            decided.sick,
            done.policy,
            doubt=self.doubt(),
            trouble=self.maintd.trouble,
            kept=self.maintd.engine.memory.kept,
            complaint=self.maintd.engine.complaint,
        )

    def nodes(self) -> frozenset[str]:
        """The addresses of the cluster's nodes, as the newest round has seen them."""
        done = self.maintd.latest
        if done is None:
            return frozenset()
        return frozenset(node.address for node in done.observed.snapshot.nodes.values())

    def doubt(self) -> Reason | None:
        """Why this ledger may not be the newest, and then all that is planned; None if it is."""
        if who := self.maintd.standby:
            return because(LedgerKind.STANDBY, who=who)
        ledger = self.maintd.engine.ledger
        why = doubt(self.maintd.engine.memory.uncertain)
        return why or (None if ledger is None else other_master.doubt(ledger))

    def seen(self) -> View:
        """Return the state to show; refuse the request before the first round."""
        if (view := self.view) is None:
            raise Rejected(Response.error(503, self.no_round()))
        return view

    def refuse_in_doubt(self, request: Request) -> None:
        """Refuse to tell what is planned while the ledger is in doubt.

        A client that asks for this node's own ledger gets it: see the header `IN_DOUBT`.
        """
        if (why := self.doubt()) is not None and not _knows(request):
            raise Rejected(in_doubt(why))

    async def status(self, request: Request) -> Response:
        """Tell the incidents, which tags keep too; a header tells the doubt about an empty list."""
        answer = await self.share("status", lambda view: Response.json(show.status(view)), request)
        why = self.doubt()
        if why is None:
            return answer
        text = printable(str(why), _LONGEST)[1:-1]
        return replace(answer, headers={**answer.headers, "Nodeagent-Doubt": text})

    def refuse_void(self, asked: Asked, request: Request) -> None:
        """Refuse a change of a ledger that is in doubt, unless it will be in force."""
        if why := would_be_void(asked, self.maintd.engine.memory.uncertain):
            raise Rejected(in_doubt(why))
        ledger = self.maintd.engine.ledger
        outdated = None if ledger is None else other_master.doubt(ledger)
        if outdated is not None and not (outlives(asked) or _knows(request)):
            raise Rejected(in_doubt(outdated))

    def telling(
        self, name: str, words: Callable[[View], Any], *, plans: bool = False
    ) -> Callable[[Request], Answer]:
        """Answer from the newest view, computed once for all readers at the same time.

        What tells of `plans` is 503 while the ledger is in doubt.
        """

        def answer(request: Request) -> Answer:
            if plans:
                self.refuse_in_doubt(request)
            return self.share(name, lambda view: Response.json(words(view)), request)

        return answer

    async def share(
        self, name: str, build: Callable[[View], Response], request: Request
    ) -> Response:
        """Build an answer of the view in a thread; keep it a moment, as it may take long.

        All readers who accept compression share one compressed copy.
        """
        view = self.seen()
        name = name if request.full else f"{name}, discreet"
        work = lambda: build(view if request.full else discreet(view))  # noqa: E731
        kept = self._kept(name, self._clock() + _FRESH, work, request)
        plain = await asyncio.shield(kept[1])
        if not wanted(request):
            return plain
        if self._shared.get(name) is not kept:  # there is a newer one
            return await self.in_thread(lambda: compressed(plain), request)
        small = self._kept(f"{name}, gzip", kept[0], lambda: compressed(plain), request)
        return await asyncio.shield(small[1])

    def _kept(
        self, name: str, until: float, work: Callable[[], Response], request: Request
    ) -> _Kept:
        """Keep a thread's answer until then, or return the kept one."""
        kept = self._shared.get(name)
        if kept is None or kept[0] <= self._clock():
            self._shared = {k: v for k, v in self._shared.items() if v[0] > self._clock()}
            kept = self._shared[name] = until, asyncio.ensure_future(self.in_thread(work, request))
        return kept

    async def in_thread(self, work: Callable[[], Response], request: Request) -> Response:
        """Build an answer in a thread of ours; 503 if the store does not answer."""
        pool = self._pools[request.full or request.peer.startswith("uid:")]
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work)
        except (Corrupt, Unavailable) as error:
            return Response.error(503, str(error))

    def no_round(self) -> str:
        trouble = self.maintd.trouble
        return f"{_NO_ROUND}: {trouble[1]}" if trouble else _NO_ROUND

    def unready(self) -> str | None:
        """Why no round has run lately; None if one has."""
        maintd = self.maintd
        if maintd.standby:
            return f"this is a standby: {maintd.standby}"
        if maintd.latest is None:
            return _NO_ROUND
        age = (maintd.now() - maintd.latest.at) / 1000
        return f"the last round was {age:.0f} s ago" if age > 3 * maintd.every + 60 else None

    def changing(
        self, read_wish: Callable[[Request], Asked]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Give a request to the next round, and return the round's answer."""

        async def answer(request: Request) -> Response:
            asker = self.access.changer(request)
            asked = read_json(request, read_wish)
            if why := asker.why_not(type(asked)):
                return Response.error(403, why)
            return await self.put(asked, asker.title, request)

        return answer

    async def put(self, asked: Asked, who: str, request: Request) -> Response:
        """Give a request to the next round: 200 if accepted, 409 if refused, 503 if unknown.

        On a dry run return what a round now would do with it.
        """
        self.refuse_void(asked, request)
        if request.dry:
            known = replace(request, full=True)  # it need not wait behind a crowd of readers
            return await self.in_thread(lambda: self._would(asked, who), known)
        try:
            refused = await self.maintd.ask(asked, who, parse.command(request))
        except NodeAgentError as error:
            wish = error.wish if isinstance(error, Waiting) else None
            return Response.json({"error": str(error), "wish": wish}, 503)
        self._shared.clear()
        if refused:
            self.refuse_void(asked, request)  # since it was asked
            return Response.error(409, refused)
        return await self.granted()

    async def granted(self) -> Response:
        """Tell of an accepted request, and whether only this node has it."""
        kept = self.maintd.engine.memory.only_here()
        return Response.json({"granted": True, "why": "", **({"kept": kept} if kept else {})})

    def _would(self, asked: Asked, who: str) -> Response:
        view, now, policy = self.seen(), self.maintd.now(), self.maintd.engine.policy
        wish = Wish(_DRY, who, now, asked)
        zones = read_zones(inquiries.zones(view.ledger, (wish,)), now)
        without, decided = (
            decide(view.ledger, replace(view.observed, wishes=wishes, zones=zones), policy, now)
            for wishes in ((), (wish,))
        )
        if why := decided.refused.get(_DRY):
            return Response.error(409, why)
        seen = replace(view.observed, wishes=(wish,))
        room = any(
            inquiries.wants_room(known, seen, policy, now)
            for known in (view.ledger, decided.ledger)
        )
        doubt = _NO_CAPACITY if room and not view.observed.capacity else ""
        return Response.json(show.would(asked, view, without, decided, doubt))
