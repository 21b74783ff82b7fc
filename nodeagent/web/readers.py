"""Readers: connections that have not taken their whole answer yet, and which of them must go. Pure.

Answers are shared: a reader costs a place and a few KiB, and each different answer is kept once for
all of its readers. Both are bounded here, and the slowest reader goes first.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from nodeagent.web.refusal import Limits

SECONDS = 5.0  # for which a reader may take nothing
_MISSED = 1.0  # seconds at most that count between two looks: in more we were busy ourselves
_NO_HURRY = 64 * 1024  # bytes a second: a slower reader makes room for newcomers


class Reader(Protocol):
    """One of them: its network (for the limits), its answer, and how much of it was taken."""

    network: str
    answer: bytes

    @property
    def taken(self) -> int: ...

    def abort(self) -> None: ...


R = TypeVar("R", bound=Reader)


class Readers:
    """All of one server. `now` is in seconds that only pass."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._began: dict[Reader, float] = {}
        # When it had taken how much, and by how much it was behind then.
        self._marks: dict[Reader, tuple[float, int, float]] = {}

    def add(self, reader: Reader, now: float) -> int:
        """Wait for one more; tell how many had to go for it."""
        self._began[reader], self._marks[reader] = now, (now, reader.taken, 0.0)
        limits, gone = self._limits, 0
        for network, most in ((reader.network, limits.unsent_per_peer), ("", limits.unsent)):
            crowd = [r for r in self._began if not network or r.network == network]
            crowd.sort(key=lambda r: self._pace(r, now))
            for victim in crowd:
                if _kept(self._began, network) <= most:
                    break
                if victim is not reader:  # an answer that is too large by itself is sent
                    victim.abort()
                    self.remove(victim)
                    gone += 1
        return gone

    def remove(self, reader: Reader) -> None:
        """Wait for it no more, if it is a reader."""
        self._began.pop(reader, None)
        self._marks.pop(reader, None)

    def too_slow(self, now: float) -> list[Reader]:
        """Readers that are behind by five seconds; the others go on. To be asked often.

        What a reader takes comes in lumps of up to 64 KiB, as systems tell of room for more, and
        so a steady one has taken nothing for seconds, now and then. What is ahead is not kept.
        """
        found, pace = [], self._limits.pace
        for reader, (since, before, behind) in self._marks.items():
            behind += pace * min(now - since, _MISSED) - (reader.taken - before)
            self._marks[reader] = now, reader.taken, max(0.0, behind)
            if behind >= pace * SECONDS:
                found.append(reader)
        return found

    def slowest(self, crowd: Iterable[R], now: float, *, hurry: bool) -> R | None:
        """The reader of a crowd that takes least a second; a quick one only in a `hurry`."""
        readers = [r for r in crowd if r in self._began]
        found = min(readers, key=lambda r: self._pace(r, now), default=None)
        if found is None or (not hurry and self._pace(found, now) >= _NO_HURRY):
            return None
        return found

    def _pace(self, reader: Reader, now: float) -> float:
        return reader.taken / max(1.0, now - self._began[reader])


def _kept(readers: Iterable[Reader], network: str) -> int:
    """How many bytes are kept for the readers of a network, or for all."""
    answers = {id(r.answer): len(r.answer) for r in readers if not network or r.network == network}
    return sum(answers.values())
