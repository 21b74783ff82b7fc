"""Everything the coordinator asks of a cluster, and nothing more."""

from typing import Protocol

from nodeagent.model.action import Action
from nodeagent.model.ledger import Outcome
from nodeagent.model.snapshot import Snapshot


class Cluster(Protocol):
    """Ganeti, or what behaves like it. Every method may raise Unavailable."""

    def snapshot(self) -> Snapshot:
        """The cluster's configuration as it is now."""
        ...

    def submit(self, action: Action, reason: str) -> str:
        """Submit one job with `reason` in its trail; return its id.

        When the answer is lost the job may have been submitted all the same: look for it
        with `find` before submitting again.
        """
        ...

    def find(self, reason: str) -> str | None:
        """The job with this reason in its trail, archived or not; None if there is none."""
        ...

    def outcome(self, job: str) -> Outcome:
        """How the job stands; LOST if the cluster does not know it any more."""
        ...
