"""Find the newest ledger at a start: ask all master candidates, as `choice` says.

Each asked candidate first promises a higher epoch, and takes nothing of a lower one from then on.
So an older maintd that still runs somewhere cannot add to what a majority has shown us.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from nodeagent.errors import MessageError, Unavailable
from nodeagent.maintd.copies.body import Found, put_together
from nodeagent.maintd.copies.choice import (
    Alone,
    Answer,
    First,
    Missing,
    Take,
    Wait,
    choose,
    everybody,
    next_epoch,
)
from nodeagent.maintd.copies.refusals import Outbid
from nodeagent.maintd.engine.keeping import Asking
from nodeagent.maintd.engine.witnesses import Unable
from nodeagent.model.copies import CopyAt, CopyState, Holding, Kept, Trouble, Uncertain
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import WHY, cut
from nodeagent.store.contract import Revision, TooNew

log = logging.getLogger(__name__)
ASK_FOR = 5.0  # seconds for all candidates' answers
_FETCH = 60.0  # seconds for one whole copy


@dataclass(frozen=True, slots=True)
class Began:
    """A new epoch, and the copy to go on with, from this node; None: with our own ledger.

    `first` tells that there was no copy before.
    """

    epoch: int
    found: Found | None = None
    node: str = ""
    at: Ms = Ms(0)
    first: bool = False


class Takeover:
    """Asks the candidates once at each `attempt`."""

    def __init__(self, asking: Asking, now: Callable[[], Ms], ask_for: float = ASK_FOR) -> None:
        self._asking = asking
        self._now = now
        self._ask_for = ask_for
        self.state = CopyState()  # who could keep copies, as of the last attempt

    async def attempt(
        self, snapshot: Snapshot, ours: Revision, me: str, *, forced: bool = False
    ) -> Began | Uncertain | None:
        """Return what to begin with; None: too few candidates can keep copies, and none has one.

        `ours` is the revision of our ledger, `me` the UUID of our node. If `forced`, a person has
        decided to go on with the newest known ledger, also without a majority.
        """
        self._asking.follow(snapshot)
        nodes = {node.uuid: node for node in snapshot.nodes.values()}
        today = {uuid for uuid, node in nodes.items() if node.candidate}
        answers = await self._ask(nodes, today, self._asking.holding)
        answers |= await self._ask(
            nodes, everybody(today, answers) - answers.keys(), self._asking.holding
        )
        self.state = _state(nodes, today, answers)
        choice = choose(today, answers, ours, me)
        if isinstance(choice, First | Alone):  # all candidates may have changed since the last copy
            others = nodes.keys() - answers.keys()
            more = await self._ask(nodes, others, self._asking.holding)
            answers |= {uuid: said for uuid, said in more.items() if _has_copies(said)}
            answers |= await self._ask(
                nodes, everybody(today, answers) - answers.keys(), self._asking.holding
            )
            choice = choose(today, answers, ours, me)
        if isinstance(choice, Alone) and not forced:
            return None
        if isinstance(choice, Wait) and not forced:
            return self._uncertain(choice, today, answers, nodes)
        epoch = next_epoch(answers, ours)
        there = [uuid for uuid, answer in answers.items() if isinstance(answer, Holding)]
        answers |= await self._ask(
            nodes, there, partial(self._asking.promise, epoch=epoch, writer=me)
        )
        while True:
            choice = choose(today, answers, ours, me)
            if isinstance(choice, Alone) and not forced:
                return None
            if isinstance(choice, Wait) and not forced:
                return self._uncertain(choice, today, answers, nodes)
            best = choice.best if isinstance(choice, Wait) else choice
            if not isinstance(best, Take):
                return Began(epoch, first=isinstance(choice, First | Alone))
            source = best.sources[0]
            try:
                found = await self._fetch(nodes[source], best.copy)
            except TooNew as error:
                log.warning("copy-too-new node=%s why=%r", nodes[source].name, str(error))
                newer = Wait(Trouble.NEWER, best)
                return self._uncertain(newer, today, answers, nodes)
            except (Unavailable, MessageError) as error:
                why = cut(f"its copy cannot be read: {error}", WHY)
                log.warning("copy-unreadable node=%s why=%r", nodes[source].name, why)
                answers[source] = Missing(why)
                if forced and len(best.sources) == 1:  # a person has not seen the next older one
                    unread = Wait(Trouble.UNREADABLE, best)
                    return self._uncertain(unread, today, answers, nodes)
            else:
                return Began(epoch, found, nodes[source].name, best.copy.at)

    async def _ask(
        self,
        nodes: Mapping[str, Node],
        uuids: Collection[str],
        question: Callable[[Node], Awaitable[Holding]],
    ) -> dict[str, Answer]:
        async def one(uuid: str) -> Answer:
            if uuid not in nodes:
                return Missing("it has left the cluster")
            try:
                async with asyncio.timeout(self._ask_for):
                    return await question(nodes[uuid])
            except TimeoutError:
                return Missing("it does not answer")
            except Outbid as error:
                promised = error.holding.epoch
                return Missing(f"it has promised epoch {promised} to another", promised=promised)
            except Unable as error:
                return Missing(str(error), able=False)
            except (Unavailable, MessageError) as error:
                return Missing(cut(str(error), WHY))

        ordered = sorted(uuids)
        return dict(zip(ordered, await asyncio.gather(*map(one, ordered)), strict=True))

    async def _fetch(self, node: Node, copy: Kept) -> Found:
        try:
            async with asyncio.timeout(_FETCH):
                parts = await self._asking.fetch(node, copy.stamp)
        except TimeoutError:
            raise Unavailable("it does not answer") from None
        if not parts or (parts[-1].stamp, parts[-1].digest) != (copy.stamp, copy.digest):
            raise MessageError("it sent another copy than the one it named")
        return await asyncio.to_thread(put_together, parts)

    def _uncertain(
        self,
        wait: Wait,
        today: Iterable[str],
        answers: Mapping[str, Answer],
        nodes: Mapping[str, Node],
    ) -> Uncertain:
        today, best = set(today), wait.best
        missing = sorted(
            f"{nodes[uuid].name if uuid in nodes else uuid}: {answer.why}"
            for uuid, answer in answers.items()
            if isinstance(answer, Missing)
        )
        return Uncertain(
            self._now(),
            wait.trouble,
            nodes[best.sources[0]].name if best else "",
            best.copy.at if best else Ms(0),
            tuple(missing),
            len(today),
        )


def _state(
    nodes: Mapping[str, Node], today: Collection[str], answers: Mapping[str, Answer]
) -> CopyState:
    missing = ((nodes[uuid].name, answers[uuid]) for uuid in today)
    on = (
        CopyAt(name, why=answer.why, able=answer.able)
        if isinstance(answer, Missing)
        else CopyAt(name)
        for name, answer in missing
    )
    return CopyState(on=tuple(sorted(on, key=lambda one: one.node)))


def _has_copies(answer: Answer) -> bool:
    return isinstance(answer, Holding) and bool(answer.kept)
