"""Ask the cluster and the agents for the results of planned actions.

One that does not answer does not delay the others; its results stay unknown.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from nodeagent.cluster.backend import Cluster
from nodeagent.errors import Unavailable
from nodeagent.maintd.engine import failpoint
from nodeagent.maintd.engine.orders import ARRIVES, ASKING, AT_ONCE, Ordering
from nodeagent.maintd.planning import node_keys
from nodeagent.maintd.planning.intents import (
    is_order,
    marked,
    next_order,
    one_more,
    with_job,
    with_order,
)
from nodeagent.maintd.planning.outcomes import TRIES
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Intent, Ledger, Outcome, Result, RoleChange
from nodeagent.model.snapshot import Capacity, Running, Snapshot
from nodeagent.model.units import Ms

log = logging.getLogger(__name__)
T = TypeVar("T")
COUNTED = 60.0  # seconds between two counts of the unfinished jobs


class Inquiry:
    """Ask for results; change only the given ledger. `steady` is seconds of a steady clock."""

    def __init__(self, cluster: Cluster, orders: Ordering, steady: Callable[[], float]) -> None:
        self._cluster = cluster
        self._orders = orders
        self._steady = steady
        self._open: dict[str, float] = {}
        self._untold: set[str] = set()  # orders without an answer
        self.unfinished: Mapping[str, int] = {}
        self._counted: float | None = None

    async def adopt(
        self, ledger: Ledger, not_taken: Mapping[str, str]
    ) -> tuple[Ledger, dict[str, str]]:
        """Adopt the jobs of intents that have none; report which certainly never will, and why.

        `not_taken` has those that the cluster or an agent has refused.
        """
        open_ones = [i for i in ledger.intents if i.job is None]
        absent = {i.id: not_taken[i.id] for i in open_ones if i.id in not_taken}
        open_ones = [i for i in open_ones if i.id not in absent]
        if not open_ones:
            return ledger, absent
        reasons = [i.reason for i in open_ones if not is_order(i)]
        jobs = dict(await asyncio.to_thread(self._cluster.find, reasons)) if reasons else {}
        unsure = await self._find_orders(ledger, open_ones, jobs)
        # The wait counts by a clock that nobody sets, from the first miss: a clock put forward
        # would otherwise declare work absent that is still on its way.
        now = self._steady()
        self._open = {intent.id: self._open.get(intent.id, now) for intent in open_ones}
        for intent in open_ones:
            job = jobs.get(intent.reason)
            patience = ARRIVES / 1000 if is_order(intent) else self._cluster.grace
            if job is not None:
                ledger = with_job(ledger, intent, job)
            elif now - self._open[intent.id] > patience and intent.id not in unsure:
                absent[intent.id] = "it was not submitted"
        failpoint.reach("adopted")
        return ledger, absent

    async def _find_orders(
        self, ledger: Ledger, intents: list[Intent], jobs: dict[str, str]
    ) -> set[str]:
        """Add to `jobs` the orders that their agents know; return those with an unknown state."""
        orders = [intent for intent in intents if is_order(intent)]
        if not orders:
            return set()
        snapshot = node_keys.as_planned(await asyncio.to_thread(self._cluster.snapshot), ledger)
        unsure: set[str] = set()
        asked = [(intent, self._orders.job(intent)) for intent in orders]
        results = await self._ask(asked, snapshot)
        for (intent, job), receipt in zip(asked, results, strict=True):
            if receipt is None:
                unsure.add(intent.id)
            elif receipt.outcome is not Outcome.LOST:
                jobs[intent.reason] = job
        return unsure

    async def adopt_orders(self, ledger: Ledger, snapshot: Snapshot, now: Ms) -> Ledger:
        """Adopt orders that a lost or old ledger does not have.

        It takes the newest order of each incident that its agent knows; earlier ones asked for a
        retry.
        """
        asked = [next_order(incident) for incident in marked(ledger, snapshot)]
        adopted: dict[str, tuple[Intent, str]] = {}
        for _ in range(TRIES):
            jobs = [(intent, self._orders.job(intent)) for intent in asked]
            answers = zip(jobs, await self._ask(jobs, snapshot), strict=True)
            known = [j for j, receipt in answers if receipt and receipt.outcome is not Outcome.LOST]
            adopted |= {intent.incident: (intent, job) for intent, job in known}
            asked = [one_more(intent) for intent, _ in known]
        for intent, job in adopted.values():
            ledger = with_order(ledger, intent, job, now)
        return ledger

    async def results(self, ledger: Ledger) -> dict[str, Result]:
        """The results of jobs, by intent; an unknown one is LOST."""
        jobs = {i.id: i.job for i in ledger.intents if i.job and not is_order(i)}
        known = await asyncio.to_thread(self._cluster.results, list(jobs.values())) if jobs else {}
        return {i: known.get(job, Result(Outcome.LOST)) for i, job in jobs.items()}

    async def of(self, jobs: Iterable[str]) -> Mapping[str, Result]:
        wanted = list(jobs)
        return await asyncio.to_thread(self._cluster.results, wanted) if wanted else {}

    async def watcher_paused(self) -> Ms | None:
        """The time (unix ms) until which Ganeti's watcher is paused; None if unknown."""
        return await _answer_of("watcher", self._cluster.watcher_paused)

    async def count_jobs(self) -> None:
        """Count the unfinished jobs, once in a while; `unfinished` has them by status."""
        if self._counted is None or self._steady() - self._counted >= COUNTED:
            self._counted = self._steady()
            self.unfinished = await _answer_of("jobs", self._cluster.unfinished) or {}

    async def roles(self, since: str) -> tuple[RoleChange, ...] | None:
        """The jobs that change nodes' roles from this one on; None if unknown."""
        role_changes = await _answer_of("roles", lambda: self._cluster.roles(since))
        return None if role_changes is None else tuple(role_changes)

    async def busy(self) -> Mapping[str, str]:
        """Others' jobs that move instances; empty if unknown: a move asks once more."""
        return await _answer_of("others-jobs", self._cluster.busy) or {}

    async def capacity(self, nodes: Collection[str]) -> Mapping[str, Capacity]:
        """Free room on these nodes, which must answer themselves; empty if unknown."""
        return (
            (await _answer_of("capacity", lambda: self._cluster.capacity(nodes)) or {})
            if nodes
            else {}
        )

    async def running(self, nodes: Collection[str]) -> Mapping[str, Running]:
        """The states of these nodes' instances; empty if unknown."""
        return (
            (await _answer_of("running", lambda: self._cluster.running(nodes)) or {})
            if nodes
            else {}
        )

    async def receipts(self, ledger: Ledger, snapshot: Snapshot) -> dict[str, Result]:
        """The results of orders, by intent; without those whose agents do not answer."""
        orders = [(i, i.job) for i in ledger.intents if i.job and is_order(i)]
        answers = zip(orders, await self._ask(orders, snapshot), strict=True)
        return {i.id: receipt for (i, _), receipt in answers if receipt is not None}

    async def _ask(
        self, orders: Sequence[tuple[Intent, str]], snapshot: Snapshot
    ) -> Sequence[Result | None]:
        """The receipts of these, some at once; None for those not answered in time."""
        turns, until = asyncio.Semaphore(AT_ONCE), self._steady() + ASKING

        async def one(intent: Intent, job: str) -> Result | None:
            async with turns:
                late = self._steady() > until
                return None if late else await self._receipt(intent, job, snapshot)

        return await asyncio.gather(*(one(intent, job) for intent, job in orders))

    async def _receipt(self, intent: Intent, job: str, snapshot: Snapshot) -> Result | None:
        """The agent's receipt of an order: LOST if it has none, None without an answer."""
        assert isinstance(intent.action, RunCommand)
        node = snapshot.nodes.get(intent.action.node)
        if node is None:
            return Result(Outcome.LOST)
        try:
            result = await self._orders.outcome(job, node)
        except Unavailable as error:
            if job not in self._untold:  # log only the first; the node is in doubt meanwhile
                log.warning("receipt-unknown order=%s why=%r", job, str(error))
            self._untold.add(job)
            return None
        self._untold.discard(job)
        return result


async def _answer_of(what: str, ask: Callable[[], T]) -> T | None:
    """Return the cluster's answer; None, with a warning in the log, if it gives none."""
    try:
        return await asyncio.to_thread(ask)
    except Unavailable as error:
        log.warning("%s-unknown why=%r", what, str(error))
        return None
