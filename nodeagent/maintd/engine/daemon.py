"""maintd's loop: rounds until a signal, each logged once; no error of a round ends the loop.

Other parts read and ask it: it publishes the newest round as a whole, and the round that accepts or
refuses a request answers it.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

from nodeagent.errors import Unavailable
from nodeagent.maintd.engine.limits import Chatter, Rations
from nodeagent.maintd.engine.round import Engine, Round
from nodeagent.model.action import NOTE_WITHIN, Guarded
from nodeagent.model.asked import Asked
from nodeagent.model.reason import Held, Of
from nodeagent.model.units import Ms
from nodeagent.model.wish import Wish
from nodeagent.protocol.canonical import printable
from nodeagent.store.sqlite import SqliteStore

log = logging.getLogger(__name__)
_SOON = 3.0  # seconds until the next round in a repair's pause
ANSWER_WITHIN = 60.0  # seconds a request waits for the round that answers it
_LOGGED = 500  # characters of a request
_TOLD_AGAIN = 300.0  # s after it has ended when a reason is logged as a new one
_MISSED = 10  # missing rounds before maintd no longer counts as alive


class Waiting(Unavailable):
    """A request that no round has answered yet, by its id."""

    def __init__(self, wish: str, why: str) -> None:
        super().__init__(why)
        self.wish = wish


class Maintd:
    """Run a round every `every` seconds, at once after a request, and soon in a repair's pause.

    `latest` is the newest round; `trouble` why the last one failed, and since when (unix ms);
    `watch` gets each round after it was carried out. `slowest` is the most seconds that one round
    may take by all of its deadlines, of the clock `steady` that nobody sets.
    """

    def __init__(
        self,
        engine: Engine,
        store: SqliteStore,
        every: float,
        now: Callable[[], Ms],
        watch: Callable[[Round], None] = lambda _: None,
        slowest: float = 1800.0,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine = engine
        self.store = store
        self.every = every
        self.now = now
        self.latest: Round | None = None
        self.trouble: tuple[int, str] | None = None
        self.rounds = 0
        self.rations = Rations(steady)
        self._chatter = Chatter(steady)
        self._watch = watch
        self._slowest = slowest
        self._steady = steady
        self._expected = self._soon()
        self._told: dict[Held, float] = {}  # when each was last true
        self._skipping: tuple[float, int] | None = None  # since when, and how many rounds
        self._wanted = asyncio.Event()
        self._in_round = False
        self._done = asyncio.Condition()

    @property
    def standby(self) -> str:
        """Name the maintd that acts, if this one only reads; else empty."""
        return self.engine.standby

    def alive(self) -> bool:
        """Check whether rounds still end, done or skipped: a maintd that hangs needs a restart."""
        return self._steady() < self._expected

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`.

        It retries a round that fails; NotMaster and bugs end maintd.
        """
        loop = asyncio.get_running_loop()
        self._expected = self._soon()
        while not stop.is_set():
            due = loop.time() + self.every
            self._wanted.clear()
            self._in_round = True
            decided = self.engine.memory.waits_for_a_round
            try:
                self.latest = await self.engine.one_round(stop.is_set)
                self._held()
                self._tell(self.latest)
                self._watch(self.latest)
            except Unavailable as error:
                if not stop.is_set():
                    self._skipped(str(error))
            if self.engine.memory.waits_for_a_round and not decided:
                self._wanted.set()
            self._count_refusals()
            self.rounds += 1
            self._expected = self._soon()
            self._in_round = False
            async with self._done:
                self._done.notify_all()
            await self._until(stop, min(due, loop.time() + _SOON) if self._pausing() else due)

    def _pausing(self) -> bool:
        """Tell whether a repair's job lets its number be written into its tag now."""
        done = self.latest
        return done is not None and any(
            isinstance(intent.action, Guarded) and done.at - intent.promised < NOTE_WITHIN
            for intent in done.decision.ledger.intents
        )

    async def ask(self, asked: Asked, who: str, command: str = "") -> str:
        """Give a request to the next round; return "" if it was accepted, else why not.

        Waiting: no round has processed it yet; it is saved, and will be answered.
        """
        wish = Wish(str(uuid4()), who, self.now(), asked, command)
        await asyncio.to_thread(self.store.wish, wish)
        request_text = printable(repr(asked), _LOGGED)
        log.info("wish id=%s who=%r asked=%s command=%r", wish.id, who, request_text, command)
        self._wanted.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_WITHIN), self._done:
                while (answer := await asyncio.to_thread(self.store.answer, wish.id)) is None:
                    await self._done.wait()
                if self._in_round:  # it has saved the answer, and not given the ledger to Ganeti
                    await self._done.wait()
                return answer
        why = f": {self.trouble[1]}" if self.trouble else ""
        raise Waiting(wish.id, f"recorded as {wish.id}, but maintd has not held a round yet{why}")

    def _count_refusals(self) -> None:
        """Write one line in the history, and the journal, for a minute's refusals of a user."""
        events = self.rations.due(self.now())
        for event in events:
            log.warning("answers-refused why=%r", str(event))
        if events:
            with suppress(Unavailable):  # rounds are skipped meanwhile, which is logged
                self.store.note(events)

    def _soon(self) -> float:
        """The latest time when the next round ends, unless something hangs."""
        return self._steady() + _MISSED * self.every + self._slowest

    def _skipped(self, why: str) -> None:
        """Log skipped rounds once, when they start; the status shows why they continue."""
        since, rounds = self._skipping or (self._steady(), 0)
        if not rounds:
            log.warning("rounds-skipped why=%r", why)
        self._skipping = since, rounds + 1
        self.trouble = (self.trouble[0] if self.trouble else self.now(), why)

    def _held(self) -> None:
        if self._skipping is not None:
            since, rounds = self._skipping
            log.warning("rounds-resumed after_s=%.0f skipped=%d", self._steady() - since, rounds)
        self._skipping = self.trouble = None

    def _tell(self, done: Round) -> None:
        for node, lines in self._chatter.over():
            log.warning("left-out node=%s lines=%d: it makes too many a minute", node, lines)
        for event in done.heard:
            if self._chatter.take(event.node):
                log.warning("%s node=%s why=%r", event.kind, event.node or "-", str(event))
        now = self._steady()
        self._told = {held: at for held, at in self._told.items() if now - at < _TOLD_AGAIN}
        for held in done.decision.held:
            if held not in self._told and self._chatter.take(held.node):
                of = f"node={held.node or '-'} incident={held.incident or '-'}"
                about = held.why.subject
                of += f" entry={about.name}" if about.of is Of.ENTRY else ""
                log.info("held %s why=%r", of, held.reason)
            self._told[held] = now

    async def _until(self, stop: asyncio.Event, due: float) -> None:
        remaining = due - asyncio.get_running_loop().time()
        waits = [asyncio.create_task(event.wait()) for event in (stop, self._wanted)]
        await asyncio.wait(waits, timeout=max(0, remaining), return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
