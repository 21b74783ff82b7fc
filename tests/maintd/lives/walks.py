"""Random walks of `decide` alone: any result, role, report and request, in any order.

A life holds whole rounds over a cluster that behaves like Ganeti. A walk is held to no promise but
those of `decide` itself, and that no work begins at a paused node. So it sees what no life comes
by, such as a job that fails when its work is done.
"""

from dataclasses import replace
from random import Random

from nodeagent.cluster.ganeti.decode import misfit
from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.ledger.history import tell
from nodeagent.maintd.planning.holds import paused
from nodeagent.model.action import (
    Drain,
    MovePrimary,
    MoveSecondary,
    Power,
    Restore,
    RunCommand,
    Scope,
    SetOffline,
)
from nodeagent.model.asked import Asked
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.ledger import Decision, Intent, Ledger, Outcome, Policy, Result, RoleChange
from nodeagent.model.outage import Way
from nodeagent.model.roll import REBOOT, Terms
from nodeagent.model.snapshot import Group, Observed, Snapshot
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import (
    AddEntry,
    BringUp,
    Cancel,
    CancelRoll,
    DeleteEntries,
    Done,
    Evacuate,
    Pause,
    PauseRoll,
    Resume,
    ResumeRoll,
    RetryNode,
    SetSchedule,
    SkipNode,
    StartRoll,
    TakeDown,
    Wish,
)
from simulation.world import World
from tests.build import fleet, mirrored
from tests.maintd.lives.coordinator import BAD, EVERY, STEPS
from tests.maintd.lives.strangers import CHECK, ROLES, TAGS
from tests.maintd.queue import mender
from tests.maintd.rig import QUICK
from tests.maintd.world import NOW, OK

PLACES = (("n2", "n3"), ("n2", "n4"), ("n3", "n5"), ("n4", "n2"), ("n6", "n7"))
COMMANDS = (REBOOT, "upgrade-packages", CHECK)
HEALED = Result(Outcome.SUCCESS, "exit code 0", 0, "true")
BROKEN = Result(Outcome.SUCCESS, "exit code 0", 0, "false")
FAILED = Result(Outcome.ERROR, "exit code 1", 1)
LATER = Result(Outcome.LATER, "not now", 75)
RUNNING, LOST = Result(Outcome.RUNNING), Result(Outcome.LOST)
OF_A_COMMAND = (HEALED, HEALED, HEALED, BROKEN, FAILED, LATER, RUNNING, RUNNING, LOST)
ROLE = (Drain, SetOffline, Restore)
WORK = (*ROLE, MovePrimary, MoveSecondary, RunCommand)
MINUTE = 60_000


