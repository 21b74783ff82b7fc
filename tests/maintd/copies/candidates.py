"""Master candidates' agents in memory, which keep copies, and misbehave as they are told."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodeagent.errors import MessageError, Unavailable
from nodeagent.maintd.copies.refusals import Outbid, WholeWanted
from nodeagent.maintd.engine.witnesses import Unable
from nodeagent.model.copies import Holding, Kept, Part, Stamp
from nodeagent.model.snapshot import Node, Snapshot

LAST = 3  # copies that are kept


@dataclass
class Candidate:
    """One agent. `trouble` is raised instead of an answer, after `slow` seconds of waiting."""

    promised: int = 0
    to: str = ""
    copies: list[list[Part]] = field(default_factory=list)  # the newest first
    trouble: Exception | None = None
    slow: float = 0.0
    damaged: Stamp | None = None  # its newest part cannot be read, as of its last start
    forgets: bool = False  # it says that it keeps a part, and does not
    asked: list[str] = field(default_factory=list)

    @property
    def newest(self) -> Stamp | None:
        return self.copies[0][-1].stamp if self.copies else None

    def holding(self) -> Holding:
        if self.damaged is not None:
            raise Unavailable("it cannot keep copies: its newest part is damaged")
        return self._holding()

    def _holding(self) -> Holding:
        kept = tuple(
            Kept(
                parts[-1].stamp,
                *(parts[-1].at, parts[-1].candidates, parts[-1].digest, len(parts)),
                sum(len(part.body) for part in parts),
            )
            for parts in self.copies
        )
        return Holding(self.promised, self.to, kept)

    def _bid(self, epoch: int, writer: str) -> None:
        if epoch < self.promised or (epoch == self.promised and writer != self.to):
            raise Outbid(self._holding(), "outbid")
        self.promised, self.to = epoch, writer

    def promise(self, epoch: int, writer: str) -> Holding:
        self.holding()
        self._bid(epoch, writer)
        return self.holding()

    def put(self, part: Part) -> Stamp:
        self._bid(part.stamp.epoch, part.stamp.writer)
        if self.forgets:
            return part.stamp
        if self.damaged is not None and (part.base or part.stamp.order < self.damaged.order):
            raise WholeWanted(self._holding(), "damaged")
        if part.base is None and self._is_past(part):
            raise WholeWanted(self._holding(), "past")
        if part.base is None:
            self.damaged = None
            self.copies = [[part], *self.copies][:LAST]
        elif self.newest == part.base:
            self.copies[0] = [*self.copies[0], part]
        else:
            raise WholeWanted(self._holding(), "another base")
        return part.stamp

    def _is_past(self, part: Part) -> bool:
        if self.damaged is not None or not self.copies:
            return False
        newest = self.copies[0][-1]
        same = (part.stamp, part.digest) == (newest.stamp, newest.digest)
        return part.stamp.order <= newest.stamp.order and not same

    def fetch(self, stamp: Stamp) -> list[Part]:
        for parts in self.copies:
            if parts[-1].stamp == stamp:
                return parts
        raise MessageError("it does not keep this copy")

    # Misfortunes.

    def lose_disk(self) -> None:
        self.promised, self.to, self.copies, self.damaged = 0, "", [], None

    def damage(self) -> None:
        """The newest part rots, which its next start finds."""
        if self.damaged is None and self.copies:
            self.damaged = self.newest
            *rest, _ = self.copies[0]
            self.copies = [rest, *self.copies[1:]] if rest else self.copies[1:]

    def lie(self) -> None:
        """Change the newest part's digest."""
        parts = self.copies[0]
        self.copies[0] = [*parts[:-1], replace(parts[-1], digest="0" * 64)]

    def image(self) -> "Candidate":
        """Its disk as it is now."""
        copies = [list(parts) for parts in self.copies]
        return Candidate(self.promised, self.to, copies, damaged=self.damaged)

    def restore(self, image: "Candidate") -> None:
        self.promised, self.to, self.copies = image.promised, image.to, image.image().copies
        self.damaged = image.damaged


SILENT, OLD = Unavailable("timed out"), Unable("its agent is too old to keep copies")


class Candidates:
    """All of them, by UUID, as maintd asks them; `by` are the masters that have asked."""

    def __init__(self, names: Sequence[str]) -> None:
        self.of: Mapping[str, Candidate] = {name: Candidate() for name in names}
        self.by: list[str] = []

    def __getitem__(self, name: str) -> Candidate:
        return self.of[name]

    def follow(self, snapshot: Snapshot) -> None:
        self.by.append(snapshot.master)

    async def _asked(self, node: Node, what: str) -> Candidate:
        one = self.of[node.uuid]
        one.asked.append(what)
        await asyncio.sleep(one.slow)
        if one.trouble is not None:
            raise one.trouble
        return one

    async def holding(self, node: Node) -> Holding:
        return (await self._asked(node, "holding")).holding()

    async def promise(self, node: Node, epoch: int, writer: str) -> Holding:
        return (await self._asked(node, "promise")).promise(epoch, writer)

    async def put(self, node: Node, part: Part) -> Stamp:
        what = "whole" if part.base is None else "change"
        return (await self._asked(node, what)).put(part)

    async def fetch(self, node: Node, stamp: Stamp) -> list[Part]:
        return (await self._asked(node, "fetch")).fetch(stamp)
