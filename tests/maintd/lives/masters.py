"""One cluster of six, on which maintd runs on one node after another, each with its own disk."""

from collections.abc import Iterable

from nodeagent.maintd.ledger.clock import timeless
from nodeagent.model.event import Event
from nodeagent.model.keeping import Trouble
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.snapshot import Instance, Snapshot
from nodeagent.store.carried import unpack
from nodeagent.store.sqlite import MEMORY, SqliteStore
from tests.maintd.queue.mender import WATCHES, Mender, policy

M, B = "n1", "n2"  # masters in turn
REPAIRS = policy(WATCHES)


class Masters(Mender):
    """One cluster, and a maintd with its own disk on each node that becomes the master."""

    def __init__(self, policy: Policy = REPAIRS, instances: Iterable[Instance] = ()) -> None:
        super().__init__(policy, instances=list(instances) or None)
        self.begin()

    def begin(self) -> None:
        """Give each node a disk, and start maintd on the master; no command heals a machine."""
        self.heals, self.healed, self.fates = "nothing", False, {}
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
