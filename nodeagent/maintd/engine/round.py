"""Run one round: poll, decide, save, submit, save. It leaves decisions to `decide`.

Intents are on disk before anything happens, and each is submitted once, in the round that planned
it (`submit`, which alone changes the world). For an intent without a known job, `jobs` searches the
jobs' reason trails for its id. If there certainly is no job, the intent is void and `decide` plans
again from the new state. Safe to be killed between any two lines.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodeagent.cluster.backend import Cluster
from nodeagent.errors import NotMaster, Unavailable
from nodeagent.maintd.balancing.headroom_thread import Headrooms
from nodeagent.maintd.balancing.ratings import Rating
from nodeagent.maintd.balancing.search_thread import Adviser, nothing_measured, unanswered
from nodeagent.maintd.deciding import inquiries, reports
from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.engine import failpoint
from nodeagent.maintd.engine.conduct import Acting, Conduct, count
from nodeagent.maintd.engine.jobs import Inquiry
from nodeagent.maintd.engine.memory import Memory
from nodeagent.maintd.engine.noded import Noded
from nodeagent.maintd.engine.orders import Ordering
from nodeagent.maintd.engine.submit import Submitter
from nodeagent.maintd.engine.timezones import read_zones
from nodeagent.maintd.engine.withdrawals import Withdrawals
from nodeagent.maintd.engine.witnesses import Witnesses
from nodeagent.maintd.fencing.state import takes_for_dead, why_spared
from nodeagent.maintd.ledger import clock
from nodeagent.maintd.ledger.agent_events import AgentStates, hear
from nodeagent.maintd.ledger.doubt import doubt
from nodeagent.maintd.ledger.history import tell
from nodeagent.maintd.ledger.tally import Tally
from nodeagent.maintd.ledger.unreachable import unreachable, watched
from nodeagent.maintd.notices import owners
from nodeagent.maintd.notices.firing import Firing
from nodeagent.maintd.notices.outbox import Outbox
from nodeagent.maintd.notices.plan import take_up
from nodeagent.maintd.planning import node_keys
from nodeagent.maintd.planning.budgets import nodes_to_ask
from nodeagent.maintd.planning.departures import departures
from nodeagent.maintd.planning.intents import is_order
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.maintd.queue.inventory import Inventory, InventorySettings
from nodeagent.model.action import describe
from nodeagent.model.clock import Moment
from nodeagent.model.departure import Departure
from nodeagent.model.event import Event
from nodeagent.model.evidence import Evidence, Testimony
from nodeagent.model.incident import Status
from nodeagent.model.keeping import Uncertain
from nodeagent.model.ledger import Decision, Intent, Ledger, Policy, Result
from nodeagent.model.reason import Held, LedgerKind, because
from nodeagent.model.snapshot import Capacity, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.wish import TrustLedger
from nodeagent.protocol.look import Look
from nodeagent.store.departures_file import DeparturesFile
from nodeagent.store.sqlite import SqliteStore

_TRIES = ("promised", "dropped")  # events of a try


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


@dataclass(frozen=True, slots=True)
class _Polled:
    """The first stage of a round: what became of our work, and what the agents report.

    `snapshot` is from before the polls, which began `at`. `answering` are the offline nodes whose
    agents answer; `idle` says why nothing may be done.
    """

    ledger: Ledger
    absent: Mapping[str, str]
    results: Mapping[str, Result]
    jobs: Mapping[str, Result]
    watcher_paused: Ms | None
    snapshot: Snapshot
    looks: Mapping[str, Look]
    answering: frozenset[str]
    at: Ms
    idle: str | None


@dataclass(frozen=True, slots=True)
class _Seen:
    """The second stage of a round: all that the decision is made from, at `now`.

    `looks` are those at nodes that are still the same; `ledger` is in step with the wall clock.
    """

    polled: _Polled
    looks: Mapping[str, Look]
    ledger: Ledger
    observed: Observed
    moment: Moment
    now: Ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Parts that work beside the rounds, so that none waits for them.

    The `adviser` searches for moves that balancing needs, the `inventory` asks which machines are
    broken, `firing` which alerts block a roll, and the `outbox` sends notifications, and offers to
    owners; the `headrooms` count how many more instances fit. `noded` asks Ganeti's daemons, and
    the `witnesses` other agents, about nodes that do not answer. `departing` tells other programs
    which nodes leave soon.
    """

    adviser: Adviser
    inventory: Inventory
    outbox: Outbox
    firing: Firing
    headrooms: Headrooms
    noded: Noded
    witnesses: Witnesses
    departing: DeparturesFile

    @classmethod
    def alone(
        cls, cluster: Cluster, now: Callable[[], Ms], steady: Callable[[], float] = time.monotonic
    ) -> "Services":
        """Services that ask and tell nobody but Ganeti."""
        outbox = Outbox((), now)
        return cls(
            adviser=Adviser(unanswered, nothing_measured),
            inventory=Inventory(InventorySettings(), now, steady),
            outbox=outbox,
            firing=Firing(lambda: outbox.targets.values(), steady),
            headrooms=Headrooms(),
            noded=Noded(cluster, steady),
            witnesses=Witnesses(None, now, steady),
            departing=DeparturesFile(),
        )


