"""One cluster of six, on which maintd runs on one node after another, each with its own disk."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from nodeagent.maintd.ledger.clock import timeless
from nodeagent.model.action import RunCommand
from nodeagent.model.asked import Asked
from nodeagent.model.event import Event
from nodeagent.model.incident import Status
from nodeagent.model.keeping import Trouble
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy, Result
from nodeagent.model.queue import Operation, Procedure, Procedures, RepairStep
from nodeagent.model.snapshot import Instance, Snapshot
from nodeagent.model.units import Nanoseconds, Seconds
from nodeagent.model.window import Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import AddEntry, SetSchedule
from nodeagent.store.carried import unpack
from nodeagent.store.sqlite import MEMORY, SqliteStore
from tests.maintd.rig import QUICK, Rig, fleet, mirrored

M, B, C = "n1", "n2", "n4"  # masters in turn
HOUR = 3600
PLACES = (("n3", "n4"), ("n3", "n5"), ("n2", "n3"))
NO = Result(Outcome.SUCCESS, code=0, said="false")
YES = Result(Outcome.SUCCESS, code=0, said="true")
TRY = RepairStep("try-1", watch_seconds=Seconds(300))
ADD = AddEntry("unreachable", "r640", "127.0.0.3", "S3")


def procedures(*steps: RepairStep) -> Procedures:
    """How a machine that is unreachable is repaired."""
    operation = Operation("unreachable", steps, "check", Seconds(30))
    return Procedures((Procedure(("r640",), (operation,)),))


class Masters(Rig):
    """One cluster, and a maintd with its own disk on each node that becomes the master."""

    healed = False  # what a machine that is repaired is checked for
    fates: tuple[Result, ...] = ()  # how the next commands of the repair queue end

    def __init__(
        self,
        policy: Policy = replace(QUICK, procedures=procedures(TRY)),
        instances: Iterable[Instance] = (),
    ) -> None:
        super().__init__(fleet(), list(instances) or mirrored(*PLACES), policy)
        self.begin()

    def begin(self) -> None:
        """Give each node a disk, and start maintd on the master."""
        self.agents.tells = self.tell
        self.disks = {name: SqliteStore(MEMORY) for name in self.cluster.nodes}
        self.wake(M)

    def wake(self, name: str) -> None:
        """Start maintd on this node, with its disk as it is."""
        self.me, self.store = name, self.disks[name]
        self.crash()

    def fail_over(
        self, name: str, overwritten: Snapshot | None = None, rule: str | None = None
    ) -> None:
        """Make this node the master, and start maintd there.

        What Ganeti has changed since it was as `overwritten` is lost.
        """
        self.cluster.set_master(name, overwritten, rule)
        self.agents.master = name
        self.wake(name)

    def wakes_up(self, name: str) -> None:
        """Let an old master find itself named by its own files, its luxid and the nodes."""
        self.me = name
        self.cluster.set_master(name)
        self.agents.master = name

    def lose_ledger(self) -> None:
        super().lose_ledger()
        self.disks[self.me] = self.store

    # What is asked of it.

    def tell(self, intent: Intent) -> Result:
        """What a command of the repair queue says."""
        assert isinstance(intent.action, RunCommand)
        if intent.action.command == "check":
            return YES if self.healed else NO
        if self.fates:
            self.fates, fate = self.fates[1:], self.fates[0]
            return fate
        return Result(Outcome.SUCCESS, "exit code 0", 0)

    def request(self, asked: Asked) -> str:
        """Ask for it, and hold a round; the refusal, or empty."""
        identity = self.wish(asked)
        self.tick()
        return self.store.answer(identity) or ""

    def add(self) -> None:
        """Have n3 repaired."""
        assert self.request(ADD) == ""

    def plan(self, *names: str, ahead: float = 0) -> None:
        """Have a window of these nodes, and no other."""
        start = Nanoseconds(round((self.time + ahead) * 1e9))
        when = Unavailability(start, Nanoseconds(HOUR * 10**9))
        window = Window(tuple(map(Machine, names)), when)
        self.request(SetSchedule(Schedule((window,) if names else ())))

    def until_true(self, so: Callable[[], bool], rounds: int = 80) -> None:
        for _ in range(rounds):
            if so():
                return
            self.tick(30)
        raise AssertionError((self.ledger.queue, self.ledger.scheduled, self.ledger.incidents))

    # What has become of it.

    def status(self, node: str) -> Status:
        """Of the newest incident there; none is noted at least."""
        there = [i for i in self.ledger.incidents if i.name == node]
        return there[-1].status if there else Status.NOTED

    def commands(self) -> list[str]:
        """What has run, in order, but for the checks."""
        ran = sorted(self.agents.ran.values(), key=lambda row: row[0])
        names = [i.action.command for _, _, i in ran if isinstance(i.action, RunCommand)]
        return [name for name in names if name != "check"]

    def kinds(self) -> set[object]:
        return {held.why.kind for held in self.tick().decision.held}

    def told(self, kind: str) -> list[Event]:
        return [event for event in self.store.history() if event.kind == kind]

    @property
    def rule(self) -> str:
        """The text in the rule."""
        return self.cluster.ledger_rule() or ""

    @property
    def carried(self) -> Ledger:
        """The ledger in the rule."""
        return unpack(self.rule).ledger

    @property
    def doubtful(self) -> Trouble | None:
        uncertain = self.engine.memory.uncertain
        return uncertain.trouble if uncertain else None

    def is_kept(self) -> bool:
        """Whether what maintd has saved is in Ganeti's configuration, but for what it saw again."""
        there = unpack(self.rule)
        same = timeless(there.ledger) == timeless(self.store.load())
        return same and there.number <= self.store.number
