"""A cluster in memory that misbehaves like Ganeti: time, locks, failure, lost answers.

The tests and the demo use it. Jobs wait for their turn, for the jobs they depend on and for locks,
take their time, and have their effect at their end. Finished jobs stay visible long after they are
archived, until they are deleted.
"""

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from threading import RLock
from typing import Self
from uuid import NAMESPACE_DNS, uuid5

from nodeagent.cluster.backend import Accepted, Answer, NotTaken, Submission
from nodeagent.errors import Unavailable
from nodeagent.model import tag
from nodeagent.model.action import (
    NOTE_WITHIN,
    Action,
    Drain,
    Guarded,
    MovePrimary,
    MoveSecondary,
    Power,
    Reinstall,
    Restore,
    Retag,
    RunCommand,
    Scope,
    SetOffline,
    move_of,
)
from nodeagent.model.ledger import Outcome, Removal, Result, RoleChange, Trail
from nodeagent.model.snapshot import Capacity, Group, Instance, Node, Running, Snapshot
from nodeagent.model.units import Ms
from simulation.world import ALL_NODES, Lock, World

_RUNNING = Result(Outcome.RUNNING)
_SUCCESS = Result(Outcome.SUCCESS)
_LOST = Result(Outcome.LOST, "the cluster does not know this job")


@dataclass
class Job:
    """A job in the queue; times are the clock's. `doom` is why it will fail at its end.

    A guarded one is `pausing`, without a lock, after it has changed the tags (`noted`).
    """

    number: str
    action: Action
    reason: str
    after: str | None
    born: float
    ours: bool = True
    began: float | None = None
    noted: bool = False
    pausing: bool = False
    ends: float = inf
    locks: frozenset[Lock] = frozenset()
    doom: str = ""
    result: Result = _RUNNING
    changed: bool = False  # it has changed something

    @property
    def outcome(self) -> Outcome:
        return self.result.outcome


