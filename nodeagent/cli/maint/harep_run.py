"""One run of the compatible mode on a cluster's LUXI socket: harep in all but its name.

It queries no node. As harep, it decides to the end from the cluster it has read at the beginning,
submits a job before it sets its tag, and any fault with one instance ends the run.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from nodeagent import __version__
from nodeagent.autorepair.assess import Judge
from nodeagent.autorepair.health import Broken, Stuck
from nodeagent.autorepair.permissions import Permission
from nodeagent.autorepair.rules import HAREP_ITSELF
from nodeagent.autorepair.state import NEEDS, PENDING, WELL, Clear, Pending, State, Unclear, word_of
from nodeagent.autorepair.steps import End, Mark, Step, close
from nodeagent.autorepair.tags import Ending, Record, RepairType, Suspend, compose, read
from nodeagent.clocks import unix_ms
from nodeagent.cluster.ganeti.luxi import Luxi, Refusal
from nodeagent.errors import NodeAgentError, Unavailable
from nodeagent.model.action import Retag
from nodeagent.model.snapshot import Instance, Snapshot
from nodeagent.model.units import Seconds

Opcode: TypeAlias = dict[str, Any]

SOURCE = "harep"  # in the jobs' reasons, so that job filters on harep's go on working
COMMENT = f"automated repairs by gnt-maint repair {__version__}"
_UNFINISHED = frozenset({"queued", "waiting", "canceling", "running"})
_STATES = _UNFINISHED | {"canceled", "success", "error"}
_SOONEST, _LATEST = 0.02, 1.0  # seconds between two polls of a job it waits for


class Stopped(NodeAgentError):
    """The run has ended early: something is wrong with one instance or job."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of harep: the delay before each repair, in seconds, the reason in the jobs.

    `dry`: submit no job.
    """

    delay: float
    reason: str
    dry: bool


def run(
    snapshot: Snapshot, luxi: Luxi, options: Options, say: Callable[[str], None]
) -> Mapping[str, int]:
    """Run, printing harep's lines; count the instances in each state. Raise Stopped."""
    judge = Judge(snapshot, {}, {}, unix_ms(), HAREP_ITSELF)
    harep = _Run(judge, options, _Queue(luxi, options.reason), say)
    surveyed = judge.survey()
    states: dict[str, State] = {row.instance.name: row.state for row in surveyed.rows}
    for name, state in states.items():
        if isinstance(state, Unclear):
            raise Stopped(f"the tags of instance {name}: {state.why}")
    for name, state in states.items():
        if isinstance(state, Pending):
            states[name] = harep.judge(snapshot.instances[name], state)
    counts = Counter({WELL: surveyed.well})
    for name, state in states.items():
        counts[harep.repair(snapshot.instances[name], state)] += 1
    return counts


@dataclass
class _Run:
    assessor: Judge
    options: Options
    queue: "_Queue"
    say: Callable[[str], None]

    def judge(self, instance: Instance, pending: Pending) -> State:
        """End a pending repair when its jobs have ended; without one all in the queue count."""
        states = self.queue.states(pending.record.jobs)
        if not _UNFINISHED.isdisjoint(states):
            return pending
        ending = Ending.SUCCESS if set(states) <= {"success"} else Ending.FAILURE
        mark = close(instance, pending, (), End(ending, ""), unix_ms())
        if not isinstance(mark, Mark):
            raise Stopped(f"instance {instance.name}: {mark.why}")
        after = HAREP_ITSELF.state(mark.swap.add)
        self.say(f'Moving {instance.name} from "{PENDING}" to "{word_of(after)}"')
        self._tag(mark.swap)
        return after

    def repair(self, instance: Instance, state: State) -> str:
        """Repair an instance that needs it and may have it; return the word for its state."""
        name = instance.name
        self.assessor.now = unix_ms()
        assessed = self.assessor.assess(instance, state)
        if isinstance(assessed.health, Stuck):
            raise Stopped(f"instance {name}: {assessed.health.why}")
        if not isinstance(assessed.health, Broken) or not isinstance(state, Clear):
            return word_of(state)
        need, allowed = _shown(assessed.health.need), assessed.permission.allows
        if allowed is None:
            self.say(
                f"Not repairing {name} because it's in state {_described(assessed.permission)}"
            )
        elif isinstance(assessed.next, Mark):
            self.say(
                f"Not performing a repair of type {need} on {name} because only repairs up to"
                f" {_shown(allowed)} are allowed"
            )
            self._tag(assessed.next.swap)
            return NEEDS
        elif isinstance(assessed.next, Step):
            self.say(f"Executing {need} repair on {name}")
            self._start(assessed.next)
            return PENDING
        return word_of(state)

    def _start(self, step: Step) -> None:
        """Submit the job, then set the tag with its number."""
        ops = (*_delay(self.options.delay), *_repair(step.swap.name, step.kind))
        record = read(step.swap.add[0])
        assert isinstance(record, Record)
        if self.options.dry:
            self.say(f"jobs: {json.dumps([ops], separators=(',', ':'))}")
        else:
            job = self.queue.submit(ops)
            record = compose(record.kind, record.id, record.at, (job,))
        self._tag(Retag(step.swap.scope, step.swap.name, (record.tag,), step.swap.remove))

    def _tag(self, swap: Retag) -> None:
        """Add the new tag first, then remove the old ones: a job each, and wait for each."""
        changes = (
            ("OP_TAGS_SET", ">>> Adding the following tag to", swap.add),
            ("OP_TAGS_DEL", ">>> Removing the following tags from", swap.remove),
        )
        for operation, words, tags in changes:
            if not tags:
                continue
            self.say(f"{words} {swap.name}:")
            for tag in tags:
                self.say(f'"{tag}"')
            if not self.options.dry:
                op = {"OP_ID": operation, "kind": "instance", "tags": tags, "name": swap.name}
                self.queue.perform(op)


