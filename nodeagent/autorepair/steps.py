"""The next step of an instance's repair, by the safe rules or by harep's. Pure.

A repair has one id from its beginning to its end: a failover and a new secondary are two jobs of
one repair. Each job first changes the repair's tag, and does nothing if the tag is not as expected,
so only one of two rivals succeeds. No tag can name the job that sets it: such a job is found by its
reason, `autorepair:<id>:<number>`, and the next change writes it into the tag.

While a job of ours for an instance is alive, nothing else happens to it. Then the observed state
decides: a job's effect counts, and its result only if no effect is seen. By harep's rules the jobs
decide, and each is a repair of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

from nodeagent.autorepair.health import Broken, Health, Healthy, Stuck
from nodeagent.autorepair.jobs import (
    backing_off,
    has_failed,
    has_moved,
    how_it_is,
    is_live,
    is_ours,
    jobs_for,
    move_by,
    next_attempt,
    noted,
    repair_id,
    tags_refused,
    was,
    with_jobs,
)
from nodeagent.autorepair.permissions import Permission
from nodeagent.autorepair.rules import Rules
from nodeagent.autorepair.state import Clear, Failed, Pending, State, Unclear
from nodeagent.autorepair.tags import Ending, Record, RepairType, compose, fit
from nodeagent.model.action import Reinstall, Retag, Scope
from nodeagent.model.ledger import SHOWS, Outcome, Result, Trail
from nodeagent.model.snapshot import Instance
from nodeagent.model.units import Ms, in_seconds

TRIES = 3  # tries of one step
MOST = 12  # jobs of one repair: more would not help either


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing to do, or nothing is allowed; `why` is empty for a healthy instance.

    `trouble`: the tags make no sense, and only a person can tell their meaning.
    """

    why: str = ""
    trouble: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Work is running or is possible later, and which."""

    why: str


@dataclass(frozen=True, slots=True)
class Step:
    """One job: `swap` the tags, then the work of a repair of this type. The target is open.

    With `fallback` a migration may become a failover.
    """

    kind: RepairType
    repair: str
    swap: Retag
    why: str
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """Change tags, and nothing else; `ending` if that closes the repair."""

    repair: str
    swap: Retag
    why: str
    ending: Ending | None = None


Next: TypeAlias = Nothing | Wait | Step | Mark


@dataclass(frozen=True, slots=True)
class End:
    """The result of a repair; `kind` is its type there, unless it is that of its pending tag."""

    ending: Ending
    why: str
    kind: RepairType | None = None


@dataclass
class Case:
    """One instance, with all that is known of it at one moment (unix ms).

    `jobs` are ours, in order; `results` has by number those of the other jobs in tags.
    """

    instance: Instance
    rules: Rules
    permission: Permission
    health: Health
    jobs: Sequence[Trail]
    results: Mapping[str, Result]
    now: Ms

    def next_step(self, state: State) -> Next:
        step = self._by_state(state)
        # Back off from a change of tags that Ganeti refuses again and again.
        refused = tags_refused(self.jobs, self.now) if isinstance(step, Mark) else None
        return step if refused is None else Wait(refused)

    def _by_state(self, state: State) -> Next:
        match state:
            case Unclear(why):
                return Nothing(f"check its tags: {why}", trouble=True)
            case Failed(record):
                return Nothing(
                    f"repair {record.id} has failed: check the instance, then remove its tag"
                    f" {record.tag}"
                )
        if self.rules.safe and self.permission.says in ("suspended", "unreadable"):
            well = isinstance(self.health, Healthy) and isinstance(state, Clear)
            return Nothing("" if well else self.permission.words)
        return self.go_on(state) if isinstance(state, Pending) else self.begin(state)

    # No repair is pending.

    def begin(self, state: Clear) -> Next:
        if (live := self._live()) is not None:
            return Wait(f"{how_it_is(live)}, and its tag is not there")
        if isinstance(self.health, Healthy):
            return self._tidied(state)
        if isinstance(self.health, Stuck):
            return Nothing(self.health.why)
        first, allowed = self.health.steps[0], self.permission.allows
        if allowed is None:
            return Nothing(f"{self.health.why}; {self.permission.words}")
        if first > allowed:
            return self._refuse(state, self.health, first)
        if (why := backing_off(self.jobs, self.now)) is not None:
            return Wait(why)
        kind = min(self.health.need, allowed)
        record = compose(kind, repair_id(self.instance.name, self.now), in_seconds(self.now))
        if first is RepairType.REINSTALL and not _tags_of(state) and self.rules.safe:
            # Without a tag to remove, our job does not stop a rival that starts the same. A second
            # move changes nothing; a second installation would.
            swap = self._swap(record, ())
            return Mark(record.id, swap, f"{self.health.why}: its tag is set first")
        return self._step(record, state, self.health)

    def _tidied(self, state: Clear) -> Next:
        """Remove pending tags that have a result: harep would trip over them later."""
        if not state.stale:
            return Nothing()
        gone = tuple(record.tag for record in state.stale)
        swap = Retag(Scope.INSTANCE, self.instance.name, remove=gone)
        return Mark(state.stale[0].id, swap, "its repair has ended already")

    def _refuse(self, state: Clear, broken: Broken, first: RepairType) -> Next:
        why = f"{broken.why}: that needs {first.word}, and {self.permission.words}"
        refusals = (record.kind for record in state.ended if record.ending is Ending.ENOPERM)
        if self.rules.refuses_once and first in refusals:
            return Nothing(why)
        identity = repair_id(self.instance.name, self.now)
        record = compose(first, identity, in_seconds(self.now), (), Ending.ENOPERM)
        return Mark(identity, self._swap(record, _tags_of(state)), why, Ending.ENOPERM)

    # A repair is pending.

    def go_on(self, pending: Pending) -> Next:
        record = pending.record
        jobs = jobs_for(record, self.jobs, self.results)
        live = self._live() or next((job for job in jobs if is_live(job)), None)
        if live is not None:
            longer = noted(record, jobs, self.jobs)
            if longer is None:
                return Wait(how_it_is(live))
            return Mark(record.id, self._swap(longer, (record.tag,)), how_it_is(live))
        verdict = self._by_health(record, jobs) if self.rules.safe else self._by_jobs(jobs)
        if isinstance(verdict, End):
            return close(self.instance, pending, jobs, verdict, self.now)
        if verdict is not None:
            return verdict
        if not isinstance(self.health, Broken):
            return Wait(self.health.why)
        first, allowed = self.health.steps[0], self._allowed(record)
        if allowed is None or first > allowed:
            limit = "nothing" if allowed is None else f"no more than {allowed.word}"
            why = f"{self.health.why}: that needs {first.word}, and {limit} is allowed"
            # Find a result of a once-off by the requested type.
            kind = record.kind if self._asked_for(record) else first
            return close(self.instance, pending, jobs, End(Ending.ENOPERM, why, kind), self.now)
        return self._step(with_jobs(record, jobs), pending, self.health)

    def _by_jobs(self, jobs: Sequence[Trail]) -> "End | Wait":
        """Succeed if all jobs did; fail if one failed or is gone."""
        bad = next((job for job in jobs if job.result.outcome is not Outcome.SUCCESS), None)
        if bad is not None:
            return End(Ending.FAILURE, how_it_is(bad))
        if not jobs:
            # harep judges by all jobs in the queue, where a daemon has its own about other things.
            if isinstance(self.health, Healthy):
                return End(Ending.SUCCESS, self.health.why)
            return End(Ending.FAILURE, "no job of it is known")
        last = jobs[-1]
        unseen = move_by(last) is not None and not has_moved(last, self.instance)
        if unseen and self.now - last.ended < SHOWS:
            return Wait(f"{how_it_is(last)}, and its effect is not seen yet")
        return End(Ending.SUCCESS, how_it_is(last))

    def _by_health(self, record: Record, jobs: Sequence[Trail]) -> "End | Wait | None":
        """Judge by what is seen, and by the last job where that does not tell; None to go on."""
        last = jobs[-1] if jobs else None
        if isinstance(self.health, Healthy):
            # Whoever repaired it. But healthy nodes do not prove that it runs.
            if last is not None and has_failed(last) and has_moved(last, self.instance):
                return End(Ending.FAILURE, f"the instance has moved, and yet {how_it_is(last)}")
            if last is not None and _is_lost(last) and isinstance(move_by(last), Reinstall):
                unknown = "and how far the installation came is unknown"
                return End(Ending.FAILURE, f"{how_it_is(last)}, {unknown}")
            return End(Ending.SUCCESS, self.health.why)
        if last is None:
            return None
        words, outcome = how_it_is(last), last.result.outcome
        seen = self._is_seen(last, record)
        if _is_lost(last) and not seen:
            return End(Ending.FAILURE, f"{words} and its effect is not seen")
        if outcome is Outcome.SUCCESS and not seen and self.now - last.ended < SHOWS:
            return Wait(f"{words}, and its effect is not seen yet")
        if len(jobs) >= MOST:
            return End(Ending.FAILURE, f"{len(jobs)} jobs have not mended it; {words}")
        if seen and outcome is not Outcome.ERROR:
            return None
        move = move_by(last)
        if move is None or isinstance(move, Reinstall) or has_moved(last, self.instance):
            return End(Ending.FAILURE, words)
        # The instance is as it was; it may need something else now.
        first = self.health.steps[0] if isinstance(self.health, Broken) else None
        if first is None or not was(last, first, self.instance):
            return None
        tried = len(list(takewhile(lambda job: was(job, first, self.instance), reversed(jobs))))
        if tried >= TRIES:
            return End(Ending.FAILURE, f"tried {tried} times: {words}")
        why = next_attempt(last, 1, words, self.now)
        return None if why is None else Wait(why)

    def _allowed(self, record: Record) -> RepairType | None:
        """Return the most destructive type that this repair may use.

        Somebody else's pending tag allows its own type, once. Any other repair goes on only as far
        as the tags now permit.
        """
        if self._asked_for(record):
            return record.kind
        allowed = self.permission.allows
        return None if allowed is None else min(record.kind, allowed)

    def _asked_for(self, record: Record) -> bool:
        """Tell whether somebody else requested this repair, once, by setting its pending tag."""
        known = {int(job.job) for job in self.jobs if job.purpose.repair == record.id}
        return not is_ours(record.id, self.instance.name) and known.issuperset(record.jobs)

    def _step(self, record: Record, state: Clear | Pending, broken: Broken) -> Step:
        """Build the step; a migration may become a failover only if the repair is one."""
        if broken.steps[0] is RepairType.REINSTALL and record.tag in _tags_of(state):
            # If two do this at once one must fail, so the tag must change.
            record = compose(record.kind, record.id, record.at + 1, record.jobs)
        fallback = record.kind >= RepairType.FAILOVER
        swap = self._swap(record, _tags_of(state))
        return Step(broken.steps[0], record.id, swap, broken.why, fallback)

    def _live(self) -> Trail | None:
        return next((job for job in self.jobs if is_live(job)), None)

    def _is_seen(self, job: Trail, record: Record) -> bool:
        """Tell whether the job's effect is visible; harep's jobs do what the tag says."""
        if move_by(job) is not None:
            return has_moved(job, self.instance)
        return not (isinstance(self.health, Broken) and self.health.steps[0] is record.kind)

    def _swap(self, record: Record, gone: tuple[str, ...]) -> Retag:
        """Build the tag change; the same tag off and on also guards: it must still be there."""
        return Retag(Scope.INSTANCE, self.instance.name, add=(record.tag,), remove=gone)


def _tags_of(state: Clear | Pending) -> tuple[str, ...]:
    """Return the tags that the next change removes: of the repair itself, and of earlier ones."""
    own = (state.record,) if isinstance(state, Pending) else ()
    return tuple(record.tag for record in (*own, *state.stale, *state.ended))


def _is_lost(job: Trail) -> bool:
    return job.result.outcome is Outcome.LOST


def close(
    instance: Instance, pending: Pending, jobs: Sequence[Trail], end: End, now: Ms
) -> Mark | Nothing:
    """Turn the pending tag into a result; for a repaired instance, later requests too."""
    at, record = in_seconds(now), pending.record
    kind = record.kind if end.kind is None else end.kind
    results = [compose(kind, record.id, at, with_jobs(record, jobs).jobs, end.ending)]
    gone = _tags_of(pending)
    if end.ending is Ending.SUCCESS:
        results += [compose(r.kind, r.id, at, (), end.ending) for r in pending.later]
        gone += tuple(r.tag for r in pending.later)
    fitted = [fit(result) for result in results]
    tags = tuple(result.tag for result in fitted if result is not None)
    if len(tags) != len(fitted):
        return Nothing(
            f"the result of the repair is too long for a tag: {end.why}; remove its tag"
            f" {record.tag}",
            trouble=True,
        )
    swap = Retag(Scope.INSTANCE, instance.name, add=tags, remove=gone)
    return Mark(record.id, swap, end.why, end.ending)
