"""Readers of what Ganeti says: answers, jobs, tags, its text files and allocation requests."""

import json
from contextlib import suppress
from functools import partial
from typing import Any

from nodeagent import settings
from nodeagent.autorepair import tags as harep
from nodeagent.cluster.ganeti import backend, decode, jobqueue, queries
from nodeagent.cluster.ganeti.decode import one_line
from nodeagent.cluster.ganeti.luxi import Luxi, Refusal
from nodeagent.errors import ConfigError, Unavailable
from nodeagent.maintd.planning.tag_settings import faults, with_tags
from nodeagent.model import tag
from nodeagent.model.ledger import Policy
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.placement.allocate.candidates import Terms
from nodeagent.placement.allocate.iallocator import answer
from nodeagent.placement.allocate.request import read_request
from nodeagent.placement.cluster.textfile import parse, parse_loads
from tests.cluster.ganeti.answers import DRBD, GROUP, INFO, NODE, PLAIN
from tests.fuzz.decoder import SURE, Decoder, each, seed, text_of
from tests.placement.cluster.texts import TEXT
from tests.placement.requests import request

UUID = "00000001-0000-4000-8000-000000000000"


class Fed:
    """A connection that says this and closes."""

    def __init__(self, raw: bytes) -> None:
        self.parts = [raw[:7], raw[7:], b""]

    def recv(self, _: int) -> bytes:
        while self.parts:
            if (part := self.parts.pop(0)) or not self.parts:
                return part
        return b""

    def settimeout(self, _: float) -> None:
        """No time passes."""

    def sendall(self, _: bytes) -> None:
        """Nobody listens."""

    def send(self, raw: bytes) -> int:
        return len(raw)

    def close(self) -> None:
        """Nothing to close."""


def rows(*found: list[Any]) -> dict[str, Any]:
    return {"data": [[[0, value] for value in row] for row in found]}


def luxi(result: object, *, success: bool = True) -> dict[str, object]:
    return {"success": success, "result": result}


def said(raw: bytes) -> Any:
    """The result of a good answer."""
    result = Luxi("")._read(raw)
    if isinstance(result, Refusal):
        one_line(result.why)
        return {}
    return result if isinstance(result, dict) else {}


class _Answered(queries.Queries):
    """Gives these answers."""

    def __init__(self, found: dict[str, Any]) -> None:
        super().__init__(asking=1.0, grace=1.0)
        self._found = found

    def _info(self) -> object:
        return self._found.get("info")

    def _query(self, what: str, *_: object) -> object:
        return self._found.get(what)

    def _query_nodes(self, what: str, *_: object) -> object:
        return self._query(what)


def snapshot(raw: bytes) -> None:
    _Answered(said(raw)).snapshot()


def jobs(raw: bytes) -> str:
    found = said(raw).get("jobs")
    readers = (jobqueue.trail, jobqueue.result, jobqueue.removals, jobqueue.reasons)
    listed = decode.table("job", jobqueue.TRAIL, found)
    jobqueue.unread(listed)
    busy = partial(jobqueue.busy, listed)
    return each((busy, *(partial(read, row) for read in readers for row in listed)))


def amounts(raw: bytes) -> None:
    found = said(raw)
    with suppress(*SURE):
        decode.capacity(decode.table("node", decode.CAPACITY, found.get("node")))
    decode.running(decode.table("instance", decode.RUNNING, found.get("instance")))


def answers(raw: bytes) -> None:
    result = Luxi("")._read(raw)
    if not isinstance(result, Refusal):
        backend._answers(result, 2)


def all_tags(raw: bytes) -> None:
    """Lines as tags of a node, a group and the cluster."""
    lines = frozenset(text_of(raw).splitlines())
    node = Node("n1", UUID, "127.0.0.1", tags=lines)
    there = Snapshot("c", {"n1": node}, {}, {}, "n1", lines)
    faults(there)
    tag.fault(lines)
    for line in lines:
        for strict in (True, False):
            harep.read(line, strict=strict)
    harep.telling(lines)
    with suppress(ConfigError):
        settings.with_tags(settings.Settings(), lines)
    with_tags(Policy(), there, node)


def textfile(raw: bytes) -> None:
    with suppress(*SURE):
        parse_loads(text_of(raw))
    parse(text_of(raw))


def allocation(raw: bytes) -> None:
    """As `hail` is asked: read by the standard reader, answered if it can be read."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        return
    answer(read_request(document), Terms())


JOB = [
    7,
    "error",
    False,
    ["success", "error"],
    [None, ["OpExecError", ["no room on n2", "more"]]],
    [[5, 6], None],
    [
        {
            "OP_ID": "OP_NODE_SET_PARAMS",
            "node_name": "n1",
            "drained": True,
            "reason": [["gnt:daemon:maintd", f"{UUID}:1", 5], ["gnt:user", "balance:x", 5]],
        },
        {"OP_ID": "OP_TAGS_DEL", "kind": "node", "name": "n1", "tags": ["a", "b"]},
    ],
    [1_764_000_000, 5],
    [1_764_000_001, 6],
]
MOVE = [
    8,
    "success",
    False,
    ["success"],
    [None],
    [[5, 6]],
    [
        {
            "OP_ID": "OP_INSTANCE_MIGRATE",
            "instance_name": "i1",
            "comment": "off n1",
            "target_node": "n2",
            "reason": [["gnt:daemon:maintd", f"{UUID}:2", 5]],
        }
    ],
    [1, 5],
    None,
]
WHOLE = {
    "info": INFO,
    "node": rows(NODE, [*["n2", "u2"], *NODE[2:]]),
    "instance": rows(DRBD, PLAIN),
    "group": rows(GROUP),
}
TAGS = b"""maintd:moves:5
maintd:offline:no
nodeagent:diagnose-every:60s
ganeti:watcher:autorepair:migrate
ganeti:watcher:autorepair:suspend:1764000000
ganeti:watcher:autorepair:pending:migrate:%b:1764000000:5+6
ganeti:watcher:autorepair:result:failover:%b:1764000000:success:7""" % ((UUID.encode(),) * 2)
SURE_OF_US = (*SURE, Unavailable)
DECODERS = (
    Decoder("luxi-snapshot", snapshot, seed(luxi(WHOLE)), SURE_OF_US),
    Decoder("luxi-jobs", jobs, seed(luxi({"jobs": rows(JOB, MOVE)})), SURE_OF_US),
    Decoder(
        "luxi-amounts",
        amounts,
        seed(
            luxi(
                {
                    "node": rows(["n1", 100, 200, 300, 10, 400, 8, 1, 2, 1]),
                    "instance": rows(["i1", "running", 128]),
                }
            )
        ),
        SURE_OF_US,
    ),
    Decoder(
        "luxi-answers",
        answers,
        seed(
            luxi([[True, 5], [False, "no: it is drained"]]),
            luxi(["OpPrereqError", ["no such node", "wrong_input"]], success=False),
        ),
        SURE_OF_US,
    ),
    Decoder("tags", all_tags, (TAGS,), (), json=False),
    Decoder("textfile", textfile, (TEXT.encode(),), json=False),
    Decoder("iallocator", allocation, seed(*(request(n)[0] for n in range(6)))),
)
