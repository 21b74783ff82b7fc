"""The runner's part as a witness: judge a question, name the addresses to try, seal the answer.

The runner has the keys and no network, the front the opposite. So the front passes on the sealed
question, gets the addresses and a ticket, tries the addresses, and brings back its words with the
ticket. The addresses are those of one node in Ganeti's own files here: no agent is a scanner.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any

from nodeagent import service
from nodeagent.agent import orders
from nodeagent.agent.link import Frame
from nodeagent.agent.promises import Promises
from nodeagent.agent.refusals import Refusals
from nodeagent.agent.signer import signer
from nodeagent.agent.ssconf import Ssconf, certificate_digest
from nodeagent.agent.writer import Writer
from nodeagent.clocks import steady_ms, unix_ms
from nodeagent.errors import MessageError
from nodeagent.model.clock import Moment
from nodeagent.model.evidence import Contact
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import read
from nodeagent.protocol.envelope import Purpose
from nodeagent.protocol.testimony import Words
from nodeagent.protocol.witness import Question, body_of, open_question
from nodeagent.settings import Settings
from nodeagent.ssconf import port_of

log = logging.getLogger(__name__)

A_MINUTE = 30  # questions that are taken in a minute
TICKET_LASTS = 20_000  # ms; the front needs at most 18 s
_MAX_WORDS = 2 * 1024 * 1024
_MINUTE = 60_000
_REMEMBERED = 600_000  # ms: longer than a question is fresh by any clock of the cluster


class Witness:
    """Answers questions about other nodes, a bounded number in a minute, one for each node."""

    def __init__(
        self,
        ssconf: Ssconf,
        seal: Callable[[Purpose, str, dict[str, Any]], Frame],
        settings: Settings,
        now: Callable[[], Ms] = unix_ms,
        steady: Callable[[], Ms] = steady_ms,
    ) -> None:
        self.refusals = Refusals("witness-refused why=%r")
        self._ssconf = ssconf
        self._seal = seal
        self._agent_port = settings.listen.port
        self._now = now
        self._steady = steady
        self._began = steady()
        self._writer = Writer()
        self._promises = Promises(settings.agent.state, self._moment)
        self._taken: dict[str, Ms] = {}  # by the question's id, when
        self._tickets: dict[str, tuple[Ms, Question, str]] = {}  # with the signer's digest
        self._judging = asyncio.Lock()

    def _moment(self) -> Moment:
        return Moment(self._now(), self._steady(), service.this_boot(), "")

    async def ask(self, asked: Frame, _: object) -> Frame:
        """Take a sealed question: `addresses` to try and a `ticket`, or `refused`, or `busy`."""
        raw = asked.get("question")
        try:
            encoded = raw.encode() if isinstance(raw, str) else b""
            question, proof = open_question(self._ssconf.key(), encoded)
        except (MessageError, UnicodeEncodeError) as error:
            return self._refused(str(error), sealed=False)
        try:
            claimed = certificate_digest(proof.certificate)
        except ValueError as error:
            return self._refused(f"not a certificate: {error}", sealed=True)
        async with self._judging:
            why = self._why_not(question, claimed)
            if why is None and (busy := self._busy(question)):
                return {"busy": busy}
            if why is None:
                try:  # the claim is right: prove it, which takes a process
                    why = self._why_not(question, await signer(proof))
                except MessageError as error:
                    why = str(error)
            return self._take(question, claimed) if why is None else self._refused(why, sealed=True)

    def _refused(self, why: str, *, sealed: bool) -> Frame:
        self.refusals.tell(why, sealed=sealed)
        return {"refused": True}

    def _why_not(self, question: Question, who: str) -> str | None:
        """Say why this node does not answer a question that `who` has signed, or return None."""
        me, now = self._ssconf.identity(), self._now()
        began = now - (self._steady() - self._began) - 1  # by the clock of `now`
        if who not in self._ssconf.candidates():
            return f"signed by {who}, which is not the certificate of a master candidate"
        if why := orders.not_meant_for(question, me.cluster, me.name, me.uuid):
            return why
        if why := orders.stale(question, now):
            return why
        if question.issued < began:
            return f"it was issued {began - question.issued} ms before this runner began"
        if question.target == me.name:
            return "a node cannot be a witness of itself"
        if question.target not in self._ssconf.addresses():
            return f"{question.target!r} is not a node of this cluster"
        horizon = self._steady() - _REMEMBERED
        self._taken = {question_id: at for question_id, at in self._taken.items() if at >= horizon}
        return f"{question.id} was asked before" if question.id in self._taken else None

    async def testify(self, asked: Frame, _: object) -> Frame:
        """Seal the front's words about the question of this ticket."""
        _, question, who = self._tickets.pop(str(asked.get("ticket")), (0, None, ""))
        if question is None:
            return {"failed": "no such ticket, or it is too old"}
        text = asked.get("words")
        if not isinstance(text, str):
            return {"failed": "no words"}
        try:
            document = read(text.encode(), limit=_MAX_WORDS, depth=3)
            if not isinstance(document, dict):
                raise MessageError("not an object")
            words = Words.from_body(document)
        except (MessageError, UnicodeEncodeError) as error:
            return {"failed": str(error)}
        me = self._ssconf.identity()
        promised = question.claim and await self._promises_to(who, question, words)
        body = body_of(question, me.cluster, me.name, me.uuid, words, promised=promised)
        return self._seal(Purpose.TESTIMONY, question.id, body)

    async def _promises_to(self, who: str, question: Question, words: Words) -> bool:
        """Give the signer our voice, if the target is the master here and does not answer."""
        candidate = self._ssconf.candidates().get(who, "")
        if question.target != self._ssconf.master():
            why = f"{question.target} is not the master here"
        elif not {words.noded, words.agent} <= {Contact.SILENT, Contact.CONNECTS}:
            why = f"{question.target} is not dead"
        elif not candidate:
            why = "the signer is not a master candidate any more"
        else:
            why = await self._give(question.target, candidate)
        log.warning("voice about=%s for=%s refused=%r", question.target, candidate, why)
        return not why

    async def _give(self, target: str, candidate: str) -> str:
        """Give our voice, one at a time, or say why not; a disk that hangs delays no report."""
        whys: list[str] = []
        try:
            await self._writer.now(lambda: whys.append(self._promises.give(target, candidate)))
        except OSError as error:
            return f"its voice cannot be kept: {error.strerror}"
        return whys[0]

    def _busy(self, question: Question) -> str:
        """Say why this question must wait; empty if it need not."""
        self._forget()
        if any(tried.target == question.target for _, tried, _ in self._tickets.values()):
            return f"{question.target} is being tried already"
        horizon = self._steady() - _MINUTE
        lately = sum(at > horizon for at in self._taken.values())
        if lately >= A_MINUTE:
            return f"{lately} questions within a minute; at most {A_MINUTE}"
        return ""

    def _take(self, question: Question, who: str) -> Frame:
        ticket, at = os.urandom(16).hex(), self._steady()
        self._taken[question.id] = at
        self._tickets[ticket] = at, question, who
        return {
            "ticket": ticket,
            "addresses": list(self._ssconf.addresses_of(question.target)),
            "noded": port_of("noded"),
            "agent": self._agent_port,
        }

    def _forget(self) -> None:
        """Forget the tickets that the front never brought back."""
        now = self._steady()
        for ticket, (at, _, _) in list(self._tickets.items()):
            if at < now - TICKET_LASTS:
                del self._tickets[ticket]
