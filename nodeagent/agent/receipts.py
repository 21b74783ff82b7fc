"""The node's records of orders: one small file each, on disk before the start.

A failing disk may keep the node from repairing, never from reporting that.
"""

import errno
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from nodeagent.agent.writer import Writer
from nodeagent.errors import MessageError, in_words, with_path
from nodeagent.folder import replace_file, sweep
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import canonical, read
from nodeagent.protocol.messages import IDENTITY, INTERRUPTED, UNREAD, Progress, Receipt

log = logging.getLogger(__name__)

KEEP = 10_000
PROBE = "probe"  # the file in the folder that tells whether others can be written
_PROBING = b"A receipt of this size could be kept.\n".ljust(4096)
PROBES_FOR = 30.0  # seconds: a disk with much other work calls nobody
_FILE = re.compile(rf"({IDENTITY.pattern})\.json")


class Receipts:
    """All receipts of this node, in memory and in one folder.

    `unread` says why the folder cannot be read, so that the node's past orders are unknown.
    `unkept` says why no receipt can be kept, by the last try or probe; empty if one can.
    `beginning` are the orders of which nobody can tell yet whether they start. `keep` is the
    greatest number of receipts.
    """

    def __init__(self, folder: str, keep: int | None = None) -> None:
        self.unread = ""
        self.unkept = ""
        self.beginning: set[str] = set()
        self._keep = keep
        self._folder = folder
        self._known: dict[str, Receipt] = {}
        self._writer = Writer()
        self._prober = Writer()  # apart: no receipt waits behind a probe of a busy disk
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            names = os.listdir(folder)
        except OSError as error:
            self.unread = in_words(error)
            log.error("receipts-unread why=%r", self.unread)  # noqa: TRY400
            return
        sweep(folder)
        strays = [self._read(match[1]) for name in names if (match := _FILE.fullmatch(name))]
        for stray in filter(None, strays):
            self._known.setdefault(stray.order, stray)

    def get(self, order: str) -> Receipt | None:
        """Return the receipt of an order, or None if this node has no record of a start."""
        return self._known.get(order)

    def all(self) -> Collection[Receipt]:
        return self._known.values()

    @property
    def running(self) -> Receipt | None:
        started = (r for r in self._known.values() if r.progress is Progress.STARTED)
        return next(started, None)

    async def begin(self, receipt: Receipt, why_not: Callable[[], str] = lambda: "") -> str:
        """Keep the receipt of an order that is about to start; OSError if the disk refuses.

        That may take seconds, so `why_not` then says why the order may not start any more; return
        what it says. An order that does not start leaves no receipt, also if a disk that hangs
        writes it later all the same.
        """
        why = "it cannot be kept"
        self.beginning.add(receipt.order)
        try:
            await self._try(receipt)
            why = why_not()
        finally:
            self.beginning.discard(receipt.order)
            if why:
                self._remove_later(receipt.order)
            else:
                self._add(receipt)
        return why

    async def finish(self, receipt: Receipt) -> None:
        """Keep the final receipt, as `end` does."""
        try:
            await self._try(receipt)
        except OSError as error:
            _unsaved(receipt, error)
        self._add(receipt)

    async def check(self) -> None:
        """Find out whether a receipt could be kept now, by writing a file of that size."""
        path = os.path.join(self._folder, PROBE)
        try:
            await self._prober.now(partial(replace_file, path, _PROBING), PROBES_FOR)
            await self._writer.now(lambda: None, PROBES_FOR)  # all wait for a write that hangs
        except OSError as error:
            self.unkept = with_path(self._folder, error)
        else:
            self.unkept = ""

    async def _try(self, receipt: Receipt) -> None:
        try:
            await self._writer.now(partial(self._write, receipt))
        except OSError as error:
            if error.errno != errno.ETIMEDOUT:  # a busy disk, maybe: a probe has more time
                self.unkept = with_path(self._folder, error)
            raise
        self.unkept = ""

    def keep(self, receipt: Receipt) -> None:
        """Write the receipt so that it survives a power cut, then add it to memory."""
        self._write(receipt)
        self._add(receipt)

    def _write(self, receipt: Receipt) -> None:
        replace_file(self._path(receipt.order), canonical(receipt.body()).encode())

    def _add(self, receipt: Receipt) -> None:
        self._known[receipt.order] = receipt
        self._prune()

    def end(self, receipt: Receipt) -> None:
        """Keep the final receipt; if the disk refuses, it counts until a restart.

        After that restart the order counts as started and never ended, hence as failed. So an
        unwritten end may look worse than it was, never better.
        """
        try:
            self.keep(receipt)
        except OSError as error:
            _unsaved(receipt, error)
            self._known[receipt.order] = receipt

    def close_interrupted(self, now: Ms) -> list[Receipt]:
        """Fail the orders that a restart has interrupted; nothing runs twice."""
        closed = []
        for receipt in list(self._known.values()):
            if receipt.progress is Progress.STARTED:
                why = f"{INTERRUPTED}; how far it came is unknown"
                ended = replace(receipt, progress=Progress.FAILED, ended=now, why=why)
                self.end(ended)
                closed.append(ended)
        return closed

    def _read(self, order: str) -> Receipt | None:
        """Read an order's receipt; as failed if unreadable. Return it if it is another order's.

        Such a receipt has no end, so it is never old enough to be removed.
        """
        path, stray = self._path(order), None
        try:
            with open(path, "rb") as file:
                receipt = Receipt.from_body(read(file.read(), limit=1024 * 1024))
            if receipt.order != order:
                stray = receipt
                raise MessageError(f"is the receipt of another order, {receipt.order}")
        except (OSError, MessageError, AttributeError) as error:
            log.error("receipt-unread id=%s why=%r", order, str(error))  # noqa: TRY400
            why = f"{UNREAD}; how far it came is unknown"
            receipt = Receipt(order, order, "unknown", Progress.FAILED, Ms(0), None, None, why, "")
        self._known[order] = receipt
        return stray

    def _prune(self) -> None:
        """Remove old receipts: orders expire within a minute, so these protect against nothing."""
        if (excess := len(self._known) - (self._keep or KEEP)) <= 0:
            return
        ended = [r for r in self._known.values() if r.ended is not None]
        for receipt in sorted(ended, key=lambda r: r.started)[:excess]:
            self._remove_later(receipt.order)
            del self._known[receipt.order]

    def _remove_later(self, order: str) -> None:
        """Remove a receipt's file, after all that waits to be written now."""
        self._writer.later(order, partial(self._remove, order))

    def _remove(self, order: str) -> None:
        with suppress(OSError):
            os.unlink(self._path(order))

    def _path(self, order: str) -> str:
        return os.path.join(self._folder, f"{order}.json")


def _unsaved(receipt: Receipt, error: OSError) -> None:
    log.error("receipt-unsaved id=%s why=%r", receipt.order, str(error))


def newest(receipts: Iterable[Receipt]) -> list[Receipt]:
    """Return the newest receipt of each command. Pure."""
    latest: dict[str, Receipt] = {}
    for receipt in receipts:
        before = latest.get(receipt.command)
        if before is None or receipt.started > before.started:
            latest[receipt.command] = receipt
    return list(latest.values())
