"""The next step of an instance's repair, in the safe mode. Pure.

A repair has one id from its beginning to its end: failing over and making a new mirror are two
jobs of one repair. Each job changes the repair's tag first and does nothing if that is not as
it was seen, so of two who would do the same one comes first. No tag can name the job that sets
it: such a job is found by its reason, `autorepair:<id>:<number>`, and written into the tag with
the next change.

While any job of ours for an instance is alive nothing is done to it. What comes then is judged
by what can be seen: a job's effect counts, and its result only where no effect is seen.
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
    with_jobs,
)
from nodeagent.autorepair.policy import Enabled, Policy, Suspended, Unreadable, said
from nodeagent.autorepair.state import Clear, Failed, Pending, State, Unclear
from nodeagent.autorepair.tags import Ending, Record, RepairType, compose, fit
from nodeagent.model.action import Reinstall, Retag, Scope
from nodeagent.model.ledger import SHOWS, Outcome, Result
from nodeagent.model.snapshot import Instance
from nodeagent.model.units import Ms

TRIES = 3  # times that one step is tried
MOST = 12  # jobs of one repair: more would mend nothing either


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing to do, or nothing that may be done; `why` is empty where all is well.

    `trouble`: what the tags say makes no sense, and only a person can tell what is meant.
    """

    why: str = ""
    trouble: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Something is under way or will be possible later, and what."""

    why: str


@dataclass(frozen=True, slots=True)
class Step:
    """One job: `swap` the tags, then do what a repair of this type does. The target is open.

    With `fallback` a migration may become a failover.
    """

    kind: RepairType
    repair: str
    swap: Retag
    why: str
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """Change tags, and nothing else; `ending` where that closes the repair."""

    repair: str
    swap: Retag
    why: str
    ending: Ending | None = None


Next: TypeAlias = Nothing | Wait | Step | Mark


def next_step(
    instance: Instance,
    policy: Policy,
    health: Health,
    state: State,
    jobs: Sequence[Ran],
    results: Mapping[int, Result],
    now: Ms,
) -> Next:
    """Decide at `now` (unix ms) about an instance.

    `jobs` are our jobs for it that are still known, in order; `results` has, by number,
    those of the other jobs in its tags.
    """
    match state:
        case Unclear(why):
            return Nothing(f"check its tags: {why}", trouble=True)
        case Failed(record):
            return Nothing(
                f"repair {record.id} has failed: check the instance, then remove its tag"
                f" {record.tag}"
            )
    if isinstance(policy, Suspended | Unreadable):
        well = isinstance(health, Healthy) and isinstance(state, Clear)
        return Nothing("" if well else said(policy))
    work = _Work(instance, policy, health, state, jobs, results, now)
    return work.go_on(state) if isinstance(state, Pending) else work.begin(state)


@dataclass
class _Work:
    """One instance, with all that is known of it."""

    instance: Instance
    policy: Policy
    health: Health
    state: State
    jobs: Sequence[Ran]
    results: Mapping[int, Result]
    now: Ms

    # Where no repair is pending.

    def begin(self, state: Clear) -> Next:
        if (live := self._live()) is not None:
            return Wait(f"{live.told}, and its tag is not there")
        if isinstance(self.health, Healthy):
            return self._tidied(state)
        if isinstance(self.health, Stuck):
            return Nothing(self.health.why)
        first = self.health.steps[0]
        if not isinstance(self.policy, Enabled):
            return Nothing(f"{self.health.why}; {said(self.policy)}")
        if first > self.policy.kind:
            return self._refuse(state, self.health, first)
        if (why := backing_off(self.jobs, self.now)) is not None:
            return Wait(why)
        kind = min(self.health.need, self.policy.kind)
        record = compose(kind, repair_id(self.instance.name, self.now), self.now // 1000)
        if first is RepairType.REINSTALL and not _tags_of(state):
            # Where no tag is taken off a second one who begins the same is not stopped by his
            # job. A second move changes nothing; a second installation would.
            swap = self._swap(record, ())
            return Mark(record.id, swap, f"{self.health.why}: its tag is set first")
        return self._step(record, state, self.health)

    def _tidied(self, state: Clear) -> Next:
        """Pending tags that a result was written for: harep would stumble over them later."""
        if not state.stale:
            return Nothing()
        gone = tuple(record.tag for record in state.stale)
        swap = Retag(Scope.INSTANCE, self.instance.name, remove=gone)
        return Mark(state.stale[0].id, swap, "its repair has ended already")

    def _refuse(self, state: Clear, broken: Broken, first: RepairType) -> Next:
        why = f"{broken.why}: that needs {first.word}, and {said(self.policy)}"
        if any(r.ending is Ending.ENOPERM and r.kind is first for r in state.ended):
            return Nothing(why)
        identity = repair_id(self.instance.name, self.now)
        record = compose(first, identity, self.now // 1000, (), Ending.ENOPERM)
        return Mark(identity, self._swap(record, _tags_of(state)), why, Ending.ENOPERM)

    # Where one is.

    def go_on(self, pending: Pending) -> Next:
        record = pending.record
        ran = ran_for(record, self.jobs, self.results)
        live = self._live() or next((one for one in ran if one.live), None)
        if live is not None:
            return self._note(record, live, ran)
        if isinstance(self.health, Healthy):
            return self._mended(pending, ran)
        if (verdict := self._judge(pending, ran)) is not None:
            return verdict
        if isinstance(self.health, Stuck):
            return Wait(self.health.why)
        first, allowed = self.health.steps[0], self._allowed(record)
        if allowed is None or first > allowed:
            most = "nothing" if allowed is None else f"no more than {allowed.word}"
            why = f"{self.health.why}: that needs {first.word}, and {most} is allowed"
            # A result of a once-off is looked for by the type that was asked for.
            kind = record.kind if self._asked_for(record) else first
            return self._close(pending, ran, Ending.ENOPERM, why, kind)
        return self._step(with_jobs(record, ran), pending, self.health)

    def _mended(self, pending: Pending, ran: Sequence[Ran]) -> Next:
        """A healthy instance's repair was a success, whoever has mended it.

        But not where a job has failed after it had moved the instance: nodes tell nothing then
        of whether it runs.
        """
        last = ran[-1] if ran else None
        if last is not None and last.failed and last.has_moved(self.instance):
            why = f"the instance has moved, and yet {last.told}"
            return self._close(pending, ran, Ending.FAILURE, why)
        lost = last is not None and last.result.outcome is Outcome.LOST
        if last is not None and lost and isinstance(last.move, Reinstall):
            why = f"{last.told}, and how far the installation came is unknown"
            return self._close(pending, ran, Ending.FAILURE, why)
        return self._close(pending, ran, Ending.SUCCESS, "all its nodes are in service")

    def _judge(self, pending: Pending, ran: Sequence[Ran]) -> Next | None:
        """Judge the repair by its last job; None to go on."""
        if not ran:
            return None
        last, failure = ran[-1], Ending.FAILURE
        told = last.told
        seen = self._is_seen(last, pending.record)
        outcome = last.result.outcome
        if outcome is Outcome.LOST and not seen:
            return self._close(pending, ran, failure, f"{told} and its effect is not seen")
        if outcome is Outcome.SUCCESS and not seen and self.now - last.ended < SHOWS:
            return Wait(f"{told}, and its effect is not seen yet")
        if len(ran) >= MOST:
            return self._close(pending, ran, failure, f"{len(ran)} jobs have not mended it; {told}")
        if seen and outcome is not Outcome.ERROR:
            return None
        once = last.move is None or isinstance(last.move, Reinstall)
        if once or last.has_moved(self.instance):
            return self._close(pending, ran, failure, told)
        # It has left the instance as it was; what is needed now may be something else.
        first = self.health.steps[0] if isinstance(self.health, Broken) else None
        if first is None or not last.was(first, self.instance):
            return None
        tried = len(list(takewhile(lambda one: one.was(first, self.instance), reversed(ran))))
        if tried >= TRIES:
            return self._close(pending, ran, failure, f"tried {tried} times: {told}")
        left = last.ended + RETRY_AFTER - self.now
        return Wait(f"next attempt in {left // 1000} s: {told}") if left > 0 else None

    def _note(self, record: Record, live: Ran, ran: Sequence[Ran]) -> Next:
        told = live.told
        longer = noted(record, ran, self.jobs)
        return (
            Wait(told)
            if longer is None
            else Mark(record.id, self._swap(longer, (record.tag,)), told)
        )

    def _close(
        self,
        pending: Pending,
        ran: Sequence[Ran],
        ending: Ending,
        why: str,
        kind: RepairType | None = None,
    ) -> Next:
        """Turn the pending tag into a result; of a mended instance, those asked for later too."""
        at, record = self.now // 1000, pending.record
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
                f"the result of the repair is too long for a tag: {why}; remove its tag"
                f" {record.tag}",
                trouble=True,
            )
        swap = Retag(Scope.INSTANCE, self.instance.name, add=tags, remove=gone)
        return Mark(record.id, swap, why, ending)

    def _allowed(self, record: Record) -> RepairType | None:
        """Up to where this repair may go.

        What somebody else asks for by a pending tag is allowed by this tag, once. A repair that
        was begun because of a policy goes on no farther than the policy now allows.
        """
        if self._asked_for(record):
            return record.kind
        return min(record.kind, self.policy.kind) if isinstance(self.policy, Enabled) else None

    def _asked_for(self, record: Record) -> bool:
        """Whether somebody else asked for this repair, once, by setting its pending tag."""
        known = {one.job for one in self.jobs if one.repair == record.id}
        return not is_ours(record.id, self.instance.name) and known.issuperset(record.jobs)

    def _step(self, record: Record, state: Clear | Pending, broken: Broken) -> Step:
        """By what is lost in a failover a migration is replaced only if the repair is one."""
        if broken.steps[0] is RepairType.REINSTALL and record.tag in _tags_of(state):
            # Of two who do this at once one must fail, so the tag is not to stay what it is.
            record = compose(record.kind, record.id, record.at + 1, record.jobs)
        fallback = record.kind >= RepairType.FAILOVER
        swap = self._swap(record, _tags_of(state))
        return Step(broken.steps[0], record.id, swap, broken.why, fallback)

    def _live(self) -> Ran | None:
        return next((one for one in self.jobs if one.live), None)

    def _is_seen(self, ran: Ran, record: Record) -> bool:
        """Whether what the job was for has come about; harep's jobs are for what the tag says."""
        if isinstance(self.health, Healthy):
            return True
        if ran.move is not None:
            return ran.has_moved(self.instance)
        return not (isinstance(self.health, Broken) and self.health.steps[0] is record.kind)

    def _swap(self, record: Record, gone: tuple[str, ...]) -> Retag:
        """The very same tag off and on again is a guard as well: it must still be there."""
        return Retag(Scope.INSTANCE, self.instance.name, add=(record.tag,), remove=gone)


def _tags_of(state: Clear | Pending) -> tuple[str, ...]:
    """Tags the next change removes: of the repair itself, and of those before it."""
    own = (state.record,) if isinstance(state, Pending) else ()
    return tuple(record.tag for record in (*own, *state.stale, *state.ended))
