"""Ask other nodes' agents, beside the rounds, about nodes that do not answer.

A task of its own asks, so no round waits. It asks about few nodes at once, and each answer must
prove its cluster and its node, as a report must.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from nodeagent.errors import MessageError, Unavailable
from nodeagent.maintd.engine.noded import Noded
from nodeagent.maintd.engine.questions import MOST, Questions
from nodeagent.maintd.fencing.judgement import TESTIMONY_LASTS, shared_disks, witnesses_for
from nodeagent.model.evidence import Contact, Evidence, Mirror, Testimony
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import WHY, cut
from nodeagent.protocol.look import Distrusted, Look, Seen, Silent
from nodeagent.protocol.testimony import Words
from nodeagent.web.client import fetch
from nodeagent.web.tls import untrusting_tls
from nodeagent.web.transaction import Answered

log = logging.getLogger(__name__)

AT_ONCE = 4  # nodes that are asked about; others wait for their turn
QUESTIONS = 16  # open at the same time
AGAIN = 20.0  # seconds between questions about a node


class Asking(Protocol):
    """Interface to ask a witness about another node."""

    async def ask(self, witness: Node, target: str, snapshot: Snapshot) -> Words: ...


class QuestionsOverHttp(Questions):
    """Questions, asked by HTTP."""

    async def ask(self, witness: Node, target: str, snapshot: Snapshot) -> Words:
        """The proven answer. Unavailable: no answer came; MessageError: it is not genuine."""
        question, body = await asyncio.to_thread(self.sealed, witness, target, snapshot.cluster)
        answer = await deliver(body, witness.address, self.port, tls=self.tls)
        if answer.status != 200:
            raise Unavailable(f"answered with HTTP status {answer.status}")
        return self.opened(answer.body, question, snapshot)[0]


SECONDS = 25.0  # the witness proves the question, reads its disks for up to 18 s, and seals


@dataclass(slots=True)
class _Answers:
    """Testimonies about one node by witness, and the witnesses that have not answered."""

    asked_at: float
    heard: dict[str, Testimony] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)


class Witnesses:
    """Keeps fresh testimonies about the nodes that are watched; without `asking` there are none."""

    def __init__(
        self, asking: Asking | None, now: Callable[[], Ms], steady: Callable[[], float]
    ) -> None:
        self._asking = asking
        self._now = now
        self._steady = steady
        self._about: dict[str, _Answers] = {}
        self._told: dict[str, str] = {}  # complaints by witness
        self._last: dict[str, tuple[Ms, str]] = {}  # the last genuine look by node
        self._snapshot: Snapshot | None = None
        self._watched: tuple[str, ...] = ()
        self._able: frozenset[str] = frozenset()
        self._task: asyncio.Task[None] | None = None

    def watch(
        self, snapshot: Snapshot, names: Mapping[str, Ms], looks: Mapping[str, Look], polled: Ms
    ) -> None:
        """Ask about these nodes from now on; those of `looks` that answered can be witnesses.

        `polled` is when the poll began: later than that, the nodes that answered may have died.
        """
        seen = {name: look for name, look in looks.items() if isinstance(look, Seen)}
        known = {**self._last, **{name: (polled, _need_of(look)) for name, look in seen.items()}}
        self._last = {name: last for name, last in known.items() if name in snapshot.nodes}
        self._snapshot, self._able = snapshot, frozenset(seen)
        self._watched = tuple(sorted(names, key=lambda name: (names[name], name)))
        for name in self._about.keys() - set(names):
            del self._about[name]
        if self._asking is not None and names and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run())

    def evidence(
        self, names: Mapping[str, Ms], looks: Mapping[str, Look], noded: Noded, now: Ms
    ) -> dict[str, Evidence]:
        """All evidence about these nodes, unreachable since the given times, but of their power."""
        answers = noded.answers()
        by_node = {}
        for name, since in names.items():
            about = self._about.get(name)
            agent, doubt = _contact(looks.get(name))
            last, report = self._last.get(name, (Ms(0), ""))
            by_node[name] = Evidence(
                node=name,
                since=since,
                agent=agent,
                doubt=doubt,
                noded=answers.get(name),
                noded_at=Ms(now - int(1000 * noded.age(name))) if name in answers else Ms(0),
                witnesses=tuple(about.heard[w] for w in sorted(about.heard)) if about else (),
                asked=tuple(sorted(about.missing)) if about else (),
                last=last,
                said=report,
            )
        return by_node

    async def hear(
        self, name: str, snapshot: Snapshot
    ) -> tuple[tuple[Testimony, ...], tuple[str, ...]]:
        """Ask the witnesses of a node now, also of one that answers; and name those that do not."""
        if self._asking is None:
            return (), ()
        about = _Answers(self._steady())
        chosen = witnesses_for(snapshot.nodes[name], snapshot, self._able)
        asking = (self._ask(about, snapshot.nodes[witness], name, snapshot) for witness in chosen)
        await asyncio.gather(*asking)
        testimonies = tuple(about.heard[witness] for witness in sorted(about.heard))
        return testimonies, tuple(sorted(about.missing))

    async def _run(self) -> None:
        """Ask about the watched nodes until there are none."""
        while self._watched:
            try:
                await self._ask_due()
            except Exception:  # a bug must not end the task unseen; this is only evidence
                log.exception("witnesses-unknown")
            await asyncio.sleep(1.0)

    async def _ask_due(self) -> None:
        now, snapshot = self._steady(), self._snapshot
        watched = [name for name in self._watched if snapshot and name in snapshot.nodes]
        watched.sort(key=lambda n: self._about[n].asked_at if n in self._about else -1.0)
        due = [
            name
            for name in watched
            if name not in self._about or now - self._about[name].asked_at >= AGAIN
        ]
        if not due or snapshot is None:
            return
        turns = asyncio.Semaphore(QUESTIONS)
        await asyncio.gather(*(self._ask_about(name, snapshot, turns) for name in due[:AT_ONCE]))

    async def _ask_about(self, name: str, snapshot: Snapshot, turns: asyncio.Semaphore) -> None:
        about = self._about.setdefault(name, _Answers(self._steady()))
        about.asked_at = self._steady()
        horizon = self._now() - TESTIMONY_LASTS
        about.heard = {
            w: testimony for w, testimony in about.heard.items() if testimony.at >= horizon
        }
        chosen = witnesses_for(snapshot.nodes[name], snapshot, self._able, about.missing)
        about.missing &= set(chosen)

        async def ask(witness: str) -> None:
            async with turns:
                await self._ask(about, snapshot.nodes[witness], name, snapshot)

        await asyncio.gather(*map(ask, chosen))

    async def _ask(self, about: _Answers, witness: Node, name: str, snapshot: Snapshot) -> None:
        assert self._asking is not None
        at, why = self._now(), ""
        try:
            words = await self._asking.ask(witness, name, snapshot)
        except Unavailable:
            about.missing.add(witness.name)
        except MessageError as error:
            about.missing.add(witness.name)
            why = cut(f"its testimony is not genuine: {error}", WHY)
        else:
            about.missing.discard(witness.name)
            mirrors = _about(words.mirrors, name, witness.name, snapshot)
            about.heard[witness.name] = replace(words.of(witness.name, at), mirrors=mirrors)
        if not why:
            self._told.pop(witness.name, None)
        elif self._told.get(witness.name) != why:
            self._told[witness.name] = why
            log.warning("witness-unable node=%s why=%r", witness.name, why)


def _about(
    mirrors: tuple[Mirror, ...] | None, name: str, witness: str, snapshot: Snapshot
) -> tuple[Mirror, ...] | None:
    """The disks that the two nodes share, and those of unknown instances."""
    if mirrors is None:
        return None
    shared, known = shared_disks(name, witness, snapshot), snapshot.instances
    return tuple(m for m in mirrors if m.instance in shared or m.instance not in known)


def _contact(look: Look | None) -> tuple[Contact, str]:
    """How the agent failed to answer our poll, and the reason in words."""
    if isinstance(look, Silent):
        return look.contact, look.why
    if isinstance(look, Distrusted):
        return Contact.ANSWERS, f"not trusted: {look.why}"
    return (Contact.UNKNOWN if look is None else Contact.ANSWERS), ""


def _need_of(look: Seen) -> str:
    return look.diagnosis.need.wire if look.diagnosis is not None else ""


async def deliver(question: bytes, address: str, port: int, *, tls: bool) -> Answered:
    """Bring a sealed question to the agent at an address; Unavailable if it does not answer."""
    return await fetch(
        address,
        port,
        "/1/witness",
        seconds=SECONDS,
        method="POST",
        body=question,
        tls=untrusting_tls() if tls else None,
        most=MOST,
    )
