"""The repair queue: entries for reported machines, and their procedures. Pure.

Words and figures are CKE's, so that its operators' procedures can be carried over.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from nodeagent.model.address import one_form
from nodeagent.model.diagnosis import Need
from nodeagent.model.purpose import OfEntry
from nodeagent.model.units import Seconds

_LATER = {"later": True}  # a ledger from before has the default


class EntryStatus(Enum):
    """How far the handling of an entry has come."""

    QUEUED = "queued"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def finished(self) -> bool:
        """Whether nothing more is repaired for it."""
        return self is EntryStatus.SUCCEEDED or self is EntryStatus.FAILED


class StepStatus(Enum):
    """The state of an entry's current step."""

    WAITING = "waiting"
    DRAINING = "draining"
    WATCHING = "watching"


@dataclass(frozen=True, slots=True)
class Entry:
    """One machine to be repaired. Times are unix milliseconds.

    `index` is never given twice, `address` the machine's, `changed_at` when status or step last
    changed. `step` counts from 0. `backoffs` is how often in a row its node could not be emptied,
    `backoff_until` when that may next be tried. `attempt` is how often the step's command has
    failed, `not_before` when it may run again. `checked_at` is when the newest health check that
    has answered was ordered, `healthy` what it found. `drained`: we drained its node. `ending`: it
    was found healthy, and its success command has not ended yet. `why` says how it has ended.
    `domain` and `priority` are as its source has them, `begun_at` is when its repair began.
    `asked_at` is when the newest health check that is over was ordered, whether it has answered or
    not, `restore_after` when its node may next be put back, `tries` how often in a row a command
    for it was certainly not run, `unanswered` why the newest health check that is over has not
    answered, empty if it has, `unanswered_since` when the first of those in a row was ordered.
    """

    index: int
    address: str
    machine_type: str
    operation: str
    serial: str = ""
    who: str = ""
    queued_at: int = 0
    status: EntryStatus = EntryStatus.QUEUED
    step: int = 0
    step_status: StepStatus = StepStatus.WAITING
    deleted: bool = False
    changed_at: int = 0
    backoffs: int = 0
    backoff_until: int = 0
    attempt: int = 0
    not_before: int = 0
    checked_at: int = 0
    healthy: bool = False
    drained: bool = False
    ending: bool = False
    why: str = ""
    domain: str = field(default="", metadata=_LATER)
    priority: int = field(default=0, metadata=_LATER)
    begun_at: int = field(default=0, metadata=_LATER)
    asked_at: int = field(default=0, metadata=_LATER)
    restore_after: int = field(default=0, metadata=_LATER)
    tries: int = field(default=0, metadata=_LATER)
    unanswered: str = field(default="", metadata=_LATER)
    unanswered_since: int = field(default=0, metadata=_LATER)

    @property
    def owner(self) -> str:
        """For whom its node is claimed, and its jobs' reason."""
        return OfEntry(self.index, "").owner

    @property
    def processing(self) -> bool:
        """Whether it was begun and is not over."""
        return self.status is EntryStatus.PROCESSING

    @property
    def at_rest(self) -> bool:
        """Whether it is only remembered: it is over, and nothing is to be put in order."""
        return self.status.finished and not (self.deleted or self.drained)

    @property
    def at_work(self) -> bool:
        """Whether its machine is nobody else's; between two steps it may be."""
        return self.processing and self.step_status is not StepStatus.WAITING and not self.ending


@dataclass(frozen=True, slots=True)
class Attempt:
    """A machine's repair, of the entry of this index, was over at `at` (unix ms)."""

    index: int
    address: str
    serial: str
    at: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """For one reason, of few, so many machines are not repaired, since when (unix ms); and why."""

    reason: str
    machines: int
    since: int
    why: str


@dataclass(frozen=True, slots=True)
class FailedDomain:
    """A failure domain of which these sources have reported so many machines broken at once."""

    domain: str
    sources: tuple[str, ...]
    machines: int


