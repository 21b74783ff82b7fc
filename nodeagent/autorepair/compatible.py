"""One run of harep 3.0.2 or 3.1, as a sequence of questions and jobs for its caller. Pure.

`run` yields effects, takes the answers, and returns the end of the run. As harep, it decides to the
end from the cluster it has read at the beginning, and any fault with one instance ends the run:
that is the meaning of compatible.
"""

import json
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from uuid import UUID, uuid5

from nodeagent.autorepair.health import as_harep as repair_needed
from nodeagent.autorepair.policy import Enabled, NotEnabled, Policies, Suspended
from nodeagent.autorepair.state import FAILED, NEEDS, PENDING, WELL, Conflict, Loaded
from nodeagent.autorepair.state import as_harep as load
from nodeagent.autorepair.tags import Ending, Record, RepairType, compose
from nodeagent.model.snapshot import Instance, Snapshot
from nodeagent.model.units import Ms, Seconds

Opcode: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of harep: the delay before each repair, in seconds, and `dry`: submit no job."""

    delay: float = 10.0
    dry: bool = False


@dataclass(frozen=True, slots=True)
class Say:
    """Print a line. Wants None."""

    line: str


@dataclass(frozen=True, slots=True)
class Clock:
    """Ask the time. Wants unix milliseconds."""


@dataclass(frozen=True, slots=True)
class Query:
    """Ask for the states of these jobs. Wants them in order, or why they are unknown.

    Without a job it asks for all in the queue.
    """

    jobs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Submit:
    """Submit one job of these opcodes. Wants its number, or why there is none."""

    ops: tuple[Opcode, ...]


@dataclass(frozen=True, slots=True)
class Perform:
    """Submit one job and wait for its end. Wants None, or why it did not succeed."""

    op: Opcode


@dataclass(frozen=True, slots=True)
class Stopped:
    """An effect that failed, and why: the words of standard error."""

    why: str


Effect: TypeAlias = Say | Clock | Query | Submit | Perform
Run: TypeAlias = Generator[Effect, Any, "int | Stopped"]
"""A run returns 0, or why it was stopped: harep's exit code is 1 then."""


class _Stop(Exception):
    """Ends the run from any depth."""


def run(snapshot: Snapshot, now: Ms, options: Options, local: Callable[[Seconds], str]) -> Run:
    try:
        yield from _Harep(snapshot, Policies(snapshot, now, strict=False), options, local).all()
    except _Stop as stop:
        return Stopped(str(stop))
    return 0


