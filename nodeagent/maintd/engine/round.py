"""Run one round: poll, decide, save, submit, save. It leaves decisions to `decide`.

Intents are on disk before anything happens, and each is submitted once, in the round that planned
it (`submit`, which alone changes the world). For an intent without a known job, `jobs` searches the
jobs' reason trails for its id. If there certainly is no job, the intent is void and `decide` plans
again from the new state. Safe to be killed between any two lines.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from nodeagent.cluster.backend import Cluster
from nodeagent.errors import NotMaster, Unavailable
from nodeagent.maintd.autorepair.survey import in_tags
from nodeagent.maintd.autorepair.withdraw import Withdrawals
from nodeagent.maintd.balancing.ratings import Rating
from nodeagent.maintd.balancing.search_thread import Adviser, nothing_measured, unanswered
from nodeagent.maintd.decide import decide
from nodeagent.maintd.engine import failpoint
from nodeagent.maintd.engine.jobs import Inquiry
from nodeagent.maintd.engine.moving import wants_others_jobs, wants_room
from nodeagent.maintd.engine.noded import Noded
from nodeagent.maintd.engine.orders import Ordering
from nodeagent.maintd.engine.poll import beside, out_of_reach, understand
from nodeagent.maintd.engine.submit import Submitter
from nodeagent.maintd.engine.vote import count
from nodeagent.maintd.incidents import drained
from nodeagent.maintd.ledger import lost_tags, other_master
from nodeagent.maintd.ledger.agent_events import Heard, hear
from nodeagent.maintd.ledger.history import refuse, tell
from nodeagent.maintd.ledger.recover import recover
from nodeagent.maintd.ledger.tally import Tally
from nodeagent.maintd.ledger.trails import newest_of_others
from nodeagent.maintd.ledger.unreachable import unreachable
from nodeagent.maintd.notices.outbox import Outbox
from nodeagent.maintd.notices.plan import take_up
from nodeagent.maintd.owners.webhook import Webhooks
from nodeagent.maintd.planning import node_keys, tag_place
from nodeagent.maintd.planning.outcomes import TAG_SHOWS
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.maintd.queue.inventory import Inventory, InventorySettings
from nodeagent.maintd.windows.series import zones_of
from nodeagent.maintd.windows.timezones import Zones
from nodeagent.model.event import Event
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Decision, Ledger, Policy, Trail
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.wish import Wish
from nodeagent.protocol.look import Look

log = logging.getLogger(__name__)


class Store(Protocol):
    """Store of everything that must survive a restart."""

    def load(self) -> Ledger: ...

    def save(
        self, ledger: Ledger, events: Sequence[Event] = (), answers: Mapping[str, str] = ...
    ) -> None: ...

    def wishes(self) -> tuple[Wish, ...]: ...


@dataclass(frozen=True, slots=True)
class Conduct:
    """Rules for the engine's work.

    `check_master` raises NotMaster if this node is not the master (any more), and Unavailable if
    that is unknown. `me` is the name of the node that must be the master; with `vote` the majority
    of the nodes must say that it is. `oldest` is the maximum age of a diagnosis, in ms. With `dry`
    nothing is saved and nothing is done. `away` returns since when (unix ms) this was not the
    master for a while, 0 if it always was; `back` is called once that is saved.
    """

    me: str
    check_master: Callable[[], None]
    vote: bool = True
    oldest: int = 600_000
    dry: bool = False
    away: Callable[[], int] = lambda: 0
    back: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Round:
    """Observations and decision of one round; `idle` says why it was not carried out.

    `heard` are the agents that stopped answering or answer again.
    """

    at: Ms
    observed: Observed
    decision: Decision
    policy: Policy
    looks: Mapping[str, Look] = field(default_factory=dict)
    idle: str | None = None
    heard: tuple[Event, ...] = ()


class Engine:
    """One coordinator's rounds.

    `look` polls the agents; `now` is unix milliseconds, `steady` seconds of a clock that nobody
    sets. Between the rounds the `adviser` searches for moves that balancing needs, the `inventory`
    asks which machines are broken, and the `webhooks` send offers to owners.
    """

    def __init__(
        self,
        store: Store,
        cluster: Cluster,
        orders: Ordering,
        look: Callable[[Snapshot], Awaitable[Mapping[str, Look]]],
        policy: Policy,
        now: Callable[[], Ms],
        conduct: Conduct,
        steady: Callable[[], float] = time.monotonic,
        adviser: Adviser | None = None,
        inventory: Inventory | None = None,
        webhooks: Webhooks | None = None,
        outbox: Outbox | None = None,
        noded: Noded | None = None,
    ) -> None:
        self.policy = policy
        self.conduct = conduct
        self.inventory = inventory or Inventory(InventorySettings(), now, steady)
        self.webhooks = webhooks if webhooks is not None else Webhooks((), now)
        self.outbox = outbox if outbox is not None else Outbox((), now)
        self.complaint = ""
        self.tally = Tally()
        self._noded = noded or Noded(cluster, steady)
        self._adviser = adviser or Adviser(unanswered, nothing_measured)
        self._store = store
        self._cluster = cluster
        self._look = look
        self._now = now
        self._steady = steady
        self._missed: float | None = None
        self._inquiry = Inquiry(cluster, orders, steady)
        self._submitter = Submitter(
            cluster, orders, self._check_master, self._known, self._remember, steady
        )
        self._withdrawals = Withdrawals(cluster, self._check_master)
        self._zones = Zones()
        self._ledger: Ledger | None = None
        self._heard = Heard()
        self._last: Decision | None = None

    @property
    def ledger(self) -> Ledger | None:
        return self._ledger

    @property
    def ratings(self) -> Mapping[str, Rating]:
        """Recent ratings of groups' balance, by UUID."""
        return self._adviser.ratings

    @property
    def unfinished(self) -> Mapping[str, int]:
        """Ganeti's unfinished jobs by status, from the last count; empty if unknown."""
        return self._inquiry.unfinished

    async def one_round(self, stop: Callable[[], bool] = lambda: False) -> Round:
        """Observe, decide and act once; after `stop` ask nothing more, and do nothing.

        Unavailable: no decision, try again later. NotMaster: this node is not the master.
        """
        await self._check_master()
        ledger = await self._remembered()
        ledger, absent = await self._inquiry.adopt(ledger, self._submitter.not_taken)
        self._remember(ledger)
        # Results first: the snapshot then shows the effect of every job known to be over. The other
        # way round a job that ends in between would be repeated. Polls take long: the state for the
        # decision is read after them, and before them only the list of nodes.
        results = self._withdrawals.explained(await self._inquiry.results(ledger))
        _unless(stop)
        there = node_keys.as_planned(await asyncio.to_thread(self._cluster.snapshot), ledger)
        ledger = await self._inquiry.adopt_orders(ledger, there, self._now())
        self._remember(ledger)
        results |= await self._inquiry.receipts(ledger, there)
        repairs = with_tags(self.policy, there).autorepair != "off"
        jobs = await self._inquiry.of(map(str, in_tags(there))) if repairs else {}
        paused = await self._inquiry.watcher_paused() if repairs else Ms(0)
        await self._inquiry.count_jobs()
        _unless(stop)
        looks = await self._look(there)
        _unless(stop)
        idle = self._idle(looks, there)
        now = self._now()
        diagnoses, _ = understand(looks, now, self.conduct.oldest)
        moving = wants_others_jobs(ledger, there, diagnoses, self.policy, now)
        busy = await self._inquiry.busy() if moving else {}
        snapshot = await asyncio.to_thread(self._cluster.snapshot)
        looks = _of_the_same(looks, there, snapshot)
        now = self._now()
        diagnoses, doubts = understand(looks, now, self.conduct.oldest)
        doubts |= {
            name: "not asked yet"
            for name, node in snapshot.nodes.items()
            if name not in looks and not node.offline
        }
        observed = Observed(
            snapshot,
            diagnoses,
            doubts,
            results,
            absent,
            wishes=self._store.wishes(),
            jobs=jobs,
            advice=self._adviser.advice(),
            busy=busy,
            sick=self.inventory.sick(ledger.queue),
            watcher_paused=paused,
            beside=beside(looks),
            keys=node_keys.shown(looks),
            unanswered=out_of_reach(looks),
            noded=self._noded.said(),
        )
        _unless(stop)
        zones = await asyncio.to_thread(self._zones.read, zones_of(ledger, observed.wishes), now)
        observed = replace(observed, zones=zones)
        if wants_room(ledger, observed, self.policy, now):
            nodes = snapshot.nodes
            names = [n for n in observed.diagnoses if n in nodes and nodes[n].in_service]
            observed = replace(observed, capacity=await self._inquiry.capacity(names))
        if since := drained.wants_roles(ledger, observed.wishes):
            observed = replace(observed, roles=await self._inquiry.roles(since))
        if idle is None:
            await self._withdrawals.withdraw(ledger, observed)
        failpoint.reach("observed")
        decision = decide(ledger, observed, self.policy, now)
        _unless(stop)
        heard = hear(self._heard, looks, now)
        if idle is None:
            decision = await self._carry_out(ledger, decision, observed, now, heard)
            self.webhooks.announce(decision.ledger, snapshot, now)  # from what is on disk
        elif self.conduct.dry:
            self._ledger = _as_if_nothing_was_begun(ledger, decision.ledger)
        else:  # while the vote is undecided, it matters which nodes are unreachable
            self._ledger = replace(ledger, unreachable=decision.ledger.unreachable)
            if heard.events:
                self._store.save(self._ledger, heard.events)
        self._heard = heard
        self._last = decision
        self._adviser.ask(decision.questions, snapshot, now)
        self._noded.ask(snapshot, unreachable(decision.ledger, snapshot, self.policy, now))
        self._adviser.rate(snapshot, observed.capacity, diagnoses, now)
        self.inventory.ask(decision.ledger.queue)
        return Round(now, observed, decision, self.policy, looks, idle, heard.events)

    # Observe.

    async def _check_master(self) -> None:
        await asyncio.to_thread(self.conduct.check_master)

    def _idle(self, looks: Mapping[str, Look], snapshot: Snapshot) -> str | None:
        if self.conduct.dry:
            return "a dry run: nothing is remembered and nothing done"
        if not self.conduct.vote:
            return None
        vote = count(looks, snapshot, self.conduct.me)
        if vote.lost:
            raise NotMaster(vote.words)
        return None if vote.won else f"the vote is undecided: {vote.words}"

    async def _remembered(self) -> Ledger:
        if self._ledger is None:
            loaded = self._store.load()
            trails = await asyncio.to_thread(self._cluster.trails)
            snapshot = await asyncio.to_thread(self._cluster.snapshot)
            now = self._now()
            gone = await self._lost(trails, snapshot, now)
            marked = self.conduct.away()
            repairs = bool(self.policy.procedures.repair_procedures)
            since = drained.to_recall(loaded, trails, snapshot)
            roles = await asyncio.to_thread(self._cluster.roles, since) if since else ()
            recovered = recover(
                loaded, trails, snapshot, now, marked, gone, repairs=repairs, roles=roles
            )
            said = other_master.seen(loaded, marked, newest_of_others(trails))
            late = [wish for wish in self._store.wishes() if wish.at <= said]
            if (late or recovered != loaded) and not self.conduct.dry:
                told = refuse(late, other_master.SAY_AGAIN, self._now())
                self._store.save(
                    recovered, told, {wish.id: other_master.SAY_AGAIN for wish in late}
                )
            if marked and not self.conduct.dry:
                self.conduct.back()
            self._ledger = recovered
            if recovered != loaded:
                log.info("recovered incidents=%d", len(self._ledger.incidents))
        return self._ledger

    async def _lost(
        self, trails: Sequence[Trail], snapshot: Snapshot, now: Ms
    ) -> Collection[tag_place.Place]:
        """Find lost tags; ask who removed tags only if one is missing.

        Unavailable: the answer may be old, for as long as answers may be.
        """
        missing = lost_tags.missing(trails, snapshot, now)
        if not missing:
            return ()
        removals = await asyncio.to_thread(self._cluster.removals)
        gone = lost_tags.lost(missing, removals, snapshot)
        if job := lost_tags.may_show_yet(gone.values(), now):
            self._missed = self._steady() if self._missed is None else self._missed
            if self._steady() - self._missed < TAG_SHOWS / 1000:
                raise Unavailable(f"the effect of job {job} is not visible in the cluster yet")
        for place in gone:
            log.warning(
                "tag-lost tag=%s scope=%s name=%r", place.tag, place.scope.value, place.name
            )
        return gone.keys()

    # Save and act.

    async def _carry_out(
        self, before: Ledger, decision: Decision, observed: Observed, now: Ms, heard: Heard
    ) -> Decision:
        told = tell(before, decision.ledger, decision, self._last, now, observed)
        sent = self.outbox.results
        silent = unreachable(decision.ledger, observed.snapshot, self.policy, now)
        decision, letters = take_up(
            *(decision, observed, self.policy, sent, silent, self.complaint, now)
        )
        events = (*heard.events, *told)
        answers = {w.id: decision.refused.get(w.id, "") for w in observed.wishes}
        failpoint.reach("decided")
        if decision.ledger != before or events or answers:
            self._store.save(decision.ledger, events, answers)
        self._ledger = decision.ledger
        self.tally.take(before, decision, observed, now)
        self._submitter.not_taken.clear()
        failpoint.reach("saved")
        self.outbox.tell(letters)
        known = {intent.id for intent in before.intents}
        fresh = [i for i in decision.ledger.intents if i.id not in known]
        if fresh:
            failpoint.reach("promised")
            await self._submitter.submit(fresh, observed.snapshot)
        return replace(decision, ledger=self._ledger)

    def _known(self) -> Ledger:
        assert self._ledger is not None
        return self._ledger

    def _remember(self, ledger: Ledger) -> None:
        if ledger is self._ledger:
            return
        if not self.conduct.dry:
            self._store.save(ledger)
        self._ledger = ledger


def _unless(stop: Callable[[], bool]) -> None:
    """Stop between questions to Ganeti, which may take minutes altogether."""
    if stop():
        raise Unavailable("maintd is being stopped")


def _of_the_same(
    looks: Mapping[str, Look], before: Snapshot, after: Snapshot
) -> Mapping[str, Look]:
    """The poll results of nodes that are still the same: a new node may have an old name."""
    return {
        name: look
        for name, look in looks.items()
        if (node := after.nodes.get(name)) is not None and node.uuid == before.nodes[name].uuid
    }


def _as_if_nothing_was_begun(before: Ledger, after: Ledger) -> Ledger:
    """Ledger of a dry run: its detections, with their times, but none of its actions."""
    begun = {i.id for i in before.incidents if i.status is not Status.NOTED}
    incidents = tuple(
        i if i.id in begun or i.status is not Status.PENDING else replace(i, status=Status.NOTED)
        for i in after.incidents
    )
    before = replace(before, unreachable=after.unreachable)
    return replace(before, incidents=incidents, lopsided=after.lopsided)
