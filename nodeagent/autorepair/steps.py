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
    RETRY_AFTER,
    Ran,
    backing_off,
    is_ours,
    noted,
    ran_for,
    repair_id,
    tags_refused,
    with_jobs,
)
from nodeagent.autorepair.policy import (
    Enabled,
    NotEnabled,
    Policies,
    Policy,
    Suspended,
    Unreadable,
    in_words,
)
from nodeagent.autorepair.rules import SAFE, Rules
from nodeagent.autorepair.state import (
    FAILED,
    NEEDS,
    PENDING,
    WELL,
    Clear,
    Failed,
    Pending,
    State,
    Unclear,
)
from nodeagent.autorepair.tags import Ending, Record, RepairType, compose, fit
from nodeagent.model.action import Reinstall, Retag, Scope
from nodeagent.model.ledger import SHOWS, Outcome, Result
from nodeagent.model.snapshot import Instance, Snapshot
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
class Assessment:
    """An instance, its policy, its health, the state of its repairs, and the next step."""

    instance: Instance
    policy: Policy
    health: Health
    state: State
    next: Next

    @property
    def wanted(self) -> bool:
        """Tell whether somebody has allowed a repair, or one has started."""
        allowed = not isinstance(self.policy, NotEnabled | Suspended)
        return allowed or not isinstance(self.state, Clear)

    @property
    def word(self) -> str:
        """Return the state that it counts under, once its next step has started."""
        match self.next:
            case Step() | Wait():
                return PENDING
            case Mark(ending=ending) if isinstance(self.state, Pending) and ending is None:
                return PENDING
        if isinstance(self.state, Failed):
            return FAILED
        if isinstance(self.next, Nothing) and isinstance(self.state, Pending):
            return PENDING
        return WELL if isinstance(self.health, Healthy) else NEEDS


@dataclass
class Judge:
    """Assesses a cluster's instances at one moment (unix ms).

    `jobs` has our known jobs by instance, in order; `results` has by number those of the other jobs
    in tags.
    """

    snapshot: Snapshot
    jobs: Mapping[str, Sequence[Ran]]
    results: Mapping[int, Result]
    now: Ms
    rules: Rules = SAFE

    def __post_init__(self) -> None:
        self._policies = Policies(self.snapshot, self.now, strict=self.rules.strict)

    def health(self, instance: Instance) -> Health:
        return self.rules.health(instance, self.snapshot.nodes)

    def assess(self, instance: Instance, state: State | None = None) -> Assessment:
        """Assess an instance, by its tags or in the `state` that is known to be the present one."""
        work = _Work(
            instance,
            self.rules,
            self._policies.of(instance),
            self.health(instance),
            self.jobs.get(instance.name, ()),
            self.results,
            self.now,
        )
        state = self.rules.state(instance.tags) if state is None else state
        step = work.next_step(state)
        # Back off from a change of tags that Ganeti refuses again and again.
        refused = tags_refused(work.jobs, self.now) if isinstance(step, Mark) else None
        step = step if refused is None else Wait(refused)
        return Assessment(instance, work.policy, work.health, state, step)