class Walk:
    """One walk, round by round. Equal seeds walk alike."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        nodes = {node.name: node for node in fleet(len(EVERY))}
        places = self.random.sample(PLACES, self.random.randint(0, len(PLACES)))
        instances = {instance.name: instance for instance in mirrored(*places)}
        groups = {"default": Group("default", "default")}
        self.world = World("c", nodes, instances, groups, master="n1", candidates=1)
        self.policy = self._settings()
        self.ledger, self.now = Ledger(), Ms(NOW)
        self.last: Decision | None = None
        self.says: dict[str, Diagnosis | None] = {}
        self.fates: dict[str, Result] = {}
        self.roles: list[RoleChange] = []
        self.starts: dict[str, int] = {}
        self.jobs = self.wishes = 0

    def _settings(self) -> Policy:
        one_of = self.random.choice
        return replace(
            QUICK,
            procedures=mender.policy(*STEPS, success=one_of(("", "tell"))).procedures,
            return_after=Ms(one_of((0, MINUTE))),
            return_check=one_of(("", CHECK)),
            withdraw=Ms(one_of((0, MINUTE))),
            offline=one_of((True, False)),
            degraded=one_of((True, False)),
            spare=one_of((True, False)),
            storm=one_of((0.3, 1.0, 1.0)),
            nodes_in_work=one_of((1, 10)),
        )

    def round(self) -> None:
        """Hold a round; AssertionError or another error would stop maintd."""
        self.now = Ms(self.now + self.random.choice((1000, 10_000, MINUTE, 400_000)))
        for change in self.random.choices((self._role, self._tag, self._instance, self._says), k=2):
            change()
        results, absent = self._results()
        snapshot = self.world.snapshot()
        assert not misfit(snapshot)
        observed = self._observed(snapshot, results, absent)
        before = self.ledger
        decision = decide(before, observed, self.policy, self.now)
        tell(before, decision.ledger, decision, self.last, self.now, observed)
        self.ledger, self.last = decision.ledger, decision
        self._check(before, snapshot)

    def _observed(
        self, snapshot: Snapshot, results: dict[str, Result], absent: dict[str, str]
    ) -> Observed:
        online = [name for name, node in snapshot.nodes.items() if not node.offline]
        said = {name: self.says.get(name, OK) for name in online}
        answers = {name: diagnosis for name, diagnosis in said.items() if diagnosis is not None}
        silent = {name: "timed out" for name in online if name not in answers}
        offline = frozenset(snapshot.nodes.keys() - set(online))
        return Observed(
            snapshot,
            answers,
            silent,
            results,
            absent,
            capacity=self.world.free(answers.keys()),
            wishes=tuple(self._wish() for _ in range(self.random.randint(0, 2))),
            roles=self.random.choice((None, tuple(self.roles), tuple(self.roles))),
            unanswered=frozenset(silent),
            answering=self.random.choice((offline, frozenset())),
            boots={name: str(self.starts.get(name, 0)) for name in (*answers, *offline)},
            runs=dict.fromkeys(answers, COMMANDS),
        )

    def _check(self, before: Ledger, snapshot: Snapshot) -> None:
        """See that no work begins at a paused node, unless a person wants it undrained."""
        known = {intent.id for intent in before.intents}
        pauses = paused(self.ledger, snapshot)
        undrained = {
            outage.node
            for outage in self.ledger.outages
            if outage.back is not None and outage.back.way is Way.UNDRAINED
        }
        for intent in self.ledger.intents:
            if intent.id in known or not isinstance(intent.action, WORK) or not intent.node:
                continue
            if snapshot.nodes[intent.node].uuid not in undrained:
                assert intent.node not in pauses, f"{intent}: {pauses[intent.node]}"

    # What jobs and orders come to.

    def _results(self) -> tuple[dict[str, Result], dict[str, str]]:
        results, absent, intents = dict[str, Result](), dict[str, str](), list[Intent]()
        for intent in self.ledger.intents:
            if intent.job is None and self.random.random() < 0.1:
                absent[intent.id] = "it was not submitted"
            elif intent.job is None:
                self.jobs += 1
                intent = replace(intent, job=str(self.jobs))
            else:
                fate = self.fates.get(intent.id, RUNNING)
                if fate in (RUNNING, LOST):
                    fate = self._fate(intent)
                self.fates[intent.id] = results[intent.id] = fate
            intents.append(intent)
        self.ledger = replace(self.ledger, intents=tuple(intents))
        return results, absent

    def _fate(self, intent: Intent) -> Result:
        """How it ends; also in failure a job may have done its work, or a command its reboot."""
        action, ends = intent.action, self.random.random()
        if isinstance(action, RunCommand):
            if action.command == REBOOT:
                self.starts[action.node] = self.starts.get(action.node, 0) + (ends < 0.8)
            return self.random.choice(OF_A_COMMAND)
        if isinstance(action, Power) or ends < 0.1:
            return self.random.choice((FAILED, LATER, LOST))
        if ends < 0.3:
            return RUNNING
        refused = self.world.apply(action)
        if isinstance(action, ROLE):
            changed = RoleChange(intent.job or "", action.node, ours=True, changed=not refused)
            self.roles.append(changed)
        failed = bool(refused) or ends < 0.4
        return replace(FAILED, why=refused or "it failed late") if failed else HEALED

    # What others do.

    def _node(self) -> str:
        """A node, mostly one that somebody wants out of service."""
        names = {node.uuid: name for name, node in self.world.nodes.items()}
        out = [names[outage.node] for outage in self.ledger.outages]
        return self.random.choice(out if out and self.random.random() < 0.7 else EVERY)

    def _role(self) -> None:
        name = self._node()
        if name != self.world.master:
            drained, offline = self.random.choice(tuple(ROLES.values()))
            node = self.world.nodes[name]
            candidate = node.candidate and not (drained or offline)
            self.world.put(replace(node, drained=drained, offline=offline, candidate=candidate))
            self.jobs += 1
            self.roles.append(RoleChange(str(self.jobs), name, ours=False, changed=True))

    def _tag(self) -> None:
        node = self.world.nodes[self._node()]
        gone = self.random.choice((node.tags, frozenset[str]()))
        tags = node.tags - gone or {self.random.choice(TAGS)}
        self.world.put(replace(node, tags=frozenset(tags)))

    def _instance(self) -> None:
        if self.world.instances:
            instance = self.random.choice(list(self.world.instances.values()))
            primary, secondary = self.random.sample(EVERY, 2)
            self.world.put(replace(instance, primary=primary, secondary=secondary))

    def _says(self) -> None:
        self.says[self._node()] = self.random.choice((OK, OK, OK, None, *BAD))

    # What people ask for.

    def _wish(self) -> Wish:
        self.wishes += 1
        who = self.random.choice(("root", "ann"))
        return Wish(f"w{self.wishes}", who, self.now, self._asked())

    def _asked(self) -> Asked:
        name, incidents = self._node(), [incident.id for incident in self.ledger.incidents]
        identity, machines = self.random.choice(incidents or ["none"]), (Machine(name),)
        yes = self.random.random() < 0.5
        asked: tuple[Asked, ...] = (
            Evacuate(name, "to look at it", offline=yes),
            Done(name, force=yes),
            Cancel(identity, undrain=yes),
            Pause(Scope.NODE, name, "later"),
            Pause(Scope.CLUSTER, "", "later"),
            Resume(Scope.NODE, name),
            Resume(Scope.CLUSTER, ""),
            self._roll(),
            PauseRoll(),
            ResumeRoll(),
            CancelRoll(),
            SkipNode(name),
            RetryNode(name),
            self._windows(),
            TakeDown(machines),
            BringUp(machines),
            AddEntry("unreachable", "r640", self.world.nodes[name].address),
            DeleteEntries(finished=yes),
        )
        return self.random.choice(asked)

    def _roll(self) -> StartRoll:
        command, offline = self.random.choice(COMMANDS[:2]), self.random.random() < 0.3
        terms = Terms(
            command,
            at_once=self.random.randint(1, 3),
            quiet=Ms(0),
            reboots=command == REBOOT,
            offline=offline,
            keep_secondaries=not offline and self.random.random() < 0.3,
        )
        return StartRoll(terms, ("*",))

    def _windows(self) -> SetSchedule:
        start = Nanoseconds((self.now + self.random.choice((-MINUTE, 0, 10 * MINUTE))) * 10**6)
        when = Unavailability(start, Nanoseconds(10 * MINUTE * 10**6))
        kept = self.ledger.schedule.windows[: self.random.randint(0, 2)]
        return SetSchedule(Schedule((*kept, Window((Machine(self._node()),), when))))
