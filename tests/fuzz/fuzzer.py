"""Runs a decoder on bad inputs for a while, and tells which of them broke its promise."""

import hashlib
import random
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from tests.fuzz.decoder import Decoder
from tests.fuzz.mutate import Mutator
from tests.fuzz.nasty import cpu

CORPUS = Path(__file__).parent / "corpus"
MOST_WORDS = 8000  # characters of all complaints about one input
HANG = 20.0  # seconds, after which an input is given up
SLOW, A_BYTE = 0.2, 20e-6  # CPU seconds that an input may take: for itself, and for each byte
KEPT = 300  # inputs that are mutated further
_DETAIL = re.compile(r"[0-9]+|\"[^\"]*\"|'[^']*'")


@dataclass
class Fuzzer:
    """One decoder being fuzzed; what says something new is mutated further."""

    decoder: Decoder
    rng: random.Random
    pool: list[bytes] = field(default_factory=list)
    said: set[str] = field(default_factory=set)
    tried: int = 0

    def __post_init__(self) -> None:
        self.pool += [*self.decoder.seeds, *corpus(self.decoder.name)]

    def run(self, seconds: float, most: int = sys.maxsize) -> dict[str, bytes]:
        """Try for so long, and so many inputs at most; each kind of failure, and an input of it.

        It is kept in the corpus, where every later run tries it first.
        """
        end = time.monotonic() + seconds
        mutator, found = Mutator(self.rng), dict[str, bytes]()
        while time.monotonic() < end and self.tried < most:
            raw = mutator.change(self.rng.choice(self.pool), self.pool)
            if (why := self.attempt(raw)) and (key := _DETAIL.sub("", why)[:80]) not in found:
                found[key] = raw
                folder = CORPUS / self.decoder.name
                folder.mkdir(exist_ok=True)
                (folder / hashlib.sha256(raw).hexdigest()[:12]).write_bytes(raw)
        return found

    def attempt(self, raw: bytes) -> str:
        """How the decoder broke its promise on this input; empty if it kept it."""
        self.tried += 1
        began, words = time.thread_time(), "read"
        try:
            with hanging(HANG):
                said = self.decoder.read(raw)
            words = said if isinstance(said, str) else words
        except self.decoder.errors as error:
            words = str(error)
        except Hung:
            return f"took longer than {HANG} s"
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:200]}"
        if len(words) > MOST_WORDS:
            return f"a complaint of {len(words)} characters"
        if not words.replace("\n", "").isprintable():
            return f"a complaint that is not printable: {words[:200]!a}"
        took, allowed = time.thread_time() - began, SLOW + A_BYTE * len(raw)
        if took > allowed and (took := cpu(lambda: self._again(raw))) > allowed:
            return f"took {took:.2f} s of CPU for {len(raw)} bytes"
        self._learn(raw, words)
        return ""

    def _again(self, raw: bytes) -> None:
        try:
            self.decoder.read(raw)
        except self.decoder.errors:
            pass

    def _learn(self, raw: bytes, words: str) -> None:
        shape = _DETAIL.sub("", words)[:60]
        if shape in self.said or len(raw) > 16_384:
            return
        self.said.add(shape)
        if len(self.pool) < KEPT:
            self.pool.append(raw)
        else:
            self.pool[self.rng.randrange(len(self.decoder.seeds), KEPT)] = raw


class Hung(BaseException):
    """An input takes far too long."""


@contextmanager
def hanging(seconds: float) -> Iterator[None]:
    """End what goes on for longer; in the main thread only."""

    def end(_: int, __: FrameType | None) -> None:
        raise Hung

    before = signal.signal(signal.SIGALRM, end)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, before)


def corpus(name: str) -> list[bytes]:
    """The inputs that are kept of a decoder."""
    folder = CORPUS / name
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []
