"""Find the newest ledger at a start: ask all master candidates, as `choice` says.

Each asked candidate first promises a higher epoch, and takes nothing of a lower one from then on.
So an older maintd that still runs somewhere cannot add to what a majority has shown us.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from nodeagent.errors import MessageError, Unavailable
from nodeagent.maintd.copies.body import Found, put_together
from nodeagent.maintd.copies.choice import (
    Alone,
    Answer,
    First,
    Missing,
    Ours,
    Take,
    Wait,
    choose,
    everybody,
    is_majority,
    next_epoch,
    of_then,
)
from nodeagent.maintd.copies.refusals import Outbid
from nodeagent.maintd.engine.keeping import Asking
from nodeagent.maintd.engine.witnesses import Unable
from nodeagent.model.copies import ETCD_TAG, CopyAt, CopyState, Holding, Kept, Trouble, Uncertain
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import WHY, cut
from nodeagent.store.contract import Revision, TooNew

log = logging.getLogger(__name__)
ASK_FOR = 5.0  # seconds for all candidates' answers
SOON = 1.0  # seconds that the others get where those that have answered are enough
_FETCH = 60.0  # seconds for one whole copy


@dataclass(frozen=True, slots=True)
class Began:
    """A new epoch, and the copy to go on with, from this node; None: with our own ledger.

    `first` tells that there was no copy before. `before` are the candidates of the newest copy's
    time: a majority of them must know those of today before they count no more.
    """

    epoch: int
    found: Found | None = None
    node: str = ""
    at: Ms = Ms(0)
    first: bool = False
    before: frozenset[frozenset[str]] = frozenset()


class Takeover:
    """Asks the candidates once at each `attempt`."""

    def __init__(
        self,
        asking: Asking,
        now: Callable[[], Ms],
        ask_for: float = ASK_FOR,
        soon: float = SOON,
    ) -> None:
        self._asking = asking
        self._now = now
        self._ask_for = ask_for
        self._soon = soon
        self.state = CopyState()  # who could keep copies, as of the last attempt

    async def attempt(
        self, snapshot: Snapshot, ours: Revision, me: str, *, forced: bool = False
    ) -> Began | Uncertain | None:
        """Return what to begin with; None: too few candidates can keep copies, and none has one.

        `ours` is the revision of our ledger, `me` the UUID of our node. If `forced`, a person has
        decided to go on with the newest known ledger, also without a majority.
        """
        if ETCD_TAG in snapshot.tags:
            return Uncertain(self._now(), Trouble.MOVED)
        self._asking.follow(snapshot)
        nodes = {node.uuid: node for node in snapshot.nodes.values()}
        today = {uuid for uuid, node in nodes.items() if node.candidate}

        def is_certain(answers: Mapping[str, Answer]) -> bool:
            return isinstance(choose(today, answers, ours, me), Take | Ours)

        answers = await self._ask_all(nodes, today, {}, is_certain)
        self.state = _state(nodes, today, answers)
        choice = choose(today, answers, ours, me)
        few = isinstance(choice, Wait) and choice.trouble is Trouble.FEW
        if not few and not any(map(_has_copies, answers.values())):
            # All candidates may have changed since the last copy.
            others = nodes.keys() - answers.keys()
            more = await self._ask(nodes, others, self._asking.holding)
            answers |= {uuid: said for uuid, said in more.items() if _has_copies(said)}
            answers = await self._ask_all(nodes, today, answers, is_certain)
            choice = choose(today, answers, ours, me)
        if isinstance(choice, Alone) and not forced:
            return None
        if isinstance(choice, Wait) and not forced:
            return self._uncertain(choice, today, answers, nodes)
        epoch = next_epoch(answers, ours)
        there = [uuid for uuid, answer in answers.items() if isinstance(answer, Holding)]
        promise = partial(self._asking.promise, epoch=epoch, writer=me)
        answers |= await self._ask(nodes, there, promise, is_certain, answers)
        while True:
            choice = choose(today, answers, ours, me)
            if isinstance(choice, Alone) and not forced:
                return None
            if isinstance(choice, Wait) and not forced:
                return self._uncertain(choice, today, answers, nodes)
            best = choice.best if isinstance(choice, Wait) else choice
            if not isinstance(best, Take):
                before = frozenset() if isinstance(choice, Wait) else of_then(answers)
                return Began(epoch, first=isinstance(choice, First | Alone), before=before)
            source = next((uuid for uuid in best.sources if uuid in today), best.sources[0])
            if source not in today and not forced:
                # Any node may claim to have been a candidate once: a person decides.
                return self._uncertain(Wait(Trouble.LOST, best), today, answers, nodes)
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
                before = frozenset() if isinstance(choice, Wait) else of_then(answers)
                return Began(epoch, found, nodes[source].name, best.copy.at, before=before)

    async def _ask_all(
        self,
        nodes: Mapping[str, Node],
        today: Collection[str],
        known: Mapping[str, Answer],
        enough: Callable[[Mapping[str, Answer]], bool],
    ) -> dict[str, Answer]:
        """Ask all candidates, those that their copies name, those that these name, and so on."""
        answers = dict(known)
        while others := everybody(today, answers) - answers.keys():
            answers |= await self._ask(nodes, others, self._asking.holding, enough, answers)
        return answers

    async def _ask(
        self,
        nodes: Mapping[str, Node],
        uuids: Collection[str],
        question: Callable[[Node], Awaitable[Holding]],
        enough: Callable[[Mapping[str, Answer]], bool] = lambda _: False,
        known: Mapping[str, Answer] = MappingProxyType({}),
    ) -> dict[str, Answer]:
        """Ask all of these at once; the last ones get a moment if the others are `enough`.

        These count together with the answers that are `known`.
        """

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

        tasks = {uuid: asyncio.ensure_future(one(uuid)) for uuid in sorted(uuids)}

        def answers() -> dict[str, Answer]:
            late = Missing("it does not answer")
            return {uuid: task.result() if task.done() else late for uuid, task in tasks.items()}

        try:
            if tasks:
                await asyncio.wait(tasks.values(), timeout=self._soon)
            if not enough({**known, **answers()}):
                await asyncio.gather(*tasks.values())
            return answers()
        finally:
            for task in tasks.values():
                task.cancel()

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
        best = wait.best
        there = [uuid for uuid, answer in answers.items() if isinstance(answer, Holding)]
        sets = [frozenset(today), *of_then(answers)]
        short = next((one for one in sets if not is_majority(there, one)), sets[0])
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
            len(short),
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
