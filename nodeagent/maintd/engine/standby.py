"""Rounds of a maintd that does not act: it reads what another one does, and shows that.

It polls no agent, decides nothing and saves nothing, so the cluster does not notice it. It is warm:
its modules are loaded and its settings checked when another node becomes the master.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from nodeagent.errors import NodeAgentError, Unavailable
from nodeagent.maintd.copies.body import put_together, unknown
from nodeagent.maintd.engine.keeping import Asking
from nodeagent.maintd.engine.round import Engine, Round
from nodeagent.maintd.succession.watch import Succession
from nodeagent.model.copies import Stamp
from nodeagent.model.ledger import Decision, Ledger
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.protocol.bounds import WHY, cut
from nodeagent.store.sqlite import SqliteStore

log = logging.getLogger(__name__)
_HISTORY = 10_000  # events of ours that are compared with a copy's


class CopyReader:
    """Reads the newest copy that the agent of our own node keeps into a store in memory.

    It makes the agent promise nothing, so it is in nobody's way.
    """

    def __init__(self, asker: Asking, me: Callable[[], Node], store: SqliteStore) -> None:
        self._asker = asker
        self._me = me
        self._store = store
        self._stamp: Stamp | None = None

    async def feed(self, snapshot: Snapshot) -> None:
        """Take the copy over if it is another than the last one."""
        self._asker.follow(snapshot)
        me = self._me()
        kept = (await self._asker.holding(me)).kept
        if not kept:
            raise Unavailable("the agent of this node keeps no copy of the ledger yet")
        if kept[0].stamp == self._stamp:
            return
        parts = await self._asker.fetch(me, kept[0].stamp)
        found = await asyncio.to_thread(put_together, parts)
        events = unknown(self._store.history(limit=_HISTORY), found.events)
        self._store.save(found.ledger, events)
        self._stamp = kept[0].stamp


class Standby(Engine):
    """Rounds that only read. `cluster` gives the nodes, `who` tells who acts.

    `who` raises NotMaster where this node is to be no standby (any more). `feed` brings the store
    up to date, where it does not do so itself. `succession` watches the master, where it is on.
    """

    def __init__(
        self,
        *engine: Any,
        nodes: Callable[[], Snapshot],
        who: Callable[[], str],
        feed: Callable[[Snapshot], Awaitable[None]] | None = None,
        succession: Succession | None = None,
    ) -> None:
        super().__init__(*engine)
        self._succession = succession
        self.standby = "another maintd acts"
        self._nodes = nodes
        self._who = who
        self._feed = feed

    async def one_round(self, stop: Callable[[], bool] = lambda: False) -> Round:
        """Read who acts, the nodes, and the ledger; what cannot be read is told."""
        who = await asyncio.to_thread(self._who)
        snapshot = await asyncio.to_thread(self._nodes)
        self.standby = f"{who} acts"
        if self._succession is not None:
            self._succession.look(snapshot)
            self.succession = self._succession.told
        idle = f"a standby: {self.standby}"
        try:
            if self._feed is not None:
                await self._feed(snapshot)
            self._ledger = await asyncio.to_thread(self._store.load)
        except NodeAgentError as error:
            why = cut(str(error), WHY)
            idle += f", and its ledger cannot be read here: {why}"
        ledger = self._ledger = self._ledger or Ledger()
        return Round(self._now(), Observed(snapshot, {}), Decision(ledger), self.policy, {}, idle)


async def until(turn: Callable[[], bool], stop: asyncio.Event, every: float = 1.0) -> None:
    """Return once it is our turn, or after `stop`; an unknown answer is no turn."""
    while not stop.is_set():
        try:
            if await asyncio.to_thread(turn):
                return
        except NodeAgentError as error:
            log.debug("turn-unknown why=%r", str(error))
        try:
            async with asyncio.timeout(every):
                await stop.wait()
        except TimeoutError:
            continue
