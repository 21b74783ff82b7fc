"""The next step of an instance's repair by harep's rules, for a daemon. Pure.

One run of harep takes some rounds here: maintd submits and judges a job, and only then starts the
next repair. As with harep, each is a repair of its own, a drained node counts as gone, and its jobs
alone judge a pending repair.

It differs from harep in this: trouble with one instance's tags or jobs stays with it, enoperm is
reported once, and nothing is installed again while a node has its data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nodeagent.autorepair.health import as_harep as needed
from nodeagent.autorepair.health import fault_of
from nodeagent.autorepair.jobs import Ran, backing_off, noted, ran_for, repair_id, with_jobs
from nodeagent.autorepair.policy import Enabled, Policy, said
from nodeagent.autorepair.state import FAILED, PENDING, Conflict, Loaded
from nodeagent.autorepair.steps import Mark, Next, Nothing, Step, Wait
from nodeagent.autorepair.tags import Ending, Record, RepairType, compose, fit
from nodeagent.model.action import Retag, Scope
from nodeagent.model.ledger import SHOWS, Outcome, Result
from nodeagent.model.snapshot import Instance, Node
from nodeagent.model.units import Ms, in_seconds


def next_step(
    instance: Instance,
    policy: Policy,
    nodes: Mapping[str, Node],
    loaded: Loaded | Conflict,
    jobs: Sequence[Ran],
    results: Mapping[int, Result],
    now: Ms,
) -> Next:
    """Decide at `now` (unix ms) about an instance; arguments as in `steps.next_step`."""
    if isinstance(loaded, Conflict):
        why = f"an unfinished repair, {loaded.older.tag}, beside a newer one, {loaded.found.tag}"
        return Nothing(f"check its tags: {why}", trouble=True)
    work = _Work(instance, policy, nodes, loaded, jobs, results, now)
    if loaded.state == FAILED:
        assert loaded.record is not None
        return Nothing(f"a repair has failed: remove its tag {loaded.record.tag}")
    return work.judge() if loaded.state == PENDING else work.begin()


@dataclass
class _Work:
    instance: Instance
    policy: Policy
    nodes: Mapping[str, Node]
    loaded: Loaded
    jobs: Sequence[Ran]
    results: Mapping[int, Result]
    now: Ms

    def judge(self) -> Next:
        """Succeed if all jobs did; fail if one failed or is gone."""
        record = self.loaded.record
        assert record is not None
        ran = ran_for(record, self.jobs, self.results)
        if (live := self._live(ran)) is not None:
            told, longer = live.told, noted(record, ran, self.jobs)
            if longer is None:
                return Wait(told)
            return Mark(record.id, self._swap(longer, (record.tag,)), told)
        bad = [one for one in ran if one.result.outcome is not Outcome.SUCCESS]
        if bad:
            return self._close(record, ran, Ending.FAILURE, bad[0].told)
        if ran:
            last = ran[-1]
            unseen = last.move is not None and not last.has_moved(self.instance)
            if unseen and self.now - last.ended < SHOWS:
                return Wait(f"{last.told}, and its effect is not seen yet")
            return self._close(record, ran, Ending.SUCCESS, last.told)
        if needed(self.instance, self.nodes) is None:
            return self._close(record, ran, Ending.SUCCESS, "all its nodes are in service")
        return self._close(record, ran, Ending.FAILURE, "no job of it is known")

    def begin(self) -> Next:
        need = self._need()
        if not isinstance(need, RepairType):
            return need
        why = trouble(self.instance, self.nodes)
        if not isinstance(self.policy, Enabled):
            return Nothing(f"{why}; {said(self.policy)}")
        if (live := self._live(())) is not None:
            return Wait(f"{live.told}, and its tag is not there")
        at, identity = in_seconds(self.now), repair_id(self.instance.name, self.now)
        if need > self.policy.kind:
            why = f"{why}: that needs {need.word}, and {said(self.policy)}"
            last = self.loaded.record
            if last is not None and last.ending is Ending.ENOPERM and last.kind is need:
                return Nothing(why)
            record = compose(need, identity, at, (), Ending.ENOPERM)
            return Mark(identity, self._swap(record, self._old()), why, Ending.ENOPERM)
        if (wait := backing_off(self.jobs, self.now)) is not None:
            return Wait(wait)
        record = compose(need, identity, at)
        return Step(need, identity, self._swap(record, self._old()), why)

    def _need(self) -> RepairType | Nothing:
        need = needed(self.instance, self.nodes)
        if need is None:
            return Nothing()
        sides = (self.instance.primary, self.instance.secondary)
        gone = all(self.nodes[side].offline for side in sides if side is not None)
        if need is RepairType.REINSTALL and not gone:
            return Nothing(f"{trouble(self.instance, self.nodes)}: its data are there, and stay")
        if need is RepairType.REINSTALL and self.instance.offline:
            return Nothing(f"{trouble(self.instance, self.nodes)}; it is itself marked offline")
        return need

    def _close(self, record: Record, ran: Sequence[Ran], ending: Ending, why: str) -> Next:
        listed = with_jobs(record, ran).jobs
        result = fit(compose(record.kind, record.id, in_seconds(self.now), listed, ending))
        if result is None:
            told = f"the result is too long for a tag: {why}; remove its tag {record.tag}"
            return Nothing(told, trouble=True)
        return Mark(record.id, self._swap(result, self._old()), why, ending)

    def _live(self, ran: Sequence[Ran]) -> Ran | None:
        return next((one for one in (*self.jobs, *ran) if one.live), None)

    def _old(self) -> tuple[str, ...]:
        own = () if self.loaded.record is None else (self.loaded.record.tag,)
        return (*own, *self.loaded.remove)

    def _swap(self, record: Record, gone: tuple[str, ...]) -> Retag:
        return Retag(Scope.INSTANCE, self.instance.name, add=(record.tag,), remove=gone)


def trouble(instance: Instance, nodes: Mapping[str, Node]) -> str:
    """Describe the fault of an instance's nodes in words."""
    names = (instance.primary, instance.secondary)
    places = [nodes[name] for name in names if name is not None]
    return f"its node {' and '.join(fault_of(node) for node in places if not node.in_service)}"
