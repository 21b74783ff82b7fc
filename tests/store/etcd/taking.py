"""A leader that takes the lease at once, as if the holder's time to live had ended."""

from typing import Any

from nodeagent.model.units import Ms
from nodeagent.store.etcd.client import Client
from nodeagent.store.etcd.history import Limits
from nodeagent.store.etcd.lease import Leader
from nodeagent.store.etcd.store import EtcdStore, Options


class Taking(Leader):
    async def _stays(self, holder: dict[str, Any]) -> bool:
        await self._client.call("lease/revoke", {"ID": holder["lease"]})
        return False


def opened(
    url: str,
    prefix: str,
    now: Any = lambda: Ms(5),
    keep: int = 1000,
    most: int = 100,
) -> EtcdStore:
    """A store as in production, but for the wait."""
    return EtcdStore(
        Client([url]),
        prefix,
        lambda client, key: Taking(client, key, "a test"),
        now,
        Options(Limits(keep, keep), most, patience=0.0, care=0.05, history=0.2),
    )