@dataclass
class SimulatedCluster:
    """`clock` gives seconds. Callables decide what goes wrong, so nothing is random.

    `takes` returns the duration of an action; `fails` selects those that fail without effect (a
    text is the reason), `fails_late` those that fail after it; `pauses` those that a job filter
    keeps in the queue. In a submission `refuses` selects refused jobs, `unreached` loses the
    request, `loses_answer` the answer; the jobs of a broken batch before the break stay in the
    queue. A request whose answer was lost arrives `arrives` seconds later, within `grace`. `keeps`
    says why Ganeti does not take the rule of the ledger, "" where it does; `loses_rule` takes it,
    and loses the answer.
    """

    clock: Callable[[], float]
    world: World
    takes: Callable[[Action], float] = lambda _: 1.0
    fails: Callable[[Action], bool | str] = lambda _: False
    fails_late: Callable[[Action], bool] = lambda _: False
    pauses: Callable[[Action], bool] = lambda _: False
    refuses: Callable[[Action], bool] = lambda _: False
    unreached: Callable[[Action], bool] = lambda _: False
    loses_answer: Callable[[Action], bool] = lambda _: False
    arrives: Callable[[Action], float] = lambda _: 0.0
    keeps: Callable[[str], str] = lambda _: ""
    loses_rule: Callable[[str], bool] = lambda _: False
    grace: float = 5.0
    at_once: int = 1000
    forgets_after: float = 21 * 86400.0  # ganeti-cleaner deletes archived jobs after 21 days
    most_at_once: int = 20  # Ganeti's max_running_jobs; jobs waiting for locks are among them
    queue_drained: bool = False
    watcher_until: float = 0.0  # seconds; `gnt-cluster watcher pause` sets it
    down: bool = False
    jobs: dict[str, Job] = field(default_factory=dict)
    _time: float = -inf
    _newest: int = 0  # Ganeti gives no number twice, not even after a job's deletion
    _queue: list[int] = field(default_factory=list)
    _active: dict[str, Job] = field(default_factory=dict)
    _dependents: dict[str, list[Job]] = field(default_factory=dict)
    _late: list[tuple[float, Submission]] = field(default_factory=list)
    _reasons: dict[str, list[Job]] = field(default_factory=dict)
    _guard: RLock = field(default_factory=RLock)

    @classmethod
    def of(
        cls,
        clock: Callable[[], float],
        nodes: Iterable[Node],
        instances: Iterable[Instance] = (),
        groups: Iterable[Group] = (),
        master: str = "",
        name: str = "cluster.example",
    ) -> Self:
        """Build a cluster of these and the groups that nodes name. No master: none of the nodes."""
        by_name = {node.name: node for node in nodes}
        named = {node.group: Group(node.group, node.group) for node in by_name.values()}
        world = World(
            name,
            by_name,
            {instance.name: instance for instance in instances},
            named | {group.uuid: group for group in groups},
            master,
        )
        return cls(clock, world)

    # The Protocol's methods.

    def master(self) -> str:
        self._live()
        return self.world.master

    def snapshot(self) -> Snapshot:
        self._live()
        return self.world.snapshot()

    def capacity(self, nodes: Collection[str]) -> Mapping[str, Capacity]:
        self._live()
        return self.world.free(nodes)

    def answering(self, nodes: Collection[str]) -> frozenset[str]:
        self._live()
        return self.world.answering(nodes)

    def running(self, nodes: Collection[str]) -> Mapping[str, Running]:
        self._live()
        return self.world.running(nodes)

    def submit(self, batch: Sequence[Submission]) -> Sequence[Answer]:
        self._live()
        return [self._take(submission) for submission in batch]

    def find(self, reasons: Collection[str]) -> Mapping[str, str]:
        self._live()
        kept = {r: [j for j in self._reasons.get(r, ()) if self._kept(j)] for r in reasons}
        return {reason: jobs[0].number for reason, jobs in kept.items() if jobs}

    def cancel(self, job: str) -> bool:
        self._live()
        known = self.jobs.get(job)
        if known is None or known.began is not None or known.outcome is not Outcome.RUNNING:
            return False
        self._end(known, "canceled")
        return True

    def results(self, jobs: Collection[str]) -> Mapping[str, Result]:
        self._live()
        known = {number: self.jobs.get(number) for number in jobs}
        return {n: job.result if job and self._kept(job) else _LOST for n, job in known.items()}

    def busy(self) -> Mapping[str, str]:
        self._live()
        theirs = (j for j in self.jobs.values() if not j.ours and j.outcome is Outcome.RUNNING)
        moves = ((move_of(job.action), job.number) for job in theirs)
        return {move.instance: number for move, number in moves if move is not None}

    def unfinished(self) -> Mapping[str, int]:
        self._live()
        active = self._active.values()
        running = sum(job.began is not None for job in active)
        late = sum(
            job.outcome is Outcome.RUNNING for jobs in self._dependents.values() for job in jobs
        )
        waiting = len(active) - running + late
        return {"canceling": 0, "queued": len(self._queue), "running": running, "waiting": waiting}

    def watcher_paused(self) -> Ms:
        self._live()
        return Ms(round(self.watcher_until * 1000) if self.watcher_until > self.clock() else 0)

    def trails(self) -> Sequence[Trail]:
        self._live()
        return [_trail(job) for job in self.jobs.values() if job.ours and self._kept(job)]

    def removals(self) -> Sequence[Removal]:
        self._live()
        kept = (job for job in self.jobs.values() if self._kept(job))
        return [
            Removal(job.number, tags.scope, tags.name, frozenset(tags.remove))
            for job in kept
            if job.outcome is not Outcome.ERROR
            and isinstance(tags := getattr(job.action, "swap", job.action), Retag)
            and tags.remove
        ]

    def roles(self, since: str) -> Sequence[RoleChange]:
        self._live()
        return [
            RoleChange(job.number, job.action.node, job.ours, job.changed)
            for job in self.jobs.values()
            if self._kept(job) and job.outcome in (Outcome.RUNNING, Outcome.SUCCESS)
            if isinstance(job.action, Drain | SetOffline | Restore)
            if int(job.number) >= int(since)
        ]

    def ledger_rule_uuid(self) -> str:
        self._live()
        return str(uuid5(NAMESPACE_DNS, self.world.cluster))

    def ledger_rule(self) -> str | None:
        self._live()
        return self.world.ledger_rule

    def write_ledger_rule(self, text: str) -> None:
        # As luxid, which takes rules while the queue is drained.
        self._live()
        if why := self.keeps(text):
            raise Unavailable(why)
        self.world.ledger_rule = text
        if self.loses_rule(text):
            raise Unavailable("the answer to the rule was lost")

    def remove_ledger_rule(self) -> None:
        self._live()
        self.world.ledger_rule = None

    # The passage of time.

    def _live(self) -> None:
        if self.down:
            raise Unavailable("the cluster does not answer")
        self._now()

    def _now(self) -> World:
        """Process the events that are due by now, in order of their time."""
        with self._guard:
            now = self.clock()
            while True:
                ends = min(self._active.values(), key=lambda job: job.ends, default=None)
                late = min(self._late, key=lambda pair: pair[0], default=None)
                if late and late[0] <= min(now, ends.ends if ends else inf):
                    self._time = late[0]
                    self._late.remove(late)
                    self._enqueue(late[1])
                elif ends and ends.ends <= now:
                    self._time = ends.ends
                    self._finish(ends)
                    self._start()
                else:
                    self._time = now
                    if not self._start():
                        return self.world

    def _take(self, submission: Submission) -> Answer:
        action = submission.action
        if self.unreached(action):
            raise Unavailable("the cluster was not reached")
        if self.queue_drained:
            return NotTaken("Queue drained")
        if self.refuses(action):
            return NotTaken("this job is not taken")
        if isinstance(action, RunCommand):
            return NotTaken("an order to an agent is no job")
        if isinstance(action, Retag) and not (action.add or action.remove):
            return NotTaken("it changes no tag")
        tags = action.swap if isinstance(action, Guarded) else action
        if isinstance(tags, Retag) and (why := tag.fault(tags.add)):
            return NotTaken(why)
        if submission.after is not None and not submission.after.isdecimal():
            return NotTaken(f"it should wait for job {submission.after!r}, which is none")
        if not self.loses_answer(action):
            return Accepted(self._enqueue(submission).number)
        if delay := self.arrives(action):
            self._late.append((self._time + delay, submission))
        else:
            self._enqueue(submission)
        raise Unavailable("the answer to the submission was lost")

    def _enqueue(self, submission: Submission, *, ours: bool = True) -> Job:
        with self._guard:
            self._newest += 1
            number = str(self._newest)
            job = Job(
                number, submission.action, submission.reason, submission.after, self._time, ours
            )
            self.jobs[number] = job
            if ours:
                self._reasons.setdefault(job.reason, []).append(job)
            first = self.jobs.get(job.after) if job.after else None
            if job.after and (first is None or not self._kept(first)):
                self._end(job, f"Dependency job {job.after} is not known")
            elif first is None or first.outcome is Outcome.SUCCESS:
                insort(self._queue, int(number))
            elif first.outcome is Outcome.RUNNING:
                self._dependents.setdefault(first.number, []).append(job)
            else:
                self._end(job, *_unmet(first))
            self._start()
            return job

    def _start(self) -> bool:
        """Start all possible jobs, past those that wait for a lock; tell whether there were any."""
        for number in list(self._queue):
            if len(self._active) >= self.most_at_once:
                break
            job = self.jobs[str(number)]
            if not self.pauses(job.action):
                self._queue.remove(number)
                self._active[job.number] = job
        held = set().union(*(job.locks for job in self._active.values()))
        started = False
        for job in list(self._active.values()):
            if job.ends != inf:
                continue
            action = job.action
            tags = action.swap if isinstance(action, Guarded) and not job.noted else None
            wanted = self.world.locks(tags or action)
            if _collide(held, wanted):
                continue
            started = True
            job.began = self._time if job.began is None else job.began
            if tags is not None:
                self._note(job, tags)
                continue
            job.ends = self._time + self.takes(action)
            job.locks = wanted
            held |= wanted
        return started

    def _note(self, job: Job, tags: Retag) -> None:
        """Do the first opcodes of a guarded job; their effect stays, whatever follows."""
        if why := self.world.apply(tags):
            self._end(job, why)
            return
        job.noted = job.pausing = True
        job.ends = self._time + NOTE_WITHIN / 1000

    def _finish(self, job: Job) -> None:
        if job.pausing and not job.doom:
            job.pausing, job.ends = False, inf  # it waits for the locks of its work
            return
        action = job.action.then if isinstance(job.action, Guarded) else job.action
        told = self.fails(job.action)
        why = job.doom or (told if isinstance(told, str) else "this job fails" if told else "")
        before = self.world.nodes.get(getattr(job.action, "node", ""))
        if isinstance(job.action, Power) and not why:
            why, code, said = self.world.power(job.action.node, job.action.command)
            late = "this job fails late" if self.fails_late(job.action) else ""
            self._end(job, why or late)
            job.result = replace(job.result, code=code, said=said)
            return
        why = why or self.world.apply(action)
        job.changed = before is not self.world.nodes.get(getattr(job.action, "node", ""))
        self._end(job, why or ("this job fails late" if self.fails_late(job.action) else ""))

    def _end(self, job: Job, why: str = "", failed: Outcome = Outcome.ERROR) -> None:
        """End a job, and with it those that depend on its success."""
        job.result = Result(failed, why) if why else _SUCCESS
        job.ends, job.locks = self._time, frozenset()
        self._active.pop(job.number, None)
        if int(job.number) in self._queue:
            self._queue.remove(int(job.number))
        for dependent in self._dependents.pop(job.number, ()):
            if dependent.outcome is not Outcome.RUNNING:
                continue
            if why:
                self._end(dependent, *_unmet(job))
            else:
                insort(self._queue, int(dependent.number))

    def _kept(self, job: Job) -> bool:
        """Tell whether it still exists; a job that is not over stays."""
        return job.outcome is Outcome.RUNNING or self.clock() <= job.ends + self.forgets_after


