"""Space in etcd: its size and alarms, and the compaction of its history, which etcd leaves to us.

Without compaction 64 saves of 3 MB make a database of 414 MB. Only the one that acts compacts, to a
revision some minutes old, so that a reader in the middle of its pages is not disturbed.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from nodeagent.errors import Unavailable, in_words
from nodeagent.store.etcd.answers import number
from nodeagent.store.etcd.client import Client, Compacted, Full

log = logging.getLogger(__name__)
HISTORY = 300.0  # seconds of etcd's history that stay
LARGE = 1536 * 1024 * 1024  # bytes: three quarters of etcd's default quota
_MEND = "etcdctl compact REVISION; etcdctl defrag --cluster; etcdctl alarm disarm"
_DIFFER = (
    "etcd's members differ (alarm CORRUPT), and etcd refuses all requests: find the member that"
    " differs with etcdctl endpoint hashkv --cluster, replace it (etcdctl member remove ID, member"
    " add), and run etcdctl alarm disarm"
)


class Space:
    """Look after space; `acting` tells whether that is our turn.

    `bytes` is the size of the database of the member that answered, -1 while unknown.
    """

    def __init__(
        self,
        client: Client,
        acting: Callable[[], bool],
        history: float = HISTORY,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.bytes = -1
        self._client = client
        self._acting = acting
        self._history = history
        self._steady = steady
        self._noted = (steady(), 0)  # when, and the revision at that time
        self._full = self._corrupt = False
        self._away = ""

    async def care(self, every: float) -> None:
        """Look now and then, until canceled."""
        while True:
            await self.once()
            await asyncio.sleep(every)

    async def once(self) -> None:
        """Ask for the size and the alarms, and compact if it is time."""
        try:
            await self.measure()
            await self._compact()
            self._away = ""
        except Unavailable as error:
            self._away = in_words(error)

    async def measure(self) -> int:
        """Return the bytes of the database."""
        answer = await self._client.call("maintenance/status", {})
        errors = answer.get("errors", [])
        self._full, self._corrupt = (
            any(f"alarm:{alarm}" in str(one) for one in errors) for alarm in ("NOSPACE", "CORRUPT")
        )
        self.bytes = number(answer, "dbSize")
        return self.bytes

    def saw(self, error: Exception) -> None:
        """Take note of a failed call."""
        if isinstance(error, Full) and not self._full:
            self._full = True
            log.error("etcd-full why=%r", str(error))

    async def _compact(self) -> None:
        since, revision = self._noted
        if self._steady() - since < self._history or not self._acting():
            return
        self._noted = self._steady(), self._client.revision
        if revision:
            with suppress(Compacted):  # somebody else has done it
                await self._client.call("kv/compaction", {"revision": str(revision)})
            log.debug("etcd-compacted revision=%d", revision)

    def troubles(self) -> tuple[str, ...]:
        """Return the present faults."""
        told = [away] if (away := self._client.away or self._away) else []
        if self._corrupt:
            told.append(_DIFFER)
        if self._full:
            told.append(
                f"etcd is full (alarm NOSPACE), and takes no writes: run as its root {_MEND}"
            )
        elif self.bytes >= LARGE:
            size = self.bytes // 2**20
            told.append(f"etcd's database has {size} MiB: run as its root etcdctl defrag --cluster")
        return tuple(told)
