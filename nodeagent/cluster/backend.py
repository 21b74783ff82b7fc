"""Everything the coordinator asks of a cluster, and nothing more. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from nodeagent.model.action import Action
from nodeagent.model.ledger import Removal, Result, RoleChange, Trail
from nodeagent.model.snapshot import Capacity, Running, Snapshot
from nodeagent.model.units import Ms


@dataclass(frozen=True, slots=True)
class Submission:
    """A job to submit with `reason` in its trail; the job `after` must succeed first."""

    action: Action
    reason: str
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    job: str


@dataclass(frozen=True, slots=True)
class NotTaken:
    """There is no such job and never will be, and why."""

    why: str


Answer: TypeAlias = Accepted | NotTaken


class Cluster(Protocol):
    """Ganeti, or what behaves like it. Every method may raise Unavailable, and blocks."""

    @property
    def grace(self) -> float:
        """Seconds after which a submission whose answer was lost has arrived or never will."""
        ...

    @property
    def at_once(self) -> int:
        """How many jobs one submission may hold: all of them must arrive within `grace`."""
        ...

    def master(self) -> str:
        """The name of the node that the cluster says is its master."""
        ...

    def snapshot(self) -> Snapshot:
        """The cluster's configuration as it is now; asks no node, so no dead one delays it."""
        ...

    def capacity(self, nodes: Collection[str]) -> Mapping[str, Capacity]:
        """These nodes' free capacity; asks them, leaving out those not reporting it."""
        ...

    def running(self, nodes: Collection[str]) -> Mapping[str, Running]:
        """How the instances are whose primary nodes these are, by name; asks the nodes."""
        ...

    def submit(self, batch: Sequence[Submission]) -> Sequence[Answer]:
        """Submit one job each, in order, as one request where the cluster has such.

        Unavailable: any of them may have been submitted all the same, so look for them with
        `find` before submitting anything again.
        """
        ...

    def find(self, reasons: Collection[str]) -> Mapping[str, str]:
        """The jobs with these reasons in their trails, by reason; of several the first.

        An answer that cannot be complete is Unavailable.
        """
        ...

    def cancel(self, job: str) -> bool:
        """Cancel a job that has not begun; whether that was in time. One that has goes on."""
        ...

    def results(self, jobs: Collection[str]) -> Mapping[str, Result]:
        """How these jobs stand, archived or not; LOST where the cluster does not know it."""
        ...

    def busy(self) -> Mapping[str, str]:
        """Instances, and nodes being evacuated, that unfinished jobs of others are about.

        By name, with the number of such a job.
        """
        ...

    def unfinished(self) -> Mapping[str, int]:
        """How many jobs, ours and others', are not over, by Ganeti's word for their status."""
        ...

    def watcher_paused(self) -> Ms:
        """Until when (unix ms) `gnt-cluster watcher pause` is in force; 0 where it is not."""
        ...

    def trails(self) -> Sequence[Trail]:
        """All jobs of ours that can still be found, in order of submission."""
        ...

    def removals(self) -> Sequence[Removal]:
        """Tag and object removals by jobs, ours or not, in order of submission.

        Unfinished jobs are among them: their effects show before they end.
        """
        ...

    def roles(self, since: str) -> Sequence[RoleChange]:
        """Jobs about nodes' being drained or offline, ours or not, from this job on, in order.

        Those under way are among them, those that have failed are not.
        """
        ...
