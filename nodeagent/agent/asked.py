"""Requests of master candidates to this node, beside orders: whose count, and each counts once."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nodeagent.agent import orders
from nodeagent.agent.ssconf import Identity
from nodeagent.model.units import Ms
from nodeagent.protocol.copies import Request
from nodeagent.protocol.witness import Question

_MINUTE = 60_000
_REMEMBERED = 600_000  # ms: longer than a request is fresh by any clock of the cluster


def steady() -> Ms:
    return Ms(time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000)


@dataclass(frozen=True, slots=True)
class Known:
    """The node's knowledge when it judges a request. `began` is when the runner started."""

    identity: Identity
    candidates: Mapping[str, str]
    now: Ms
    began: Ms


def why_not(asked: Question | Request, who: str, known: Known) -> str | None:
    """Say why this node does not answer a request, signed by `who`; or return None. Pure."""
    me = known.identity
    if who not in known.candidates:
        return f"signed by {who}, which is not the certificate of a master candidate"
    if asked.cluster != me.cluster:
        return f"meant for cluster {asked.cluster!r}, this is {me.cluster!r}"
    if asked.name != me.name:
        return f"meant for node {asked.name!r}, this is {me.name!r}"
    if me.uuid and asked.node != me.uuid:
        return f"meant for the node with UUID {asked.node}, ours is {me.uuid}"
    if why := orders.stale(asked, known.now):
        return why
    if asked.issued < known.began:
        return f"it was issued {known.began - asked.issued} ms before this runner began"
    return None


class Taken:
    """The requests that were taken lately: none counts twice, and so many in a minute."""

    def __init__(self, most: int, steady: Callable[[], Ms]) -> None:
        self._most = most
        self._steady = steady
        self._began = steady()
        self._when: deque[tuple[Ms, str]] = deque()  # and the request's id
        self._ids: set[str] = set()

    def began(self, now: Ms) -> Ms:
        """The runner's start by the clock of `now`."""
        return Ms(now - (self._steady() - self._began) - 1)

    def has(self, request: str) -> bool:
        """Tell whether a request was taken before."""
        while self._when and self._when[0][0] < self._steady() - _REMEMBERED:
            self._ids.discard(self._when.popleft()[1])
        return request in self._ids

    def busy(self, noun: str) -> str:
        """Say why a request must wait; empty if it need not."""
        horizon, lately = self._steady() - _MINUTE, 0
        for at, _ in reversed(self._when):
            if at <= horizon:
                break
            lately += 1
        return f"{lately} {noun} within a minute; at most {self._most}" * (lately >= self._most)

    def take(self, request: str) -> Ms:
        """Note that a request is taken; return the moment."""
        at = self._steady()
        self._when.append((at, request))
        self._ids.add(request)
        return at
