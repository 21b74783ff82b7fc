"""Deciding through a year, a round each minute.

A round is what maintd's is: what was ordered has answered, `decide` decides, and what it has
promised is done. Where nothing is queued and nothing under way the guards are asked alone; and as
long as they let nothing begin, the next round is that in which something happens in the world or
one of their limits in time passes. That this decides the same is tested, not only argued.
"""

from collections.abc import Iterator
from dataclasses import replace

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.queue.guards import admit
from nodeagent.model.action import RunCommand
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.ledger import USED_TAG, Intent, Ledger, Policy, Result
from nodeagent.model.queue import EntryStatus
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Beside, Node, Observed, Snapshot
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import (
    NANOSECONDS,
    Machine,
    Mode,
    Schedule,
    Scheduled,
    Unavailability,
    Window,
)
from tests.build import situation
from tests.year import world as worlds
from tests.year.world import World, ms

MASTER = Node("master", "uuid-master", "10.255.0.1", candidate=True)
SNAPSHOT = Snapshot("year", {MASTER.name: MASTER}, master=MASTER.name, tags=frozenset({USED_TAG}))
BESIDE = {MASTER.name: Beside((worlds.CHECK,), 64)}  # as an agent has it that lists its check
WELL = {MASTER.name: Diagnosis(Need.OK, None, '{"status":"Ok"}')}


class Rounds:
    """A coordinator, and the year it goes through; with `every` it leaves out no round.

    `planned`: it is told of maintenance windows, whose machines are nodes of the cluster then.
    """

    def __init__(
        self, world: World, policy: Policy, *, planned: bool = True, every: bool = False
    ) -> None:
        self.world = world
        self.policy = policy
        self.planned = planned
        self.every = every
        self.ledger = Ledger()
        self.rounds = 0
        self._snapshot = SNAPSHOT
        self._worked: dict[int, int] = {}
        self._results: dict[str, Result] = {}
        self._live = set[int]()
        self._seen = 0

    def run(self) -> None:
        """The whole year."""
        minute, end = 0, self.world.year.fleet.minutes
        while minute < end:
            self.world.advance(minute)
            self._plan()
            following = minute + 1
            if not self._round(minute):
                following = max(following, min([self.world.next, *self._limits(minute)]))
            minute = following

    def _plan(self) -> None:
        """Operators have taken these machines down, and take the others up."""
        worked = self.world.worked if self.planned else {}
        if worked == self._worked:
            return
        self._worked = dict(worked)
        nodes, windows, scheduled = {MASTER.name: MASTER}, list[Window](), list[Scheduled]()
        for number, at in worked.items():
            name, uuid = f"m{number}", f"uuid-m{number}"
            machine = Machine(name)
            nodes[name] = Node(name, uuid, self.world.boxes[number].address, offline=True)
            when = Unavailability(Nanoseconds(ms(at) * NANOSECONDS))
            windows.append(Window((machine,), when))
            scheduled.append(
                Scheduled(machine, when, Mode.DOWN, Ms(ms(at)), uuid, begun=True, drained=True)
            )
        self._snapshot = replace(SNAPSHOT, nodes=nodes)
        self.ledger = replace(
            self.ledger, schedule=Schedule(tuple(windows)), scheduled=tuple(scheduled)
        )

    def _round(self, minute: int) -> bool:
        """One round; whether anything is queued or under way."""
        sick = self.world.source()
        observed = Observed(self._snapshot, WELL, results=self._results, sick=sick, beside=BESIDE)
        self.rounds += 1
        if self._nothing_begins(observed, minute):
            return False
        self.ledger = decide(self.ledger, observed, self.policy, Ms(ms(minute))).ledger
        self._results = {}
        for intent in self.ledger.intents:
            self._do(intent, minute)
        self._call(minute)
        return True

    def _nothing_begins(self, observed: Observed, minute: int) -> bool:
        """Whether nothing is queued nor under way, and the guards let nothing be.

        They are asked alone then: all else that decides has nothing to decide upon.
        """
        if self.every or self._live or self._worked or self.ledger.intents:
            return False
        here = situation(self.ledger, observed, self.policy, Ms(ms(minute)))
        ledger = admit(self.ledger, here, observed.sick).ledger
        old, new = self.ledger.queue, ledger.queue
        if (new.entries, new.attempts) != (old.entries, old.attempts):
            return False
        self.ledger = ledger
        return True

    def _do(self, intent: Intent, minute: int) -> None:
        assert isinstance(intent.action, RunCommand), intent
        index = int(intent.owner.rpartition(":")[2])
        entry = self.ledger.queue.entry(index)
        assert entry is not None, intent
        command = intent.action.command
        self._results[intent.id] = self.world.order(command, entry.address, index, minute)

    def _call(self, minute: int) -> None:
        """Call people to the machines that the queue has failed to mend since the last round."""
        queue = self.ledger.queue
        there = {entry.index: entry for entry in queue.entries}
        for index in [*self._live, *range(self._seen, queue.next)]:
            entry = there.get(index)
            if entry is not None and entry.status is EntryStatus.FAILED:
                self.world.call(entry.address, minute)
        self._live = {entry.index for entry in queue.entries if not entry.status.finished}
        self._seen = queue.next

    def _limits(self, minute: int) -> Iterator[int]:
        """The minutes to come in which one of the guards' limits in time passes."""
        limits, queue = self.policy.constraints, self.ledger.queue
        reports = [one for said in self.world.source().values() if said for one in said]
        passing = set[int]()
        for since in {one.since for one in reports if isinstance(one, Sick)}:
            passing.add(since + limits.wait_seconds_to_repair * 1000)
            passing.add(since + limits.wait_seconds_to_repair_rebooting * 1000)
        for attempt in queue.attempts:
            passing.add(attempt.at + limits.repairs_counted_seconds * 1000)
            passing.add(attempt.at + limits.cool_down_seconds * 1000)
        for entry in queue.entries:
            passing.add(entry.changed_at + limits.finished_entry_ttl_seconds * 1000)
        for instant in passing:
            at = -(-(instant - worlds.START) // 60_000)
            if at > minute:
                yield at
