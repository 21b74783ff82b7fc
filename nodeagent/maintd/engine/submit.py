"""Submit saved intents, each once, and only while this is the master."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from nodeagent.cluster.backend import Accepted, Cluster, NotTaken, Submission
from nodeagent.errors import NotMaster, Unavailable
from nodeagent.maintd.engine import failpoint
from nodeagent.maintd.engine.conduct import Acting
from nodeagent.maintd.engine.orders import ASKING, AT_ONCE, AT_ONCE_THERE, Ordering
from nodeagent.maintd.planning.intents import is_order, with_job
from nodeagent.maintd.planning.preconditions import are_rules_as_they_were, at_work_on, is_as_it_was
from nodeagent.model.action import (
    Drain,
    Move,
    Power,
    PowerCommand,
    Restore,
    RunCommand,
    SetOffline,
    move_of,
)
from nodeagent.model.ledger import Intent, Ledger
from nodeagent.model.snapshot import Instance, Node, Observed, Snapshot

log = logging.getLogger(__name__)


class Submitter:
    """Submit jobs and give orders. `not_taken` are the intents that certainly became neither.

    `known` returns the current ledger; `remember` returns once the ledger is on disk. `acting` is
    asked before each request, and its check, which asks nobody, comes last: in the thread that
    sends. NotMaster ends the submission. `spared` asks nodes once more that jobs take for dead, and
    says which jobs are obsolete, by intent with the reason.
    """

    def __init__(
        self,
        cluster: Cluster,
        orders: Ordering,
        acting: Acting,
        known: Callable[[], Ledger],
        remember: Callable[[Ledger], None],
        steady: Callable[[], float],
        spared: Callable[[Sequence[Intent], Observed], Awaitable[Mapping[str, str]]],
    ) -> None:
        self.not_taken: dict[str, str] = {}
        self._cluster = cluster
        self._orders = orders
        self._acting = acting
        self._known = known
        self._remember = remember
        self._steady = steady
        self._spared = spared

    async def submit(self, fresh: list[Intent], observed: Observed) -> None:
        """Submit independent jobs first, then those that follow them, and so on; then give orders.

        A request arrives within the grace or never. Jobs that follow a lost answer, or that come
        long after their decision, are planned again later.
        """
        jobs = [i for i in fresh if not is_order(i)]
        limit, until = max(1, self._cluster.at_once), self._steady() + self._cluster.grace
        chunks = [chunk for wave in _waves(jobs) for chunk in _in_chunks(wave, limit)]
        for number, chunk in enumerate(chunks):
            if not await self._submit_jobs(chunk, observed):
                why = "the answer to an earlier submission was lost"
            elif self._steady() > until:
                why = "an earlier submission took too long"
            else:
                continue
            self._void([intent for later in chunks[number + 1 :] for intent in later], why)
            break
        orders = await self._still_away([i for i in fresh if is_order(i)], observed.snapshot)
        await self._give(orders, observed.snapshot)

    async def _submit_jobs(self, intents: list[Intent], observed: Observed) -> bool:
        """Submit these with one request; return whether the result is known."""
        jobs = {i.id: i.job for i in self._known().intents}
        batch: list[tuple[Intent, Submission]] = []
        intents = await self._unchanged(intents, observed)
        for intent in intents:
            if intent.after is not None and jobs.get(intent.after) is None:
                self.not_taken[intent.id] = "the job it follows was not submitted"
                continue
            after = None if intent.after is None else jobs[intent.after]
            batch.append((intent, Submission(intent.action, intent.reason, after)))
        if not batch or not await self._may_act([intent for intent, _ in batch]):
            return True
        try:
            answers = await asyncio.to_thread(self._send, [s for _, s in batch])
        except Unavailable as error:
            log.warning("submission-unknown jobs=%d why=%r", len(batch), str(error))
            return False
        failpoint.reach("submitted")
        ledger = self._known()
        for (intent, _), answer in zip(batch, answers, strict=True):
            match answer:
                case Accepted(job):
                    ledger = with_job(ledger, intent, job)
                case NotTaken(why):
                    self._void([intent], why)
        self._remember(ledger)
        failpoint.reach("remembered")
        return True

    def _send(self, batch: list[Submission]) -> Sequence[Accepted | NotTaken]:
        try:
            self._acting.check()
        except Unavailable as error:  # this machine may have slept for an hour just now
            return [NotTaken(str(error))] * len(batch)
        return self._cluster.submit(batch)

    async def _unchanged(self, intents: list[Intent], observed: Observed) -> list[Intent]:
        """Drop changes of a node's role or power if the node has changed since the decision.

        So do those that take a node for dead if it shows a new sign of life. Also drop moves of
        changed instances: they may be repaired by now, suspended or elsewhere. And drop moves of
        instances that another job works on: an instance that an administrator moves by hand would
        move a second time, by a failover perhaps.
        """
        grave = [i for i in intents if _is_of_a_node(i) or _moved(i)]
        if not grave:
            return intents
        for intent_id, why in (await self._spared(grave, observed)).items():
            self._void([i for i in grave if i.id == intent_id], why)
        grave = [i for i in grave if i.id not in self.not_taken]
        try:
            moves = any(_moved(i) for i in grave)
            busy = await asyncio.to_thread(self._cluster.busy) if moves else {}
            fresh = await asyncio.to_thread(self._cluster.snapshot)
        except Unavailable as error:
            self._void(grave, f"the node cannot be checked again: {error}")
        else:
            changed = [i for i in grave if not _is_as_it_was(i, observed.snapshot, fresh)]
            self._void(changed, "its object has changed meanwhile")
            for intent in [i for i in grave if i not in changed]:
                if why := _why_busy(intent, fresh, busy):
                    self._void([intent], why)
        return [i for i in intents if i.id not in self.not_taken]

    async def _still_away(self, orders: list[Intent], snapshot: Snapshot) -> list[Intent]:
        """Drop orders about nodes out of service that somebody uses again since the decision.

        Such a command may reboot the node, or install it. The jobs before may have taken minutes.
        """
        away = [i for i in orders if _out_of_service(i, snapshot)]
        if not away:
            return orders
        try:
            fresh = await asyncio.to_thread(self._cluster.snapshot)
        except Unavailable as error:
            self._void(away, f"the node cannot be checked again: {error}")
        else:
            used = [i for i in away if _is_used_again(i, snapshot, fresh)]
            self._void(used, "its object has changed meanwhile")
        return [i for i in orders if i.id not in self.not_taken]

    async def _may_act(self, intents: Sequence[Intent]) -> bool:
        """Check that this is still the master; if that is unknown, do not submit these."""
        try:
            await self._acting.confirm()
        except Unavailable as error:
            self._void(intents, f"it is unknown whether this is the master: {error}")
            return False
        return True

    def put_off(self, intents: Sequence[Intent], why: str) -> None:
        """Report to the next round that these were not submitted."""
        self._void(intents, why)

    def _void(self, intents: Sequence[Intent], why: str) -> None:
        """Report to the next round that these certainly have no job."""
        for intent in intents:
            log.warning("not-taken intent=%s why=%r", intent.id, why)
            self.not_taken[intent.id] = why

    async def _give(self, orders: Sequence[Intent], snapshot: Snapshot) -> None:
        """Give some orders at once, few to one agent, each only while this is the master.

        Live repairs come first: an agent runs them alone, and refuses them during machine checks.
        """
        turns, until = asyncio.Semaphore(AT_ONCE), self._steady() + ASKING
        agents: defaultdict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(AT_ONCE_THERE)
        )
        orders = sorted(orders, key=lambda intent: not intent.incident)

        async def one(intent: Intent) -> None:
            assert isinstance(intent.action, RunCommand)
            async with agents[intent.action.node], turns:
                if self._steady() > until:
                    self._void([intent], "the orders before it took too long")
                elif await self._may_act([intent]):
                    await self._order(intent, snapshot)

        ends = await asyncio.gather(*map(one, orders), return_exceptions=True)
        faults = [end for end in ends if end is not None]
        for fault in sorted(faults, key=lambda fault: not isinstance(fault, NotMaster)):
            raise fault

    async def _order(self, intent: Intent, snapshot: Snapshot) -> None:
        try:
            self._acting.check()
        except Unavailable as error:
            self._void([intent], str(error))
            return
        try:
            answer = await self._orders.submit(intent, snapshot)
        except Unavailable as error:
            # The agent knows an order by its id: the next round asks whether it has arrived.
            log.warning("order-unknown intent=%s why=%r", intent.id, str(error))
            return
        failpoint.reach("ordered")
        match answer:
            case Accepted(job):
                self._remember(with_job(self._known(), intent, job))
                failpoint.reach("remembered")
            case NotTaken(why):
                self._void([intent], why)


def _moved(intent: Intent) -> Move | None:
    """The move that requires an unchanged instance: the first in a chain of moves."""
    return move_of(intent.action) if intent.after is None else None


def _is_of_a_node(intent: Intent) -> bool:
    """Tell whether a job changes a node's role or power; reading its power changes nothing."""
    match intent.action:
        case Drain() | SetOffline() | Restore():
            return True
        case Power(_, command):
            return command is not PowerCommand.STATUS
        case _:
            return False


