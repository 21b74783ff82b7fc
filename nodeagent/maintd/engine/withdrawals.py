"""Cancel queued jobs that have become obsolete.

Such as a reinstallation when a node with the instance's data is back. When such a job's turn comes,
Ganeti checks only the primary node, and so does the job itself (`cluster.ganeti.opcodes`). But the
secondary of a mirrored instance has all of its data, too. So every round checks, and cancels jobs
that have not started.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace

from nodeagent.cluster.backend import Cluster
from nodeagent.errors import Unavailable
from nodeagent.maintd.deciding.inquiries import why_obsolete
from nodeagent.maintd.engine.conduct import Acting
from nodeagent.model.ledger import Intent, Ledger, Outcome, Result
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms

log = logging.getLogger(__name__)


class Withdrawals:
    """Cancel obsolete jobs, and remember why.

    It remembers as long as this process lives.
    """

    def __init__(self, cluster: Cluster, acting: Acting) -> None:
        self._cluster = cluster
        self._acting = acting
        self._why: dict[str, str] = {}  # by intent

    async def withdraw(self, ledger: Ledger, observed: Observed, now: Ms) -> None:
        """Cancel obsolete jobs; the next round retries those that cannot be canceled now.

        NotMaster: this node is not the master any more.
        """
        for intent, job, why in self._late(ledger, observed, now):
            try:
                await self._acting.confirm()
                canceled = await asyncio.to_thread(self._cancel, job)
            except Unavailable as error:
                log.warning("cancel-unknown job=%s why=%r", job, str(error))
                return
            log.warning("withdrawn job=%s in-time=%s why=%r", job, canceled, why)
            if canceled:
                self._why[intent.id] = f"the job was canceled before it began: {why}"

    def _cancel(self, job: str) -> bool:
        self._acting.check()
        return self._cluster.cancel(job)

    def explained(self, results: Mapping[str, Result]) -> dict[str, Result]:
        """The results, by intent, with the reasons of canceled jobs."""
        self._why = {key: why for key, why in self._why.items() if key in results}
        explained = dict(results)
        for key, why in self._why.items():
            if explained[key].outcome is Outcome.ERROR:
                explained[key] = replace(explained[key], why=why)
        return explained

    def _late(
        self, ledger: Ledger, observed: Observed, now: Ms
    ) -> Iterator[tuple[Intent, str, str]]:
        """Intents to cancel, with their jobs and the reasons."""
        for intent in ledger.intents:
            result = observed.results.get(intent.id)
            if intent.job is None or result is None or result.outcome is not Outcome.RUNNING:
                continue
            if why := why_obsolete(intent, ledger, observed, now):
                yield intent, intent.job, why
