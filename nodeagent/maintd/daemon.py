"""maintd's loop: rounds until told to stop, each told once, none allowed to break the loop."""

import asyncio
import logging
from collections.abc import Callable

from nodeagent.errors import Unavailable
from nodeagent.maintd.engine import Engine
from nodeagent.model.ledger import Decision, Held

log = logging.getLogger(__name__)


class Maintd:
    """Runs rounds every `every` seconds. `watch` sees each decision after it was carried out."""

    def __init__(self, engine: Engine, every: float, watch: Callable[[Decision], None]) -> None:
        self._engine = engine
        self._every = every
        self._watch = watch
        self._told: frozenset[Held] = frozenset()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`. A round that cannot be held is tried again; a bug ends us."""
        loop = asyncio.get_running_loop()
        while not stop.is_set():
            due = loop.time() + self._every
            try:
                decision = await self._engine.one_round()
                self._tell(decision)
                self._watch(decision)
            except Unavailable as error:
                log.warning("round-skipped why=%r", str(error))
            await _until(stop, due)

    def _tell(self, decision: Decision) -> None:
        for held in decision.held:
            if held not in self._told:
                log.info("held node=%s why=%r", held.node, held.reason)
        self._told = frozenset(decision.held)


async def _until(stop: asyncio.Event, due: float) -> None:
    left = due - asyncio.get_running_loop().time()
    if left > 0:
        try:
            async with asyncio.timeout(left):
                await stop.wait()
        except TimeoutError:
            pass
