"""The runner's part in keeping copies of the ledger: judge a request, answer it, seal the answer.

A node keeps copies if it is a master candidate, or was one: whoever takes over also asks the nodes
that were candidates when a copy was made. It takes parts from the node only that its own Ganeti
files call the master. The copies are maintd's; the agent does not read them.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Any

from nodeagent.agent.asked import Desk, Known, Taken, steady
from nodeagent.agent.copy_store import CopyStore, why_failed
from nodeagent.agent.execute import milliseconds
from nodeagent.agent.link import Frame
from nodeagent.agent.refusals import Refusals
from nodeagent.agent.ssconf import Ssconf
from nodeagent.errors import ConfigError, MessageError, Unavailable
from nodeagent.model.units import Ms
from nodeagent.protocol.copies import Answer, Request, Verb, answer_body, open_request
from nodeagent.protocol.envelope import Purpose

A_MINUTE = 300  # requests that are taken in a minute; a part of 1 MiB takes eleven


def why_no_keeper(
    request: Request, who: str, known: Known, master: str, *, keeps: bool
) -> str | None:
    """Say why this node does not do it with copies, or return None. Pure."""
    me, signed_by = known.identity, known.candidates.get(who)
    if not keeps and (not me.uuid or me.uuid not in known.candidates.values()):
        return "this node is not a master candidate"
    stamp = request.header.stamp if request.header is not None else request.stamp
    if request.verb in (Verb.PUT, Verb.PROMISE) and stamp is not None and stamp.writer != signed_by:
        return f"signed by the node {signed_by}, for the maintd on node {stamp.writer}"
    if request.verb is not Verb.PUT:
        return None
    if not master or request.sender != master:
        return f"from {request.sender!r}, and the master is {master!r}"
    if me.uuid and (master == me.name) != (signed_by == me.uuid):
        return f"signed by the node {signed_by}, which is not the master {master}"
    return None


class Copies:
    """Answers requests about copies, one after the other, and a bounded number in a minute."""

    def __init__(
        self,
        ssconf: Ssconf,
        seal: Callable[[Purpose, str, dict[str, Any]], Frame],
        state: str,
        now: Callable[[], Ms] = milliseconds,
        steady: Callable[[], Ms] = steady,
    ) -> None:
        self.refusals = Refusals("copies-refused why=%r")
        self.store = CopyStore(os.path.join(state, "copies"))
        self._ssconf = ssconf
        self._seal = seal
        self._taken = Taken(A_MINUTE, steady)
        self._desk = Desk(
            *(ssconf, self._taken, now, self.refusals),
            opened=open_request,
            why_not=self._why_not,
            busy=lambda _: self._taken.busy("requests"),
            proven=self._continues,
        )

    async def ask(self, asked: Frame, _: object) -> Frame:
        """Answer a sealed request: with a `sealed` answer, or `refused`, or `busy`."""
        async with self._desk.vetted(asked.get("request")) as found:
            if isinstance(found, dict):
                return found
            request, _ = found
            self._taken.take(request.id)
            answer = await asyncio.to_thread(self._do, request)
        me = self._ssconf.identity()
        body = answer_body(request, me.cluster, me.name, me.uuid, answer)
        return self._seal(Purpose.COPIED, request.id, body)

    def _continues(self, request: Request) -> bool:
        """Tell whether this is the next piece of a part whose first piece was proven.

        It needs no process of its own: the proven header names the SHA-256 of the whole body.
        """
        return request.header is not None and self.store.awaits(request.header, request.offset)

    def _why_not(self, request: Request, who: str, known: Known) -> str | None:
        master, keeps = self._ssconf.master(), self.store.used
        return why_no_keeper(request, who, known, master, keeps=keeps)

    def _do(self, request: Request) -> Answer:
        """Do it, in a thread: the disk may be slow."""
        store, stamp = self.store, request.stamp
        try:
            if request.header is not None:
                return store.put(request.header, request.offset, request.piece)
            if stamp is None:
                return store.holding()
            if request.verb is Verb.PROMISE:
                return store.promise(stamp.epoch, stamp.writer)
            return store.read(stamp, request.offset)
        except (OSError, ConfigError, Unavailable, MessageError) as error:
            return why_failed(error)
