"""The memory of maintd in etcd: a key for each entity, and one record that stands for each save.

The `Store` contract is synchronous, and so are its callers, which must not act before a save is
there. A thread with an event loop of its own talks to etcd, keeps the lease, and looks after space.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nodeagent.errors import Corrupt, MessageError, Unavailable, plain
from nodeagent.model.event import Event
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.model.wish import Wish
from nodeagent.store.codec import decode, encode
from nodeagent.store.contract import Revision, Size
from nodeagent.store.entities import Changes, Image, changes, digest, ledger_of, sum_of
from nodeagent.store.etcd import history
from nodeagent.store.etcd.background import Background
from nodeagent.store.etcd.client import Client, Compacted
from nodeagent.store.etcd.lease import Leader
from nodeagent.store.etcd.reader import Reader, View
from nodeagent.store.etcd.record import MOST_OPS, Op, after, on_top, pack, unpack
from nodeagent.store.etcd.space import HISTORY, Space
from nodeagent.store.etcd.writer import Writer

PREFIX = "/nodeagent/"
PATIENCE = 12.0  # seconds for which a start waits for the lease of one that was killed
KEEP_ANSWERS = 86_400_000  # ms
_PRUNED = 50  # old answers dropped with one save


@dataclass(frozen=True, slots=True)
class Options:
    """Limits: events to keep, operations in one transaction, and times in seconds.

    `patience` is how long the first load waits for the lease, `care` the time between two looks at
    etcd's space, `history` how much of etcd's own history stays, and `glance` how long readers wait
    who show what there is beside a running maintd. `told` returns more faults, and asks nobody.
    """

    keep: history.Limits = field(default_factory=history.Limits)
    most: int = MOST_OPS
    patience: float = PATIENCE
    care: float = 60.0
    history: float = HISTORY
    glance: float = 2.0
    told: Callable[[], tuple[str, ...]] = lambda: ()


class _Answered(NamedTuple):
    """An answered request: the digest of its text, the answer, and when (unix ms)."""

    digest: str
    answer: str
    at: Ms


def clock() -> Ms:
    return Ms(time.time_ns() // 1_000_000)


class EtcdStore:
    """A `Store` below a prefix of an etcd cluster, for any threads of one process.

    `leader` makes it the one that acts, or None to read only. Unavailable: etcd does not answer, is
    full, or another maintd acts. Fenced: another maintd has taken over.
    """

    def __init__(
        self,
        client: Client,
        prefix: str = PREFIX,
        leader: Callable[[Client, str], Leader] | None = None,
        now: Callable[[], Ms] = clock,
        options: Options = Options(),  # noqa: B008
    ) -> None:
        self._now = now
        self._options = options
        self._reader = Reader(client, prefix)
        self._image: Image | None = None  # of the newest ledger; None until it is read
        self._view = View()
        self._damaged = 0  # events
        self._base = 0
        self._lock = asyncio.Lock()
        self._patience = options.patience  # until the first load
        self._leader = None if leader is None else leader(client, f"{prefix}leader")
        self._writer = None
        if self._leader is not None:
            self._writer = Writer(self._reader, self._leader, options.most)
        leads = self._leader
        self._space = Space(client, lambda: leads is not None and leads.acting, options.history)
        self._back = Background("etcd")
        self._back.start(self._space.care(options.care))
        if self._leader is not None:
            self._back.start(self._leader.keep())

    @property
    def revision(self) -> Revision:
        """The newest revision that this store has read or written."""
        return self._view.record.revision

    def load(self) -> Ledger:
        """Return the ledger last saved; an empty one if there is none.

        It takes the lease first, unless it only reads: from then on no other can save.
        """
        return self._back.run(self._load())

    async def _load(self) -> Ledger:
        if self._writer is None:
            view = await self._reader.look()
        else:
            patience, self._patience = self._patience, 0.0
            view = await self._writer.renew(patience)
        try:
            found = await self._ledger(view)
        except Compacted:  # the read was slow: of a fresh moment, once
            view = await self._reader.look()
            found = await self._ledger(view)
        texts = {key: unpack(raw) for key, raw in found.items()}
        if sum_of(digest(key, text) for key, text in texts.items()) != view.record.sum:
            raise Corrupt("the ledger in etcd is not as it was written: a part is missing or old")
        ledger = ledger_of(texts) if view.record.number else Ledger()
        self._image, self._view = Image.of(ledger), view
        return ledger

    async def _ledger(self, view: View) -> dict[str, bytes]:
        found = await self._reader.texts(view, "ledger/", after("ledger/"))
        return {key.removeprefix("ledger/"): raw for key, raw in found.items()}

    def save(
        self,
        ledger: Ledger,
        events: Sequence[Event] = (),
        answers: Mapping[str, str] | None = None,
    ) -> None:
        """Replace the ledger, append events and answer requests, all of it or nothing."""
        lines = history.lines_of(events)
        said = {_storable(one): _storable(why) for one, why in (answers or {}).items()}
        self._back.run(self._save(ledger, lines, said))

    async def _save(
        self, ledger: Ledger, lines: Sequence[tuple[str, bool]], said: Mapping[str, str]
    ) -> None:
        async with self._writing() as (writer, view):
            image, change = (self._image or Image.empty()).next(ledger)
            if self._image is None or view.record.sum != self._image.sum:
                # Never read, or read as it is written no more: a field came later.
                there = await self._ledger(replace(view, revision=0))  # by now
                change = changes({key: _lenient(raw) for key, raw in there.items()}, image.texts())
            record, ops = history.appended(view.record, lines, self._options.keep)
            ops = [*_ops(change), *ops, *await self._answer(said)]
            base = max(record.base, self._base)
            record = replace(record, number=record.number + 1, sum=image.sum, base=base)
            await writer.commit(record, ops)
            self._image = image

    async def _answer(self, said: Mapping[str, str]) -> list[Op]:
        """Return the changes that answer requests, and drop the oldest answers."""
        if not said:
            return []
        now, folders = self._now(), ("wish/", "answer/")
        there = await self._reader.values([f + one for one in said for f in folders])
        ops: list[Op] = []
        for one, why in said.items():
            if (waiting := there.get(f"wish/{one}")) is not None:
                mark = _sha256(unpack(waiting))
                ops.append(Op(f"wish/{one}"))
            else:
                before = there.get(f"answer/{one}")
                mark = "" if before is None else _answered(before).digest
            ops.append(Op(f"answer/{one}", pack(json.dumps([mark, why, now]))))
        for key, raw in (await self._reader.oldest("answer/", _PRUNED)).items():
            if _answered(raw).at < now - KEEP_ANSWERS and key[len("answer/") :] not in said:
                ops.append(Op(key))
        return ops

    def note(self, events: Sequence[Event]) -> None:
        """Append events to the history."""
        if lines := history.lines_of(events):
            self._back.run(self._note(lines))

    async def _note(self, lines: Sequence[tuple[str, bool]]) -> None:
        async with self._writing() as (writer, view):
            await writer.commit(*history.appended(view.record, lines, self._options.keep))

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[tuple[Writer, View]]:
        if self._writer is None:
            raise Unavailable("the ledger in etcd is only read here")
        async with self._lock:
            try:
                yield self._writer, await self._writer.ready()
            except Unavailable as error:
                self._space.saw(error)
                raise
            self._view = self._writer.view or self._view

    def wish(self, wish: Wish) -> None:
        """Keep a request until its answer.

        The same request again changes nothing. MessageError: its id is another request's.
        """
        self._back.run(self._wish(_storable(wish.id), encode(wish)))

    async def _wish(self, identity: str, text: str) -> None:
        op = Op(f"wish/{identity}", pack(text))
        async with self._writing() as (writer, _):
            there = await writer.unless_there(op, [f"answer/{identity}"])
        if there is None:
            return
        if (waiting := there.get(op.key)) is not None:
            same = unpack(waiting) == text
        else:
            same = _answered(there[f"answer/{identity}"]).digest == _sha256(text)
        if not same:
            raise MessageError("another request has this id")

    def wishes(self) -> tuple[Wish, ...]:
        """Return the requests without an answer, in the order of their arrival."""
        return tuple(decode(Wish, text) for text in self._back.run(self._wishes()))

    async def _wishes(self) -> list[str]:
        view = await self._reader.look()
        found = await self._reader.range(view, "wish/", after("wish/"))
        plain = {key: held.value for key, held in found.items()}
        left = on_top(plain, view.ops, "wish/", after("wish/"))
        return [unpack(left[key]) for key in sorted(left, key=lambda key: found[key].made)]

    def answer(self, wish: str) -> str | None:
        """Return a request's answer: None if waiting or unknown, "" if accepted, else why not."""
        return self._back.run(self._said(f"answer/{_storable(wish)}"))

    async def _said(self, key: str) -> str | None:
        view = await self._reader.look()
        found = await self._reader.texts(view, key, f"{key}\0")
        return _answered(found[key]).answer if key in found else None

    def history(
        self, incident: str | None = None, since: Ms | None = None, limit: int = 1000
    ) -> list[Event]:
        """Return the newest events, at most `limit`, the newest last.

        It leaves out damaged ones, and `troubles` reports them. It does not wait for an etcd that
        has just failed to answer.
        """
        self._check_there()

        def wanted(event: Event) -> bool:
            return event.at >= (since or 0) and incident in (None, event.incident)

        return self._back.run(self._history(wanted, limit))

    async def _history(self, wanted: Callable[[Event], bool], limit: int) -> list[Event]:
        view = await self._reader.look()
        keep = self._options.keep
        found, self._damaged = await history.newest(self._reader, view, keep, wanted, limit)
        return found

    def check_acting(self) -> None:
        """Raise Unavailable where another maintd may act by now, also after a long sleep."""
        if self._leader is None or not self._leader.acting:
            raise Unavailable("the lease in etcd may have ended, and another maintd may act")

    def troubles(self) -> tuple[str, ...]:
        """Return present faults, as seen in the last minute; it asks nobody."""
        told = (*self._space.troubles(), *self._options.told())
        if self._damaged:
            told += (f"{self._damaged} damaged lines of the history in etcd are left out",)
        return told

    def size(self) -> Size:
        """Return the bytes of etcd's database, also of others' keys, and the number of events."""
        self._check_there()
        return self._back.run(self._size())

    async def _size(self) -> Size:
        try:
            async with asyncio.timeout(self._options.glance):
                events = await self._reader.count("event/") + await self._reader.count("audit/")
                return Size(await self._space.measure(), events)
        except TimeoutError:
            raise Unavailable("etcd is slow to answer") from None

    def _check_there(self) -> None:
        """Raise Unavailable where etcd has just failed to answer: one who looks need not wait."""
        if why := self._reader.client.away:
            raise Unavailable(why)

    @property
    def prefix(self) -> str:
        """The beginning of all its keys."""
        return self._reader.prefix

    @property
    def epoch(self) -> int:
        """The epoch of our saves; 0 while we do not act, or have not read the ledger."""
        leader = self._leader
        fence = 0 if leader is None or self._image is None or not leader.acting else leader.fence
        return max(self._view.record.base, self._base) + fence if fence else 0

    def holder(self) -> str:
        """Return who holds the lease, as it names itself; empty if nobody does."""
        found = self._back.run(self._reader.values(["leader"]))
        return plain(found["leader"].decode(errors="replace"), 100) if found else ""

    def take(self) -> None:
        """Take the lease now; Unavailable if another maintd holds it."""
        assert self._leader is not None
        self._back.run(self._leader.take())

    def keep_while(self, wanted: Callable[[], bool]) -> None:
        """Renew the lease only while this is true; else let another maintd take it."""
        assert self._leader is not None
        self._leader.wanted = wanted

    def begin_above(self, epoch: int) -> None:
        """Let the epochs of all saves from now on be higher than this one."""
        self._base = epoch

    def is_empty(self) -> bool:
        """Tell whether nothing but the lease's key is there."""
        return self._back.run(self._reader.count("")) <= (self._leader is not None)

    def close(self) -> None:
        """Let another maintd act at once, and end the thread."""
        if self._leader is not None and not self._back.closed:
            self._back.run(self._leader.give_up())
        self._back.close()


def _ops(change: Changes) -> Iterator[Op]:
    for key in change.deletes:
        yield Op(f"ledger/{key}")
    for key, text in change.puts.items():
        yield Op(f"ledger/{key}", pack(text))


def _lenient(raw: bytes) -> str:
    """Return a text to be replaced, readable or not."""
    try:
        return unpack(raw)
    except Corrupt:
        return ""


def _answered(raw: bytes) -> _Answered:
    try:
        mark, why, at = json.loads(unpack(raw))
        return _Answered(str(mark), str(why), Ms(int(at)))
    except (ValueError, TypeError):
        raise Corrupt("an answer in etcd is not as it was written") from None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _storable(text: str) -> str:
    """Return a text as UTF-8 takes it, with half a surrogate pair as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()
