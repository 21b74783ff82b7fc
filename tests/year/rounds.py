"""Deciding through a year: every round, or only those in which anything can change.

A round is what maintd's is: what was ordered has answered, `decide` decides, and what it has
promised is done. Between the rounds only the clock and the world can change anything. After a
*quiet* round, one in which nothing was done but to ask for the health of every entry, and if every
entry's newest answer is what it would be now and is newer than whatever the clock has brought
about, the rounds to come are alike until something happens in the world, or one of the instants
passes that are remembered or can be reckoned from what is remembered. Of those in between only
when they ask is made up (`_as_if`). Where nothing is queued and nothing under way the guards are
asked alone, as long as they let nothing begin. That this decides the same is tested, not only
argued.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from operator import attrgetter

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.queue.entries import CHECK, entry_json, purpose
from nodeagent.maintd.queue.guards import admit
from nodeagent.model.action import RunCommand
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.ledger import USED_TAG, Intent, Ledger, Policy, Result
from nodeagent.model.purpose import OfEntry
from nodeagent.model.queue import Entry, EntryStatus, Operation, Queue
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
from nodeagent.protocol.canonical import canonical
from tests.year import world as worlds
from tests.year.world import World, ms

MASTER = Node("master", "uuid-master", "10.255.0.1", candidate=True)
SNAPSHOT = Snapshot("year", {MASTER.name: MASTER}, master=MASTER.name, tags=frozenset({USED_TAG}))
BESIDE = {MASTER.name: Beside((worlds.CHECK,), 64)}  # as an agent has it that lists its check
WELL = {MASTER.name: Diagnosis(Need.OK, None, '{"status":"Ok"}')}


_OF_LEDGER = attrgetter(*{f.name for f in fields(Ledger)} - {"round", "intents", "queue"})
_OF_QUEUE = attrgetter(*{f.name for f in fields(Queue)} - {"entries", "refusals"})


class Rounds:
    """A coordinator, and the year it goes through; with `every` it leaves out no round.

    `planned`: it is told of maintenance windows, whose machines are nodes of the cluster then.
    `waited` is for how many minutes, at most, an entry had its machine's health not asked for.
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
        self.waited = 0
        self._snapshot = SNAPSHOT
        self._worked: dict[int, int] = {}
        self._results: dict[str, Result] = {}
        self._live: dict[int, Entry] = {}
        self._seen = 0

    def run(self) -> None:
        """The whole year."""
        minute, end = 0, self.world.year.fleet.minutes
        while minute < end:
            self.world.advance(minute)
            self._plan()
            quiet = self._round(minute)
            following = minute + 1
            if quiet and not self.every and self._settled(minute):
                until = min([self.world.next, *self._instants(minute)])
                if until > following:
                    self.ledger = self._as_if(minute, until - 1)
                    following = until
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
        """One round; whether it was quiet."""
        before = self.ledger
        sick = self.world.source()
        observed = Observed(self._snapshot, WELL, results=self._results, sick=sick, beside=BESIDE)
        self.rounds += 1
        if self._nothing_begins(observed, minute):
            return _rest(before) == _rest(self.ledger)
        decision = decide(before, observed, self.policy, Ms(ms(minute)))
        self.ledger = decision.ledger
        self._results = {}
        for intent in self.ledger.intents:
            self._do(intent, minute)
        checks = all(purpose(intent) == CHECK for intent in self.ledger.intents)
        followed = self._followed(minute)
        # Where there are more entries than checks a round, each has its turn: no round is left out.
        all_asked = len(self.ledger.intents) == len(self._live)
        return followed and checks and all_asked and _rest(before) == _rest(self.ledger)

    def _nothing_begins(self, observed: Observed, minute: int) -> bool:
        """Whether nothing is queued nor under way, and the guards let nothing be.

        They are asked alone then: all else that decides has nothing to decide upon.
        """
        if self.every or self._live or self._worked or self.ledger.intents:
            return False
        ledger = admit(self.ledger, observed, self.policy, Ms(ms(minute))).ledger
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

    def _followed(self, minute: int) -> bool:
        """Take note of what has become of the entries; whether nothing has."""
        queue, quiet = self.ledger.queue, True
        there = {entry.index: entry for entry in queue.entries}
        for index in [*self._live, *range(self._seen, queue.next)]:
            old, new = self._live.get(index), there.get(index)
            if old is new:
                continue
            if old is not None and new is not None and new.checked_at > old.checked_at == 0:
                self.waited = max(self.waited, minute - (new.queued_at - worlds.START) // 60_000)
            if new is None or new.status.finished:
                quiet = False
                self._live.pop(index, None)
                if new is not None and new.status is EntryStatus.FAILED:
                    self.world.call(new.address, minute)
                continue
            quiet &= old is not None and old == replace(
                new, checked_at=old.checked_at, asked_at=old.asked_at
            )
            self._live[index] = new
        self._seen = queue.next
        return quiet

    def _settled(self, minute: int) -> bool:
        """Whether what every entry knows of its machine's health is still so."""
        now = ms(minute)
        for entry in self._live.values():
            since = max(instant for instant in self._of(entry) if instant <= now)
            if self.world.well(entry.address) or entry.checked_at < since:
                return False
        return True

    def _instants(self, minute: int) -> Iterator[int]:
        """The minutes to come in which the clock may change what is decided."""
        for instant in self._of_guards():  # passed when they are reached
            at = -(-(instant - worlds.START) // 60_000)
            if at > minute:
                yield at
        for instant in self._of_entries():  # some of these after that
            before, rest = divmod(instant - worlds.START, 60_000)
            for at in (before + bool(rest), before + 1):
                if at > minute:
                    yield at

    def _of_entries(self) -> Iterator[int]:
        for entry in self._live.values():
            yield from self._of(entry)

    def _of_guards(self) -> Iterator[int]:
        limits, queue = self.policy.constraints, self.ledger.queue
        reports = [one for said in self.world.source().values() if said for one in said]
        for since in {one.since for one in reports if isinstance(one, Sick)}:
            yield since + limits.wait_seconds_to_repair * 1000
            yield since + limits.wait_seconds_to_repair_rebooting * 1000
        for attempt in queue.attempts:
            yield attempt.at + limits.repairs_counted_seconds * 1000
            yield attempt.at + limits.cool_down_seconds * 1000
        for entry in queue.entries:
            yield entry.changed_at + limits.finished_entry_ttl_seconds * 1000

    def _of(self, entry: Entry) -> Iterator[int]:
        """What an entry waits for, or has waited for; unix ms."""
        operation = self.policy.procedures.look_up(entry.machine_type, entry.operation)
        assert isinstance(operation, Operation)
        yield from (entry.queued_at, entry.changed_at, entry.backoff_until, entry.not_before)
        yield entry.changed_at + operation.repair_steps[entry.step].watch_seconds * 1000

    def _as_if(self, minute: int, last: int) -> Ledger:
        """The ledger after rounds until `last` that only ask for the health of all entries."""
        ledger = self.ledger
        if not self._live or last == minute:
            return ledger
        asked, queue, self._results = ledger.intents[0], ledger.queue, {}
        entries = [self._live[index] for index in sorted(self._live)]
        before = ms(last - 1)  # the round before the last has been answered by then
        entries = [replace(entry, checked_at=Ms(before), asked_at=Ms(before)) for entry in entries]
        intents = []
        for number, entry in enumerate(entries, ms(last)):
            self._live[entry.index] = entry
            queue = queue.put(entry)
            assert isinstance(asked.action, RunCommand)
            stdin = canonical(entry_json(entry, self._snapshot))
            intent = replace(
                asked,
                id=str(number),
                action=replace(asked.action, stdin=stdin),
                promised=Ms(ms(last)),
                purpose=OfEntry(entry.index, CHECK),
            )
            intents.append(intent)
        newest = ms(last) + len(intents) - 1
        ledger = replace(ledger, round=newest, queue=queue, intents=tuple(intents))
        for intent in intents:
            self._do(intent, last)
        return ledger


def _rest(ledger: Ledger) -> tuple[object, ...]:
    """All that is remembered but the entries, what they are asked, and why others are none: that
    is told, and nothing is decided by it."""
    return *_OF_LEDGER(ledger), *_OF_QUEUE(ledger.queue), len(ledger.queue.entries)
