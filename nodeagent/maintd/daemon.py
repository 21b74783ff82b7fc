"""maintd's loop: rounds until told to stop, each told once, none allowed to break the loop.

It is also what everybody else looks at and asks: the newest round is published whole, and a
wish is answered by the round that grants or refuses it.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol
from uuid import uuid4

from nodeagent.errors import Unavailable
from nodeagent.maintd.engine.round import Engine, Round
from nodeagent.model.event import Event
from nodeagent.model.ledger import Held
from nodeagent.model.wish import Asked, Wish

log = logging.getLogger(__name__)
ANSWER_WITHIN = 60.0  # seconds a wish waits for the round that answers it
_MISSED = 10  # rounds that may be missing before we are no longer taken to be alive


class Memory(Protocol):
    """What of the store concerns those who look and ask."""

    def wish(self, wish: Wish) -> None: ...

    def answer(self, wish: str) -> str | None: ...

    def history(
        self, incident: str | None = None, since: int | None = None, limit: int = 1000
    ) -> list[Event]: ...


class Maintd:
    """Runs a round every `every` seconds, and at once when somebody has asked for something.

    `latest` is the newest round; `trouble` why there was none this time, and since when (unix
    ms); `watch` sees each round after it was carried out. `slowest` is how many seconds one round
    may take by all of its deadlines, of the clock `steady` that nobody sets.
    """

    def __init__(
        self,
        engine: Engine,
        memory: Memory,
        every: float,
        now: Callable[[], int],
        watch: Callable[[Round], None] = lambda _: None,
        slowest: float = 1800.0,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine = engine
        self.memory = memory
        self.every = every
        self.now = now
        self.latest: Round | None = None
        self.trouble: tuple[int, str] | None = None
        self.rounds = 0
        self._watch = watch
        self._slowest = slowest
        self._steady = steady
        self._expected = self._soon()
        self._told: frozenset[Held] = frozenset()
        self._skipping: tuple[float, int] | None = None  # since when, and how many rounds
        self._wanted = asyncio.Event()
        self._done = asyncio.Condition()

    def alive(self) -> bool:
        """Whether rounds still end, held or skipped: what hangs is to be started anew."""
        return self._steady() < self._expected

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`.

        A round that cannot be held is tried again; NotMaster and bugs end us.
        """
        loop = asyncio.get_running_loop()
        self._expected = self._soon()
        while not stop.is_set():
            due = loop.time() + self.every
            self._wanted.clear()
            try:
                self.latest = await self.engine.one_round(stop.is_set)
                self._held()
                self._tell(self.latest)
                self._watch(self.latest)
            except Unavailable as error:
                if not stop.is_set():
                    self._skipped(str(error))
            self.rounds += 1
            self._expected = self._soon()
            async with self._done:
                self._done.notify_all()
            await self._until(stop, due)

    async def ask(self, asked: Asked, who: str) -> str:
        """Put a wish to the next round; "" if it was granted, else why not.

        Unavailable: no round has taken it up yet; it is not lost, and will be answered.
        """
        wish = Wish(str(uuid4()), who, self.now(), asked)
        self.memory.wish(wish)
        log.info("wish id=%s who=%r asked=%r", wish.id, who, asked)
        self._wanted.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_WITHIN), self._done:
                while (answer := self.memory.answer(wish.id)) is None:
                    await self._done.wait()
                return answer
        why = f": {self.trouble[1]}" if self.trouble else ""
        raise Unavailable(f"noted as {wish.id}, but no round could be held yet{why}")

    def _soon(self) -> float:
        """By when, at the latest, the next round has ended unless something hangs."""
        return self._steady() + _MISSED * self.every + self._slowest

    def _skipped(self, why: str) -> None:
        """Said when it begins; why it goes on is in the status."""
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
        held = frozenset(done.decision.held)
        for one in done.decision.held:
            if one not in self._told:
                log.info(
                    "held node=%s incident=%s why=%r", one.node, one.incident or "-", one.reason
                )
        self._told = held

    async def _until(self, stop: asyncio.Event, due: float) -> None:
        left = due - asyncio.get_running_loop().time()
        waits = [asyncio.create_task(event.wait()) for event in (stop, self._wanted)]
        await asyncio.wait(waits, timeout=max(0, left), return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