def _trail(job: Job) -> Trail:
    ended = 0 if job.outcome is Outcome.RUNNING else int(job.ends * 1000)
    action = _read_back(job.action)
    return Trail(job.number, job.reason, action, job.result, Ms(int(job.born * 1000)), Ms(ended))


def _read_back(action: Action) -> Action:
    """Return the action as Ganeti's opcodes show it: each kind of move has one flag only."""
    if isinstance(action, Guarded):
        then = _read_back(action.then)
        assert isinstance(then, MovePrimary | MoveSecondary | Reinstall)
        return replace(action, then=then)
    if isinstance(action, MovePrimary):
        return (
            replace(action, fallback=True) if not action.live else replace(action, unchecked=False)
        )
    return action


def _unmet(first: Job) -> tuple[str, Outcome]:
    """Say why a job that depends on this one fails; LATER unless somebody canceled that."""
    canceled = first.result.why == "canceled"
    how = "canceled" if canceled else "error"
    why = (
        f"OpExecError: Dependency job {first.number} finished with status '{how}', "
        "not one of 'success' as required"
    )
    return why, Outcome.ERROR if canceled else Outcome.LATER


def _collide(held: set[Lock], wanted: frozenset[Lock]) -> bool:
    if ALL_NODES in wanted:
        return any(scope is Scope.NODE for scope, _ in held)
    if ALL_NODES in held:
        return any(scope is Scope.NODE for scope, _ in wanted)
    return not held.isdisjoint(wanted)
