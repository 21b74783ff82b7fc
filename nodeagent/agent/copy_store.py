"""Copies of the ledger on this node's disk: one file for each part, complete or absent.

A part is written to a file of another name, then synced, renamed, and its folder synced. So a
killed runner, a power cut and a full disk leave only whole parts, and a receipt means that the
part is on the disk. The promise is a file of the same kind, written before the first part of its
epoch. The newest copies stay, older files go when a new whole part arrives.

A node whose newest part is damaged has confirmed more than it can show. So it answers no question
until a whole part, at least as new, stands for the damaged one.
"""

import hashlib
import logging
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from nodeagent.agent.receipts import replace_file, sweep, sync_folder
from nodeagent.errors import ConfigError, MessageError, Unavailable, in_words
from nodeagent.model.copies import Holding, Kept, Stamp
from nodeagent.protocol.canonical import canonical, read
from nodeagent.protocol.copies import CHUNK, COPIES, Answer, Word, promise_of
from nodeagent.protocol.messages import IDENTITY, VERSION
from nodeagent.protocol.parts import (
    MOST_COPY,
    MOST_PARTS,
    SUM_BYTES,
    Header,
    Newer,
    extent_of,
    head_of,
    head_size,
    read_head,
    stamp_of,
    tail_of,
)

log = logging.getLogger(__name__)

_PROMISE = "promise.json"
_FILE = re.compile(rf"([0-9]{{1,19}})-([0-9]{{1,19}})-({IDENTITY.pattern})\.(whole|change)")
_BLOCK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _File:
    """A part on the disk; `bytes` are those of the file."""

    header: Header
    name: str
    bytes: int


@dataclass(slots=True)
class _Draft:
    """A part of which not all pieces have come; its file counts for nothing."""

    header: Header
    name: str
    file: BinaryIO
    size: int = 0

    def drop(self) -> None:
        with suppress(OSError):
            self.file.close()
        with suppress(OSError):
            os.unlink(self.name)