def _is_as_it_was(intent: Intent, before: Snapshot, now: Snapshot) -> bool:
    if (move := _moved(intent)) is not None:
        return is_as_it_was(move, before, now)
    if not are_rules_as_they_were(intent.node, before, now):
        return False
    match intent.action:
        case Restore() | Power(_, PowerCommand.ON):  # whatever its instances do meanwhile
            return _alone(intent.node, before) == _alone(intent.node, now)
        case Power() if now.master in (intent.node, ""):
            return False
    if isinstance(intent.action, Drain | SetOffline) and not intent.action.promote:
        node = now.nodes.get(intent.node)
        if node is not None and node.candidate:
            return False  # it has become a candidate: another node must be promoted for it
    return _as_it_is(intent.node, before) == _as_it_is(intent.node, now)


def _out_of_service(order: Intent, snapshot: Snapshot) -> list[str]:
    """The nodes out of service that an order is about: its own, and that of its agent."""
    assert isinstance(order.action, RunCommand)
    nodes = snapshot.nodes
    names = {order.node, order.action.node}
    return [name for name in names if name in nodes and not nodes[name].in_service]


def _is_used_again(order: Intent, before: Snapshot, now: Snapshot) -> bool:
    """Tell whether a node is in another role, or another instance has come to run there."""
    for name in _out_of_service(order, before):
        old, new = before.nodes[name], now.nodes.get(name)
        if new is None or (old.drained, old.offline) != (new.drained, new.offline):
            return True
        if _running_on(name, now) - _running_on(name, before):
            return True
    return False


