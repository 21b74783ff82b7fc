"""Places: the open connections of a server, and the choice of those that make room. Pure.

Beyond a limit the first of these goes; where some peers come first, it is one of the others:

1. a connection whose request was refused, and that only reads why;
2. one without a complete request after a second;
3. the slowest reader, if it is slow;
4. one without a complete request; the only one of its network only for another such;
5. the slowest reader;
6. the newest that only reads, of the network with most places: nobody takes all of them by asking
   for more than the server can answer;
7. the newcomer.

A reader has an unfinished answer. Readers share answers: a reader costs a place and a few KiB, and
each different answer is in memory once for all of its readers. Both are limited here. A peer is an
address, for IPv6 a network of 64 bits. Times are seconds of a clock that nobody sets.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Network
from typing import Generic, Protocol, TypeVar

from nodeagent.model.address import plain_form
from nodeagent.web.refusal import Limits

SECONDS = 5.0  # a reader may take nothing for so long
IDLE = 1.0  # seconds for a newcomer to send its request
_MISSED = 1.0  # seconds at most that count between two checks: in more we were busy ourselves
_NO_HURRY = 64 * 1024  # bytes a second: a slower reader makes room for newcomers

IsFirst = Callable[[str], bool]


class Reader(Protocol):
    """One reader: its network (for the limits), its answer, and the bytes taken."""

    network: str
    answer: bytes

    @property
    def taken(self) -> int: ...

    def abort(self) -> None: ...


class Connection(Reader, Protocol):
    """One connection: when it began, and how far its request came."""

    peer: str
    since: float
    complete: bool
    refused: bool

    @property
    def only_looks(self) -> bool: ...


R = TypeVar("R", bound=Reader)
C = TypeVar("C", bound=Connection)


class Places(Generic[C]):
    """All connections of one server. Peers for which `is_first` says so come first.

    `shed` counts those that had to make room.
    """

    def __init__(self, limits: Limits, is_first: IsFirst | None = None) -> None:
        self.shed = 0
        self._limits = limits
        self._is_first = is_first
        self._open: dict[C, None] = {}  # in order of arrival
        self._peers: Counter[str] = Counter()  # by network
        self._readers = Readers(limits)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def open(self) -> list[C]:
        """The connections in order of arrival."""
        return list(self._open)

    def add(self, newcomer: C, now: float) -> None:
        """Add a connection; if it is one too many, one makes room."""
        self._open[newcomer] = None
        self._peers[newcomer.network] += 1
        if len(self._open) > self._limits.connections:
            self._shed(self._others() or self.open, newcomer, now)
        elif self._peers[newcomer.network] > self._limits.per_peer:
            crowd = [c for c in self._open if c.network == newcomer.network]
            self._shed(crowd, newcomer, now)

    def remove(self, connection: C) -> None:
        """Remove a connection that has ended."""
        self._readers.remove(connection)
        if self._open.pop(connection, 0) is None:
            self._peers[connection.network] -= 1
            if not self._peers[connection.network]:
                del self._peers[connection.network]

    def begin_reading(self, connection: C, now: float) -> None:
        """Note that a connection has not taken its whole answer yet."""
        self.shed += self._readers.add(connection, now)

    def drop_slow_readers(self, now: float) -> None:
        """Abort the readers that are too slow. Call it often."""
        for reader in self._readers.too_slow(now):
            self.shed += 1
            reader.abort()

    def _others(self) -> list[C]:
        """The connections of peers that do not come first; none where nobody does."""
        is_first = self._is_first
        return [] if is_first is None else [c for c in self._open if not is_first(c.peer)]

    def _shed(self, crowd: list[C], newcomer: C, now: float) -> None:
        """Abort one of a crowd, in the order above."""
        waiting = [c for c in crowd if not c.complete]
        victim = (
            next((c for c in crowd if c.refused), None)
            or next((c for c in waiting if now - c.since > IDLE), None)
            or self._readers.slowest(crowd, now, hurry=False)
            or next((c for c in waiting if self._gives_way(c, newcomer)), None)
            or self._readers.slowest(crowd, now, hurry=True)
            or self._newest_of_most(newcomer)
            or (newcomer if newcomer in crowd else crowd[-1])
        )
        self.shed += 1
        victim.abort()

    def _gives_way(self, connection: C, newcomer: C) -> bool:
        alone = self._peers[connection.network] == 1 < self._peers[newcomer.network]
        return connection is not newcomer and not alone

    def _newest_of_most(self, newcomer: C) -> C | None:
        """Return the newest that only reads, in the network with most places if those are more."""
        network, places = self._peers.most_common(1)[0]
        if places <= self._peers[newcomer.network]:
            return None
        theirs = (c for c in reversed(self._open) if c.network == network and c.only_looks)
        return next(theirs, None)


@dataclass(slots=True)
class _Progress:
    """When a reader began, and what it had taken when last checked; `behind` is in bytes."""

    began: float
    checked: float
    taken: int
    behind: float = 0.0


class Readers:
    """All readers of one server."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._progress: dict[Reader, _Progress] = {}

    def add(self, reader: Reader, now: float) -> int:
        """Add a reader; return how many others were dropped for it."""
        self._progress[reader] = _Progress(now, now, reader.taken)
        limits, gone = self._limits, 0
        for network, limit in ((reader.network, limits.unsent_per_peer), ("", limits.unsent)):
            crowd = [r for r in self._progress if not network or r.network == network]
            crowd.sort(key=lambda r: self._pace(r, now))
            for victim in crowd:
                if _kept(self._progress, network) <= limit:
                    break
                if victim is not reader:  # an answer that is too large by itself is sent
                    victim.abort()
                    self.remove(victim)
                    gone += 1
        return gone

    def remove(self, reader: Reader) -> None:
        """Remove a connection, if it is a reader."""
        self._progress.pop(reader, None)

    def too_slow(self, now: float) -> list[Reader]:
        """Return readers that are behind by five seconds; the others go on. Call it often.

        A reader takes bytes in lumps of up to 64 KiB, as systems report free room late. So even a
        steady reader sometimes takes nothing for seconds. Bytes taken ahead of time do not count
        later.
        """
        slow, pace = [], self._limits.pace
        for reader, progress in self._progress.items():
            due = pace * min(now - progress.checked, _MISSED)
            behind = progress.behind + due - (reader.taken - progress.taken)
            progress.checked, progress.taken = now, reader.taken
            progress.behind = max(0.0, behind)
            if behind >= pace * SECONDS:
                slow.append(reader)
        return slow

    def slowest(self, crowd: Iterable[R], now: float, *, hurry: bool) -> R | None:
        """Return the slowest reader of a crowd; a quick one only in a `hurry`."""
        readers = [r for r in crowd if r in self._progress]
        slowest = min(readers, key=lambda r: self._pace(r, now), default=None)
        if slowest is None or (not hurry and self._pace(slowest, now) >= _NO_HURRY):
            return None
        return slowest

    def _pace(self, reader: Reader, now: float) -> float:
        return reader.taken / max(1.0, now - self._progress[reader].began)


def _kept(readers: Iterable[Reader], network: str) -> int:
    """Count the bytes in memory for the readers of a network, or for all."""
    answers = {id(r.answer): len(r.answer) for r in readers if not network or r.network == network}
    return sum(answers.values())


@lru_cache(1024)
def network_of(peer: str) -> str:
    """Return the peer that limits count: for IPv6 the network of 64 bits, perhaps one host's."""
    address = plain_form(peer)
    try:
        return str(IPv6Network((address, 64), strict=False))
    except ValueError:
        return address
