"""Parts of a copy of the ledger, as they stand on an agent's disk and travel when fetched. Pure.

A part is its head, its body and a sum: four bytes of the head's length (big-endian), the head in
JSON, the body, and 32 bytes that prove both. A copy is its parts one after the other.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from nodeagent.errors import MessageError
from nodeagent.model.copies import Part, Stamp
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import CANDIDATES
from nodeagent.protocol.canonical import canonical, read
from nodeagent.protocol.messages import IDENTITY, VERSION, Fields

MOST_COPY = 64 * 1024 * 1024  # bytes of a copy: a whole ledger and the changes on top
MOST_BODY = 16 * 1024 * 1024  # bytes of one part
MOST_PARTS = 1000  # of a copy
DIGEST = 128  # characters
_HEAD = 128 * 1024  # bytes of a part's members
_SUM = re.compile("[0-9a-f]{64}")
SUM_BYTES = 32


class Newer(MessageError):
    """A newer nodeagent wrote it."""


@dataclass(frozen=True, slots=True)
class Header:
    """A part without its body: the body's length in bytes and its SHA-256 in hex instead."""

    stamp: Stamp
    base: Stamp | None
    at: Ms
    candidates: tuple[str, ...]
    digest: str
    size: int
    sum: str

    @classmethod
    def of(cls, part: Part) -> "Header":
        return cls(
            *(part.stamp, part.base, part.at, part.candidates, part.digest, len(part.body)),
            sum_of(part.body),
        )

    def part(self, body: bytes) -> Part:
        """Put the part together, or raise MessageError if this is another body."""
        if len(body) != self.size or sum_of(body) != self.sum:
            raise MessageError("the body of a part is not the one that its header names")
        return Part(self.stamp, self.base, self.at, self.candidates, self.digest, body)

    def body(self) -> dict[str, Any]:
        return {
            "stamp": list(self.stamp),
            "base": None if self.base is None else list(self.base),
            "at": self.at,
            "candidates": list(self.candidates),
            "digest": self.digest,
            "size": self.size,
            "sum": self.sum,
        }

    @classmethod
    def from_body(cls, document: dict[str, Any]) -> "Header":
        """Read the members, or raise MessageError naming the wrong one."""
        take = Fields("part", document)
        base = document.get("base")
        size = take.number("size")
        if size > MOST_BODY:
            raise MessageError(f"part.size is more than {MOST_BODY} bytes")
        stamp, earlier = stamp_of(document.get("stamp")), None if base is None else stamp_of(base)
        if earlier is not None and earlier.order >= stamp.order:
            raise MessageError("part.base is not older than part.stamp")
        return cls(
            *(stamp, earlier, Ms(take.number("at")), candidates_of(document.get("candidates"))),
            *(take.text("digest", DIGEST), size, take.matching("sum", _SUM)),
        )


def sum_of(body: bytes) -> str:
    """The SHA-256 of a body, in hex."""
    return hashlib.sha256(body).hexdigest()


def head_of(header: Header) -> bytes:
    """The first bytes of a part; its body follows, and then `tail_of` both."""
    text = canonical({**header.body(), "v": VERSION}).encode()
    return len(text).to_bytes(4, "big") + text


def tail_of(head: bytes, header: Header) -> bytes:
    """The last bytes of a part: they prove the head, which proves the body."""
    return hashlib.sha256(head + header.sum.encode()).digest()


def head_size(first: bytes) -> int:
    """The length of a head from its first four bytes, or MessageError."""
    size = int.from_bytes(first, "big")
    if len(first) != 4 or not 0 < size <= _HEAD:
        raise MessageError("no part begins here")
    return 4 + size


def read_head(head: bytes) -> Header:
    """Read a whole head, or raise MessageError; Newer if only a newer nodeagent reads it."""
    document = read(head[4:], limit=_HEAD, depth=2)
    if not isinstance(document, dict):
        raise MessageError("the head of a part is not an object")
    if type(version := document.get("v")) is int and version > VERSION:
        raise Newer(f"its version is {version}, and we read {VERSION}: upgrade nodeagent")
    return Header.from_body(document)


def extent_of(head: bytes, header: Header) -> int:
    """The bytes of a whole part."""
    return len(head) + header.size + SUM_BYTES


def read_parts(raw: bytes) -> list[Part]:
    """Read a copy, a whole part and those on top of it, or raise MessageError."""
    if len(raw) > MOST_COPY:
        raise MessageError(f"a copy of more than {MOST_COPY} bytes")
    found: list[Part] = []
    at = 0
    while at < len(raw):
        head = raw[at : at + head_size(raw[at : at + 4])]
        header = read_head(head)
        start, end = at + len(head), at + extent_of(head, header)
        if end > len(raw) or raw[end - SUM_BYTES : end] != tail_of(head, header):
            raise MessageError("a part is cut or changed")
        part = header.part(raw[start : end - SUM_BYTES])
        if part.base != (found[-1].stamp if found else None):
            raise MessageError("the parts of a copy are not on top of each other")
        found.append(part)
        if len(found) > MOST_PARTS:
            raise MessageError(f"a copy of more than {MOST_PARTS} parts")
        at = end
    if not found:
        raise MessageError("an empty copy")
    return found


def stamp_of(value: Any) -> Stamp:
    """Read a stamp, or raise MessageError."""
    if not isinstance(value, list) or len(value) != 3:
        raise MessageError("a stamp is not an epoch, a writer and a number")
    epoch, writer, number = value
    if not all(type(one) is int and 0 <= one < 2**63 for one in (epoch, number)):
        raise MessageError("a stamp's epoch or number is not a count")
    if not isinstance(writer, str) or not IDENTITY.fullmatch(writer):
        raise MessageError("a stamp's writer is not a UUID")
    return Stamp(epoch, writer, number)


def candidates_of(value: Any) -> tuple[str, ...]:
    """Read the UUIDs of candidates, or raise MessageError."""
    if not isinstance(value, list) or len(value) > CANDIDATES:
        raise MessageError(f"candidates is not a list of at most {CANDIDATES} UUIDs")
    if not all(isinstance(one, str) and IDENTITY.fullmatch(one) for one in value):
        raise MessageError("candidates has a member that is not a UUID")
    return tuple(value)
