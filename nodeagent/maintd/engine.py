"""Look, decide, remember, act, remember: the only module that changes the world.

It takes no decision. Intents are on disk before anything happens; each is then looked for
by its id in the jobs' reason trails, submitted only if it is not there, and its job saved.
Safe to be killed between any two lines.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Protocol

from nodeagent.cluster.backend import Cluster
from nodeagent.errors import Unavailable
from nodeagent.maintd.decide import decide
from nodeagent.maintd.order import Orders
from nodeagent.maintd.poll import understand
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Decision, Intent, Ledger, Outcome, Policy
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.protocol.look import Look

log = logging.getLogger(__name__)


class Store(Protocol):
    """Where the ledger is kept."""

    def load(self) -> Ledger: ...

    def save(self, ledger: Ledger) -> None: ...


class Engine:
    """One coordinator's rounds. `look` polls the agents; `now` is unix milliseconds."""

    def __init__(
        self,
        store: Store,
        cluster: Cluster,
        orders: Orders,
        look: Callable[[Snapshot], Awaitable[Mapping[str, Look]]],
        policy: Policy,
        now: Callable[[], int],
        oldest: int = 600_000,
    ) -> None:
        self._store = store
        self._cluster = cluster
        self._orders = orders
        self._look = look
        self._policy = policy
        self._now = now
        self._oldest = oldest

    async def one_round(self) -> Decision:
        """Observe, decide and act once. Unavailable: nothing was decided, try again later."""
        before = self._cluster.snapshot()
        ledger = await self._submit_missing(self._store.load(), before)
        # Outcomes first: the snapshot then shows the effect of every job we know to be over.
        # The other way round a job that ends in between would be done a second time.
        outcomes = await self._outcomes(ledger, before)
        snapshot = self._cluster.snapshot()
        looks = await self._look(snapshot)
        now = self._now()
        diagnoses, doubts = understand(looks, now, self._oldest)
        decision = decide(
            ledger, Observed(snapshot, diagnoses, doubts, outcomes), self._policy, now
        )
        if decision.ledger != ledger:
            self._store.save(decision.ledger)
        after = await self._submit_missing(decision.ledger, snapshot)
        return replace(decision, ledger=after)

    async def _outcomes(self, ledger: Ledger, snapshot: Snapshot) -> dict[str, Outcome]:
        found: dict[str, Outcome] = {}
        for intent in ledger.intents:
            if intent.job is None:
                continue
            try:
                found[intent.id] = await self._outcome(intent, snapshot)
            except Unavailable as error:
                log.warning("outcome-unknown intent=%s why=%r", intent.id, str(error))
        return found

    async def _outcome(self, intent: Intent, snapshot: Snapshot) -> Outcome:
        assert intent.job is not None
        if isinstance(intent.action, RunCommand):
            node = snapshot.nodes.get(intent.node)
            return Outcome.LOST if node is None else await self._orders.outcome(intent.job, node)
        return self._cluster.outcome(intent.job)

    async def _submit_missing(self, ledger: Ledger, snapshot: Snapshot) -> Ledger:
        for intent in ledger.intents:
            if intent.job is None:
                try:
                    job = await self._submit(intent, snapshot)
                except Unavailable as error:
                    log.warning("not-submitted intent=%s why=%r", intent.id, str(error))
                    continue
                noted = replace(intent, job=job)
                intents = tuple(noted if i.id == intent.id else i for i in ledger.intents)
                ledger = replace(ledger, intents=intents)
                self._store.save(ledger)
        return ledger

    async def _submit(self, intent: Intent, snapshot: Snapshot) -> str:
        if isinstance(intent.action, RunCommand):
            return await self._orders.submit(intent, snapshot)
        found = self._cluster.find(intent.reason)
        return found or self._cluster.submit(intent.action, intent.reason)
