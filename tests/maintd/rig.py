"""A whole coordinator over a simulated cluster and agents that are told what to say."""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nodeagent.cluster.backend import Accepted, Answer, NotTaken
from nodeagent.errors import NotMaster, Unavailable
from nodeagent.maintd.balancing.headroom_thread import Headrooms
from nodeagent.maintd.balancing.inputs import stock_of
from nodeagent.maintd.balancing.search_thread import Adviser, Measure, nothing_measured
from nodeagent.maintd.engine.conduct import Conduct
from nodeagent.maintd.engine.noded import Noded
from nodeagent.maintd.engine.round import Engine, Round, Services
from nodeagent.maintd.engine.witnesses import Witnesses
from nodeagent.maintd.planning.node_keys import pins_of
from nodeagent.maintd.planning.outcomes import BACK_OFF
from nodeagent.maintd.queue.inventory import Inventory, InventorySettings
from nodeagent.model.action import Retag, RunCommand, Scope
from nodeagent.model.asked import Asked
from nodeagent.model.balance import Question
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import USED_TAG, Intent, Ledger, Outcome, Policy, Result
from nodeagent.model.purpose import OfEntry, OfNotices, OfOwners
from nodeagent.model.roll import REBOOT
from nodeagent.model.snapshot import Instance, Node, Snapshot
from nodeagent.model.stage import FULL, OBSERVE
from nodeagent.model.units import Ms
from nodeagent.model.wish import Wish
from nodeagent.placement.cluster.cluster import Known
from nodeagent.protocol.commands import Command, LastRun, write_commands, write_runs
from nodeagent.protocol.look import Distrusted, Look, Seen, Silent
from nodeagent.protocol.messages import Report, fingerprint
from nodeagent.protocol.node_key import Pins
from nodeagent.store.sqlite import MEMORY, SqliteStore
from tests.build import fleet as fleet
from tests.build import mirrored as mirrored
from tests.cluster.by_hand import ByHand
from tests.maintd import inline
from tests.maintd.world import NOW, OK

_TOLD = (OfEntry, OfNotices, OfOwners)  # orders whose result is told
QUICK = Policy(
    stage=FULL,
    settle=Ms(0),
    cooldown=Ms(0),
    attempts=1000,
    nodes_in_work=10,
    group_in_work=10,
    storm=1.0,
    burst=10**6,
)