@dataclass
class _Work:
    """One instance, with all known facts."""

    instance: Instance
    rules: Rules
    policy: Policy
    health: Health
    jobs: Sequence[Ran]
    results: Mapping[int, Result]
    now: Ms

    def next_step(self, state: State) -> Next:
        match state:
            case Unclear(why):
                return Nothing(f"check its tags: {why}", trouble=True)
            case Failed(record):
                return Nothing(
                    f"repair {record.id} has failed: check the instance, then remove its tag"
                    f" {record.tag}"
                )
        if self.rules.suspends_pending and isinstance(self.policy, Suspended | Unreadable):
            well = isinstance(self.health, Healthy) and isinstance(state, Clear)
            return Nothing("" if well else in_words(self.policy))
        return self.go_on(state) if isinstance(state, Pending) else self.begin(state)

    # No repair is pending.

    def begin(self, state: Clear) -> Next:
        if (live := self._live()) is not None:
            return Wait(f"{live.words}, and its tag is not there")
        if isinstance(self.health, Healthy):
            return self._tidied(state)
        if isinstance(self.health, Stuck):
            return Nothing(self.health.why)
        first = self.health.steps[0]
        if not isinstance(self.policy, Enabled):
            return Nothing(f"{self.health.why}; {in_words(self.policy)}")
        if first > self.policy.kind:
            return self._refuse(state, self.health, first)
        if (why := backing_off(self.jobs, self.now)) is not None:
            return Wait(why)
        kind = min(self.health.need, self.policy.kind)
        record = compose(kind, repair_id(self.instance.name, self.now), in_seconds(self.now))
        if first is RepairType.REINSTALL and not _tags_of(state) and not self.rules.jobs_decide:
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
        why = f"{broken.why}: that needs {first.word}, and {in_words(self.policy)}"
        refusals = (record.kind for record in state.ended if record.ending is Ending.ENOPERM)
        if self.rules.refuses_once and first in refusals:
            return Nothing(why)
        identity = repair_id(self.instance.name, self.now)
        record = compose(first, identity, in_seconds(self.now), (), Ending.ENOPERM)
        return Mark(identity, self._swap(record, _tags_of(state)), why, Ending.ENOPERM)

    # A repair is pending.

    def go_on(self, pending: Pending) -> Next:
        record = pending.record
        ran = ran_for(record, self.jobs, self.results)
        live = self._live() or next((job for job in ran if job.live), None)
        if live is not None:
            return self._note(record, live, ran)
        if self.rules.jobs_decide:
            return self._judge_by_jobs(pending, ran)
        if isinstance(self.health, Healthy):
            return self._mended(pending, ran)
        if (verdict := self._judge(pending, ran)) is not None:
            return verdict
        if isinstance(self.health, Stuck):
            return Wait(self.health.why)
        first, allowed = self.health.steps[0], self._allowed(record)
        if allowed is None or first > allowed:
            limit = "nothing" if allowed is None else f"no more than {allowed.word}"
            why = f"{self.health.why}: that needs {first.word}, and {limit} is allowed"
            # Find a result of a once-off by the requested type.
            kind = record.kind if self._asked_for(record) else first
            return self._close(pending, ran, Ending.ENOPERM, why, kind)
        return self._step(with_jobs(record, ran), pending, self.health)

    def _judge_by_jobs(self, pending: Pending, ran: Sequence[Ran]) -> Next:
        """Succeed if all jobs did; fail if one failed or is gone."""
        bad = next((job for job in ran if job.result.outcome is not Outcome.SUCCESS), None)
        if bad is not None:
            return self._close(pending, ran, Ending.FAILURE, bad.words)
        if not ran:
            # harep judges by all jobs in the queue, where a daemon has its own about other things.
            well = isinstance(self.health, Healthy)
            ending = Ending.SUCCESS if well else Ending.FAILURE
            why = "all its nodes are in service" if well else "no job of it is known"
            return self._close(pending, ran, ending, why)
        last = ran[-1]
        unseen = last.move is not None and not last.has_moved(self.instance)
        if unseen and self.now - last.ended < SHOWS:
            return Wait(f"{last.words}, and its effect is not seen yet")
        return self._close(pending, ran, Ending.SUCCESS, last.words)

    def _mended(self, pending: Pending, ran: Sequence[Ran]) -> Next:
        """Close a healthy instance's repair as a success, whoever repaired it.

        But not if a job failed after it had moved the instance: then healthy nodes do not prove
        that it runs.
        """
        last = ran[-1] if ran else None
        if last is not None and last.failed and last.has_moved(self.instance):
            why = f"the instance has moved, and yet {last.words}"
            return self._close(pending, ran, Ending.FAILURE, why)
        lost = last is not None and last.result.outcome is Outcome.LOST
        if last is not None and lost and isinstance(last.move, Reinstall):
            why = f"{last.words}, and how far the installation came is unknown"
            return self._close(pending, ran, Ending.FAILURE, why)
        return self._close(pending, ran, Ending.SUCCESS, "all its nodes are in service")

    def _judge(self, pending: Pending, ran: Sequence[Ran]) -> Next | None:
        """Judge the repair by its last job; None to go on."""
        if not ran:
            return None
        last, failure = ran[-1], Ending.FAILURE
        words = last.words
        seen = self._is_seen(last, pending.record)
        outcome = last.result.outcome
        if outcome is Outcome.LOST and not seen:
            return self._close(pending, ran, failure, f"{words} and its effect is not seen")
        if outcome is Outcome.SUCCESS and not seen and self.now - last.ended < SHOWS:
            return Wait(f"{words}, and its effect is not seen yet")
        if len(ran) >= MOST:
            return self._close(
                pending, ran, failure, f"{len(ran)} jobs have not mended it; {words}"
            )
        if seen and outcome is not Outcome.ERROR:
            return None
        once = last.move is None or isinstance(last.move, Reinstall)
        if once or last.has_moved(self.instance):
            return self._close(pending, ran, failure, words)
        # The instance is as it was; it may need something else now.
        first = self.health.steps[0] if isinstance(self.health, Broken) else None
        if first is None or not last.was(first, self.instance):
            return None
        tried = len(list(takewhile(lambda job: job.was(first, self.instance), reversed(ran))))
        if tried >= TRIES:
            return self._close(pending, ran, failure, f"tried {tried} times: {words}")
        remaining = last.ended + RETRY_AFTER - self.now
        return Wait(f"next attempt in {remaining // 1000} s: {words}") if remaining > 0 else None

    def _note(self, record: Record, live: Ran, ran: Sequence[Ran]) -> Next:
        longer = noted(record, ran, self.jobs)
        if longer is None:
            return Wait(live.words)
        return Mark(record.id, self._swap(longer, (record.tag,)), live.words)

    def _close(
        self,
        pending: Pending,
        ran: Sequence[Ran],
        ending: Ending,
        why: str,
        kind: RepairType | None = None,
    ) -> Next:
        return close(self.instance, pending, ran, ending, why, self.now, kind)

    def _allowed(self, record: Record) -> RepairType | None:
        """Return the most destructive type that this repair may use.

        Somebody else's pending tag allows its own type, once. A repair of a policy goes on only as
        far as the policy now allows.
        """
        if self._asked_for(record):
            return record.kind
        return min(record.kind, self.policy.kind) if isinstance(self.policy, Enabled) else None

    def _asked_for(self, record: Record) -> bool:
        """Tell whether somebody else requested this repair, once, by setting its pending tag."""
        known = {ran.job for ran in self.jobs if ran.repair == record.id}
        return not is_ours(record.id, self.instance.name) and known.issuperset(record.jobs)

    def _step(self, record: Record, state: Clear | Pending, broken: Broken) -> Step:
        """Build the step; a migration may become a failover only if the repair is one."""
        if broken.steps[0] is RepairType.REINSTALL and record.tag in _tags_of(state):
            # If two do this at once one must fail, so the tag must change.
            record = compose(record.kind, record.id, record.at + 1, record.jobs)
        fallback = record.kind >= RepairType.FAILOVER
        swap = self._swap(record, _tags_of(state))
        return Step(broken.steps[0], record.id, swap, broken.why, fallback)

    def _live(self) -> Ran | None:
        return next((ran for ran in self.jobs if ran.live), None)

    def _is_seen(self, ran: Ran, record: Record) -> bool:
        """Tell whether the job's effect is visible; harep's jobs do what the tag says."""
        if isinstance(self.health, Healthy):
            return True
        if ran.move is not None:
            return ran.has_moved(self.instance)
        return not (isinstance(self.health, Broken) and self.health.steps[0] is record.kind)

    def _swap(self, record: Record, gone: tuple[str, ...]) -> Retag:
        """Build the tag change; the same tag off and on also guards: it must still be there."""
        return Retag(Scope.INSTANCE, self.instance.name, add=(record.tag,), remove=gone)


