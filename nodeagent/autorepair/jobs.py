"""The jobs of a repair, and the way to recognise them. Pure."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from uuid import UUID

from nodeagent.autorepair.tags import Record, RepairType, compose, fit
from nodeagent.model.action import (
    Action,
    Guarded,
    Move,
    MovePrimary,
    MoveSecondary,
    Reinstall,
    Retag,
    Scope,
    move_of,
)
from nodeagent.model.ledger import Outcome, Result
from nodeagent.model.purpose import AUTOREPAIR
from nodeagent.model.snapshot import Instance
from nodeagent.model.units import Ms

RETRY_AFTER = 300_000  # ms before the next try after a failure
_DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class Ran:
    """A job of an instance's repair; `ended` is the time of its end (unix ms; 0 if unknown)."""

    job: int
    repair: str
    action: Action | None
    result: Result
    ended: Ms = Ms(0)

    @property
    def instance(self) -> str:
        """Return the name of its instance, empty if unknown."""
        match self.action:
            case Retag(Scope.INSTANCE, name):
                return name
            case _:
                return "" if self.move is None else self.move.instance

    @property
    def move(self) -> Move | None:
        """Return its change of the instance's nodes; None if it has none or is unknown."""
        return None if self.action is None else move_of(self.action)

    @property
    def live(self) -> bool:
        return self.result.outcome is Outcome.RUNNING

    @property
    def failed(self) -> bool:
        """Tell whether it has ended and reported a failure."""
        return self.result.outcome in (Outcome.ERROR, Outcome.LATER)

    @property
    def only_tags(self) -> bool:
        return isinstance(self.action, Retag)

    @property
    def words(self) -> str:
        """Describe its state or result in a few words."""
        match self.result.outcome:
            case Outcome.RUNNING:
                how = f" ({self.result.why})" if self.result.why else ""
                return f"job {self.job} has not ended{how}"
            case Outcome.SUCCESS:
                return f"job {self.job} succeeded"
            case Outcome.LOST:
                return f"job {self.job} is no longer in Ganeti's queue"
            case _:
                return f"job {self.job} failed: {self.result.why}"

    def has_moved(self, instance: Instance) -> bool:
        """Tell whether the instance has left the place that the job was to change."""
        match self.move:
            case MovePrimary(_, node) | Reinstall(_, node):
                return instance.primary != node
            case MoveSecondary(_, node):
                return node not in (instance.primary, instance.secondary)
            case _:
                return False

    def was(self, kind: RepairType, instance: Instance) -> bool:
        """Tell whether it did the same as a repair of this type would do now."""
        match self.move:
            case MoveSecondary():
                return kind is RepairType.FIX_STORAGE
            case MovePrimary(live=live):
                # Where migration tags forbid a migration, it is a failover from the beginning.
                migrates = kind is RepairType.MIGRATE and instance.running
                return migrates or (kind in (RepairType.MIGRATE, RepairType.FAILOVER) and not live)
            case Reinstall():
                return kind is RepairType.REINSTALL
            case _:
                return False


_NOT_ASKED = Result(Outcome.RUNNING, "its state has not been asked for yet")


def ran_for(record: Record, jobs: Sequence[Ran], results: Mapping[int, Result]) -> list[Ran]:
    """Return a repair's jobs, without those that only change tags: ours, and those in its tag."""
    mine = {ran.job: ran for ran in jobs if ran.repair == record.id}
    for job in record.jobs:
        mine.setdefault(job, Ran(job, record.id, None, results.get(job, _NOT_ASKED)))
    return [mine[job] for job in sorted(mine) if not mine[job].only_tags]


def with_jobs(record: Record, ran: Iterable[Ran]) -> Record:
    """Return the record with these jobs in its tag, the newest of them if not all fit."""
    jobs = (*record.jobs, *(job for job in sorted(r.job for r in ran) if job not in record.jobs))
    return fit(compose(record.kind, record.id, record.at, jobs, record.ending)) or record


def noted(record: Record, ran: Sequence[Ran], jobs: Sequence[Ran]) -> Record | None:
    """Return the record with a running job of it written into its tag, for harep.

    None if it is there, or must wait: before the job has set the present tag, a change of the tag
    would cancel the job.
    """
    live = next((job.action for job in jobs if job.live and job.repair == record.id), None)
    if not isinstance(live, Guarded) or any(job.live and job.only_tags for job in jobs):
        return None
    is_its_own = record.tag in live.swap.add and record.tag not in live.swap.remove
    longer = with_jobs(record, ran)
    return longer if is_its_own and longer.tag != record.tag else None


def backing_off(jobs: Sequence[Ran], now: Ms) -> str | None:
    """Say why a repair does not start yet: back off if it ends before it can set its tag.

    A job filter may reject it, for instance. Such a repair has only one job.
    """
    known: dict[str, list[Ran]] = {}
    for job in jobs:
        known.setdefault(job.repair, []).append(job)
    lone = [ran[0] for ran in known.values() if len(ran) == 1]
    failed = [job for job in lone if job.failed and now - job.ended < _DAY]
    if not failed:
        return None
    patience = min(RETRY_AFTER * 2 ** (len(failed) - 1), _DAY)
    remaining = failed[-1].ended + patience - now
    words = f"job {failed[-1].job} failed before it started: {failed[-1].result.why}"
    return f"next attempt in {remaining // 1000} s: {words}" if remaining > 0 else None


def tags_refused(jobs: Sequence[Ran], now: Ms) -> str | None:
    """Say why an instance's tags do not change yet: two such jobs in a row have failed.

    One fails if somebody else has changed them; more fail if a job filter rejects them, for
    instance.
    """
    tagged = [job for job in jobs if job.only_tags]
    failed = list(takewhile(lambda job: job.failed, reversed(tagged)))
    if len(failed) < 2:
        return None
    patience = min(RETRY_AFTER * 2 ** (len(failed) - 2), _DAY)
    remaining = failed[0].ended + patience - now
    return f"next attempt in {remaining // 1000} s: {failed[0].words}" if remaining > 0 else None


def repair_id(instance: str, now: Ms) -> str:
    """Derive the id of a repair that starts `now` (unix ms); we can recognise it.

    A UUID of version 8 (RFC 9562): 48 bits of the time, 74 of a digest of the instance's name.
    """
    digest = hashlib.sha256(f"{AUTOREPAIR}\n{instance}".encode()).digest()
    bits = int.from_bytes(digest[:10], "big") >> 6
    value = (now & (2**48 - 1)) << 80 | 8 << 76 | (bits >> 62) << 64
    return str(UUID(int=value | 0b10 << 62 | bits & (2**62 - 1)))


def is_ours(identity: str, instance: str) -> bool:
    """Tell whether we have started the repair of this id."""
    try:
        return repair_id(instance, Ms(UUID(identity).int >> 80)) == identity
    except ValueError:
        return False
