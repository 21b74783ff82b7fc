"""A cluster in memory that misbehaves like Ganeti: time, failure, lost answers, archiving.

Used by the tests and the demo. Jobs take their time and have their effect at their end; a
job may fail half-way through its life; an answer may be lost after the job was accepted;
finished jobs are archived and in the end deleted.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from nodeagent.errors import Unavailable
from nodeagent.model.action import Action, AddTag, Drain, MovePrimary, MoveSecondary, SetOffline
from nodeagent.model.ledger import Outcome
from nodeagent.model.snapshot import Instance, Node, Snapshot


@dataclass
class _Job:
    action: Action
    reason: str
    born: float
    takes: float
    outcome: Outcome = Outcome.RUNNING


@dataclass
class SimulatedCluster:
    """`clock` gives seconds; `takes` says how long an action runs; `fails` which ones fail.

    `loses_answer` is asked at each submission: True accepts the job and raises Unavailable.
    """

    clock: Callable[[], float]
    name: str = "cluster.example"
    nodes: dict[str, Node] = field(default_factory=dict)
    instances: dict[str, Instance] = field(default_factory=dict)
    takes: Callable[[Action], float] = lambda _: 1.0
    fails: Callable[[Action], bool] = lambda _: False
    loses_answer: Callable[[Action], bool] = lambda _: False
    forgets_after: float = 21 * 86400.0  # ganeti-cleaner deletes archived jobs after 21 days
    down: bool = False
    jobs: dict[str, _Job] = field(default_factory=dict)

    @classmethod
    def of(
        cls, clock: Callable[[], float], nodes: Iterable[Node], instances: Iterable[Instance] = ()
    ) -> "SimulatedCluster":
        """A cluster of these nodes and instances."""
        return cls(
            clock,
            nodes={node.name: node for node in nodes},
            instances={instance.name: instance for instance in instances},
        )

    def snapshot(self) -> Snapshot:
        self._live()
        return Snapshot(self.name, dict(self.nodes), dict(self.instances))

    def submit(self, action: Action, reason: str) -> str:
        self._live()
        number = str(len(self.jobs) + 1)
        self.jobs[number] = _Job(action, reason, self.clock(), self.takes(action))
        if self.loses_answer(action):
            raise Unavailable("the answer to the submission was lost")
        return number

    def find(self, reason: str) -> str | None:
        self._live()
        for number, job in self.jobs.items():
            if job.reason == reason and not self._deleted(job):
                return number
        return None

    def outcome(self, job: str) -> Outcome:
        self._live()
        known = self.jobs.get(job)
        return Outcome.LOST if known is None or self._deleted(known) else known.outcome

    def untag(self, node: str, tag: str) -> None:
        """What an administrator does to acknowledge."""
        old = self.nodes[node]
        self.nodes[node] = replace(old, tags=old.tags - {tag})

    def _deleted(self, job: _Job) -> bool:
        return self.clock() > job.born + job.takes + self.forgets_after

    def _live(self) -> None:
        """Let the jobs that are due by now have their effect, in order of their ends."""
        if self.down:
            raise Unavailable("the cluster does not answer")
        due = [j for j in self.jobs.values() if j.outcome is Outcome.RUNNING]
        for job in sorted(due, key=lambda j: j.born + j.takes):
            if job.born + job.takes <= self.clock():
                failed = self.fails(job.action) or not self._effect(job.action)
                job.outcome = Outcome.ERROR if failed else Outcome.SUCCESS

    def _effect(self, action: Action) -> bool:
        """Apply an action; False where Ganeti would refuse it."""
        match action:
            case Drain(node):
                return self._change(node, drained=True, offline=False)
            case SetOffline(node):
                busy = any(i.primary == node for i in self.instances.values())
                return not busy and self._change(node, drained=False, offline=True)
            case AddTag(node, tag):
                old = self.nodes.get(node)
                return old is not None and self._change(node, tags=old.tags | {tag})
            case MovePrimary(name):
                instance = self.instances.get(name)
                if instance is None or instance.secondary is None:
                    return False
                if self.nodes[instance.secondary].offline:
                    return False
                moved = replace(instance, primary=instance.secondary, secondary=instance.primary)
                self.instances[name] = moved
                return True
            case MoveSecondary(name, _, target):
                instance = self.instances.get(name)
                if instance is None or target in (instance.primary, None):
                    return False
                self.instances[name] = replace(instance, secondary=target)
                return not self.nodes[target].offline
            case _:
                return False  # a repair command is an order to an agent, not a job

    def _change(self, node: str, **change: object) -> bool:
        old = self.nodes.get(node)
        if old is None:
            return False
        self.nodes[node] = replace(old, **change)  # type: ignore[arg-type]
        return True
