"""The coordinator's whole interface to a cluster. Pure."""

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
    """The job does not exist and never will; the text says why."""

    why: str


Answer: TypeAlias = Accepted | NotTaken


class Cluster(Protocol):
    """Ganeti, or a substitute. Every method may raise Unavailable, and blocks."""

    @property
    def grace(self) -> float:
        """Seconds to wait before a submission without an answer counts as lost."""
        ...

    @property
    def at_once(self) -> int:
        """The most jobs in one submission: all of them must arrive within `grace`."""
        ...

    def master(self) -> str:
        """Return the name of the node that the cluster reports as its master."""
        ...

    def snapshot(self) -> Snapshot:
        """Return the cluster's present configuration; asks no node, so no dead one delays it."""
        ...

    def capacity(self, nodes: Collection[str]) -> Mapping[str, Capacity]:
        """Ask these nodes for their free capacity; leave out those that do not report it."""
        ...

    def answering(self, nodes: Collection[str]) -> frozenset[str]:
        """Return those of these nodes whose noded answers, whatever their hypervisor says."""
        ...

    def running(self, nodes: Collection[str]) -> Mapping[str, Running]:
        """Return the states of the instances on these primary nodes, by name; asks the nodes."""
        ...

    def submit(self, batch: Sequence[Submission]) -> Sequence[Answer]:
        """Submit one job each, in order, as one request if the cluster supports that.

        Unavailable: any of them may have been submitted all the same, so call `find` before you
        submit anything again.
        """
        ...

    def find(self, reasons: Collection[str]) -> Mapping[str, str]:
        """Return the jobs with these reasons in their trails, by reason; of several the first.

        An incomplete answer is Unavailable.
        """
        ...

    def cancel(self, job: str) -> bool:
        """Cancel a job before its start; tell whether that was in time. A started one goes on."""
        ...

    def results(self, jobs: Collection[str]) -> Mapping[str, Result]:
        """Return these jobs' results, archived or not; LOST if the cluster does not know one."""
        ...

    def busy(self) -> Mapping[str, str]:
        """Return the instances and evacuating nodes of others' unfinished jobs.

        Each comes by name, with the number of such a job.
        """
        ...

    def unfinished(self) -> Mapping[str, int]:
        """Count the unfinished jobs, ours and others', by Ganeti's word for their status."""
        ...

    def watcher_paused(self) -> Ms:
        """Return the end of a running `gnt-cluster watcher pause` (unix ms); 0 without one."""
        ...

    def trails(self) -> Sequence[Trail]:
        """Return all jobs of ours that still exist, in order of submission."""
        ...

    def removals(self) -> Sequence[Removal]:
        """Tag and object removals by jobs, ours or not, in order of submission.

        Unfinished jobs are among them: their effects show before they end.
        """
        ...

    def roles(self, since: str) -> Sequence[RoleChange]:
        """Return anybody's jobs about nodes' drained or offline flags, from this job on, in order.

        Running jobs are among them, failed ones are not.
        """
        ...

    def ledger_rule_uuid(self) -> str:
        """Return the UUID of the job filter rule that keeps maintd's ledger."""
        ...

    def ledger_rule(self) -> str | None:
        """Return the text in the job filter rule that keeps maintd's ledger; None without a rule.

        It is empty where the rule has no such text.
        """
        ...

    def write_ledger_rule(self, text: str) -> None:
        """Make or replace that rule, which matches no job; Ganeti brings it to each candidate.

        Unavailable: it may have been written all the same.
        """
        ...

    def remove_ledger_rule(self) -> None:
        """Remove that rule, if there is one."""
        ...
