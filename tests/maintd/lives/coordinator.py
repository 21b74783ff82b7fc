"""A whole coordinator under everything that can happen to it, and what is promised throughout.

Rules are what others do, and what goes wrong; those of each subject are in a module of its own.
What is promised of each submission is in `watched`, of incidents (P1 to P4) in `promises`, of all
that a person takes back (S1, S2) in `people`. And always:

P5 no instance is started while its old node may still run it.
P6 never more nodes than the limits are fenced.
P7 a wrong or missing BMC, or that of another node, ends in a reason, never in an action.
P8 no node that answers is powered off by its control, however late its power-off comes.
P9 no instance is started on a mirror that has missed writes of a node that answered.
O1 never do two owners have jobs at one node.
O2 what was acknowledged is known, whoever is the master.
O3 a node that maintd took out is somebody's, who is told, or work goes on that will put it back.
O4 no work begins at a paused node.
E1 rounds come to rest when nothing happens any more, and no repair of what is well is pending.
E2 a group gets even, and balancing never ends with a higher score than it began with.
E3 every node ends as it was found, where none was dying.

Each life is about one or two of the subjects: these choose what maintd is to do, and the rules.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nodeagent.errors import Unavailable
from nodeagent.maintd.engine import failpoint
from nodeagent.maintd.engine.failpoint import arm
from nodeagent.maintd.engine.round import Round
from nodeagent.maintd.ledger.clock import timeless
from nodeagent.maintd.notices.needs_you import needs_you
from nodeagent.maintd.outage.claims import Claims
from nodeagent.maintd.planning.holds import paused
from nodeagent.model.action import (
    Drain,
    Guarded,
    MovePrimary,
    MoveSecondary,
    Power,
    Reinstall,
    Restore,
    Retag,
    RunCommand,
    SetOffline,
    move_of,
)
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Outcome, Policy
from nodeagent.model.queue import RepairStep
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Instance
from nodeagent.model.units import Ms, Seconds
from simulation.cluster import Job
from tests.cluster.by_hand import ByHand
from tests.failpoints import NAMES as FAILPOINTS
from tests.maintd.lives.promises import Before, Promises
from tests.maintd.lives.site import Site
from tests.maintd.lives.watched import BUDGET, COOLDOWN, Watched
from tests.maintd.queue import mender
from tests.maintd.rig import QUICK, mirrored
from tests.maintd.world import EVACUATE, FAILOVER, OK, REPAIR, need

INCIDENTS, REPAIRS, BALANCING, FENCING, OUTAGES, ROLLS, STRANGERS = SUBJECTS = (
    "incidents",
    "repairs",
    "balancing",
    "fencing",
    "outages",
    "rolls",
    "strangers",
)
EVERY = tuple(f"n{n}" for n in range(1, 8))
SICK = ("n2", "n3", "n4")  # the others stay well, or there would be no majority and no room
REWORDED = need("evacuate", details="other words")
OTHER = need("live-repair", command="other")
BAD = (REPAIR, EVACUATE, FAILOVER, REWORDED, OTHER)
PLACES = (("n2", "n3"), ("n2", "n4"), ("n3", "n5"), ("n4", "n2"), ("n5", "n1"), ("n1", "n3"))
KINDS = (Drain, MovePrimary, MoveSecondary, SetOffline, Retag)
OWNED = (Drain, MovePrimary, MoveSecondary, Restore, SetOffline, RunCommand)
STEP = 20.0  # s between two rounds where machines die
STEPS = (
    RepairStep(
        "try-1",
        need_drain=True,
        watch_seconds=Seconds(60),
        command_retries=2,
        command_interval=Seconds(60),
    ),
    RepairStep("try-2", need_drain=True, watch_seconds=Seconds(60)),
)

BUDGETS = st.sampled_from(["", "1", "2", "1:live", "50percent"])
ANY_SICK = st.sampled_from(SICK)
ANY_NODE = st.sampled_from(EVERY[:6])
SECONDS = st.sampled_from([1.0, 1.0, 10.0, 70.0, 400.0])
counted: Counter[str] = Counter()
T = TypeVar("T")


def about(*subjects: str) -> Callable[[T], T]:
    """Say that a rule is for lives about one of these."""

    def concerns(life: Any) -> bool:
        return bool(life.subjects & set(subjects))

    return precondition(concerns)  # type: ignore[return-value]


def except_in(*subjects: str) -> Callable[[T], T]:
    """Say that a rule is not for lives about any of these."""

    def concerns(life: Any) -> bool:
        return not life.subjects & set(subjects)

    return precondition(concerns)  # type: ignore[return-value]


class Coordinator(RuleBasedStateMachine):
    """One life; `done` is the newest round that did not break off."""

    subjects: frozenset[str] = frozenset()
    rig: Site
    done: Round | None = None
    lossy, late = False, 0.0

    @property
    def cluster(self) -> ByHand | None:
        """The cluster; None before it is set up."""
        return self.rig.cluster if hasattr(self, "rig") else None

    def ours(self) -> list[Job]:
        return [] if self.cluster is None else [j for j in self.cluster.jobs.values() if j.ours]

    def running(self) -> list[Job]:
        return [job for job in self.ours() if job.outcome is Outcome.RUNNING]

    @invariant()
    def each_reason_once(self) -> None:
        """One promise is one job at most."""
        reasons = Counter(job.reason for job in self.ours())
        assert all(times == 1 for times in reasons.values()), reasons.most_common(2)

    @initialize(
        takes=st.sampled_from([1.0, 25.0, 150.0]),
        order=st.sampled_from([1000, 45_000]),
        at_once=st.sampled_from([1, 10]),
        data=st.data(),
    )
    def begin(self, takes: float, order: int, at_once: int, data: st.DataObject) -> None:
        instances = self._with_budget(self._instances(data), data)
        self.rig = Site(self._policy(at_once, data), instances)
        self.failing, self.late_failing = set[type](), set[type]()
        rig, cluster = self.rig, self.rig.cluster
        self.watched = Watched(cluster, rig, counted)
        rig._through = lambda _: self.watched
        cluster.takes = lambda _: takes
        cluster.loses_answer = lambda _: self.lossy
        cluster.arrives = lambda _: self.late
        cluster.fails = lambda action: type(action) in self.failing
        cluster.fails_late = lambda action: type(move_of(action)) in self.late_failing
        rig.agents.now = lambda: Ms(round(rig.time * 1000))  # whatever the master's clock
        rig.agents.takes = order
        rig.agents.loses = lambda _: self.lossy
        rig.agents.ends = lambda _: (
            Outcome.ERROR if RunCommand in self.failing else Outcome.SUCCESS
        )
        self.promises = Promises(rig, counted)
        self.asked = 0
        self.acknowledged: set[int] = set()
        self.dying = False
        rig.crash()
        self.begin_with(data)

    def begin_with(self, data: st.DataObject) -> None:
        """Draw what a subject begins with: something is wrong already."""

    def ends(self) -> None:
        """See what a subject has come to, where nothing happens any more."""

    def _policy(self, at_once: int, data: st.DataObject) -> Policy:
        policy = replace(
            QUICK, nodes_in_work=at_once, group_in_work=at_once, return_after=Ms(60_000)
        )
        if REPAIRS in self.subjects:
            policy = replace(policy, autorepair="safe", repairs=4)
        if BALANCING in self.subjects:
            policy = replace(
                policy,
                balance=True,
                balance_settle=Ms(20_000),
                balance_cooldown=Ms(COOLDOWN * 1000),
                withdraw=Ms(30_000),
            )
        if FENCING in self.subjects:
            revive, burst = data.draw(st.booleans()), data.draw(st.integers(1, 3))
            policy = replace(policy, dead_nodes="restart", revive=revive, fence_burst=burst)
        if OUTAGES in self.subjects:
            success = data.draw(st.sampled_from(["", "tell"]))
            procedures = mender.policy(*STEPS, success=success).procedures
            policy = replace(policy, procedures=procedures)
        return policy

    def _instances(self, data: st.DataObject) -> Iterable[Instance]:
        common: dict[str, Any] = {"memory": 100, "disk": 100}
        if INCIDENTS in self.subjects:
            yield from mirrored(*PLACES)
        elif BALANCING in self.subjects:
            places = st.sampled_from([("n2", "n3"), ("n2", "n4"), ("n3", "n2"), ("n5", "n6")])
            yield from mirrored(*data.draw(st.lists(places, min_size=3, max_size=7)))
        elif OUTAGES in self.subjects or ROLLS in self.subjects:
            yield from mirrored(("n3", "n4"), ("n3", "n5"), ("n2", "n3"))
        if REPAIRS in self.subjects:
            yield Instance("mirrored", "n2", "n3", **common)
            yield Instance("shared", "n2", template="rbd", **common)
            yield Instance("plain", "n3", template="plain", **common)
            yield Instance("stopped", "n4", "n2", running=False, **common)
        if FENCING in self.subjects:
            yield Instance("drbd", "n3", "n4", **common)
            yield Instance("other", "n5", "n6", **common)
            for n in range(2, 7):
                yield Instance(f"shared{n}", f"n{n}", template="rbd", memory=100)

    def _with_budget(
        self, instances: Iterable[Instance], data: st.DataObject
    ) -> Iterable[Instance]:
        """All have one budget, or none; some cannot migrate."""
        if BALANCING in self.subjects:
            yield from instances
            return
        text, stays = data.draw(BUDGETS), data.draw(st.booleans())
        for instance in instances:
            tags = instance.tags | ({f"{BUDGET}{text}"} if text else set())
            yield replace(instance, tags=tags, hypervisor="lxc" if text and stays else "kvm")

    @rule(seconds=SECONDS, rounds=st.integers(1, 6))
    def time_passes(self, seconds: float, rounds: int) -> None:
        self.some_rounds(rounds, seconds)

    @rule(seconds=SECONDS)
    def crash(self, seconds: float) -> None:
        self.rig.crash()
        self.rounds(seconds)

    @rule(name=st.sampled_from(FAILPOINTS), nth=st.integers(1, 2), times=st.integers(1, 4))
    def power_cut(self, name: str, nth: int, times: int) -> None:
        """Rounds, one of which breaks off there, and the end of the process."""
        arm(f"{name}:raise:{nth}")
        try:
            self.some_rounds(times, 10.0)
        finally:
            arm("")
        self.crash(1.0)

    @except_in(OUTAGES, ROLLS, STRANGERS)
    @rule(seconds=SECONDS)
    def ledger_lost(self, seconds: float) -> None:
        if INCIDENTS not in self.subjects or self.promises.all_is_told(late=self.late):
            self.rig.lose_ledger()
            self.promises.lost = True
            counted["ledger lost"] += 1
        self.rounds(seconds)

    @rule(seconds=SECONDS, late=st.sampled_from([0.0, 3.0]), again=SECONDS)
    def answers_are_lost(self, seconds: float, late: float, again: float) -> None:
        """A round whose answers are lost, and one that finds out."""
        self.lossy, self.late = True, late
        self.rounds(seconds)
        self.lossy = False
        self.rounds(again)

    @rule(at=st.sampled_from(("", *FAILPOINTS)))
    def disk_is_full(self, at: str) -> None:
        """From there in a round on, and for one more, in which nothing is submitted from memory."""
        save, full = self.rig.store.save, not at

        def fills(place: str) -> None:
            nonlocal full
            full = full or place == at

        def saved(*given: Any, **more: Any) -> None:
            if full:
                raise Unavailable("disk full")
            save(*given, **more)

        with (
            patch.object(failpoint, "reach", fills),
            patch.object(self.rig.store, "save", saved),
        ):
            self.rounds(10.0)
            full, before = True, self.watched.submitted
            self.rounds(10.0)
        assert self.watched.submitted == before, "submitted from memory"

    @about(OUTAGES, STRANGERS)
    @rule(seconds=st.sampled_from([-4000.0, -100.0, 90_000.0]))
    def set_the_clock(self, seconds: float) -> None:
        self.rig.skew += seconds
        counted["clock"] += 1
        self.rounds(10.0)

    @rule()
    def queue_is_drained_for_a_while(self) -> None:
        self.rig.cluster.queue_drained = True
        self.rounds(10.0)
        self.rig.cluster.queue_drained = False

    @about(INCIDENTS, BALANCING, STRANGERS)
    @rule(node=ANY_SICK, said=st.sampled_from((OK, *BAD, None)), seconds=SECONDS)
    def says(self, node: str, said: Diagnosis | None, seconds: float) -> None:
        self.rig.agents.says[node] = said
        self.rounds(seconds)

    @about(INCIDENTS, BALANCING)
    @rule(kinds=st.sets(st.sampled_from([*KINDS, RunCommand]), max_size=2), seconds=SECONDS)
    def jobs_fail(self, kinds: set[type], seconds: float) -> None:
        self.failing = kinds
        self.rounds(seconds)

    @about(INCIDENTS, OUTAGES, STRANGERS)
    @except_in(BALANCING, REPAIRS)
    @rule(nth=st.integers(0, 5), watched=st.booleans(), seconds=SECONDS)
    def instance_crashes(self, nth: int, watched: bool, seconds: float) -> None:
        """Ganeti's watcher starts it after a while, unless it is switched off."""
        running = sorted(i.name for i in self.rig.cluster.instances.values() if i.running)
        if not running:
            return
        self.rig.cluster.world.crash(running[nth % len(running)])
        self.rounds(seconds)
        self.rounds(10.0)
        if watched:
            self.watcher_starts()

    def watcher_starts(self) -> None:
        world = self.rig.cluster.world
        for name in world.crashed & world.instances.keys():
            world.start(name)

    @about(REPAIRS, BALANCING)
    @rule(kind=st.sampled_from((MovePrimary, MoveSecondary, Reinstall)), seconds=SECONDS)
    def jobs_fail_late(self, kind: type, seconds: float) -> None:
        self.late_failing ^= {kind}
        self.rounds(seconds)

    @about(REPAIRS, BALANCING)
    @except_in(FENCING, INCIDENTS)
    @rule(node=ANY_SICK, offline=st.booleans(), seconds=SECONDS)
    def take_out(self, node: str, offline: bool, seconds: float) -> None:
        there = self.rig.cluster.nodes[node]
        self.rig.cluster.put(replace(there, offline=offline, drained=not offline, candidate=False))
        if offline:  # it is dead: maintd repairs no instance of one that is only marked so
            self.rig.agents.says[node] = None
        else:
            self._wakes(node)
        self.rounds(seconds)

    @about(REPAIRS, BALANCING)
    @except_in(FENCING, INCIDENTS)
    @rule(node=ANY_SICK, seconds=SECONDS)
    def bring_back(self, node: str, seconds: float) -> None:
        self.rig.cluster.undrain(node)
        self._wakes(node)
        self.rounds(seconds)

    def _wakes(self, node: str) -> None:
        if self.rig.agents.says.get(node, OK) is None:
            del self.rig.agents.says[node]

    def some_rounds(self, times: int, seconds: float) -> None:
        for _ in range(times):
            self.rounds(seconds)

    def until_calm(
        self, most: int, seconds: float, calm: int, after_each: Callable[[], None] = lambda: None
    ) -> None:
        """Hold at most so many rounds, until `calm` of them in a row have changed nothing."""
        same, before = 0, timeless(self.rig.ledger)
        for _ in range(most):
            self.rounds(seconds)
            after_each()
            after = timeless(self.rig.ledger)
            same, before = (same + 1 if after == before else 0), after
            if same == calm:
                return

    def rounds(self, seconds: float) -> None:
        rig = self.rig
        rig.pass_by(min(seconds, 61.0) if FENCING in self.subjects else seconds)
        before, known = self.promises.before(), len(rig.machines.commands)
        done: Round | None = None
        try:
            done = rig.round()
            self.done = done
        except Unavailable:
            counted["broken off"] += 1
        assert done is None or done.idle is None
        rig.after_round(known)
        self.watched.note_moves()
        self.promises.after(before, held=done is not None)
        self.one_owner_a_node()
        if done is not None:
            self.no_work_begins_at_a_paused_node(before, done)

    def no_work_begins_at_a_paused_node(self, before: Before, done: Round) -> None:
        """O4; an order that was given before is only asked for."""
        pauses = paused(done.decision.ledger, done.observed.snapshot)
        for intent in done.decision.ledger.intents:
            known = intent.id in before.known or intent.job in before.given
            if isinstance(intent.action, (*OWNED, Guarded)) and not known:
                assert intent.node not in pauses, f"O4: {intent}: {pauses[intent.node]}"

    def one_owner_a_node(self) -> None:
        """O1: by the jobs under way, the entries at work and the incidents that have begun.

        One incident may wait at a node for what another has begun.
        """
        one = "" if self.subjects == {OUTAGES} else "an incident"
        owners: dict[str, set[str]] = {}
        by_address = {node.address: node.name for node in self.rig.cluster.nodes.values()}
        ledger = self.rig.ledger
        for entry in ledger.queue.entries:
            if entry.at_work:
                here = by_address.get(entry.address, entry.address)
                owners.setdefault(here, set()).add(entry.owner)
        for incident in ledger.incidents:
            if incident.status is Status.PENDING:
                owners.setdefault(incident.name, set()).add(one or incident.id)
        for intent in ledger.intents:
            if isinstance(intent.action, OWNED) and intent.node:
                who = one if one and intent.incident else intent.owner
                owners.setdefault(intent.node, set()).add(who)
        assert all(len(found) == 1 for found in owners.values()), f"O1: {owners}"

    @invariant()
    def o3_a_node_that_maintd_took_out_is_somebody_s(self) -> None:
        if (done := self.done) is None:
            return
        ledger, observed = done.decision.ledger, done.observed
        theirs = list(needs_you(ledger, observed, done.decision.held, observed.unanswered, done.at))
        told = {one.node for one in theirs}
        told |= {one.incident.name for one in theirs if one.incident is not None}
        work = ledger.returning() | {one.node for one in ledger.scheduled}
        work |= {one.node for one in ledger.incidents if one.status.active}
        restores = (one.action for one in ledger.intents if isinstance(one.action, Restore))
        told |= {restore.node for restore in restores}
        whys = [held.why for held in done.decision.held]
        told |= {why.subject.name for why in whys if why.kind is Kind.TO_BE_PUT_BACK}
        for one in ledger.outages:
            node = next((n for n in observed.snapshot.nodes.values() if n.uuid == one.node), None)
            if node is None or not one.ours or node.in_service:
                continue
            if node.uuid in work or Claims(ledger).of(node):
                continue
            if one.back is not None and node.name in {held.node for held in done.decision.held}:
                continue  # it owes its proof, and a line says which
            assert node.name in told, f"O3: {node.name}: {whys}: {ledger.intents}"

    def teardown(self) -> None:
        if self.cluster is None:
            return
        cluster = self.rig.cluster
        cluster.queue_drained, cluster.pauses = False, lambda _: False
        self.failing, self.late_failing, self.lossy = set(), set(), False
        self.watcher_starts()
        self.ends()

    def submits_nothing(self) -> None:
        jobs = self.rig.cluster.jobs
        known = set(jobs)
        self.some_rounds(5, 310.0)
        fresh = [job for number, job in jobs.items() if number not in known]
        fresh = [job for job in fresh if not isinstance(job.action, Retag | Power)]
        assert not fresh, f"E1: it never rests: {fresh}"
