"""The jobs of an instance's repairs: how each ended, and what it did. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

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
from nodeagent.model.ledger import Outcome, Result, Trail
from nodeagent.model.purpose import AUTOREPAIR
from nodeagent.model.snapshot import Instance
from nodeagent.model.timed_id import moment_of, timed_id
from nodeagent.model.units import Ms

RETRY_AFTER = 300_000  # ms before the next try after a failure
_DAY = 86_400_000


def instance_of(action: Action | None) -> str:
    """Return the name of the instance that a repair's job is about, empty if unknown."""
    match action:
        case None:
            return ""
        case Retag(Scope.INSTANCE, name):
            return name
        case _:
            move = move_of(action)
            return "" if move is None else move.instance


def move_by(job: Trail) -> Move | None:
    """Return its change of the instance's nodes; None if it has none or is unknown."""
    return None if job.action is None else move_of(job.action)


def is_live(job: Trail) -> bool:
    return job.result.outcome is Outcome.RUNNING


def has_failed(job: Trail) -> bool:
    """Tell whether it has ended and reported a failure."""
    return job.result.outcome in (Outcome.ERROR, Outcome.LATER)


def how_it_is(job: Trail) -> str:
    """Describe its state or result in a few words."""
    match job.result.outcome:
        case Outcome.RUNNING:
            how = f" ({job.result.why})" if job.result.why else ""
            return f"job {job.job} has not ended{how}"
        case Outcome.SUCCESS:
            return f"job {job.job} succeeded"
        case Outcome.LOST:
            return f"job {job.job} is no longer in Ganeti's queue"
        case _:
            return f"job {job.job} failed: {job.result.why}"


def has_moved(job: Trail, instance: Instance) -> bool:
    """Tell whether the instance has left the place that the job was to change."""
    match move_by(job):
        case MovePrimary(_, node) | Reinstall(_, node):
            return instance.primary != node
        case MoveSecondary(_, node):
            return node not in (instance.primary, instance.secondary)
        case _:
            return False


def was(job: Trail, kind: RepairType, instance: Instance) -> bool:
    """Tell whether it did the same as a repair of this type would do now."""
    match move_by(job):
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


def jobs_for(record: Record, jobs: Sequence[Trail], results: Mapping[str, Result]) -> list[Trail]:
    """Return a repair's jobs, without those that only change tags: ours, and those in its tag."""
    found = {int(job.job): job for job in jobs if job.purpose.repair == record.id}
    for number in record.jobs:
        result = results.get(str(number), _NOT_ASKED)
        found.setdefault(number, Trail(str(number), "", None, result, Ms(0)))
    return [found[number] for number in sorted(found) if not _only_tags(found[number])]


def with_jobs(record: Record, jobs: Iterable[Trail]) -> Record:
    """Return the record with these jobs in its tag, the newest of them if not all fit."""
    numbers = sorted(int(job.job) for job in jobs)
    listed = (*record.jobs, *(number for number in numbers if number not in record.jobs))
    return fit(compose(record.kind, record.id, record.at, listed, record.ending)) or record


def noted(record: Record, repairs_jobs: Sequence[Trail], jobs: Sequence[Trail]) -> Record | None:
    """Return the record with a running job of it written into its tag, for harep.

    None if it is there, or must wait: before the job has set the present tag, a change of the tag
    would cancel the job.
    """
    live = [job for job in jobs if is_live(job)]
    action = next((job.action for job in live if job.purpose.repair == record.id), None)
    if not isinstance(action, Guarded) or any(_only_tags(job) for job in live):
        return None
    is_its_own = record.tag in action.swap.add and record.tag not in action.swap.remove
    longer = with_jobs(record, repairs_jobs)
    return longer if is_its_own and longer.tag != record.tag else None


def backing_off(jobs: Sequence[Trail], now: Ms) -> str | None:
    """Say why a repair does not start yet: back off if it ends before it can set its tag.

    A job filter may reject it, for instance. Such a repair has only one job.
    """
    by_repair: dict[str, list[Trail]] = {}
    for job in jobs:
        by_repair.setdefault(job.purpose.repair, []).append(job)
    lone = [repair[0] for repair in by_repair.values() if len(repair) == 1]
    failed = [job for job in lone if has_failed(job) and now - job.ended < _DAY]
    if not failed:
        return None
    words = f"job {failed[-1].job} failed before it started: {failed[-1].result.why}"
    return next_attempt(failed[-1], len(failed), words, now)


def tags_refused(jobs: Sequence[Trail], now: Ms) -> str | None:
    """Say why an instance's tags do not change yet: two such jobs in a row have failed.

    One fails if somebody else has changed them; more fail if a job filter rejects them, for
    instance.
    """
    failed = list(takewhile(has_failed, (job for job in reversed(jobs) if _only_tags(job))))
    if len(failed) < 2:
        return None
    return next_attempt(failed[0], len(failed) - 1, how_it_is(failed[0]), now)


def next_attempt(last: Trail, failures: int, words: str, now: Ms) -> str | None:
    """Say when the next attempt after so many failures in a row begins; None if now."""
    remaining = last.ended + min(RETRY_AFTER * 2 ** (failures - 1), _DAY) - now
    return f"next attempt in {remaining // 1000} s: {words}" if remaining > 0 else None


def _only_tags(job: Trail) -> bool:
    return isinstance(job.action, Retag)


def repair_id(instance: str, now: Ms) -> str:
    """Derive the id of a repair that starts `now` (unix ms); we can recognise it."""
    return timed_id(now, f"{AUTOREPAIR}\n{instance}")


def is_ours(identity: str, instance: str) -> bool:
    """Tell whether we have started the repair of this id."""
    try:
        return repair_id(instance, moment_of(identity)) == identity
    except ValueError:
        return False
