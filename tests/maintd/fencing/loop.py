"""Rounds of `decide` over simulated machines that die, hang, are cut off, and have lying BMCs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nodeagent.cluster.backend import Accepted, NotTaken, Submission
from nodeagent.errors import Unavailable
from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.deciding.recover import recover
from nodeagent.maintd.fencing.state import why_canceled
from nodeagent.maintd.ledger.unreachable import watched
from nodeagent.maintd.planning.intents import with_job
from nodeagent.model.action import Action, MovePrimary, Power, PowerCommand, RunCommand, SetOffline
from nodeagent.model.evidence import Contact, Evidence, Testimony
from nodeagent.model.fencing import Stage
from nodeagent.model.ledger import Decision, Ledger, Outcome, Policy
from nodeagent.model.reason import AnyKind, Detail, Reason
from nodeagent.model.snapshot import Instance, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.wish import PulledPlug, Wish
from simulation.machines import Control, Machines
from simulation.mirrors import Mirrors
from tests.build import fleet
from tests.cluster.by_hand import ByHand
from tests.maintd.decided import details
from tests.maintd.fencing.whole import INSTANCES
from tests.maintd.fencing.whole import RESTART as RESTART
from tests.maintd.world import NOW, OK

STEP = 20  # seconds between two rounds


@dataclass
class Loop:
    """A coordinator, the simplest one. `broken` machines hang again after each power-on."""

    policy: Policy = RESTART
    instances: tuple[Instance, ...] = INSTANCES
    broken: set[str] = field(default_factory=set)
    mirrors: Mirrors = field(default_factory=Mirrors)
    wishes: list[Wish] = field(default_factory=list)
    seconds: float = NOW / 1000
    ledger: Ledger = field(default_factory=Ledger)
    disk: Ledger = field(default_factory=Ledger)
    decision: Decision = field(default_factory=lambda: Decision(Ledger()))
    started: Ms = Ms(0)
    refused: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cluster = ByHand.of(lambda: self.seconds, fleet(), self.instances, master="n1")
        self.cluster.grace = 1.0
        self.machines.controls = {f"n{i}": (Control(),) for i in range(1, 7)}
        self.absent: dict[str, str] = {}
        self.heard: dict[str, Ms] = {}  # when each node last answered this process

    @property
    def machines(self) -> Machines:
        return self.cluster.world.machines

    @property
    def now(self) -> Ms:
        return Ms(round(self.seconds * 1000))

    # Observe.

    def observed(self) -> Observed:
        found = self.cluster.find([i.reason for i in self.ledger.intents if i.job is None])
        absent = dict(self.absent)
        for intent in self.ledger.intents:
            if intent.job is not None or intent.id in absent:
                continue
            if intent.reason in found:
                self.ledger = with_job(self.ledger, intent, found[intent.reason])
            else:
                absent[intent.id] = "it was not submitted"
        jobs = {i.id: i.job for i in self.ledger.intents if i.job is not None}
        results = self.cluster.results(list(jobs.values()))
        snapshot = self.cluster.snapshot()
        asked = {name for name, node in snapshot.nodes.items() if not node.offline}
        silent = {name for name in asked if not self.machines.answers(name)}
        self.heard |= dict.fromkeys(asked - silent, self.now)
        names = [name for name, node in snapshot.nodes.items() if node.in_service]
        observed = Observed(
            snapshot,
            dict.fromkeys(sorted(asked - silent), OK),
            dict.fromkeys(sorted(silent), "timed out"),
            {i: results[job] for i, job in jobs.items()},
            absent,
            capacity=self.cluster.capacity(names),
            wishes=tuple(self.wishes),
            unanswered=frozenset(silent),
            started=self.started,
        )
        return replace(observed, evidence=self.evidence(observed))

    def evidence(self, observed: Observed) -> Mapping[str, Evidence]:
        there = watched(self.ledger, observed.snapshot, self.policy, self.now)
        nodes = observed.snapshot.nodes
        known = [n for n in there if n in observed.unanswered or nodes[n].offline]
        return {name: self._about(name, there[name], observed.snapshot) for name in known}

    def _about(self, name: str, since: Ms, snapshot: Snapshot) -> Evidence:
        contact = self._contact(name)
        agent = Contact.UNKNOWN if snapshot.nodes[name].offline else contact
        mirrors, world = self.mirrors, self.cluster.world
        others = [n for n in snapshot.nodes.values() if n.name != name and not n.offline]
        told = tuple(
            Testimony(n.name, self.now, contact, contact, mirrors.told(world, n.name, self.seconds))
            for n in others
            if self.machines.answers(n.name)
        )
        last = self.heard.get(name, Ms(0))
        return Evidence(
            name,
            since,
            agent,
            "timed out",
            noded=False,
            noded_at=self.now,
            witnesses=told,
            last=last,
        )

    def _contact(self, name: str) -> Contact:
        if name in self.machines.off | self.machines.cut:
            return Contact.SILENT
        if name in self.machines.hung | self.machines.mute:
            return Contact.CONNECTS
        return Contact.ANSWERS

    # Act.

    def step(self, seconds: float = STEP) -> Decision:
        """One round."""
        self.mirrors.watch(self.cluster.world, self.seconds)
        self.seconds += seconds
        for name in self.broken - self.machines.off:
            self.machines.hung.add(name)
        self.mirrors.watch(self.cluster.world, self.seconds)
        self._round()
        return self.decision

    def _round(self) -> None:
        observed = self.observed()
        before = {i.id for i in self.ledger.intents}
        self._cancel(observed)
        self.decision = decide(self.ledger, observed, self.policy, self.now)
        self.refused |= self.decision.refused
        self.wishes.clear()
        self.disk = self.ledger = self.decision.ledger
        self.absent = {}
        for intent in [i for i in self.ledger.intents if i.id not in before]:
            self._submit(intent.id)

    def _submit(self, identity: str) -> None:
        intent = next(i for i in self.ledger.intents if i.id == identity)
        if isinstance(intent.action, RunCommand):
            self.absent[identity] = "there are no agents here"
            return
        jobs = {i.id: i.job for i in self.ledger.intents}
        if intent.after is not None and jobs.get(intent.after) is None:
            self.absent[identity] = "the job it follows was not submitted"
            return
        after = jobs[intent.after] if intent.after else None
        try:
            (answer,) = self.cluster.submit([Submission(intent.action, intent.reason, after)])
        except Unavailable:
            return
        match answer:
            case Accepted(job):
                self.disk = self.ledger = with_job(self.ledger, intent, job)
            case NotTaken(why):
                self.absent[identity] = why

    def _cancel(self, observed: Observed) -> None:
        """Cancel what is obsolete, as the engine does before it decides."""
        for intent in self.ledger.intents:
            result = observed.results.get(intent.id)
            if intent.job is None or result is None or result.outcome is not Outcome.RUNNING:
                continue
            if why_canceled(intent, self.ledger, observed, self.now):
                self.cluster.cancel(intent.job)

    def restart(self, *, lost: bool = False) -> None:
        """Start anew: from the ledger on disk, or without one as on another master."""
        loaded = Ledger() if lost else self.disk
        trails, snapshot = self.cluster.trails(), self.cluster.snapshot()
        self.absent, self.heard = {}, {}
        self.disk = self.ledger = recover(loaded, trails, snapshot, self.now)
        self.started = self.now

    def steps(self, count: int, seconds: float = STEP) -> None:
        for _ in range(count):
            self.step(seconds)

    # Look.

    def learn(self) -> None:
        """Let the daily check see every level say ON."""
        self.steps(30, 61)
        assert not self.reasons(), self.reasons()

    def reasons(self) -> list[Reason]:
        return [held.why for held in self.decision.held]

    def details(self, kind: AnyKind) -> dict[str, Detail]:
        return details(self.decision.held, kind)

    def kinds(self) -> set[str]:
        return {held.why.kind.name for held in self.decision.held}

    def stage(self, name: str) -> Stage | None:
        uuid = self.cluster.nodes[name].uuid
        return next((f.stage for f in self.ledger.fencing if f.node == uuid), None)

    def done(self, kind: type[Action]) -> list[Action]:
        """The actions of this kind that became jobs, in order."""
        return [j.action for j in self.cluster.jobs.values() if isinstance(j.action, kind)]

    def powers(self, *commands: PowerCommand) -> list[str]:
        return [
            job.action.node
            for job in self.cluster.jobs.values()
            if isinstance(job.action, Power) and job.action.command in commands
        ]

    def offline(self) -> set[str]:
        return {a.node for a in self.done(SetOffline) if isinstance(a, SetOffline)}

    def failovers(self) -> list[str]:
        return [a.instance for a in self.done(MovePrimary) if isinstance(a, MovePrimary)]


def kill(loop: Loop, node: str = "n3", how: str = "cut") -> None:
    """Have a node die in one of several ways."""
    if how == "off":
        loop.machines.switch_off(node)
    else:
        getattr(loop.machines, how).add(node)


def word(loop: Loop, node: str = "n3") -> str:
    """Say that the plug is pulled; the refusal, or empty."""
    loop.wishes.append(Wish("w1", "root", loop.now, PulledPlug(node)))
    loop.refused.clear()
    loop.step()
    return loop.refused.get("w1", "")
