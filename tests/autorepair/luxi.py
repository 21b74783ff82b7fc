"""A Ganeti of which only the LUXI socket is there: what harep, and we, ask of it.

Tag jobs end at once, other jobs stay queued until somebody says how they have ended. Tags are
answered sorted, as Ganeti does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nodeagent.placement.cluster import cluster as placed
from tests.cluster.ganeti.answering import Luxid, meets
from tests.cluster.ganeti.answering import field as field_of
from tests.placement import luxid

_IPOLICY = luxid.policy(placed.Policy())


@dataclass
class Node:
    """A node, as far as anybody asks. `memory` and `disk` are what it has free."""

    group: str = "g1"
    offline: bool = False
    drained: bool = False
    vm_capable: bool = True
    memory: int = 65536
    disk: int = 1_000_000

    def row(self, name: str) -> dict[str, Any]:
        there = placed.Node(
            name,
            self.group,
            131072.0,
            0,
            self.memory,
            2_000_000.0,
            self.disk,
            8.0,
            spindles=1,
            free_spindles=1,
        )
        own = {"offline": self.offline, "drained": self.drained, "vm_capable": self.vm_capable}
        return luxid.node_row(there) | own


@dataclass
class Instance:
    """An instance, as far as anybody asks."""

    primary: str
    secondary: str | None = None
    template: str = "drbd"
    tags: set[str] = field(default_factory=set)
    status: str = "running"
    up: bool = True
    forthcoming: bool = False
    always_failover: bool = False

    def row(self, name: str) -> dict[str, Any]:
        there = placed.Instance(
            name,
            128,
            1152,
            1,
            self.primary,
            self.secondary,
            placed.Template(self.template),
            status=placed.Status(self.status),
            tags=tuple(sorted(self.tags)),
            forthcoming=self.forthcoming,
        )
        wanted = "up" if self.up else "down"
        own = {"admin_state": wanted, "be/always_failover": self.always_failover, "oper_ram": 128}
        return luxid.instance_row(there) | own


@dataclass
class Job:
    """A job: how it stands, its opcodes, and whether it is in the archive."""

    status: str
    ops: list[dict[str, Any]] = field(default_factory=list)
    archived: bool = False
    result: str = "it failed"
    looks: int = 0

    def row(self, number: int) -> dict[str, Any]:
        over = self.status in ("success", "error", "canceled")
        return {
            "id": number,
            "status": self.status,
            "archived": self.archived,
            "ops": self.ops,
            "opstatus": [self.status] * len(self.ops),
            "opresult": [["OpExecError", [self.result]]] * len(self.ops),
            "opexec": [[1000, 0]] * len(self.ops),
            "received_ts": [1000, 0],
            "start_ts": [1000, 0],
            "end_ts": [1001, 0] if over else None,
        }


@dataclass
class World(Luxid):
    """A cluster. `calls` are the requests in order; the n-th tag job of `spoiled` ends so.

    `refuses` is the number of the submission that is not taken, counted from 1; a tag job is
    seen running `slow` times before it is over.
    """

    nodes: dict[str, Node]
    instances: dict[str, Instance]
    groups: dict[str, list[str]] = field(default_factory=lambda: {"g1": []})
    tags: list[str] = field(default_factory=list)
    jobs: dict[int, Job] = field(default_factory=dict)
    spoiled: Mapping[int, str] = field(default_factory=dict)
    refuses: int = 0
    paused: float | None = None  # until when (unix s) the watcher is
    slow: int = 0
    calls: list[tuple[str, Any]] = field(default_factory=list)
    next: int = 1000
    tagged: int = 0
    submitted: int = 0

    def answer(self, method: str, args: list[Any]) -> Any:
        """What luxid would answer; a world has one conversation that changes it."""
        self.calls.append((method, args))
        match method, args:
            case "Query", [what, fields, condition]:
                rows = [row for row in self._rows(what, fields) if meets(row, condition)]
                data = [[[0, row[name]] for name in fields] for row in rows]
                return {"fields": [field_of(name) for name in fields], "data": data}
            case "QueryClusterInfo", []:
                master = next(iter(self.nodes))
                return {
                    "name": "cluster.example",
                    "master": master,
                    "tags": sorted(self.tags),
                    "ipolicy": _IPOLICY,
                    "default_hypervisor": "kvm",
                }
            case "QueryConfigValues", [["watcher_pause"]]:
                return [self.paused]
            case "QueryConfigValues", [["master_node"]]:
                return [next(iter(self.nodes))]
            case "QueryJobs", [[], ["status"]]:
                return [[job.status] for job in self.jobs.values() if not job.archived]
            case "QueryJobs", [numbers, ["status"]]:
                return [[self._status(number)] for number in dict.fromkeys(numbers)]
            case "SubmitManyJobs", [jobs]:
                return [self._submit(ops) for ops in jobs]
        raise KeyError(method)

    def _status(self, number: int) -> str | None:
        if (job := self.jobs.get(number)) is None:
            return None
        job.looks += 1
        return "running" if number >= 1000 and job.looks <= self.slow else job.status

    def _rows(self, what: str, fields: list[str]) -> list[dict[str, Any]]:
        match what:
            case "node":
                return [node.row(name) for name, node in self.nodes.items()]
            case "instance":
                return [instance.row(name) for name, instance in self.instances.items()]
            case "group":
                return [
                    {
                        "uuid": uuid,
                        "name": f"name-of-{uuid}",
                        "alloc_policy": "preferred",
                        "ipolicy": _IPOLICY,
                        "tags": sorted(tags),
                    }
                    for uuid, tags in self.groups.items()
                ]
            case "job":
                seen = "archived" in fields
                return [j.row(n) for n, j in self.jobs.items() if seen or not j.archived]
        raise KeyError(what)

    def _submit(self, ops: list[dict[str, Any]]) -> list[Any]:
        self.submitted += 1
        if self.submitted == self.refuses:
            return [False, "the queue is full"]
        number, self.next = self.next, self.next + 1
        why = ""
        for op in ops:
            if op["OP_ID"] in ("OP_TAGS_SET", "OP_TAGS_DEL") and not why:
                why = self._retag(op)
        only_tags = all(op["OP_ID"] in ("OP_TAGS_SET", "OP_TAGS_DEL") for op in ops)
        status = "error" if why else "success" if only_tags else "queued"
        if only_tags:
            self.tagged += 1
            status = self.spoiled.get(self.tagged, status)
        self.jobs[number] = Job(status, ops, result=why)
        return [True, number]

    def _retag(self, op: dict[str, Any]) -> str:
        match op["kind"]:
            case "instance":
                tags: set[str] = self.instances[op["name"]].tags
            case "nodegroup":
                uuid = op["name"].removeprefix("name-of-")
                tags = set(self.groups[uuid])
            case _:
                tags = set(self.tags)
        if op["OP_ID"] == "OP_TAGS_SET":
            tags |= set(op["tags"])
        elif absent := sorted(set(op["tags"]) - tags):
            return f"Tag(s) {', '.join(map(repr, absent))} not found"
        else:
            tags -= set(op["tags"])
        if op["kind"] == "nodegroup":
            self.groups[uuid] = sorted(tags)
        elif op["kind"] == "cluster":
            self.tags = sorted(tags)
        return ""
