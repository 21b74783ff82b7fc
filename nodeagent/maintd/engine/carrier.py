"""Keep the newest ledger in Ganeti's configuration, in a job filter rule that matches no job.

Ganeti brings the rule to each master candidate, so that a new master has the ledger whenever it has
the rest of the configuration.
"""

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from nodeagent.cluster.backend import Cluster
from nodeagent.errors import Corrupt, Fenced, TooNew, Unavailable
from nodeagent.maintd.engine.conduct import Acting
from nodeagent.maintd.ledger.choice import Finding, finding
from nodeagent.maintd.ledger.doubt import identity
from nodeagent.model.event import AUDIT, Event
from nodeagent.model.keeping import Kept, Trouble
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import WHY, cut
from nodeagent.store.carried import EVENTS, Carried, pack, unpack

log = logging.getLogger(__name__)


class Carrier:
    """The rule, as this maintd knows it. `kept` tells what is in it."""

    def __init__(
        self,
        cluster: Cluster,
        now: Callable[[], Ms],
        acting: Acting,
    ) -> None:
        self.kept = Kept()
        self.digest = ""  # of the text that we have read last, or know to be written; "": no rule
        self._cluster = cluster
        self._now = now
        self._acting = acting
        self._tried: set[str] = set()  # digests of texts that may be written: no answer came
        self._newest = 0  # number of the newest save that was in the rule
        self._uuid = ""
        self._events: deque[Event] = deque(maxlen=EVENTS)
        self._noted = self._carried = 0  # acts of administrators, and those that the rule has

    async def read(self) -> tuple[Kept | Trouble | None, Carried | None, str]:
        """Return what the rule is, the ledger in it, and why it cannot be read.

        Unavailable: Ganeti does not answer.
        """
        text = await asyncio.to_thread(self._cluster.ledger_rule)
        heading, carried, why = await asyncio.to_thread(_read, text)
        self.digest = _digest(text)
        self._tried.clear()
        self._uuid = await asyncio.to_thread(self._cluster.ledger_rule_uuid)
        known = heading if isinstance(heading, Kept) else Kept(size=len(text or ""))
        self._newest = known.number
        self.kept = replace(known, uuid=self._uuid)
        return heading, carried, why

    def begin(self, events: Sequence[Event]) -> None:
        """Let these newest acts of administrators travel with the ledger."""
        self._events.clear()
        self.noted(events)

    def known(self, carried: Sequence[Event]) -> None:
        """Know that the rule has these acts; if it has all, it need not be written for them."""
        theirs = set(map(identity, carried))
        if all(identity(event) in theirs for event in self._events):
            self._carried = self._noted

    def noted(self, events: Sequence[Event]) -> None:
        """Let these travel with the next ledger, as far as administrators caused them."""
        acts = [event for event in events if event.kind in AUDIT]
        self._events.extend(acts)
        self._noted += len(acts)

    @property
    def has_all_acts(self) -> bool:
        """Tell whether the rule has all administrators' acts."""
        return self._carried == self._noted

    async def write(self, number: int, writer: str, ledger: Ledger) -> bool:
        """Write the ledger of this save into the rule; tell whether it is there for sure.

        NotMaster: this node is not the master any more.
        """
        at, noted = self._now(), self._noted
        carried = Carried(number, writer, at, ledger, tuple(self._events), self._uuid)
        text = await asyncio.to_thread(pack, carried)
        self._tried.add(_digest(text))
        try:
            await self._acting.confirm()
            await asyncio.to_thread(self._put, text)
        except Unavailable as error:
            why = cut(str(error), WHY)
            if why != self.kept.why:
                log.warning("rule-not-written why=%r", why)
            self.kept = replace(self.kept, behind=self.kept.behind or at, why=why)
            return False
        if self.kept.behind:
            log.info("rule-written number=%d", number)
        self.digest, self._newest = _digest(text), number
        self._tried.clear()
        self._carried = noted
        self.kept = Kept(number, len(text), writer, at, uuid=self._uuid)
        return True

    def _put(self, text: str) -> None:
        self._acting.check()  # this machine may have slept for an hour just now
        self._cluster.write_ledger_rule(text)

    async def look(self, number: int, writer: str) -> Finding | None:
        """Return what has become of the rule since we wrote it; None: it is ours.

        `number` is our newest save. Fenced: another node's maintd, or a newer one, has acted since.
        """
        text = await asyncio.to_thread(self._cluster.ledger_rule)
        digest = _digest(text)
        if digest == self.digest:
            return None
        heading, _, why = await asyncio.to_thread(_read, text)
        if digest in self._tried and isinstance(heading, Kept):  # only its answer was lost
            whole = heading.number == number
            behind = Ms(0) if whole else self.kept.behind
            self.digest, self._newest = digest, heading.number
            self.kept = replace(
                heading, uuid=self._uuid, behind=behind, why="" if whole else self.kept.why
            )
            return None
        what = finding(heading, self._newest, writer)
        if what is Finding.ANOTHER_ACTS:
            who = (
                f"that of {heading.writer}" if isinstance(heading, Kept) else f"a newer one: {why}"
            )
            raise Fenced(
                f"another maintd has written the ledger in Ganeti's configuration since our save"
                f" {self._newest}: {who}"
            )
        log.warning("rule-%s why=%r", what.name.lower(), why)
        self.digest = digest
        self.kept = replace(self.kept, number=0, behind=self.kept.behind or self._now())
        return what


def _digest(text: str | None) -> str:
    return "" if text is None else hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


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