def _tags_of(state: Clear | Pending) -> tuple[str, ...]:
    """Return the tags that the next change removes: of the repair itself, and of earlier ones."""
    own = (state.record,) if isinstance(state, Pending) else ()
    return tuple(record.tag for record in (*own, *state.stale, *state.ended))


def close(
    instance: Instance,
    pending: Pending,
    ran: Sequence[Ran],
    ending: Ending,
    why: str,
    now: Ms,
    kind: RepairType | None = None,
) -> Mark | Nothing:
    """Turn the pending tag into a result; for a repaired instance, later requests too."""
    at, record = in_seconds(now), pending.record
    listed = with_jobs(record, ran).jobs
    kind = record.kind if kind is None else kind
    results = [compose(kind, record.id, at, listed, ending)]
    gone = _tags_of(pending)
    if ending is Ending.SUCCESS:
        results += [compose(r.kind, r.id, at, (), ending) for r in pending.later]
        gone += tuple(r.tag for r in pending.later)
    fitted = [fit(result) for result in results]
    tags = tuple(result.tag for result in fitted if result is not None)
    if len(tags) != len(fitted):
        return Nothing(
            f"the result of the repair is too long for a tag: {why}; remove its tag {record.tag}",
            trouble=True,
        )
    return Mark(record.id, Retag(Scope.INSTANCE, instance.name, add=tags, remove=gone), why, ending)
