"""The node's records of orders: one small file each, on disk before anything is started."""

import logging
import os
import re
from contextlib import suppress
from dataclasses import replace

from nodeagent.errors import Corrupt, MessageError
from nodeagent.protocol.canonical import canonical, read
from nodeagent.protocol.messages import IDENTITY, INTERRUPTED, Progress, Receipt

log = logging.getLogger(__name__)

KEEP = 10_000
_HALF = re.compile(r"\.new-[0-9a-f]{16}")
_FILE = re.compile(rf"({IDENTITY.pattern})\.json")


class Receipts:
    """All receipts of this node, in memory and in one folder."""

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        sweep(folder)
        self._folder = folder
        self._known: dict[str, Receipt] = {}
        for name in os.listdir(folder):
            if _FILE.fullmatch(name):
                receipt = self._read(name)
                self._known[receipt.order] = receipt

    def get(self, order: str) -> Receipt | None:
        """The receipt of an order, or None if this node never started it."""
        return self._known.get(order)

    @property
    def running(self) -> Receipt | None:
        """The order that runs now, if any."""
        started = (r for r in self._known.values() if r.progress is Progress.STARTED)
        return next(started, None)

    def keep(self, receipt: Receipt) -> None:
        """Write the receipt so that it survives a power cut, then know it."""
        replace_file(self._path(receipt.order), canonical(receipt.body()).encode())
        self._known[receipt.order] = receipt
        self._prune()

    def end(self, receipt: Receipt) -> None:
        """Keep the final receipt; where the disk refuses, it counts until a restart.

        After that restart the order is found started and never ended, hence failed: an
        end that was not written may be taken for worse than it was, never for better.
        """
        try:
            self.keep(receipt)
        except OSError as error:
            log.error("receipt-unsaved id=%s why=%r", receipt.order, str(error))  # noqa: TRY400
            self._known[receipt.order] = receipt

    def close_interrupted(self, now: int) -> list[Receipt]:
        """After a restart: what was started and never ended has failed; nothing runs twice."""
        closed = []
        for receipt in list(self._known.values()):
            if receipt.progress is Progress.STARTED:
                why = f"{INTERRUPTED}; how far it came is not known"
                ended = replace(receipt, progress=Progress.FAILED, ended=now, why=why)
                self.end(ended)
                closed.append(ended)
        return closed

    def _read(self, name: str) -> Receipt:
        path = os.path.join(self._folder, name)
        try:
            with open(path, "rb") as file:
                receipt = Receipt.from_body(read(file.read(), limit=1024 * 1024))
        except (OSError, MessageError, AttributeError) as error:
            raise Corrupt(f"{path}: {error}; a receipt must never be lost unread") from None
        if f"{receipt.order}.json" != name:
            raise Corrupt(f"{path}: is the receipt of another order, {receipt.order}")
        return receipt

    def _prune(self) -> None:
        """Orders expire within a minute, so a receipt this old guards against nothing."""
        ended = [r for r in self._known.values() if r.ended is not None]
        for receipt in sorted(ended, key=lambda r: r.started)[: max(0, len(self._known) - KEEP)]:
            with suppress(OSError):
                os.unlink(self._path(receipt.order))
            del self._known[receipt.order]

    def _path(self, order: str) -> str:
        return os.path.join(self._folder, f"{order}.json")


def sweep(folder: str) -> None:
    """Remove what a writer left that was killed. No other may be writing there now."""
    for name in os.listdir(folder):
        if _HALF.fullmatch(name):
            os.unlink(os.path.join(folder, name))


def replace_file(path: str, content: bytes, mode: int = 0o600) -> None:
    """Replace a file: readers see the old or the new one, also after a power cut."""
    folder = os.path.dirname(path)
    name = os.path.join(folder, f".new-{os.urandom(8).hex()}")
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as temporary:
            os.fchmod(handle, mode)
            temporary.write(content)
            temporary.flush()
            os.fsync(handle)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    above = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(above)
    finally:
        os.close(above)
