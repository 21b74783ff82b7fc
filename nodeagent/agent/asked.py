"""Requests of master candidates to this node, beside orders: whose count, and each counts once."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from nodeagent.agent import orders
from nodeagent.agent.link import Frame
from nodeagent.agent.refusals import Refusals
from nodeagent.agent.signer import signer
from nodeagent.agent.ssconf import Identity, Ssconf, certificate_digest
from nodeagent.errors import MessageError
from nodeagent.model.units import Ms
from nodeagent.protocol.envelope import Key
from nodeagent.protocol.order import Proof
from nodeagent.protocol.witness import Question

Asked = TypeVar("Asked", bound=Question)

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


def why_not(asked: Question, who: str, known: Known) -> str | None:
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


class Desk(Generic[Asked]):
    """Opens and vets sealed requests of one sort, one after the other.

    `opened` reads one; `why_not` and `busy` are this sort's own rules, and `proven` tells that no
    process needs to check the signature again.
    """

    def __init__(
        self,
        ssconf: Ssconf,
        taken: Taken,
        now: Callable[[], Ms],
        refusals: Refusals,
        *,
        opened: Callable[[Key, bytes], tuple[Asked, Proof]],
        why_not: Callable[[Asked, str, Known], str | None],
        busy: Callable[[Asked], str],
        proven: Callable[[Asked], bool] = lambda _: False,
    ) -> None:
        self._ssconf = ssconf
        self._taken = taken
        self._now = now
        self._refusals = refusals
        self._opened = opened
        self._rule = why_not
        self._busy = busy
        self._proven = proven
        self._judging = asyncio.Lock()

    @asynccontextmanager
    async def vetted(self, raw: object) -> AsyncIterator[tuple[Asked, str] | Frame]:
        """Yield a request and its signer while no other is judged; or the frame that refuses it."""
        try:
            encoded = raw.encode() if isinstance(raw, str) else b""
            asked, proof = self._opened(self._ssconf.key(), encoded)
        except (MessageError, UnicodeEncodeError) as error:
            yield self._refused(str(error), sealed=False)
            return
        try:
            claimed = certificate_digest(proof.certificate)
        except ValueError as error:
            yield self._refused(f"not a certificate: {error}", sealed=True)
            return
        async with self._judging:
            why = self._why_not(asked, claimed)
            if why is None and (busy := self._busy(asked)):
                yield {"busy": busy}
                return
            if why is None and not self._proven(asked):
                try:  # the claim is right: prove it, which takes a process
                    why = self._why_not(asked, await signer(proof))
                except MessageError as error:
                    why = str(error)
            yield (asked, claimed) if why is None else self._refused(why, sealed=True)

    def _why_not(self, asked: Asked, who: str) -> str | None:
        now = self._now()
        began = self._taken.began(now)
        known = Known(self._ssconf.identity(), self._ssconf.candidates(), now, began)
        if why := why_not(asked, who, known) or self._rule(asked, who, known):
            return why
        return f"{asked.id} was asked before" if self._taken.has(asked.id) else None

    def _refused(self, why: str, *, sealed: bool) -> Frame:
        self._refusals.tell(why, sealed=sealed)
        return {"refused": True}
