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
from tests.fuzz.decoder import SURE, Decoder, each, text_of
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
    busy = partial(jobqueue.busy, listed, {"web.example", "n1"})
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


WHOLE = {
    "info": INFO,
    "node": rows(NODE, [*["n2", "u2"], *NODE[2:]]),
    "instance": rows(DRBD, PLAIN),
    "group": rows(GROUP),
}
SURE_OF_US = (*SURE, Unavailable)
DECODERS = (
    Decoder(
        "luxi-snapshot",
        snapshot,
        SURE_OF_US,
        made=(json.dumps({"success": True, "result": WHOLE}).encode(),),
    ),
    Decoder("luxi-jobs", jobs, SURE_OF_US),
    Decoder("luxi-amounts", amounts, SURE_OF_US),
    Decoder("luxi-answers", answers, SURE_OF_US),
    Decoder("tags", all_tags, (), json=False),
    Decoder("textfile", textfile, json=False, made=(TEXT.encode(),)),
    Decoder(
        "iallocator",
        allocation,
        made=tuple(json.dumps(request(number)[0]).encode() for number in range(6)),
    ),
)