@dataclass
class _Harep:
    snapshot: Snapshot
    policies: Policies
    options: Options
    local: Callable[[Seconds], str]

    def all(self) -> Generator[Effect, Any, None]:
        instances = list(self.snapshot.instances.values())
        states: list[Loaded] = []
        for instance in instances:
            loaded = load(instance.tags)
            if isinstance(loaded, Conflict):
                raise _Stop(
                    f"when parsing auto-repair tags: An unfinished repair was found in instance"
                    f" {instance.name}: found tag {shown(loaded.found.tag)}, but older pending tag"
                    f" {shown(loaded.older.tag)}exists.\n"
                )
            states.append(loaded)
        for place, instance in enumerate(instances):
            if states[place].state == PENDING:
                states[place] = yield from self._judge(instance, states[place])
        for place, instance in enumerate(instances):
            if instance.template == "drbd" and instance.secondary is None:
                raise _Stop(f"instance {instance.name} is mirrored and has no secondary node")
            need = repair_needed(instance, self.snapshot.nodes)
            if need is not None and states[place].state == WELL:
                states[place] = yield from self._repair(instance, states[place], need)
        for line in summary(Counter(loaded.state for loaded in states)):
            yield Say(line)

    def _judge(self, instance: Instance, loaded: Loaded) -> Generator[Effect, Any, Loaded]:
        """End a pending repair when its jobs have ended, with their result."""
        record = loaded.record
        assert record is not None
        said = yield Query(record.jobs)
        now = yield Clock()
        if isinstance(said, Stopped):
            raise _Stop(f"could not check job status: {said.why}")
        if any(state in _UNFINISHED for state in said):
            return loaded
        success = all(state == "success" for state in said)
        ending = Ending.SUCCESS if success else Ending.FAILURE
        ended = compose(record.kind, record.id, now // 1000, record.jobs, ending)
        state = WELL if success else FAILED
        yield Say(f'Moving {instance.name} from "{PENDING}" to "{state}"')
        return (yield from self._commit(instance, _next(loaded, state, ended)))

    def _repair(
        self, instance: Instance, loaded: Loaded, need: RepairType
    ) -> Generator[Effect, Any, Loaded]:
        policy = self.policies.of(instance)
        if not isinstance(policy, Enabled):
            said = f"it's in state {self._described(policy)}"
            yield Say(f"Not repairing {instance.name} because {said}")
            return loaded
        if need > policy.kind:
            now = yield Clock()
            record = compose(need, _id(instance, need, now), now // 1000, (), Ending.ENOPERM)
            yield Say(
                f"Not performing a repair of type {_shown(need)} on {instance.name} because only"
                f" repairs up to {_shown(policy.kind)} are allowed"
            )
            return (yield from self._commit(instance, _next(loaded, NEEDS, record)))
        yield Say(f"Executing {_shown(need)} repair on {instance.name}")
        ops = (*self._delay(), *repair(instance.name, need))
        now = yield Clock()
        jobs: tuple[int, ...] = ()
        if self.options.dry:
            yield Say(f"jobs: {json.dumps([ops], separators=(',', ':'))}")
        else:
            job = yield Submit(ops)
            if isinstance(job, Stopped):
                raise _Stop(f"Job submission error: {job.why}")
            jobs = (job,)
        record = compose(need, _id(instance, need, now), now // 1000, jobs)
        return (yield from self._commit(instance, _next(loaded, PENDING, record)))

    def _delay(self) -> tuple[Opcode, ...]:
        if self.options.delay <= 0:
            return ()
        whole = float(self.options.delay).is_integer()
        delay: Opcode = {
            "OP_ID": "OP_TEST_DELAY",
            "duration": int(self.options.delay) if whole else self.options.delay,
            "on_master": True,
            "on_nodes": [],
            "repeat": 0,
            "interruptible": False,
            "no_locks": False,
        }
        return (delay,)

    def _commit(self, instance: Instance, changed: Loaded) -> Generator[Effect, Any, Loaded]:
        """Add the new tag first, then remove the old ones: a job each, and wait for each."""
        assert changed.record is not None
        tag, old = changed.record.tag, changed.remove
        yield Say(f">>> Adding the following tag to {instance.name}:")
        yield Say(shown(tag))
        yield from self._tag("OP_TAGS_SET", instance, (tag,))
        if old:
            yield Say(f">>> Removing the following tags from {instance.name}:")
            for gone in old:
                yield Say(shown(gone))
            yield from self._tag("OP_TAGS_DEL", instance, old)
        return replace(changed, remove=())

    def _tag(
        self, operation: str, instance: Instance, tags: tuple[str, ...]
    ) -> Generator[Effect, Any, None]:
        if self.options.dry:
            return
        op = {"OP_ID": operation, "kind": "instance", "tags": list(tags), "name": instance.name}
        said = yield Perform(op)
        if isinstance(said, Stopped):
            raise _Stop(said.why)

    def _described(self, policy: object) -> str:
        match policy:
            case Suspended(None):
                return "ArSuspended Forever"
            case Suspended(int(until)):
                return f"ArSuspended (Until {self.local(until)})"
            case _:
                assert isinstance(policy, NotEnabled)
                return "ArNotEnabled"


def summary(counts: Mapping[str, int]) -> list[str]:
    """Count the instances in each state, as harep does at the end."""
    rule = "---------------------"
    told = [f"{word}: {number}" for word, number in sorted(counts.items()) if number]
    return [rule, "Instance status count", rule, *told]


def _next(loaded: Loaded, state: str, record: Record) -> Loaded:
    """Return the next state, which removes the tag of this one."""
    old = () if loaded.record is None else (loaded.record.tag,)
    return Loaded(state, record, (*old, *loaded.remove))


_SPACE = UUID("4b2b6a0e-6a0c-5a5b-9d8e-3d3f0a1c7f10")


def _id(instance: Instance, kind: RepairType, now: Ms) -> str:
    return str(uuid5(_SPACE, f"{instance.name} {kind.word} {now}"))


_UNFINISHED = frozenset({"queued", "waiting", "canceling", "running"})
STATES = _UNFINISHED | {"canceled", "success", "error"}
"""The words for how a job stands."""


def repair(name: str, kind: RepairType) -> tuple[Opcode, ...]:
    """Return the opcodes of one of harep's repairs, with its fields in its order."""
    match kind:
        case RepairType.FAILOVER:
            return (
                {
                    "OP_ID": "OP_INSTANCE_FAILOVER",
                    "instance_name": name,
                    "shutdown_timeout": 120,
                    "ignore_consistency": False,
                    "ignore_ipolicy": False,
                    "cleanup": False,
                },
            )
        case RepairType.FIX_STORAGE:
            return (
                {
                    "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
                    "instance_name": name,
                    "early_release": False,
                    "ignore_ipolicy": False,
                    "mode": "replace_new_secondary",
                    "disks": [],
                    "iallocator": "hail",
                },
            )
        case _:
            return (
                {
                    "OP_ID": "OP_INSTANCE_RECREATE_DISKS",
                    "instance_name": name,
                    "disks": [],
                    "nodes": [],
                    "iallocator": "hail",
                },
                {"OP_ID": "OP_INSTANCE_REINSTALL", "instance_name": name, "force_variant": False},
            )


def _shown(kind: RepairType) -> str:
    return "Ar" + kind.word.title().replace("-", "")


def shown(text: str) -> str:
    """Quote a tag as harep's language does: ASCII, the rest by number."""
    out, number = "", False
    for letter in text:
        code = ord(letter)
        if code > 127:
            out, number = f"{out}\\{code}", True
            continue
        # A digit that follows a number must not become a part of it.
        out += "\\&" if number and letter.isdigit() else ""
        out += f"\\{letter}" if letter in '"\\' else letter
        number = False
    return f'"{out}"'
