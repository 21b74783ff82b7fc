"""Keep the newest ledger in Ganeti's configuration, in a job filter rule that matches no job.

Ganeti brings the rule to each master candidate, so that a new master has the ledger whenever it has
the rest of the configuration.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from nodeagent.cluster.backend import Cluster
from nodeagent.errors import Corrupt, Unavailable
from nodeagent.maintd.ledger.choice import Found, found
from nodeagent.model.event import AUDIT, Event
from nodeagent.model.keeping import Kept, Trouble
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import WHY, cut
from nodeagent.store.carried import EVENTS, Carried, pack, unpack
from nodeagent.store.errors import Fenced, TooNew

log = logging.getLogger(__name__)


class Carrier:
    """The rule, as this maintd knows it. `kept` tells what is in it."""

    def __init__(self, cluster: Cluster, now: Callable[[], Ms]) -> None:
        self.kept = Kept()
        self._cluster = cluster
        self._now = now
        self._text: str | None = None  # that we have read or written last
        self._uuid = ""
        self._events: deque[Event] = deque(maxlen=EVENTS)

    async def read(self) -> tuple[Kept | Trouble | None, Carried | None, str]:
        """Return what the rule is, the ledger in it, and why it cannot be read.

        Unavailable: Ganeti does not answer.
        """
        text = await asyncio.to_thread(self._cluster.ledger_rule)
        heading, carried, why = await asyncio.to_thread(_read, text)
        self._text = text
        self._uuid = await asyncio.to_thread(self._cluster.ledger_rule_uuid)
        known = heading if isinstance(heading, Kept) else Kept(size=len(text or ""))
        self.kept = replace(known, uuid=self._uuid)
        return heading, carried, why

    def begin(self, events: Sequence[Event]) -> None:
        """Let these newest acts of administrators travel with the ledger."""
        self._events.clear()
        self.noted(events)

    def noted(self, events: Sequence[Event]) -> None:
        """Let these travel with the next ledger, as far as administrators caused them."""
        self._events.extend(event for event in events if event.kind in AUDIT)

    async def write(self, number: int, writer: str, ledger: Ledger) -> bool:
        """Write the ledger of this save into the rule; tell whether it is there."""
        at = self._now()
        carried = Carried(number, writer, at, ledger, tuple(self._events))
        text = await asyncio.to_thread(pack, carried)
        self._text = text
        try:
            await asyncio.to_thread(self._cluster.write_ledger_rule, text)
        except Unavailable as error:
            why = cut(str(error), WHY)
            if why != self.kept.why:
                log.warning("rule-not-written why=%r", why)
            self.kept = replace(self.kept, behind=self.kept.behind or at, why=why)
            return False
        if self.kept.behind:
            log.info("rule-written number=%d", number)
        self.kept = Kept(number, len(text), writer, at, uuid=self._uuid)
        return True

    async def look(self, number: int, writer: str) -> Found | None:
        """Return what has become of the rule since we wrote it; None: it is ours.

        `number` is our newest save. Fenced: another node's maintd has acted since.
        """
        text = await asyncio.to_thread(self._cluster.ledger_rule)
        if text == self._text:
            if self.kept.behind and text is not None:  # the answer was lost, and it was written
                heading, _, _ = await asyncio.to_thread(_read, text)
                if isinstance(heading, Kept):
                    self.kept = replace(heading, uuid=self._uuid)
            return None
        heading, _, why = await asyncio.to_thread(_read, text)
        what = found(heading, number, writer)
        if what is Found.ANOTHER_ACTS:
            assert isinstance(heading, Kept)
            raise Fenced(
                f"the maintd of another node ({heading.writer}) has written the ledger in Ganeti's"
                f" configuration: its save is {heading.number}, and ours is {number}"
            )
        log.warning("rule-%s why=%r", what.name.lower(), why)
        self._text = text
        self.kept = replace(self.kept, number=0, behind=self.kept.behind or self._now())
        return what


def _read(text: str | None) -> tuple[Kept | Trouble | None, Carried | None, str]:
    if text is None:
        return None, None, ""
    try:
        carried = unpack(text)
    except TooNew as error:
        return Trouble.NEWER, None, str(error)
    except Corrupt as error:
        return Trouble.UNREADABLE, None, str(error)
    return Kept(carried.number, len(text), carried.writer, carried.at), carried, ""
