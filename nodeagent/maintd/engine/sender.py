"""The key, the certificate and the port by which a master candidate asks or orders agents."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from nodeagent.maintd.helper_settings import PollSettings
from nodeagent.model.units import Ms
from nodeagent.protocol.envelope import Key


@dataclass(frozen=True, slots=True)
class Sender:
    """The members of `Orders` and of `Questions`.

    `certificate` is the content of its client.pem: key and certificate. `port` and `tls` are those
    of all agents, `now` is unix ms. With `require_node_keys` an answer counts only if its node has
    signed it.
    """

    key: Key
    certificate: bytes
    port: int
    tls: bool
    now: Callable[[], Ms]
    require_node_keys: bool = False

    @classmethod
    def by(cls, key: Key, certificate: bytes, poll: PollSettings, now: Callable[[], Ms]) -> Self:
        """Return one for the agents that these settings describe."""
        return cls(key, certificate, poll.port, poll.tls, now, poll.require_node_keys)
