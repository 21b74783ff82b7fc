"""Readers: connections with an unfinished answer, and the choice of those to drop. Pure.

Readers share answers: a reader costs a place and a few KiB, and each different answer is in memory
once for all of its readers. This module limits both, and drops the slowest reader first.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from nodeagent.web.refusal import Limits

SECONDS = 5.0  # a reader may take nothing for so long
_MISSED = 1.0  # seconds at most that count between two checks: in more we were busy ourselves
_NO_HURRY = 64 * 1024  # bytes a second: a slower reader makes room for newcomers


class Reader(Protocol):
    """One reader: its network (for the limits), its answer, and the bytes taken."""

    network: str
    answer: bytes

    @property
    def taken(self) -> int: ...

    def abort(self) -> None: ...


R = TypeVar("R", bound=Reader)


class Readers:
    """All readers of one server. `now` is in seconds of a clock that nobody sets."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._began: dict[Reader, float] = {}
        # When it had taken how much, and its delay then.
        self._marks: dict[Reader, tuple[float, int, float]] = {}

    def add(self, reader: Reader, now: float) -> int:
        """Add a reader; return how many others were dropped for it."""
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
        """Remove a connection, if it is a reader."""
        self._began.pop(reader, None)
        self._marks.pop(reader, None)

    def too_slow(self, now: float) -> list[Reader]:
        """Return readers that are behind by five seconds; the others go on. Call it often.

        A reader takes bytes in lumps of up to 64 KiB, as systems report free room late. So even a
        steady reader sometimes takes nothing for seconds. Bytes taken ahead of time do not count
        later.
        """
        found, pace = [], self._limits.pace
        for reader, (since, before, behind) in self._marks.items():
            behind += pace * min(now - since, _MISSED) - (reader.taken - before)
            self._marks[reader] = now, reader.taken, max(0.0, behind)
            if behind >= pace * SECONDS:
                found.append(reader)
        return found

    def slowest(self, crowd: Iterable[R], now: float, *, hurry: bool) -> R | None:
        """Return the slowest reader of a crowd; a quick one only in a `hurry`."""
        readers = [r for r in crowd if r in self._began]
        found = min(readers, key=lambda r: self._pace(r, now), default=None)
        if found is None or (not hurry and self._pace(found, now) >= _NO_HURRY):
            return None
        return found

    def _pace(self, reader: Reader, now: float) -> float:
        return reader.taken / max(1.0, now - self._began[reader])


def _kept(readers: Iterable[Reader], network: str) -> int:
    """Count the bytes in memory for the readers of a network, or for all."""
    answers = {id(r.answer): len(r.answer) for r in readers if not network or r.network == network}
    return sum(answers.values())
