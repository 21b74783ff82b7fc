"""The lease of the one that acts: a key, and the revision of its creation, which guards writes.

A lease in etcd is a hint, and no lock: the holder may sleep while it ends. So each write to etcd is
conditional on the *fence*, the revision in which the key was made. Effects outside etcd have no
such guard: they stop by our own clock, which counts the time that the machine sleeps, at two thirds
of the time to live after the last renewal was sent.

A maintd that cannot act must not keep others from it: the lease is renewed only while it is
`wanted`.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from nodeagent.errors import Unavailable, plain
from nodeagent.store.etcd.answers import coded, number, raw
from nodeagent.store.etcd.client import Client, Refused

log = logging.getLogger(__name__)
TTL = 10  # seconds
_SHARE = 2 / 3  # of the time to live, in which we act
_AGAIN = 0.5  # seconds between tries while another acts
_NOT_FOUND = 5


class Taken(Unavailable):
    """Another maintd acts; it holds the key."""


def boottime() -> float:
    """Return seconds of a clock that counts the machine's sleep, and that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Leader:
    """The one that acts with the state below a prefix; `name` tells others who it is.

    `fence` is 0 while it does not hold the key. `wanted` tells whether to keep it, from any thread.
    All its methods run on one event loop, except `acting`, which any thread may read.
    """

    def __init__(
        self,
        client: Client,
        key: str,
        name: str,
        ttl: int = TTL,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.fence = 0
        self.wanted: Callable[[], bool] = lambda: True
        self._client = client
        self._key = coded(key.encode())
        self._name = name
        self._ttl = ttl
        self._clock = clock
        self._lease = ""
        self._until = 0.0  # of our clock
        self._lock = asyncio.Lock()

    @property
    def acting(self) -> bool:
        """Whether nobody else can hold the key yet, by our own clock."""
        return self.fence != 0 and self._clock() < self._until

    @property
    def every(self) -> float:
        """Seconds between renewals."""
        return self._ttl * 0.3

    def guard(self) -> dict[str, Any]:
        """The condition of a write: we still hold the key."""
        return {
            "key": self._key,
            "target": "CREATE",
            "result": "EQUAL",
            "create_revision": str(self.fence),
        }

    async def take(self, patience: float = 0.0) -> None:
        """Hold the key: renew its lease, or make the key if it is free.

        Taken: another holds it, and did so for all of `patience` (seconds).
        """
        until = self._clock() + patience
        async with self._lock:
            while not (await self._renewed() or await self._made()):
                if (holder := await self._holder()) is None:
                    continue
                if not await self._stays(holder) or self._clock() < until:
                    await asyncio.sleep(_AGAIN if patience else 0)
                    continue
                await self._revoke()
                name = plain(raw(holder, "value").decode(errors="replace"), 100)
                raise Taken(f"another maintd acts: {name} holds the lease in etcd")

    async def _stays(self, holder: dict[str, Any]) -> bool:
        """Whether to respect the holder of the key; it has its own lease."""
        return True

    async def keep(self) -> None:
        """Renew the lease now and then, until canceled; a failure is tried again.

        While it is not wanted, let others take it.
        """
        while True:
            await asyncio.sleep(self.every)
            with suppress(Unavailable):
                async with self._lock:
                    await (self._renewed() if self.wanted() else self._not_wanted())

    async def _not_wanted(self) -> None:
        if self.fence:
            log.warning("lease-given-up fence=%d", self.fence)
            await self._revoke()

    def lose(self) -> None:
        """Hold it no more: etcd has said that the fence is another."""
        if self.fence:
            log.warning("lease-lost fence=%d", self.fence)
        self._forget()

    def _forget(self) -> None:
        """Do not act before a renewal: a key that is ours again has a time to live of its own."""
        self.fence, self._lease, self._until = 0, "", 0.0

    async def give_up(self) -> None:
        """Let others take it at once."""
        async with self._lock:
            await self._revoke()

    async def _renewed(self) -> bool:
        """Renew the lease of the key that we hold; false if we hold none, or no more."""
        if not self.fence:
            return False
        sent = self._clock()
        answer = await self._client.call(
            "lease/keepalive", {"ID": self._lease}, seconds=max(1.0, self._ttl / 3)
        )
        if not (ttl := number(answer, "TTL")):  # this is all that tells of an unknown lease
            self.lose()
            return False
        self._until = sent + ttl * _SHARE
        return True

    async def _made(self) -> bool:
        """Make the key with a lease of ours; false if there is one."""
        if not self._lease:
            answer = await self._client.call("lease/grant", {"TTL": str(self._ttl)})
            self._lease = str(answer.get("ID", ""))
        put = {"key": self._key, "value": coded(self._name.encode()), "lease": self._lease}
        free = {"key": self._key, "target": "CREATE", "result": "EQUAL", "create_revision": "0"}
        asked = {"compare": [free], "success": [{"request_put": put}]}
        try:
            answer = await self._client.call("kv/txn", asked)
        except Refused as error:
            if error.code != _NOT_FOUND:
                raise
            self._lease = ""  # it ended meanwhile
            return False
        if answer.get("succeeded") is not True:
            return False
        self.fence = number(answer["header"], "revision")
        log.info("lease-taken fence=%d", self.fence)
        return await self._renewed()  # the lease may be older than this try

    async def _holder(self) -> dict[str, Any] | None:
        """Return the key as it is; None if it is gone, or if a lost answer had made it ours."""
        answer = await self._client.call("kv/range", {"key": self._key})
        found: list[dict[str, Any]] = answer.get("kvs", [])
        if not found:
            return None
        if self._lease and str(found[0].get("lease", "")) == self._lease:
            self.fence = number(found[0], "create_revision")
            return None  # `take` renews it
        return found[0]

    async def _revoke(self) -> None:
        lease = self._lease
        self._forget()
        if lease:
            with suppress(Unavailable):
                await self._client.call("lease/revoke", {"ID": lease}, seconds=1.0)