@dataclass
class Agents:
    """What every agent says; an order is carried out once ever, whoever asks how often."""

    now: Callable[[], Ms]
    says: dict[str, Diagnosis | None] = field(default_factory=dict)  # None: silent
    masters: dict[str, str] = field(default_factory=dict)
    takes: int = 1000  # ms a command runs
    ends: Callable[[Intent], Outcome] = lambda _: Outcome.SUCCESS
    refuses: Callable[[Intent], bool] = lambda _: False
    loses: Callable[[Intent], bool] = lambda _: False
    forgets: bool = False
    ran: dict[str, tuple[int, Outcome, Intent]] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)  # how often each order has come
    master: str = "n1"
    keys: dict[str, str] = field(default_factory=dict)  # public node keys; most tests do without
    ahead: dict[str, Ms] = field(default_factory=dict)  # of the master's clock
    refusing: dict[str, str] = field(default_factory=dict)  # why they would refuse each order
    # For the repair queue: how a command ends, and what it says.
    tells: Callable[[Intent], Result] = lambda _: Result(Outcome.SUCCESS, code=0, said="true")
    told: dict[str, Result] = field(default_factory=dict)
    # What their reports say that they run beside each other, and what they really do; by that they
    # refuse what comes while something runs. None: they refuse nothing.
    checks: tuple[str, ...] = ()
    taken: int = 64
    lists: tuple[str, ...] | None = None
    refused: int = 0
    # For rolls: what needs no diagnosis, how long (ms) a machine is silent when it reboots, which
    # machines never come back, and which do not reboot at all, each since when.
    runs: tuple[str, ...] = (REBOOT, "upgrade-packages")
    down: int = 60_000
    hangs: set[str] = field(default_factory=set)
    stays_up: dict[str, int] = field(default_factory=dict)
    # Their commands with the last runs; none: an agent that has just begun.
    commands: dict[str, Sequence[tuple[Command, LastRun]]] = field(default_factory=dict)

    @property
    def orders(self) -> list[RunCommand]:
        """The commands that they ran, in order."""
        actions = (intent.action for _, _, intent in self.ran.values())
        return [action for action in actions if isinstance(action, RunCommand)]

    async def look(self, snapshot: Snapshot) -> Mapping[str, Look]:
        """As `poll`: nodes that are not offline."""
        pins = pins_of(snapshot)
        return {
            name: self._look(node, snapshot, pins)
            for name, node in snapshot.nodes.items()
            if not node.offline
        }

    def _reboots(self, name: str) -> list[int]:
        """When (unix ms) the machine has gone down to start anew."""
        until = min(self.now(), self.stays_up.get(name, self.now()))
        return [
            at + self.takes
            for at, end, intent in self.ran.values()
            if isinstance(action := intent.action, RunCommand)
            and (action.node, action.command) == (name, REBOOT)
            and end is Outcome.SUCCESS
            and at + self.takes <= until
        ]

    def boot(self, name: str) -> str:
        """Which start of its machine it is."""
        return f"boot {len(self._reboots(name))} of {name}"

    def is_silent(self, name: str) -> bool:
        down = any(name in self.hangs or self.now() < at + self.down for at in self._reboots(name))
        return down or self.says.get(name, OK) is None

    def _look(self, node: Node, snapshot: Snapshot, pins: Pins) -> Look:
        said = self.says.get(node.name, OK)
        if said is None or self.is_silent(node.name):
            return Silent("timed out")
        now = self.now()
        master = self.masters.get(node.name, self.master)
        rows = self.commands.get(node.name)
        report = Report(
            snapshot.cluster,
            node.uuid,
            node.name,
            "epoch",
            1,
            now,
            said.text,
            now,
            now,
            {},
            firm=True,
            master=master,
            tls="",
            software="",
            checks=self.checks,
            checks_taken=self.taken,
            key=self.keys.get(node.name, ""),
            runs=self.runs,
            boot=self.boot(node.name),
            commands=None if rows is None else write_commands([one for one, _ in rows]),
            last_runs=None if rows is None else write_runs([run for _, run in rows]),
            refuses=self.refusing.get(node.name, ""),
        )
        seen = Seen(report, said, self.ahead.get(node.name, Ms(0)))
        why = pins.why_not(node.name, seen.key)
        return Distrusted(why, seen.key) if why else seen

    def _is_busy(self, intent: Intent) -> bool:
        """As `agent.orders` judges."""
        assert isinstance(intent.action, RunCommand)
        if self.lists is None or self.job(intent) in self.ran:
            return False
        now, node = self.now(), intent.action.node
        there = [i.action for at, _, i in self.ran.values() if now < at + self.takes]
        running = [a.command for a in there if isinstance(a, RunCommand) and a.node == node]
        looks = isinstance(intent.purpose, OfEntry) and intent.action.command in self.lists
        alone = any(command not in self.lists for command in running)
        return alone or (len(running) >= self.taken if looks else bool(running))

    def job(self, intent: Intent) -> str:
        assert isinstance(intent.action, RunCommand)
        if not intent.incident:
            return f"order-{intent.reason}"
        return f"order-{intent.incident}-{intent.action.attempt}"

    async def submit(self, intent: Intent, snapshot: Snapshot) -> Answer:
        assert isinstance(intent.action, RunCommand)
        if self.refuses(intent):
            return NotTaken("refused")
        if self.is_silent(intent.action.node):
            raise Unavailable("silent")
        if self._is_busy(intent):
            self.refused += 1
            return NotTaken("busy")
        self.asked[self.job(intent)] = self.asked.get(self.job(intent), 0) + 1
        if self.job(intent) not in self.ran and isinstance(intent.purpose, _TOLD):
            self.told[self.job(intent)] = self.tells(intent)
        self.ran.setdefault(self.job(intent), (self.now(), self.ends(intent), intent))
        if self.loses(intent):
            raise Unavailable("the answer was lost")
        return Accepted(self.job(intent))

    async def outcome(self, job: str, node: Node) -> Result:
        if self.is_silent(node.name):
            raise Unavailable("silent")
        if job not in self.ran or self.forgets:
            return Result(Outcome.LOST)
        shown = fingerprint(self.keys.get(node.name, ""))
        if why := Pins.of({node.name: node.tags}).why_not(node.name, shown):
            raise Unavailable(why)
        began, end, _ = self.ran[job]
        if job in self.told and self.now() >= began + self.takes:
            return self.told[job]
        return Result(end if self.now() >= began + self.takes else Outcome.RUNNING)


@dataclass
class Between:
    """What passes everything on to a cluster; what a test is about overrides a part of it."""

    cluster: ByHand

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cluster, name)


