"""One run of the compatible mode on a cluster's LUXI socket: harep in all but its name.

It only queries what harep's answers depend on, so it queries no node.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from nodeagent import __version__
from nodeagent.autorepair.compatible import (
    STATES,
    Clock,
    Effect,
    Opcode,
    Options,
    Perform,
    Query,
    Say,
    Stopped,
    Submit,
    run,
)
from nodeagent.cli.maint.console.arguments import unix_ms
from nodeagent.cluster.ganeti import decode
from nodeagent.cluster.ganeti.decode import Row
from nodeagent.cluster.ganeti.luxi import Luxi, Refusal
from nodeagent.errors import MessageError, Unavailable
from nodeagent.model.snapshot import Group, Instance, Node, Snapshot
from nodeagent.model.units import Seconds

SOURCE = "harep"  # in the jobs' reasons, so that job filters on harep's go on working
COMMENT = f"automated repairs by gnt-maint repair {__version__}"
_NODE = ("name", "offline", "drained", "vm_capable", "group.uuid")
_INSTANCE = ("name", "pnode", "snodes", "disk_template", "tags", "forthcoming")
_GROUP = ("uuid", "name", "tags")
_SOONEST, _LATEST = 0.02, 1.0  # seconds between two polls of a job it waits for


def perform(luxi: Luxi, options: Options, reason: str, say: Callable[[str], None]) -> str | None:
    """Run, printing harep's lines; None, or why it stopped. Unavailable: no cluster to read."""
    doing = _Doing(luxi, reason, say)
    going = run(doing.snapshot(), unix_ms(), options, _local)
    answer: Any = None
    while True:
        try:
            effect = going.send(answer)
        except StopIteration as end:
            return end.value.why if isinstance(end.value, Stopped) else None
        answer = doing.have(effect)


class _Doing:
    def __init__(self, luxi: Luxi, reason: str, say: Callable[[str], None]) -> None:
        self._luxi = luxi
        self._reason = reason
        self._say = say

    def snapshot(self) -> Snapshot:
        """Return the basis of harep's decisions; Unavailable if Ganeti's answers make no sense."""
        try:
            nodes = [_node(row) for row in self._table("node", _NODE)]
            instances = self._table("instance", _INSTANCE)
            info = self._luxi.ask("QueryClusterInfo", [])
            groups = [_group(row) for row in self._table("group", _GROUP)]
            return _snapshot(nodes, [i for i in map(_instance, instances) if i], groups, info)
        except MessageError as error:
            raise Unavailable(f"Ganeti's answers make no sense: {error}") from None

    def have(self, effect: Effect) -> Any:
        match effect:
            case Say(line):
                return self._say(line)
            case Clock():
                return unix_ms()
            case Query(jobs):
                return self._states(jobs)
            case Submit(ops):
                return self._submit(ops)
            case Perform(op):
                return self._perform(op)

    def _table(self, what: str, fields: Sequence[str]) -> list[Row]:
        return decode.table(what, fields, self._luxi.ask("Query", [what, fields, None]))

    def _states(self, jobs: Sequence[int]) -> list[str] | Stopped:
        match self._call("QueryJobs", [list(jobs), ["status"]]):
            case Stopped() as stopped:
                return stopped
            case [*rows]:
                states = [row[0] if isinstance(row, list) and row else None for row in rows]
                if all(isinstance(state, str) and state in STATES for state in states):
                    return [str(state) for state in states]
        return Stopped(f"one of the jobs {', '.join(map(str, jobs))} is no longer known")

    def _submit(self, ops: Sequence[Opcode]) -> int | Stopped:
        common = {
            "priority": 0,
            "depends": None,
            "comment": COMMENT,
            "reason": [[SOURCE, self._reason, time.time_ns()]],
        }
        match self._call("SubmitManyJobs", [[[{**common, **op} for op in ops]]]):
            case Stopped() as stopped:
                return stopped
            case [[True, int(job)]]:
                return job
            case [[False, why]]:
                return Stopped(str(why))
            case said:
                return Stopped(f"no answer to a submission: {said}")

    def _perform(self, op: Opcode) -> Stopped | None:
        job = self._submit([op])
        if isinstance(job, Stopped):
            return Stopped(f"Job submission error: {job.why}")
        pause = _SOONEST
        while True:
            states = self._states([job])
            if isinstance(states, Stopped):
                return Stopped(f"Checking job status: {states.why}")
            if states == ["success"]:
                return None
            if states[0] in ("error", "canceled"):
                return Stopped(f"The following jobs failed: {job}=>{states[0]}")
            time.sleep(pause)
            pause = min(2 * pause, _LATEST)

    def _call(self, method: str, args: Sequence[object]) -> Any:
        try:
            said = self._luxi.call(method, args)
        except Unavailable as error:
            return Stopped(str(error))
        return Stopped(said.why) if isinstance(said, Refusal) else said


def _node(row: Row) -> Node:
    return Node(
        row.text("name"),
        uuid="",
        address="",
        group=row.text("group.uuid"),
        drained=row.flag("drained"),
        offline=row.flag("offline"),
        vm_capable=row.flag("vm_capable"),
    )


def _instance(row: Row) -> Instance | None:
    if row.flag("forthcoming"):
        return None
    others = row.texts("snodes")
    return Instance(
        row.text("name"),
        row.text("pnode"),
        others[0] if others else None,
        row.text("disk_template"),
        tags=frozenset(row.texts("tags")),
    )


def _group(row: Row) -> Group:
    return Group(row.text("uuid"), row.text("name"), frozenset(row.texts("tags")))


def _snapshot(
    nodes: list[Node], instances: list[Instance], groups: list[Group], info: Any
) -> Snapshot:
    match info:
        case {"tags": [*tags]} if all(isinstance(tag, str) for tag in tags):
            pass
        case _:
            raise MessageError("cluster field tags must be a list of texts")
    seen = Snapshot(
        "",
        {node.name: node for node in nodes},
        {instance.name: instance for instance in instances},
        {group.uuid: group for group in groups},
        tags=frozenset(tags),
    )
    for instance in instances:
        for place in (instance.primary, instance.secondary):
            if place is not None and place not in seen.nodes:
                raise MessageError(f"instance {instance.name} is on unknown node {place}")
    for node in nodes:
        if node.group not in seen.groups:
            raise MessageError(f"node {node.name} is in unknown group {node.group}")
    return seen


def _local(seconds: Seconds) -> str:
    try:
        return time.strftime("%a %b %e %H:%M:%S %Z %Y", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):  # not in any year that a clock knows
        return f"{seconds} s"
