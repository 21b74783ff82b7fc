"""Hand each save over to the agents of the master candidates, beside the rounds.

Each candidate has a task of its own, which sends what is missing on top of the candidate's newest
part. So a candidate that does not answer delays nobody. A save is safe once a majority of all
candidates has it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nodeagent.errors import MessageError, Unavailable
from nodeagent.maintd.copies.body import EVENTS, Load, merge, pack
from nodeagent.maintd.copies.choice import is_majority
from nodeagent.maintd.copies.refusals import Outbid, WholeWanted
from nodeagent.maintd.engine.witnesses import Unable
from nodeagent.model.copies import CopyAt, CopyState, Holding, Part, Stamp
from nodeagent.model.event import Event
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import WHY, cut
from nodeagent.store.codec import encode
from nodeagent.store.contract import Fenced, Saved
from nodeagent.store.entities import Changes, Image

log = logging.getLogger(__name__)

MOST_PARTS = 200  # on top of a whole copy; then the next is a whole one
LONGEST_PAUSE = 30.0  # seconds between two tries
PAUSE_IF_OLD = 600.0  # seconds after which an agent that was too old is tried again


class Asking(Protocol):
    """Interface to the agents that keep copies.

    Unavailable: no answer; Unable: the agent is too old; MessageError: the answer is not genuine.
    It must `follow` the configuration first.
    """

    def follow(self, snapshot: Snapshot) -> None: ...

    async def holding(self, node: Node) -> Holding: ...

    async def promise(self, node: Node, epoch: int, writer: str) -> Holding: ...

    async def put(self, node: Node, part: Part) -> Stamp: ...

    async def fetch(self, node: Node, stamp: Stamp) -> Sequence[Part]: ...


@dataclass(slots=True)
class _Keeper:
    """One candidate: the newest part that it has, and its size on top of the last whole copy."""

    node: Node
    has: Stamp | None = None
    at: Ms = Ms(0)
    parts: int = 0
    bytes: int = 0
    whole: int = 0
    failures: int = 0
    why: str = ""
    able: bool = True
    wanted: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


@dataclass(frozen=True, slots=True)
class _Step:
    """The way from one save to the next."""

    before: Stamp
    after: Stamp
    load: Load


class Keeping:
    """The copies of one epoch. Before `begin` nothing is handed over, and nothing is safe."""

    def __init__(
        self,
        asking: Asking,
        now: Callable[[], Ms],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._asking = asking
        self._now = now
        self._pause = pause
        self._newest: Stamp | None = None
        self._image = Image.empty()
        self._at = self._unsafe = Ms(0)
        self._events: deque[str] = deque(maxlen=EVENTS)
        self._waiting: tuple[str, ...] = ()  # events that go with the next save
        self._steps: deque[_Step] = deque(maxlen=MOST_PARTS)
        self._made: dict[Stamp | None, asyncio.Task[Part]] = {}  # by what it is on top of
        self._sets: tuple[frozenset[str], ...] = ()  # of each one a majority is needed
        self._named: frozenset[str] = frozenset()  # the candidates that the newest save names
        self._keepers: dict[str, _Keeper] = {}
        self._moved = asyncio.Event()
        self._outbid = ""

    # What the rounds say.

    def begin(self, epoch: int, writer: str, saved: Saved, history: Sequence[Event]) -> Stamp:
        """Hand over this save, the first of an epoch, and all later ones; return its number.

        `history` are the newest events. No candidate is known to have any of it, so each gets a
        whole copy.
        """
        self._newest = first = Stamp(epoch, writer, saved.at.number)
        self._events = deque(map(encode, history), maxlen=EVENTS)
        self._steps.clear()
        for keeper in self._keepers.values():
            keeper.has = None
        self._take(saved)
        return first

    def saved(self, saved: Saved) -> None:
        """Hand over one more save; events alone go with the next one."""
        if self._newest is None:
            return
        texts = (*self._waiting, *map(encode, saved.events))
        after = self._newest._replace(number=saved.at.number)
        if after == self._newest:
            self._waiting = texts
            return
        self._events.extend(texts)
        self._steps.append(_Step(self._newest, after, Load(saved.change, texts)))
        self._newest = after
        self._take(saved)

    def _take(self, saved: Saved) -> None:
        self._image, self._at, self._waiting = saved.image, self._now(), ()
        self._named = self._sets[-1] if self._sets else frozenset()
        self._unsafe = self._unsafe or self._at
        self._made.clear()
        self._wake()

    @property
    def wants_save(self) -> bool:
        """Tell whether the candidates have changed since the newest save, which names them."""
        return self._newest is not None and self._named != self._sets[-1]

    def follow(self, snapshot: Snapshot, before: Iterable[frozenset[str]] = ()) -> None:
        """Keep copies on the candidates of this configuration from now on.

        Until a majority of the new ones and one of the old ones have a save that names the new
        ones, both sets must have each save. So whoever asks a majority of the old ones later hears
        of the new ones, also where Ganeti has the old ones again. `before` are the candidates of
        the ledger that the epoch goes on from. Nodes that are offline or gone count no more.
        """
        self._asking.follow(snapshot)
        there = {node.uuid: node for node in snapshot.nodes.values() if not node.offline}
        today = frozenset(uuid for uuid, node in there.items() if node.candidate)
        old = [s.intersection(there) for s in (*before, *self._sets)]
        self._sets = (*dict.fromkeys(s for s in old if s and s != today), today)
        wanted = frozenset().union(*self._sets)
        for uuid in self._keepers.keys() - wanted:
            self._end(self._keepers.pop(uuid))
        for uuid in wanted:
            if (keeper := self._keepers.get(uuid)) is None:
                keeper = self._keepers[uuid] = _Keeper(there[uuid])
            keeper.node = there[uuid]
            if keeper.task is None or keeper.task.done():
                keeper.task = asyncio.get_running_loop().create_task(self._serve(keeper))
        self._note_safety()

    async def safe(self, seconds: float) -> bool:
        """Wait so long until a majority has what is saved now; return whether it has."""
        wanted = self._newest
        try:
            async with asyncio.timeout(seconds):
                while not self.is_safe(wanted):
                    await self._moved.wait()
        except TimeoutError:
            pass
        return self.is_safe(wanted)

    def is_safe(self, stamp: Stamp | None = None) -> bool:
        """Tell whether a majority has this save, by default the newest one."""
        stamp = stamp or self._newest
        if stamp is None or not self._sets:
            return False
        have = [
            uuid
            for uuid, keeper in self._keepers.items()
            if keeper.has is not None and keeper.has >= stamp and keeper.has.epoch == stamp.epoch
        ]
        return all(is_majority(have, one) for one in self._sets)

    def check(self) -> None:
        """Raise Fenced if a candidate has promised a higher epoch to another maintd.

        Or if it has a later save than ours of our own epoch.
        """
        if self._outbid:
            raise Fenced(self._outbid)

    def state(self) -> CopyState:
        """Return the copies as they are now, in the order of the candidates' names."""
        if self._newest is None:
            return CopyState()
        today = self._sets[-1] if self._sets else frozenset()
        on = (
            CopyAt(one.node.name, one.has == self._newest, one.at, one.why, one.able)
            for uuid, one in self._keepers.items()
            if uuid in today
        )
        ordered = tuple(sorted(on, key=lambda one: one.node))
        return CopyState(self._newest.epoch, self._at, self._unsafe, ordered)

    def close(self) -> None:
        """End all hand-overs."""
        for keeper in self._keepers.values():
            self._end(keeper)

    # The hand-over to one candidate.

    async def _serve(self, keeper: _Keeper) -> None:
        while not self._outbid:
            if self._newest is None or keeper.has == self._newest:
                keeper.wanted.clear()
                await keeper.wanted.wait()
                continue
            try:
                await self._hand_over(keeper)
            except Outbid as error:
                held = error.holding
                self._outbid = (
                    f"{keeper.node.name} has promised epoch {held.epoch} of the ledger to another"
                    f" maintd, and ours is {self._newest.epoch}"
                )
                log.warning("outbid node=%s epoch=%d", keeper.node.name, held.epoch)
            except Exception as error:
                await self._failed(keeper, error)

    async def _hand_over(self, keeper: _Keeper) -> None:
        base = keeper.has if self._reaches(keeper) else None
        part = await self._part(base)
        try:
            kept = await self._asking.put(keeper.node, part)
        except WholeWanted as error:
            if _is_past(part, error.holding):
                self._outbid = (
                    f"{keeper.node.name} has a later save of this maintd's than it remembers: this"
                    " machine was put back to an earlier state, or its disk was"
                )
                log.warning("put-back node=%s", keeper.node.name)
                return
            if base is None:
                raise MessageError("it does not take a whole copy") from None
            keeper.has = None
            return
        if kept != part.stamp:
            raise MessageError("it confirms another part than the one that it was sent")
        size = len(part.body)
        if base is None:
            keeper.parts, keeper.bytes, keeper.whole = 0, 0, size
        else:
            keeper.parts, keeper.bytes = keeper.parts + 1, keeper.bytes + size
        keeper.has, keeper.at = part.stamp, part.at
        keeper.failures, keeper.why, keeper.able = 0, "", True
        self._note_safety()

    def _reaches(self, keeper: _Keeper) -> bool:
        """Tell whether changes lead from its newest part to ours, and are shorter than a whole."""
        short = keeper.parts < MOST_PARTS and keeper.bytes <= 2 * keeper.whole
        return short and any(step.before == keeper.has for step in self._steps)

    async def _part(self, base: Stamp | None) -> Part:
        """The part on top of this one; those who want the same one share it."""
        if (making := self._made.get(base)) is None:
            making = self._made[base] = asyncio.get_running_loop().create_task(self._make(base))
        return await asyncio.shield(making)

    async def _make(self, base: Stamp | None) -> Part:
        assert self._newest is not None
        stamp, at, image, named = self._newest, self._at, self._image, self._named
        events, steps = tuple(self._events), list(self._steps)

        def body() -> bytes:
            if base is None:
                return pack(Load(Changes(image.texts()), events))
            first = next(n for n, step in enumerate(steps) if step.before == base)
            return pack(merge(step.load for step in steps[first:]))

        made = await asyncio.to_thread(body)
        return Part(stamp, base, at, tuple(sorted(named)), image.sum, made)

    async def _failed(self, keeper: _Keeper, error: Exception) -> None:
        if not isinstance(error, Unavailable | MessageError):  # a bug must not end the task unseen
            log.error("copy-not-kept node=%s", keeper.node.name, exc_info=error)
        keeper.able = not isinstance(error, Unable)
        why = cut(str(error) or type(error).__name__, WHY)
        if keeper.why != why and keeper.able:
            log.warning("copy-not-kept node=%s why=%r", keeper.node.name, why)
        keeper.why, keeper.failures = why, keeper.failures + 1
        wait = min(2.0 ** min(keeper.failures - 1, 10), LONGEST_PAUSE)
        await self._pause(wait if keeper.able else PAUSE_IF_OLD)

    def _note_safety(self) -> None:
        if self.is_safe():
            self._unsafe = Ms(0)
            if not self.wants_save:
                self._sets = self._sets[-1:]
        self._wake(keepers=False)

    def _wake(self, *, keepers: bool = True) -> None:
        for keeper in self._keepers.values() if keepers else ():
            keeper.wanted.set()
        self._moved.set()
        self._moved.clear()

    def _end(self, keeper: _Keeper) -> None:
        if keeper.task is not None:
            keeper.task.cancel()


def _is_past(part: Part, holding: Holding) -> bool:
    """Tell whether the candidate has a later part of this very epoch, or another one in its place.

    Only one maintd has an epoch. So it has forgotten what it saved, as one in a virtual machine
    does whose snapshot, with its memory, is put back.
    """
    newest = next(iter(holding.kept), None)
    if newest is None or newest.stamp[:2] != part.stamp[:2]:
        return False
    same = newest.stamp == part.stamp and newest.digest == part.digest
    return newest.stamp.order >= part.stamp.order and not same