class CopyStore:
    """The copies of one folder. Its calls write and wait for the disk; make one at a time."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._loaded = False
        self._promise = promise_of(0, "")
        self._copies: list[list[_File]] = []  # the newest first; of each the whole part first
        self._draft: _Draft | None = None
        self._unread: Stamp | None = None  # of the newest part if that cannot be read

    @property
    def used(self) -> bool:
        """Tell whether this node has ever promised anything, and hence may keep copies."""
        return os.path.lexists(os.path.join(self._folder, _PROMISE))

    def awaits(self, header: Header, offset: int) -> bool:
        """Tell whether the part has begun, and its next piece begins there."""
        draft = self._draft
        return draft is not None and (draft.header, draft.size) == (header, offset) and offset > 0

    # The requests.

    def holding(self) -> Answer:
        """Return what is kept. Unavailable: something newer was, and is damaged."""
        self._load()
        self._check_newest()
        return Answer(Word.HOLDING, self._holding())

    def promise(self, epoch: int, writer: str) -> Answer:
        """Refuse all lower epochs from now on, also after a power cut.

        Unavailable, as for `holding`.
        """
        self._load()
        self._check_newest()
        if not self._may_write(epoch, writer):
            return Answer(Word.OUTBID, self._holding())
        self._raise(epoch, writer)
        return Answer(Word.HOLDING, self._holding())

    def put(self, header: Header, offset: int, piece: bytes) -> Answer:
        """Take one piece of a part; the last one puts the part on the disk."""
        self._load()
        if not self._may_write(header.stamp.epoch, header.stamp.writer):
            return Answer(Word.OUTBID, self._holding())
        if any(file.header == header for copy in self._copies for file in copy):
            return _written(header)
        if not self._fits(header):
            return Answer(Word.WHOLE_WANTED, self._holding())
        self._raise(header.stamp.epoch, header.stamp.writer)
        if offset == 0:
            self._begin(header)
        draft = self._draft
        if draft is None or (draft.header, draft.size) != (header, offset):
            return Answer(Word.AGAIN)
        try:
            draft.file.write(piece)
            draft.file.flush()  # a full disk is found out now
            draft.size += len(piece)
            if draft.size < header.size:
                return Answer(Word.MORE, size=draft.size)
            self._finish(draft)
        except BaseException:
            self._drop()
            raise
        self._drop()
        return _written(header)

    def read(self, stamp: Stamp, offset: int) -> Answer:
        """Return a piece of the copy up to this stamp."""
        self._load()
        for copy in self._copies:
            end = next((n for n, file in enumerate(copy) if file.header.stamp == stamp), None)
            if end is not None:
                files = copy[: end + 1]
                size = sum(file.bytes for file in files)
                if offset < size:
                    return Answer(Word.PIECE, size=size, piece=self._piece(files, offset))
        return Answer(Word.GONE)

    # The rules.

    def _may_write(self, epoch: int, writer: str) -> bool:
        promise = self._promise
        return epoch > promise.epoch or (epoch, writer) == (promise.epoch, promise.writer)

    def _fits(self, header: Header) -> bool:
        """Tell whether the part is newer than all here, and a change on top of the newest one."""
        extent = extent_of(head_of(header), header)
        if self._unread is not None:
            return header.base is None and header.stamp.order >= self._unread.order
        if not self._copies:
            return header.base is None
        copy = self._copies[0]
        newest, digest = copy[-1].header.stamp, copy[-1].header.digest
        if header.base is None:
            same = (header.stamp, header.digest) == (newest, digest)
            return header.stamp.order > newest.order or same
        room = len(copy) < MOST_PARTS and sum(file.bytes for file in copy) + extent <= MOST_COPY
        return header.base == newest and room

    def _check_newest(self) -> None:
        if self._unread is not None:
            name = f"{self._folder}/{self._unread.epoch}-{self._unread.number}-…"
            raise Unavailable(
                f"its newest part {name} or one before it is damaged; the next whole copy that"
                " maintd hands over replaces it"
            )

    def _raise(self, epoch: int, writer: str) -> None:
        if (epoch, writer) == (self._promise.epoch, self._promise.writer):
            return
        promise = promise_of(epoch, writer)
        document = canonical({"promise": list(promise), "v": VERSION})
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        sync_folder(os.path.dirname(self._folder))
        replace_file(os.path.join(self._folder, _PROMISE), document.encode())
        self._promise = promise

    def _holding(self) -> Holding:
        kept = (
            Kept(
                *(copy[-1].header.stamp, copy[-1].header.at, copy[-1].header.candidates),
                *(copy[-1].header.digest, len(copy), sum(file.bytes for file in copy)),
            )
            for copy in self._copies
        )
        return Holding(self._promise.epoch, self._promise.writer, tuple(kept))

    # The files.

    def _begin(self, header: Header) -> None:
        self._drop()
        name = os.path.join(self._folder, f".new-{os.urandom(8).hex()}")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._draft = _Draft(header, name, os.fdopen(os.open(name, flags, 0o600), "w+b"))
        self._draft.file.write(head_of(header))

    def _finish(self, draft: _Draft) -> None:
        """Put a draft, whose pieces have all come, in its place."""
        header, head = draft.header, head_of(draft.header)
        draft.file.write(tail_of(head, header))
        draft.file.flush()
        draft.file.seek(len(head))
        if _sum_of(draft.file, header.size) != header.sum:
            raise MessageError("the body of the part is not the one that its header names")
        os.fsync(draft.file.fileno())
        file = _File(header, _name_of(header), extent_of(head, header))
        os.replace(draft.name, os.path.join(self._folder, file.name))
        sync_folder(self._folder)
        if header.base is None:
            self._copies.insert(0, [file])
            self._unread = None
            self._prune()
        else:
            self._copies[0].append(file)

    def _drop(self) -> None:
        if self._draft is not None:
            self._draft.drop()
            self._draft = None

    def _prune(self) -> None:
        """Remove the files that are older than the copies that stay."""
        if len(self._copies) < COPIES:
            return
        del self._copies[COPIES:]
        oldest = self._copies[-1][0].header.stamp.order
        stay = {file.name for copy in self._copies for file in copy}
        with suppress(OSError):  # the next whole part tries again
            for name in os.listdir(self._folder):
                match = _FILE.fullmatch(name)
                if match and name not in stay and (int(match[1]), int(match[2])) <= oldest:
                    os.unlink(os.path.join(self._folder, name))

    def _piece(self, files: list[_File], offset: int) -> bytes:
        found, at = bytearray(), 0
        for file in files:
            if at + file.bytes > offset and len(found) < CHUNK:
                with open(os.path.join(self._folder, file.name), "rb") as opened:
                    opened.seek(max(0, offset - at))
                    found += opened.read(CHUNK - len(found))
            at += file.bytes
        return bytes(found)

    # The start.

    def _load(self) -> None:
        """Read all files once, and remove half-written ones: no other runner is running.

        OSError, ConfigError or Unavailable: this node cannot say what it keeps.
        """
        if self._loaded:
            return
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            self._loaded = True
            return
        sweep(self._folder)
        promise = self._read_promise()
        files = [file for name in names if (file := self._read_part(name)) is not None]
        sync_folder(self._folder)  # a killed runner may have left a rename to the system
        self._copies = _copies_of(files)
        named = max(filter(None, map(_stamp_in, names)), key=lambda one: one.order, default=None)
        kept = self._copies[0][-1].header.stamp if self._copies else None
        self._unread = named if named and (not kept or named.order > kept.order) else None
        # A lost promise is at least the newest part's.
        newest = [promise, kept or promise, named or promise]
        self._promise = max(newest, key=lambda one: one.epoch)._replace(number=0)
        self._loaded = True

    def _read_promise(self) -> Stamp:
        path = os.path.join(self._folder, _PROMISE)
        try:
            with open(path, "rb") as file:
                document = read(file.read(4096), depth=2)
            version = document["v"]
            if type(version) is int and version > VERSION:
                raise Unavailable(f"{path}: a newer nodeagent wrote it: upgrade nodeagent")
            return stamp_of(document["promise"])
        except FileNotFoundError:
            return promise_of(0, "")
        except (MessageError, KeyError, TypeError) as error:
            why = f"{path}: damaged ({error}): check, then remove {self._folder}"
            raise ConfigError(why) from None

    def _read_part(self, name: str) -> _File | None:
        """Read a file to its end. None: it is no part, or damaged. Unavailable: newer than we."""
        if not _FILE.fullmatch(name):
            return None
        path = os.path.join(self._folder, name)
        try:
            with open(path, "rb") as file:
                return _read_file(file, name)
        except Newer as error:
            raise Unavailable(f"{path}: {error}") from None
        except MessageError as error:
            log.error("copy-damaged file=%s why=%r", path, str(error))  # noqa: TRY400
            return None


def why_failed(error: Exception) -> Answer:
    """The answer after a failure of the disk."""
    return Answer(Word.FAILED, why=in_words(error))


def _written(header: Header) -> Answer:
    return Answer(Word.WRITTEN, stamp=header.stamp, sum=header.sum)


def _name_of(header: Header) -> str:
    stamp = header.stamp
    kind = "whole" if header.base is None else "change"
    return f"{stamp.epoch}-{stamp.number}-{stamp.writer}.{kind}"


def _stamp_in(name: str) -> Stamp | None:
    """The stamp that a file's name tells; None if it is no part's."""
    match = _FILE.fullmatch(name)
    return Stamp(int(match[1]), match[3], int(match[2])) if match else None


def _read_file(file: BinaryIO, name: str) -> _File:
    first = file.read(4)
    head = first + file.read(head_size(first) - 4)
    header = read_head(head)
    if _name_of(header) != name:
        raise MessageError("its name is another part's")
    if _sum_of(file, header.size) != header.sum:
        raise MessageError("its body is cut or changed")
    if file.read(SUM_BYTES + 1) != tail_of(head, header):
        raise MessageError("its end is cut or changed")
    return _File(header, name, extent_of(head, header))


def _sum_of(file: BinaryIO, size: int) -> str:
    """The SHA-256 of the next `size` bytes, in hex."""
    found = hashlib.sha256()
    while size > 0 and (block := file.read(min(size, _BLOCK))):
        found.update(block)
        size -= len(block)
    return found.hexdigest()


def _copies_of(files: list[_File]) -> list[list[_File]]:
    """Put the parts on top of each other, the newest copy first.

    A copy ends where the next one begins: a whole part may have the stamp of a change.
    """
    wholes = {file.header.stamp: file for file in files if file.header.base is None}
    files = sorted(files, key=lambda file: file.header.stamp.order)  # the newest one counts
    above = {file.header.base: file for file in files if file.header.base is not None}
    copies = []
    for whole in wholes.values():
        copy = [whole]
        while (file := above.get(copy[-1].header.stamp)) is not None:
            copy.append(file)
            if file.header.stamp in wholes:
                break
        copies.append(copy)
    copies.sort(key=lambda copy: (copy[-1].header.stamp.order, copy[0].header.stamp.order))
    return copies[::-1][:COPIES]
