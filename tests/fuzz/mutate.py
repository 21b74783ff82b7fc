"""Bad inputs made of good ones: bytes changed, parts of others put in, documents bent."""

import json
import random
from collections.abc import Sequence
from typing import Any

from tests.fuzz.nasty import NASTY, long

MOST = 128 * 1024  # bytes of an input
WORDS = (
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b"\n",
    b'"',
    b"\\",
    b"{",
    b"]",
    b"null",
    b"NaN",
    b"1e999",
    b"1" * 5000,
    b'"\\ud800"',
    b"\xe2\x80\xae",
    b"\x1b[2J",
    b"../",
    b",",
    b"|",
    b"9223372036854775808",
    b"-1",
    b"[" * 2000,
    b'{"a":' * 1500,
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**63,
    10**300,
    float("nan"),
    float("inf"),
    "",
    "\0",
    "\ud800",
    "\u202e",
    "1" * 5000,
    [],
    {},
    [None],
    {"": ""},
    "Ok",
    "2026-01-01",
    "::1",
    "n1",
    "\u0661",
)


class Mutator:
    """Changes inputs; what is made depends on the random numbers alone."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def change(self, good: bytes, others: Sequence[bytes]) -> bytes:
        """One bad input, or a good one of another kind."""
        raw = good
        if self.rng.random() < 0.55 and (bent := self._bent(raw)) is not None:
            raw = bent
            if self.rng.random() < 0.7:
                return raw[:MOST]
        for _ in range(self.rng.choice((1, 1, 1, 2, 4, 8))):
            raw = self._bytes(raw, others)
        return raw[:MOST]

    def _bytes(self, raw: bytes, others: Sequence[bytes]) -> bytes:
        rng = self.rng
        at = rng.randrange(len(raw) + 1)
        end = min(len(raw), at + rng.choice((0, 1, 2, 8, 64)))
        match rng.randrange(9):
            case 0 if at < len(raw):
                return raw[:at] + bytes([raw[at] ^ 1 << rng.randrange(8)]) + raw[at + 1 :]
            case 1:
                return raw[:at] + rng.choice(WORDS) + raw[end:]
            case 2:
                return raw[:at] + raw[end:]
            case 3:
                return raw[:at] + raw[at:end] * rng.choice((2, 3, 50, 2000)) + raw[end:]
            case 4:
                other = rng.choice(others)
                start = rng.randrange(len(other) + 1)
                return raw[:at] + other[start : start + rng.choice((4, 40, 400))] + raw[end:]
            case 5:
                return raw[:at]
            case 6:
                text = long(rng.choice(tuple(NASTY)), rng.choice((10, 300, 5000, 30_000)))
                return raw[:at] + text.encode("utf-8", "surrogatepass") + raw[end:]
            case 7:
                return raw[:at] + rng.randbytes(rng.choice((1, 2, 4, 16))) + raw[end:]
            case _:
                lines = raw.split(b"\n")
                rng.shuffle(lines)
                return b"\n".join(lines[: rng.randrange(1, len(lines) + 1)])

    def _bent(self, raw: bytes) -> bytes | None:
        try:
            document = json.loads(raw)
        except (ValueError, RecursionError):
            return None
        try:
            for _ in range(self.rng.choice((1, 1, 2, 3))):
                document = self._bend(document)
            return json.dumps(document).encode()
        except RecursionError:
            return None

    def _bend(self, value: Any, depth: int = 0) -> Any:
        """The document with one thing changed somewhere."""
        rng = self.rng
        if isinstance(value, dict) and value and rng.random() < 0.85 and depth < 100:
            key = rng.choice(list(value))
            if rng.random() < 0.12:
                return {k: v for k, v in value.items() if k != key}
            if rng.random() < 0.1:
                return {**value, rng.choice(("", key + "x", "v", "\0", "a" * 300)): value[key]}
            return {**value, key: self._bend(value[key], depth + 1)}
        if isinstance(value, list) and value and rng.random() < 0.85 and depth < 100:
            at = rng.randrange(len(value))
            if rng.random() < 0.12:
                return [*value[:at], *value[at + 1 :]]
            if rng.random() < 0.08:
                return value * rng.choice((2, 30, 500)) if len(value) < 500 else value
            return [*value[:at], self._bend(value[at], depth + 1), *value[at + 1 :]]
        if rng.random() < 0.2:
            return long(rng.choice(tuple(NASTY)), rng.choice((10, 257, 1001, 20_000)))
        if isinstance(value, str) and value and rng.random() < 0.4:
            at = rng.randrange(len(value) + 1)
            return (
                value[:at]
                + rng.choice(("", "\n", "é", "\u202e", "0", " ", "\\", '"'))
                + value[at + 1 :]
            )
        if isinstance(value, int) and rng.random() < 0.5:
            return value + rng.choice((-1, 1, 2**31, 2**63, -(2**40)))
        if rng.random() < 0.1:
            inner: Any = value
            for _ in range(rng.choice((3, 31, 33, 900))):
                inner = [inner] if rng.random() < 0.5 else {"a": inner}
            return inner
        return rng.choice(VALUES)
