"""Clusters for the conformance suite: a backend, and an administrator's hand on what it shows."""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from math import inf
from socket import AF_UNIX, socket
from typing import TypeAlias

from nodeagent.cluster.backend import Accepted, Answer, Cluster, Submission
from nodeagent.cluster.ganeti import opcodes
from nodeagent.cluster.ganeti.luxi import Luxi
from nodeagent.model.action import Action, MovePrimary, Retag, Scope
from nodeagent.model.ledger import Outcome, Result
from nodeagent.model.snapshot import Group, Instance, Node
from nodeagent.model.units import Nanoseconds
from simulation.machines import Control
from tests.cluster.by_hand import ByHand
from tests.real import lab


class _Place(ABC):
    """A cluster of three nodes, the first of them its master, and two instances.

    `mirrored` has its disks on the second and third node, `local` on the second alone.
    """

    cluster: Cluster
    nodes: tuple[str, str, str]
    mirrored: str
    local: str

    def submit(self, action: Action, reason: str, after: str | None = None) -> str:
        """Submit one job that is taken; its number."""
        return self.taken(self.cluster.submit([Submission(action, reason, after)]))[0]

    @staticmethod
    def taken(answers: Sequence[Answer]) -> list[str]:
        """The jobs of answers, all of which must be Accepted."""
        jobs = [answer.job for answer in answers if isinstance(answer, Accepted)]
        assert len(jobs) == len(answers), answers
        return jobs

    def result(self, job: str) -> Result:
        """How a job stands."""
        return self.cluster.results([job])[job]

    def end(self, job: str) -> Result:
        """Wait until a job is over."""
        for _ in range(2000):
            if (result := self.result(job)).outcome is not Outcome.RUNNING:
                return result
            self.sleep()
        raise AssertionError(f"job {job} does not end")

    def do(self, action: Action, reason: str, after: str | None = None) -> Result:
        """Submit one job and wait for its end."""
        return self.end(self.submit(action, reason, after))

    def pause(self) -> None:
        """Give what can happen the time to happen."""
        for _ in range(12):
            self.sleep()

    @abstractmethod
    def sleep(self) -> None:
        """Let a little time pass."""

    @contextmanager
    def busy(self, node: str) -> Iterator[str]:
        """A job of somebody else's that runs there meanwhile."""
        job = self.occupy(node)
        try:
            yield job
        finally:
            self.release(job)
        assert self.end(job).outcome is Outcome.SUCCESS

    @abstractmethod
    def occupy(self, node: str) -> str:
        """Have a job of somebody else's hold a node."""

    @abstractmethod
    def release(self, job: str) -> None:
        """Have that job end."""


class Simulated(_Place):
    """In memory; its clock is moved by waiting."""

    nodes = ("n1", "n2", "n3")
    mirrored, local = "mirrored", "local"

    def __init__(self) -> None:
        self.time = 0.0
        self.cluster: ByHand = ByHand.of(
            lambda: self.time,
            [
                Node(name, f"uuid-{name}", f"10.0.0.{name[1]}", "uuid-group", candidate=True)
                for name in self.nodes
            ],
            [
                Instance("mirrored", "n2", "n3", memory=128, disk=1024),
                Instance("local", "n2", template="plain", memory=128, disk=1024),
            ],
            [Group("uuid-group", "default")],
            master="n1",
        )
        machines = self.cluster.world.machines
        machines.controls = {"n1": (Control(),), "n3": (Control(),)}

    def sleep(self) -> None:
        self.time += 0.25

    def occupy(self, node: str) -> str:
        takes, self.cluster.takes = self.cluster.takes, lambda _: inf
        job = self.cluster.submit_foreign(Retag(Scope.NODE, node, ("busy",)))
        self.cluster.takes = takes
        return job

    def release(self, job: str) -> None:
        self.cluster.jobs[job].ends = self.time

    def migrate(self, instance: str) -> str:
        node = self.cluster.instances[instance].primary
        return self.cluster.submit_foreign(MovePrimary(instance, node, live=True))

    def untag(self, node: str, tag: str) -> str:
        self.cluster.untag(node, tag)
        return max(self.cluster.jobs, key=int)

    def told(self, job: str) -> Mapping[str, object]:
        there = self.cluster.jobs[job]
        ops = opcodes.job(Submission(there.action, there.reason), Nanoseconds(1))
        assert isinstance(ops, list)
        (op,) = ops
        return op

    def undrain(self, node: str) -> str:
        self.cluster.undrain(node)
        return max(self.cluster.jobs, key=int)

    def cancel(self, job: str) -> None:
        assert self.cluster.cancel(job)

    def archive(self, job: str) -> None:
        self.time += 6 * 3600

    def drain_queue(self, *, drained: bool) -> None:
        self.cluster.queue_drained = drained

    def want_candidates(self, count: int) -> None:
        self.cluster.want_candidates(count)

    def pause_watcher(self, seconds: int) -> float:
        self.cluster.watcher_until = self.time + seconds
        return self.cluster.watcher_until

    def power(self, node: str, *, on: bool) -> None:
        (self.cluster.power_on if on else self.cluster.power_off)(node)

    def run(self, instance: str, *, running: bool) -> None:
        self.cluster.put(replace(self.cluster.instances[instance], running=running))


class Real(_Place):
    """The laboratory of three nodes; whatever a test leaves there, `restore` sets right."""

    nodes = lab.NODES
    mirrored, local = "inst41.gnt.test", "inst42.gnt.test"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def sleep(self) -> None:
        time.sleep(0.25)

    def occupy(self, node: str) -> str:
        op = {"OP_ID": "OP_TEST_DELAY", "duration": 600, "interruptible": True, "reason": []}
        job = str(_ask("SubmitJob", [[{**op, "on_master": False, "on_nodes": [node]}]]))
        for _ in range(200):
            if _socket(job):
                return job
            self.sleep()
        raise AssertionError(f"job {job} does not begin")

    def release(self, job: str) -> None:
        with socket(AF_UNIX) as there:
            there.connect(_socket(job))
            there.send(b"x")

    def migrate(self, instance: str) -> str:
        """Have somebody else migrate what is mirrored; the job's number."""
        op = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": instance, "reason": []}
        return str(_ask("SubmitJob", [[op]]))

    def untag(self, node: str, tag: str) -> str:
        """Have somebody else take a tag off a node; the number that this goes by."""
        lab.gnt("gnt-node", "remove-tags", node, tag)
        return str(max(number for (number,) in lab.listed("job", "id")))

    def told(self, job: str) -> Mapping[str, object]:
        """The one opcode of a job, as Ganeti has it in its queue."""
        match _ask("QueryJobs", [[int(job)], ["ops"]]):
            case [[[{"OP_ID": str(_), **op}]]]:
                return {str(name): value for name, value in op.items()}
        raise AssertionError(f"job {job} has not one opcode")

    def undrain(self, node: str) -> str:
        """Have somebody else put a node back into service; the number that this goes by."""
        lab.gnt("gnt-node", "modify", "-f", "--offline=no", node)
        return str(max(number for (number,) in lab.listed("job", "id")))

    def cancel(self, job: str) -> None:
        """Cancel a job that waits."""
        for _ in range(40):
            lab.node("master", "gnt-job", "cancel", job)
            if _status(job) == "canceled":
                return
            self.sleep()
        raise AssertionError(f"job {job} cannot be canceled")

    def archive(self, job: str) -> None:
        """Have a finished job archived."""
        lab.gnt("gnt-job", "archive", job)

    def drain_queue(self, *, drained: bool) -> None:
        """Close or open the job queue."""
        lab.gnt("gnt-cluster", "queue", "drain" if drained else "undrain")

    def want_candidates(self, count: int) -> None:
        """Say how many master candidates there are to be: ten by default."""
        lab.gnt("gnt-cluster", "modify", f"--candidate-pool-size={count}")

    def pause_watcher(self, seconds: int) -> float:
        """Have the watcher paused for so long, or (0) go on; until when, by the cluster's clock."""
        lab.gnt("gnt-cluster", "watcher", *(("pause", f"{seconds}s") if seconds else ("continue",)))
        return time.time() + seconds

    def power(self, node: str, *, on: bool) -> None:
        """Switch a node off or on; when it returns the node is ready."""
        lab.power(node, "on" if on else "off")

    def run(self, instance: str, *, running: bool) -> None:
        """Start or stop an instance."""
        lab.gnt("gnt-instance", "startup" if running else "shutdown", instance)

    def restore(self) -> None:
        """Nodes in service, untagged, instances where they belong and running, queue open."""
        for name in self.nodes:
            if not (lab.STATE / "nodes" / name.partition(".")[0] / "init.pid").exists():
                self.power(name, on=True)
        seen = self.cluster.snapshot()
        for name, node in seen.nodes.items():
            _untag(node.tags, "gnt-node", name)
            if node.drained or node.offline:
                flag = "offline" if node.offline else "drained"
                lab.gnt("gnt-node", "modify", "-f", f"--{flag}=no", name)
            elif not node.candidate:
                lab.gnt("gnt-node", "modify", "-f", "--master-candidate=yes", name)
        _untag(seen.tags, "gnt-cluster")
        for group in seen.groups.values():
            _untag(group.tags, "gnt-group", group.name)
        for name, template, places in (
            (self.mirrored, "drbd", self.nodes[1:]),
            (self.local, "plain", (self.nodes[1], None)),
        ):
            found = seen.instances.get(name)
            if found and (found.primary, found.secondary, found.running) == (*places, True):
                _untag(found.tags, "gnt-instance", name)
            else:
                lab.create(name, template, *places)

    def leave(self) -> None:
        """Nothing of ours is left in the laboratory."""
        self.restore()
        for name in (self.mirrored, self.local):
            lab.remove(name)


Place: TypeAlias = Simulated | Real


def _ask(method: str, arguments: list[object]) -> object:
    with closing(Luxi(lab.socket_path())) as luxi:
        return luxi.ask(method, arguments)


def _status(job: str) -> object:
    match _ask("QueryJobs", [[int(job)], ["status"]]):
        case [[status]]:
            return status
    return None


def _socket(job: str) -> str:
    """Where a delay that runs can be interrupted; the nodes' /tmp is the machine's."""
    match _ask("QueryJobs", [[int(job)], ["oplog"]]):
        case [[[[[_, _, "delay-test", [str(path)]]]]]]:
            return path
    return ""


def _untag(tags: Collection[str], *command: str) -> None:
    if tags:
        tool, *name = command
        lab.gnt(tool, "remove-tags", *name, *tags)