@dataclass
class _Queue:
    """Ganeti's job queue; each request that fails ends the run."""

    luxi: Luxi
    reason: str

    def states(self, jobs: Sequence[int]) -> list[str]:
        """Return the states of these jobs, of all without one."""
        match self._call("QueryJobs", [list(jobs), ["status"]]):
            case [*rows]:
                states = [row[0] if isinstance(row, list) and row else None for row in rows]
                if all(isinstance(state, str) and state in _STATES for state in states):
                    return [str(state) for state in states]
        raise Stopped(f"one of the jobs {', '.join(map(str, jobs))} is no longer known")

    def submit(self, ops: Sequence[Opcode]) -> int:
        common = {
            "priority": 0,
            "depends": None,
            "comment": COMMENT,
            "reason": [[SOURCE, self.reason, time.time_ns()]],
        }
        match self._call("SubmitManyJobs", [[[{**common, **op} for op in ops]]]):
            case [[True, int(job)]]:
                return job
            case answer:
                raise Stopped(f"a job was not accepted: {answer}")

    def perform(self, op: Opcode) -> None:
        """Submit a job and wait for its success."""
        job, pause = self.submit([op]), _SOONEST
        while (state := self.states([job])[0]) in _UNFINISHED:
            time.sleep(pause)
            pause = min(2 * pause, _LATEST)
        if state != "success":
            raise Stopped(f"job {job} ended with {state}")

    def _call(self, method: str, args: Sequence[object]) -> Any:
        try:
            answer = self.luxi.call(method, args)
        except Unavailable as error:
            raise Stopped(str(error)) from None
        if isinstance(answer, Refusal):
            raise Stopped(answer.why)
        return answer


# The words and operations of harep.


def _shown(kind: RepairType) -> str:
    return "Ar" + kind.word.title().replace("-", "")


def _described(permission: Permission) -> str:
    if not isinstance(permission.tag, Suspend):
        return "ArNotEnabled"
    until = permission.tag.until
    return "ArSuspended " + ("Forever" if until is None else f"(Until {_local(until)})")


def _local(seconds: Seconds) -> str:
    try:
        return time.strftime("%a %b %e %H:%M:%S %Z %Y", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):  # not in any year that a clock knows
        return f"{seconds} s"


def _delay(seconds: float) -> tuple[Opcode, ...]:
    if seconds <= 0:
        return ()
    delay: Opcode = {
        "OP_ID": "OP_TEST_DELAY",
        "duration": int(seconds) if seconds.is_integer() else seconds,
        "on_master": True,
        "on_nodes": [],
        "repeat": 0,
        "interruptible": False,
        "no_locks": False,
    }
    return (delay,)


# The opcodes of each repair, with harep's fields in its order; `instance_name` comes second.
_REPAIRS: dict[RepairType, tuple[Opcode, ...]] = {
    RepairType.FAILOVER: (
        {
            "OP_ID": "OP_INSTANCE_FAILOVER",
            "shutdown_timeout": 120,
            "ignore_consistency": False,
            "ignore_ipolicy": False,
            "cleanup": False,
        },
    ),
    RepairType.FIX_STORAGE: (
        {
            "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
            "early_release": False,
            "ignore_ipolicy": False,
            "mode": "replace_new_secondary",
            "disks": [],
            "iallocator": "hail",
        },
    ),
    RepairType.REINSTALL: (
        {"OP_ID": "OP_INSTANCE_RECREATE_DISKS", "disks": [], "nodes": [], "iallocator": "hail"},
        {"OP_ID": "OP_INSTANCE_REINSTALL", "force_variant": False},
    ),
}


def _repair(name: str, kind: RepairType) -> list[Opcode]:
    first: Opcode = {"OP_ID": "", "instance_name": name}
    return [{**first, **opcode} for opcode in _REPAIRS[kind]]
