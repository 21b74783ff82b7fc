"""The commit record, changes of keys, and the stage of a large save. Pure.

The record is one key, which every save replaces on the condition that it is still as last seen. A
save beyond the limits of a transaction goes to a stage first, in parts. It holds once the record
names the stage; then the parts are carried over. A reader puts them on top of the keys.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nodeagent.errors import Corrupt
from nodeagent.store.contract import Revision, TooNew
from nodeagent.store.entities import sum_of

FORM = 1
MOST_OPS = 100  # in one transaction; etcd takes 128
MOST_BYTES = (
    700_000  # in one transaction; etcd takes 1.5 MiB, and a part of a stage grows by a third
)
_PACKED = b"\x1fz"
_PACK_FROM = 8192  # bytes
_UNPACKED = 64 * 1024 * 1024  # the most bytes of a value


@dataclass(frozen=True, slots=True)
class Op:
    """One change: put `value` under `key`, or delete `key`, or all keys up to `end` (exclusive)."""

    key: str
    value: bytes | None = None
    end: str = ""

    @property
    def size(self) -> int:
        return len(self.key) + len(self.value or b"") + 20


@dataclass(frozen=True, slots=True)
class Stage:
    """The parts of a save that are not all carried over yet."""

    id: str
    count: int
    digest: str


@dataclass(frozen=True, slots=True)
class Record:
    """The newest save: its revision, and the sum of its entities' digests.

    `turn` counts the writes of the record; `writer` is the process that wrote it. `events` and
    `audits` are the numbers of the newest lines of the history. The epoch is `base` and the fence:
    a ledger that came from elsewhere brings its last epoch as the base.
    """

    epoch: int = 0
    number: int = 0
    sum: str = sum_of(())
    turn: int = 0
    events: int = 0
    audits: int = 0
    writer: str = ""
    base: int = 0
    stage: Stage | None = None

    @property
    def revision(self) -> Revision:
        return Revision(self.epoch, self.number)

    def encode(self) -> bytes:
        document = {"form": FORM, **asdict(self)}
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def decode(raw: bytes) -> Record:
    """Read a record, or raise Corrupt or TooNew."""
    try:
        document = json.loads(raw)
        form = document.pop("form")
        if type(form) is int and form > FORM:
            raise TooNew(
                f"the ledger in etcd is of version {form}, and we read {FORM}: a newer nodeagent"
                " wrote it; install that one again"
            )
        stage = document.pop("stage")
        record = Record(**document, stage=None if stage is None else Stage(**stage))
        kinds = {
            type(getattr(record, n))
            for n in ("epoch", "number", "turn", "events", "audits", "base")
        }
        if form != FORM or kinds != {int} or {type(record.sum), type(record.writer)} != {str}:
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Corrupt("the commit record in etcd is not as a nodeagent wrote it") from None
    return record


def pack(text: str) -> bytes:
    """Return a text as a value: a long one compressed, for etcd takes 1.5 MiB at once."""
    raw = text.encode("utf-8", "surrogatepass")
    return raw if len(raw) < _PACK_FROM else _PACKED + zlib.compress(raw, 1)


def unpack(raw: bytes) -> str:
    """Return the text of a value, or raise Corrupt."""
    try:
        if raw.startswith(_PACKED):
            unpacker = zlib.decompressobj()
            raw = unpacker.decompress(raw[len(_PACKED) :], _UNPACKED)
            if not unpacker.eof:
                raise Corrupt("a value in etcd is cut off, or too large")
        return raw.decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError):
        raise Corrupt("a value in etcd is not as it was written") from None


def in_parts(ops: Sequence[Op], most: int = MOST_OPS, size: int = MOST_BYTES) -> list[list[Op]]:
    """Divide changes into parts that each fit one transaction, in order."""
    parts: list[list[Op]] = []
    held = 0
    for op in ops:
        if not parts or len(parts[-1]) >= most or held + op.size > size:
            parts.append([])
            held = 0
        parts[-1].append(op)
        held += op.size
    return parts


def encode_part(ops: Iterable[Op]) -> bytes:
    """Write changes as the value of one key."""
    lines = [
        [op.key, None if op.value is None else base64.b64encode(op.value).decode(), op.end]
        for op in ops
    ]
    return zlib.compress(json.dumps(lines).encode(), 1)


def digest_of(parts: Iterable[bytes]) -> str:
    """Return the digest of a stage's parts, in order."""
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def staged(stage: Stage, parts: Sequence[bytes]) -> list[list[Op]]:
    """Read a stage's parts; Corrupt if one is missing, or not as it was written."""
    try:
        if len(parts) != stage.count or digest_of(parts) != stage.digest:
            raise ValueError
        return [[_op(line) for line in json.loads(zlib.decompress(part))] for part in parts]
    except (ValueError, TypeError, zlib.error):
        raise Corrupt("a large save in etcd lacks a part: its stage is damaged") from None


def _op(line: Sequence[Any]) -> Op:
    key, value, end = line
    return Op(key, None if value is None else base64.b64decode(value), end)


def on_top(found: Mapping[str, bytes], ops: Iterable[Op], start: str, end: str) -> dict[str, bytes]:
    """Return the keys from `start` up to `end` (exclusive), with these changes applied in order."""
    held = dict(found)
    for op in ops:
        if op.end:
            held = {key: value for key, value in held.items() if not op.key <= key < op.end}
        elif op.value is None:
            held.pop(op.key, None)
        elif start <= op.key < end:
            held[op.key] = op.value
    return held


def after(prefix: str) -> str:
    """Return the first key behind all that begin with this one."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