@dataclass(frozen=True, slots=True)
class Queue:
    """All entries, in order of their indices; `next` is the index of the one to come.

    `enabled` is whether they are worked off, `auto_repair` whether what sources report becomes
    entries. `variables` are what sabakan is asked, as the JSON text that somebody has set; empty
    for the default. `overrides` are the constraints that were set, by name. `attempts` are the
    repairs that count, `refusals` why what is reported is no entry. `failed` are the failure
    domains of which nothing is repaired.
    """

    entries: tuple[Entry, ...] = ()
    next: int = 0
    enabled: bool = True
    auto_repair: bool = field(default=True, metadata=_LATER)
    variables: str = field(default="", metadata=_LATER)
    overrides: Mapping[str, int] = field(default_factory=dict, metadata=_LATER)
    attempts: tuple[Attempt, ...] = field(default=(), metadata=_LATER)
    refusals: tuple[Refusal, ...] = field(default=(), metadata=_LATER)
    failed: tuple[FailedDomain, ...] = field(default=(), metadata=_LATER)

    def entry(self, index: int) -> Entry | None:
        place = self._place(index)
        return None if place is None else self.entries[place]

    def add(self, entry: Entry) -> "Queue":
        """The queue with one more entry; it is given its index here."""
        entry = replace(entry, index=self.next)
        return replace(self, entries=(*self.entries, entry), next=self.next + 1)

    def put(self, changed: Entry) -> "Queue":
        return self._with(changed.index, changed)

    def drop(self, index: int) -> "Queue":
        return self._with(index)

    def in_one_form(self) -> "Queue":
        """The queue with addresses as nodes' are read; older ledgers have them as spelt then."""
        return replace(
            self, entries=tuple(replace(e, address=one_form(e.address)) for e in self.entries)
        )

    def _place(self, index: int) -> int | None:
        place = bisect_left(self.entries, index, key=lambda entry: entry.index)
        there = place < len(self.entries) and self.entries[place].index == index
        return place if there else None

    def _with(self, index: int, *changed: Entry) -> "Queue":
        place = self._place(index)
        if place is None:
            return self
        around = self.entries[:place], self.entries[place + 1 :]
        return replace(self, entries=(*around[0], *changed, *around[1]))


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One thing to try, and for how long it is then watched whether it has helped; seconds."""

    repair_command: str
    command_timeout_seconds: Seconds = Seconds(30)
    command_retries: int = 0
    command_interval: Seconds = Seconds(0)
    need_drain: bool = False
    watch_seconds: Seconds = Seconds(0)


@dataclass(frozen=True, slots=True)
class Operation:
    """The repair of one kind of fault, step by step until the machine is healthy."""

    operation: str
    repair_steps: tuple[RepairStep, ...]
    health_check_command: str
    command_timeout_seconds: Seconds = Seconds(30)
    success_command: str = ""
    success_command_timeout: Seconds = Seconds(30)


@dataclass(frozen=True, slots=True)
class Procedure:
    """The operations for machines of some types."""

    machine_types: tuple[str, ...]
    repair_operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Referral:
    """Incidents that are left to the repair queue, and as what.

    Those of one of `needs` and, unless these are empty, with one of `commands`, on a node of one of
    the node `groups` (by name).
    """

    machine_type: str
    operation: str
    needs: tuple[Need, ...]
    commands: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Procedures:
    """How the queue is to be worked off; seconds.

    `eviction_timeout_seconds` is how long emptying a node may take. The n-th time in a row that it
    could not be done it is left alone for `back_off_seconds`, doubled each time, up to
    `most_back_off_seconds`. The first of `incidents` that fits one is what it is left to the queue
    as.
    """

    repair_procedures: tuple[Procedure, ...] = ()
    max_concurrent_repairs: int = 1
    eviction_timeout_seconds: Seconds = Seconds(14_400)
    back_off_seconds: Seconds = Seconds(300)
    most_back_off_seconds: Seconds = Seconds(3_600)
    incidents: tuple[Referral, ...] = field(default=(), metadata=_LATER)

    @property
    def longest_interval(self) -> int:
        """The most seconds that any step waits before its command is tried again."""
        operations = (o for one in self.repair_procedures for o in one.repair_operations)
        return max((s.command_interval for o in operations for s in o.repair_steps), default=0)

    def look_up(self, machine_type: str, operation: str) -> Operation | str:
        """The operation of the procedure for this type, or why there is none."""
        for procedure in self.repair_procedures:
            if machine_type in procedure.machine_types:
                found = (o for o in procedure.repair_operations if o.operation == operation)
                missing = (
                    f"no operation {operation!r} is configured for machines of {machine_type!r}"
                )
                return next(found, None) or missing
        return f"no repair procedure is configured for machines of {machine_type!r}"

    def refusal(self, machine_type: str, operation: str) -> str:
        """Why there is nothing for this type and operation, and what there is; "" if there is."""
        found = self.look_up(machine_type, operation)
        if isinstance(found, Operation):
            return ""
        procedures = self.repair_procedures
        theirs = [one for one in procedures if machine_type in one.machine_types]
        there = [o.operation for one in theirs for o in one.repair_operations]
        there = there or [name for one in procedures for name in one.machine_types]
        return f"{found}; there may be: {', '.join(there)}" if there else found