class Engine:
    """One coordinator's rounds.

    `look` polls the agents; `now` is unix milliseconds, `steady` seconds of a clock that nobody
    sets.
    """

    def __init__(
        self,
        store: SqliteStore,
        cluster: Cluster,
        orders: Ordering,
        look: Callable[[Snapshot], Awaitable[Mapping[str, Look]]],
        policy: Policy,
        now: Callable[[], Ms],
        conduct: Conduct,
        services: Services,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.policy = policy
        self.inventory, self.outbox = services.inventory, services.outbox
        self.firing, self.headrooms = services.firing, services.headrooms
        self.departing = services.departing
        self._adviser, self._noded = services.adviser, services.noded
        self._witnesses = services.witnesses
        self.complaint, self.standby = "", ""  # the latter tells who acts while this one does not
        self.succession: dict[str, object] | None = None  # a standby's newest outcome
        self.tally = Tally()
        self._store = store
        self._cluster = cluster
        self._look = look
        self._now = now
        self.acting = Acting(conduct)
        self._memory = Memory(store, cluster, now, steady, self.acting)
        self._inquiry = Inquiry(cluster, orders, steady)
        self._submitter = Submitter(
            cluster,
            orders,
            self.acting,
            self._known,
            self._remember,
            steady,
            self._spared,
        )
        self._withdrawals = Withdrawals(cluster, self.acting)
        self._ledger: Ledger | None = None
        self._put_off: frozenset[tuple[str, str]] = frozenset()  # nodes and actions
        self._heard = AgentStates()
        self._started = Ms(0)  # of the first round
        self._last: Decision | None = None

    @property
    def conduct(self) -> Conduct:
        return self.acting.conduct

    @property
    def ledger(self) -> Ledger | None:
        return self._ledger

    @property
    def ratings(self) -> Mapping[str, Rating]:
        """Recent ratings of groups' balance, by UUID."""
        return self._adviser.ratings

    @property
    def memory(self) -> Memory:
        """The ledger between rounds, and where it is kept."""
        return self._memory

    @property
    def unfinished(self) -> Mapping[str, int]:
        """Ganeti's unfinished jobs by status, from the last count; empty if unknown."""
        return self._inquiry.unfinished

    async def one_round(self, stop: Callable[[], bool] = lambda: False) -> Round:
        """Observe, decide and act once; after `stop` ask nothing more, and do nothing.

        Unavailable: no decision, try again later. NotMaster: this node is not the master.
        """
        await self.acting.ask()
        seen = await self._observe(await self._poll(stop), stop)
        decision = decide(seen.ledger, seen.observed, self.policy, seen.now)
        _unless(stop)
        return await self._act(seen, decision)

    async def _poll(self, stop: Callable[[], bool]) -> _Polled:
        """Fetch the results of our jobs and orders, then ask every agent for its report.

        Results first: a later snapshot then shows the effect of every job known to be over. The
        other way round a job that ends in between would be repeated.
        """
        ledger = await self._remembered()
        ledger, absent = await self._inquiry.adopt(ledger, self._submitter.not_taken)
        self._remember(ledger)
        results = self._withdrawals.explained(await self._inquiry.results(ledger))
        _unless(stop)
        snapshot = node_keys.as_planned(await asyncio.to_thread(self._cluster.snapshot), ledger)
        ledger = await self._inquiry.adopt_orders(ledger, snapshot, self._now())
        self._remember(ledger)
        results |= await self._inquiry.receipts(ledger, snapshot)
        repairs = with_tags(self.policy, snapshot).autorepair != "off"
        jobs = (
            await self._inquiry.of(map(str, inquiries.jobs_of_repairs(snapshot))) if repairs else {}
        )
        watcher_paused = await self._inquiry.watcher_paused() if repairs else Ms(0)
        await self._inquiry.count_jobs()
        _unless(stop)
        at, asked = self._now(), self.acting.now()
        doubtful = inquiries.offline_nodes(ledger, snapshot, repairs=repairs)
        looks = await self._look(reports.as_online(snapshot, doubtful))
        looks, answering = reports.apart(looks, doubtful)
        self._started = min(self._started or self._now(), self._now())
        _unless(stop)
        return _Polled(
            ledger=ledger,
            absent=absent,
            results=results,
            jobs=jobs,
            watcher_paused=watcher_paused,
            snapshot=snapshot,
            looks=looks,
            answering=answering,
            at=at,
            idle=self._idle(looks, snapshot, asked),
        )

    async def _observe(self, polled: _Polled, stop: Callable[[], bool]) -> _Seen:
        """Read the state for the decision after the polls, which take long, and all that it needs.

        Before them only the list of nodes counts.
        """
        ledger, now = polled.ledger, self._now()
        diagnoses, _ = reports.understand(polled.looks, now, self.conduct.oldest)
        moving = inquiries.wants_others_jobs(ledger, polled.snapshot, diagnoses, self.policy, now)
        busy = await self._inquiry.busy() if moving else {}
        snapshot = await asyncio.to_thread(self._cluster.snapshot)
        looks = reports.of_the_same(polled.looks, polled.snapshot, snapshot)
        now = self._now()
        moment = self.conduct.moment(now)
        ledger = clock.in_step(ledger, moment)
        observed = replace(
            reports.observed(snapshot, looks, now, self.conduct.oldest),
            results=polled.results,
            absent=polled.absent,
            wishes=await asyncio.to_thread(self._store.wishes),
            jobs=polled.jobs,
            advice=self._adviser.advice(),
            busy=busy,
            sick=self.inventory.sick(ledger.queue),
            watcher_paused=polled.watcher_paused,
            noded=self._noded.answers(),
            started=self._started,
            uncertain=self._memory.uncertain,
            unwritten=self._memory.kept.why if self._memory.kept.behind else "",
            answering=polled.answering,
            alerts=self.firing.alerts(inquiries.blocking_alerts(ledger)),
        )
        evidence = self._evidence(ledger, observed, looks, now)
        _unless(stop)
        zones = await asyncio.to_thread(read_zones, inquiries.zones(ledger, observed.wishes), now)
        observed = replace(observed, evidence=evidence, zones=zones)
        if inquiries.wants_room(ledger, observed, self.policy, now):
            nodes = snapshot.nodes
            names = [n for n in observed.diagnoses if n in nodes and nodes[n].in_service]
            observed = replace(observed, capacity=await self._inquiry.capacity(names))
            if hosts := nodes_to_ask(observed):
                observed = replace(observed, running=await self._inquiry.running(hosts))
        if since := inquiries.first_role_job(ledger, observed.wishes):
            observed = replace(observed, roles=await self._inquiry.roles(since))
        if polled.idle is None:
            await self._withdrawals.withdraw(ledger, observed, now)
        failpoint.reach("observed")
        return _Seen(polled, looks, ledger, observed, moment, now)

    def _evidence(
        self, ledger: Ledger, observed: Observed, looks: Mapping[str, Look], now: Ms
    ) -> Mapping[str, Evidence]:
        """Gather what proves silent nodes dead or alive."""
        snapshot = observed.snapshot
        silent = observed.unanswered | {n for n, node in snapshot.nodes.items() if node.offline}
        about = {
            name: since
            for name, since in watched(ledger, snapshot, self.policy, now).items()
            if name in silent
        }
        return self._witnesses.evidence(about, looks, self._noded, now)

    async def _act(self, seen: _Seen, decision: Decision) -> Round:
        """Save and carry out a decision, unless this maintd is idle; then ask for the next round.

        While the vote is undecided, only the unreachable nodes are remembered.
        """
        polled, observed, now = seen.polled, seen.observed, seen.now
        snapshot, idle = observed.snapshot, polled.idle
        heard = hear(self._heard, seen.looks, now)
        if idle is None:
            kept = clock.renewed(polled.ledger, decision.ledger, seen.moment)
            decision = replace(decision, ledger=kept)
            decision = await self._carry_out(polled.ledger, decision, observed, now, heard)
            self.departing.tell(self._departures(decision.ledger, snapshot, now))
        elif self.conduct.dry:
            self._ledger = _as_if_nothing_was_begun(seen.ledger, decision.ledger)
        else:
            self._ledger = _with_silence(seen.ledger, decision.ledger)
            if heard.events:
                self._memory.save(self._ledger, heard.events)
        self._heard = heard
        self._last = decision
        self._adviser.ask(decision.questions, snapshot, now)
        about = watched(decision.ledger, snapshot, self.policy, now)
        self._noded.ask(snapshot, about)
        self._witnesses.watch(snapshot, about, seen.looks, polled.at)
        self._adviser.rate(snapshot, observed.capacity, observed.diagnoses, now)
        self.headrooms.count(
            lambda: self._departures(decision.ledger, snapshot, now), snapshot.groups, now
        )
        self.inventory.ask(decision.ledger.queue)
        self.firing.ask(inquiries.blocking_alerts(decision.ledger))
        return Round(now, observed, decision, self.policy, seen.looks, idle, heard.events)

    async def _spared(self, intents: Sequence[Intent], before: Observed) -> Mapping[str, str]:
        """Ask nodes once more that jobs take for dead; say which jobs are obsolete, and why."""
        ledger, nodes = self._known(), before.snapshot.nodes
        names = {i.node for i in intents if takes_for_dead(i, ledger) and i.node in nodes}
        if not names:
            return {}
        looks = await self._look(reports.alone(before.snapshot, names))
        now = self._now()
        diagnoses, _ = reports.understand(looks, now, self.conduct.oldest)
        evidence = self._witnesses.evidence(dict.fromkeys(names, now), looks, self._noded, now)
        observed = replace(before, diagnoses=diagnoses, evidence=evidence)
        whys = {i.id: why_spared(i, ledger, before, observed, now) for i in intents}
        return {intent_id: why for intent_id, why in whys.items() if why}

    def _departures(self, ledger: Ledger, snapshot: Snapshot, now: Ms) -> Mapping[str, Departure]:
        return departures(ledger, snapshot, with_tags(self.policy, snapshot), now)

    async def rehearse(
        self, node: str, snapshot: Snapshot
    ) -> tuple[Mapping[str, Capacity], tuple[Testimony, ...], tuple[str, ...]]:
        """For a drill: free room, and the testimonies about a node. Changes nothing."""
        testimonies, missing = await self._witnesses.hear(node, snapshot)
        return await self.capacity(snapshot), testimonies, missing

    async def capacity(self, snapshot: Snapshot) -> Mapping[str, Capacity]:
        """Ask Ganeti for the free room of the nodes in service."""
        names = [node.name for node in snapshot.nodes.values() if node.in_service]
        return await self._inquiry.capacity(names)

    # Observe.

    def _idle(self, looks: Mapping[str, Look], snapshot: Snapshot, asked: float) -> str | None:
        if self.conduct.dry:
            return "a dry run: nothing is remembered and nothing done"
        if not self.conduct.vote:
            return None
        vote = count(looks, snapshot, self.conduct.me)
        if vote.lost:
            raise NotMaster(vote.words)
        if not vote.won:
            return f"the vote is undecided: {vote.words}"
        self.acting.named(asked)
        return None

    async def _remembered(self) -> Ledger:
        if self._ledger is None:
            self._ledger = await self._memory.recall(self.policy)
        else:
            self._ledger = await self._memory.renewed(self._ledger, self.policy)
        return self._ledger

    # Save and act.

    async def _carry_out(
        self, before: Ledger, decision: Decision, observed: Observed, now: Ms, heard: AgentStates
    ) -> Decision:
        decision_events = tell(before, decision.ledger, decision, self._last, now, observed)
        silent = unreachable(decision.ledger, observed.snapshot, self.policy, now)
        decision, letters = take_up(
            decision, observed, self.policy, self.outbox.results, silent, self.complaint, now
        )
        told = owners.posted(decision.ledger, self.outbox.results, now)
        decision = replace(decision, ledger=told)
        # One line for an action that waits for the rule, not one for each try.
        decision_events = tuple(
            e for e in decision_events if e.kind not in _TRIES or _what(e) not in self._put_off
        )
        events = (*heard.events, *decision_events)
        answers = {w.id: decision.refused.get(w.id, "") for w in observed.wishes}
        failpoint.reach("decided")
        if decision.ledger != before or events or answers:
            self._memory.save(decision.ledger, events, answers)
        self._ledger = decision.ledger
        self.tally.take(before, decision, observed, now)
        self._submitter.not_taken.clear()
        if observed.uncertain is not None and _trusts(observed, decision):
            self._memory.trust()
        failpoint.reach("saved")
        known = {intent.id for intent in before.intents}
        fresh = [i for i in decision.ledger.intents if i.id not in known]
        if fresh:
            failpoint.reach("intended")
        handed_over = await self._memory.hand_over()
        self.outbox.tell(letters)
        if self._memory.handed_over:
            targets, snapshot = self.outbox.targets, observed.snapshot
            questions = owners.letters(decision.ledger, targets, snapshot, self.policy, now)
            self.outbox.tell(questions)
        self._put_off = frozenset()
        if fresh:
            failpoint.reach("promised")
            if not handed_over:
                fresh, held = self._without_waiting(fresh, observed.uncertain)
                decision = replace(decision, held=tuple(dict.fromkeys((*decision.held, *held))))
            await self._submitter.submit(fresh, observed)
            await self._memory.hand_over()
        return replace(decision, ledger=self._ledger)

    def _without_waiting(
        self, fresh: list[Intent], uncertain: Uncertain | None
    ) -> tuple[list[Intent], list[Held]]:
        """Leave out what a new master would not know of, with the reason.

        In doubt, work on incidents goes on: Ganeti tells a new master of jobs, but not of orders.
        """
        waiting = [intent for intent in fresh if uncertain is None or is_order(intent)]
        if not waiting:
            return fresh, []
        why = doubt(uncertain) or because(LedgerKind.NOT_WRITTEN, why=self._memory.kept.why)
        self._submitter.put_off(waiting, str(why))
        self._put_off = frozenset((i.node, describe(i.action)) for i in waiting)
        return [intent for intent in fresh if intent not in waiting], [Held(why)]

    def _known(self) -> Ledger:
        assert self._ledger is not None
        return self._ledger

    def _remember(self, ledger: Ledger) -> None:
        if ledger is self._ledger:
            return
        if not self.conduct.dry:
            self._memory.save(ledger)
        self._ledger = ledger


def _what(event: Event) -> tuple[str, str]:
    return event.node, describe(event.action) if event.action is not None else ""


def _trusts(observed: Observed, decision: Decision) -> bool:
    """Tell whether a person has decided to go on with the newest known ledger."""
    accepted = (wish.asked for wish in observed.wishes if wish.id not in decision.refused)
    return any(isinstance(asked, TrustLedger) for asked in accepted)


def _unless(stop: Callable[[], bool]) -> None:
    """Stop between questions to Ganeti, which may take minutes altogether."""
    if stop():
        raise Unavailable("maintd is being stopped")


def _with_silence(before: Ledger, after: Ledger) -> Ledger:
    """The ledger before, but with the nodes as they were found silent, or without diagnosis."""
    return replace(before, unreachable=after.unreachable, undiagnosed=after.undiagnosed)


def _as_if_nothing_was_begun(before: Ledger, after: Ledger) -> Ledger:
    """Ledger of a dry run: its detections, with their times, but none of its actions."""
    begun = {i.id for i in before.incidents if i.status is not Status.NOTED}
    incidents = tuple(
        i if i.id in begun or i.status is not Status.PENDING else replace(i, status=Status.NOTED)
        for i in after.incidents
    )
    before = _with_silence(before, after)
    return replace(before, incidents=incidents, lopsided=after.lopsided)
