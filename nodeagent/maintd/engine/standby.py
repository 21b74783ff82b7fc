"""Rounds of a maintd that does not act: it shows which one does, and waits for its turn.

It polls no agent, decides nothing and saves nothing, so the cluster does not notice it. It is warm:
its modules are loaded and its settings checked when another node becomes the master. What is
planned it does not know before: Ganeti's configuration has that.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from nodeagent.errors import NodeAgentError
from nodeagent.maintd.engine.round import Engine, Round
from nodeagent.maintd.succession.watch import Succession
from nodeagent.model.ledger import Decision, Ledger
from nodeagent.model.snapshot import Observed, Snapshot

log = logging.getLogger(__name__)


class Standby(Engine):
    """Rounds that only read. `nodes` gives the nodes, `who` tells who acts.

    `who` raises NotMaster where this node is to be no standby (any more). `succession` watches the
    master, where it is on.
    """

    def __init__(
        self,
        *,
        nodes: Callable[[], Snapshot],
        who: Callable[[], str],
        succession: Succession | None = None,
        **engine: Any,
    ) -> None:
        super().__init__(**engine)
        self._succession = succession
        self.standby = "another maintd acts"
        self._nodes = nodes
        self._who = who

    async def one_round(self, stop: Callable[[], bool] = lambda: False) -> Round:
        """Read who acts, and the nodes."""
        who = await asyncio.to_thread(self._who)
        snapshot = await asyncio.to_thread(self._nodes)
        self.standby = f"{who} acts"
        if self._succession is not None:
            self._succession.look(snapshot)
            self.succession = self._succession.told
        ledger = self._ledger = Ledger()
        observed, decision = Observed(snapshot, {}), Decision(ledger)
        idle = f"a standby: {self.standby}"
        return Round(self._now(), observed, decision, self.policy, {}, idle)


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