def elsewhere(work: Callable[[], None]) -> None:
    """Done at once, but by another thread: what is done has an event loop of its own."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


class Rig:
    """Time moves only by `tick`; `crash` forgets everything but what is on disk.

    `skew` is by how many seconds somebody has set our clock wrong. With a `path` the ledger is
    a file there; `lose_ledger` removes it and Ganeti's rule. `through` stands between us and the
    cluster. A `policy` that names no stage is at `full`: a rig is there to see what maintd does.
    """

    def __init__(
        self,
        nodes: list[Node],
        instances: list[Instance] | None = None,
        policy: Policy = QUICK,
        *,
        me: str = "n1",
        path: str = MEMORY,
        through: Callable[[ByHand], Any] = lambda cluster: cluster,
    ) -> None:
        self.time = NOW / 1000
        self.skew = 0.0
        self.boot = "this"  # which start of the machine it is, and when it was
        self.booted = 0.0
        self.oldest = 10**9
        self.me = me
        self.policy = replace(policy, stage=FULL) if policy.stage == OBSERVE else policy
        self.path = path
        self.cluster = ByHand.of(lambda: self.time, nodes, instances or [], master=nodes[0].name)
        self.agents = Agents(self.now)
        self.measure: Measure = nothing_measured
        self.asks = InventorySettings()
        self._through = through
        self.store = SqliteStore(path)
        self.headrooms = Headrooms(lambda work: work(), lambda: self.time, lambda _: None)
        self.engine = self._engine()
        self.wishes = 0

    def now(self) -> Ms:
        return Ms(round((self.time + self.skew) * 1000))

    def _engine(self) -> Engine:
        cluster = self._through(self.cluster)

        def steady() -> float:
            return self.time

        def at_once(work: Callable[[], None]) -> None:
            work()

        services = replace(
            Services.alone(cluster, self.now, steady),
            adviser=Adviser(self.stock, self.measure, at_once, steady),
            inventory=Inventory(self.asks, self.now, steady, elsewhere),
            noded=Noded(cluster, steady, at_once),
            witnesses=self._asked(),
            headrooms=self.headrooms,
        )
        conduct = Conduct(
            self.me,
            self._check_master,
            oldest=self.oldest,
            clock=lambda: self.time - self.booted,
            boot=self.boot,
        )
        return Engine(
            self.store,
            cluster,
            self.agents,
            self.look,
            self.policy,
            self.now,
            conduct,
            services,
            steady,
        )

    async def look(self, snapshot: Snapshot) -> Mapping[str, Look]:
        return await self.agents.look(snapshot)

    def _asked(self) -> Witnesses:
        """Who asks other nodes about one that does not answer; nobody, for most tests."""
        return Witnesses(None, self.now, lambda: self.time)

    def stock(self, snapshot: Snapshot, questions: Sequence[Question]) -> Known:
        """What the nodes have."""
        return stock_of(self._through(self.cluster), snapshot, {q.group for q in questions})

    def _check_master(self) -> None:
        if (master := self.cluster.master()) != self.me:
            raise NotMaster(f"the master is {master}")

    def crash(self) -> None:
        self.engine = self._engine()

    def lose_ledger(self) -> None:
        self.store.close()
        if self.path != MEMORY:
            for log in ("", "-wal", "-shm"):
                Path(self.path + log).unlink(missing_ok=True)
        self.store = SqliteStore(self.path)
        self.cluster.remove_ledger_rule()
        self.crash()

    def round(self) -> Round:
        return inline.run(self.engine.one_round())

    def tick(self, seconds: float = 10.0) -> Round:
        """Let time pass, and hold a round."""
        self.time += seconds
        return self.round()

    def tick_quietly(self, seconds: float = 10.0) -> None:
        """A round that may not be held."""
        with suppress(Unavailable):
            self.tick(seconds)

    def settle(self, rounds: int = 120, seconds: float = 10.0) -> Round:
        """Hold rounds until nothing changes any more."""
        done, calm = self.tick(seconds), 0
        for _ in range(rounds):
            before, done = done, self.tick(seconds)
            same = before.decision.ledger.intents == done.decision.ledger.intents == ()
            same = same and _shape(before.decision.ledger) == _shape(done.decision.ledger)
            calm = calm + 1 if same else 0
            if calm * seconds > 2 * BACK_OFF / 1000:
                return done
        raise AssertionError(f"never settles: {done.decision}")

    def wish(self, asked: Asked, who: str = "root") -> str:
        self.wishes += 1
        identity = f"w{self.wishes}"
        self.store.wish(Wish(identity, who, self.now(), asked))
        return identity

    @property
    def ledger(self) -> Ledger:
        return self.engine.ledger or self.store.load()

    def incident(self, node: str) -> Incident:
        """The newest incident of the node."""
        return [i for i in self.ledger.incidents if i.name == node][-1]

    def status(self, node: str) -> Status:
        return self.incident(node).status

    def jobs(self) -> list[str]:
        """What Ganeti was asked to do, in order; an incident's id is not one of it.

        But for the tag that tells of a repair queue.
        """
        ours = [job.action for job in self.cluster.jobs.values() if job.ours]
        return [ID.sub("<id>", str(action)) for action in ours if action != TRACE]


def ask(rig: Rig, asked: Asked) -> str:
    """Make a request, and hold a round; why it is refused, or nothing."""
    identity = rig.wish(asked)
    rig.tick()
    return rig.store.answer(identity) or ""


TRACE = Retag(Scope.CLUSTER, "", add=(USED_TAG,))
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _shape(ledger: Ledger) -> list[tuple[str, Status]]:
    return [(i.id, i.status) for i in ledger.incidents]