def _running_on(name: str, snapshot: Snapshot) -> set[str]:
    return {i.name for i in snapshot.instances.values() if i.primary == name and i.running}


def _why_busy(intent: Intent, snapshot: Snapshot, busy: Mapping[str, str]) -> str:
    move = _moved(intent)
    return str((move and at_work_on(snapshot.instances[move.instance], busy)) or "")


def _as_it_is(name: str, snapshot: Snapshot) -> tuple[Node | None, set[Instance]]:
    """A node with its instances, primary or secondary, without fields that Ganeti changes."""
    here = (i for i in snapshot.instances.values() if name in i.nodes)
    return _alone(name, snapshot), {replace(i, tags=frozenset()) for i in here}


def _alone(name: str, snapshot: Snapshot) -> Node | None:
    node = snapshot.nodes.get(name)
    return node and replace(node, candidate=False)


def _waves(intents: list[Intent]) -> list[list[Intent]]:
    """Put each intent in the wave after the one that it follows."""
    waves: list[list[Intent]] = []
    known: dict[str, int] = {}
    for intent in intents:  # in the order of planning: followers come later
        at = known.get(intent.after or "", -1) + 1
        known[intent.id] = at
        waves += [[]] if at == len(waves) else []
        waves[at].append(intent)
    return waves


def _in_chunks(intents: list[Intent], limit: int) -> list[list[Intent]]:
    return [intents[at : at + limit] for at in range(0, len(intents), limit)]
