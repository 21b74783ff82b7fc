"""Writes below a prefix, each only while we act, and only on top of the record as last seen."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar
from uuid import uuid4

from nodeagent.errors import Unavailable
from nodeagent.store.contract import Fenced, Unsure
from nodeagent.store.etcd.answers import number
from nodeagent.store.etcd.lease import Leader, Taken
from nodeagent.store.etcd.reader import Reader, View, seen
from nodeagent.store.etcd.record import (
    MOST_OPS,
    Op,
    Record,
    Stage,
    after,
    digest_of,
    encode_part,
    in_parts,
)

log = logging.getLogger(__name__)
_TRIES = 4
E = TypeVar("E", bound="Unavailable | Fenced")
_PAUSE = 0.2  # seconds before the same request goes out again


class Writer:
    """Write as the one that acts. `view` is the state as last read or written.

    After Unsure or Fenced it takes nothing until `renew`. All its methods run on one event loop.
    """

    def __init__(self, reader: Reader, leader: Leader, most: int = MOST_OPS) -> None:
        self.view: View | None = None
        self.leader = leader
        self._reader = reader
        self._most = most  # operations in one transaction
        self._name = uuid4().hex[:16]
        self._sent: set[bytes] = set()  # records whose fate is not known
        self._closed: Unavailable | Fenced | None = None

    async def renew(self, patience: float) -> View:
        """Take the lease, see what is there, and finish what another has begun.

        Taken: another acts, and did so for all of `patience` (seconds).
        """
        await self.leader.take(patience)
        self.view = await self._reader.look()
        if self.view.parts:
            await self._carry_over()
        elif await self._reader.count("stage/"):
            # Left by one that was killed before its record named them.
            await self._guarded([Op("stage/", end=after("stage/"))])
        self._closed = None
        return self.view

    async def ready(self) -> View:
        """Hold the lease and know the record; nothing of a stage is left."""
        if self._closed is not None:
            raise self._closed
        if not self.leader.acting:
            try:
                await self.leader.take()
            except Taken as error:
                if self.view is None:
                    raise
                raise self._end(Fenced(str(error))) from None
        if self.view is None:
            self.view = await self._reader.look()
        if self.view.parts:
            await self._carry_over()
        return self.view

    async def commit(self, record: Record, ops: Sequence[Op]) -> None:
        """Make these changes with the record that stands for them, all of it or nothing."""
        assert self.view is not None
        record = replace(record, turn=self.view.record.turn + 1, writer=self._name)
        parts = in_parts(ops, self._most)
        if len(parts) <= 1:
            await self._swap(record, ops)
            return
        raws = [encode_part(part) for part in parts]
        turn = f"{self.leader.fence}.{record.turn}.{uuid4().hex[:8]}"
        stage = Stage(turn, len(raws), digest_of(raws))
        for nth, raw in enumerate(raws):
            await self._guarded([Op(f"stage/{turn}/{nth:06}", raw)])
        await self._swap(replace(record, stage=stage), ())
        self.view = replace(self.view, parts=tuple(map(tuple, parts)))
        try:
            await self._carry_over()
        except (Unavailable, Fenced) as error:  # it holds: a reader puts the stage on top
            log.warning("stage-left parts=%d why=%r", len(raws), str(error))

    async def unless_there(self, op: Op, others: Sequence[str]) -> dict[str, bytes] | None:
        """Put a new key, where none of the others is there either; else return those there."""
        names = (op.key, *others)
        absent = [
            {
                "key": self._reader.key(name),
                "target": "VERSION",
                "result": "EQUAL",
                "version": "0",
            }
            for name in names
        ]
        lost = False
        for _ in range(_TRIES):
            await self.ready()
            asked = {
                "compare": [self.leader.guard(), *absent],
                "success": [self._reader.change(op)],
            }
            try:
                answer = await self._reader.client.change("kv/txn", asked)
            except Unsure as error:
                if lost:
                    raise Unavailable(str(error)) from None
                lost = True
                await asyncio.sleep(_PAUSE)
                continue  # if it had arrived, it is there now
            if answer.get("succeeded") is True:
                return None
            found = await self._reader.values(names)
            if found:
                return found
            self.leader.lose()  # only the fence is left as the reason
        raise Unavailable("the lease in etcd ends as soon as it is taken")

    async def _carry_over(self) -> None:
        """Make the changes of the stage, each part as often as need be, and then drop it."""
        assert self.view is not None
        for part in self.view.parts:
            await self._guarded(part)
        done = replace(
            self.view.record, turn=self.view.record.turn + 1, writer=self._name, stage=None
        )
        await self._swap(done, [Op("stage/", end=after("stage/"))])

    async def _guarded(self, ops: Sequence[Op]) -> None:
        """Make changes that may be made twice, if nobody else has changed the record."""
        assert self.view is not None
        for _ in range(_TRIES):
            answer = await self._reader.client.call("kv/txn", self._asked(self.view, ops))
            if answer.get("succeeded") is True:
                return
            if (found := _found(answer)).raw != self.view.raw:
                raise self._overtaken(found)
            await self._retake()
        raise Unavailable("the lease in etcd ends as soon as it is taken")

    async def _swap(self, record: Record, ops: Sequence[Op]) -> None:
        """Make changes together with the record."""
        assert self.view is not None
        error: Unsure | None = None
        for _ in range(_TRIES):
            record = replace(record, epoch=record.base + self.leader.fence)
            raw = record.encode()
            self._sent.add(raw)
            asked = self._asked(self.view, [*ops, Op("commit", raw)])
            try:
                answer = await self._reader.client.change("kv/txn", asked)
            except Unavailable as lost:
                if error is not None:
                    raise self._end(error) from None
                if not isinstance(lost, Unsure):
                    raise
                error = lost
                await asyncio.sleep(_PAUSE)
                continue  # the same again: the record says whether it had happened
            if answer.get("succeeded") is True:
                revision = number(answer.get("header", {}), "revision")
                found = View(record, raw, revision, revision)
            else:
                found = _found(answer)
            if found.raw == raw:
                self.view = found
                self._sent.clear()
                return
            if found.raw != self.view.raw:
                raise self._overtaken(found)
            await self._retake()
        raise self._end(error or Unavailable("the lease in etcd ends as soon as it is taken"))

    async def _retake(self) -> None:
        """The record is as it was, so the fence is not: take the lease again if it is free."""
        self.leader.lose()
        try:
            await self.leader.take()
        except Taken as error:
            raise self._end(Fenced(str(error))) from None

    def _asked(self, view: View, ops: Sequence[Op]) -> dict[str, Any]:
        there = {"key": self._reader.key("commit")}
        unchanged = {**there, "target": "MOD", "result": "EQUAL", "mod_revision": str(view.changed)}
        return {
            "compare": [self.leader.guard(), unchanged],
            "success": [self._reader.change(op) for op in ops],
            "failure": [{"request_range": there}],
        }

    def _overtaken(self, found: View) -> Unsure | Fenced:
        assert self.view is not None
        if found.raw in self._sent:
            return self._end(Unsure("an earlier save has arrived in etcd after all: read it first"))
        return self._end(
            Fenced(
                "another program has saved the ledger in etcd meanwhile: its revision is"
                f" {found.record.number}, and ours is {self.view.record.number}"
            )
        )

    def _end(self, error: E) -> E:
        """Take nothing more until somebody has read what is there."""
        self._closed = error
        return error


def _found(answer: dict[str, Any]) -> View:
    """Return the record that a refused transaction has read."""
    revision = number(answer.get("header", {}), "revision")
    (one,) = answer.get("responses", [{}])
    return seen(one.get("response_range", {}).get("kvs", []), revision)
