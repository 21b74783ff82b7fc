"""The repair queue: entries for reported machines, and their procedures. Pure.

Words and figures are CKE's, so that its operators' procedures can be carried over.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from nodeagent.model.diagnosis import Need
from nodeagent.model.purpose import OfEntry
from nodeagent.model.units import Ms, Seconds


class EntryStatus(Enum):
    """The state of an entry."""

    QUEUED = "queued"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def finished(self) -> bool:
        """Tell whether its repair is over."""
        return self is EntryStatus.SUCCEEDED or self is EntryStatus.FAILED


class StepStatus(Enum):
    """The state of an entry's current step."""

    WAITING = "waiting"
    DRAINING = "draining"
    WATCHING = "watching"


@dataclass(frozen=True, slots=True)
class Entry:
    """One machine to be repaired. Times are unix milliseconds.

    `index` is never used twice; `address` is the machine's. `changed_at` is the last change of
    status or step. `step` counts from 0. `backoffs` counts failed evacuations in a row,
    `backoff_until` is the next permitted try. `attempt` counts how often the step's command has
    failed, `not_before` is when it may run again. `checked_at` is when the newest answered health
    check was ordered, `healthy` its result. `drained`: we drained its node. `ending`: the machine
    is healthy, and its success command has not ended yet. `why` says how the entry ended.

    `domain` and `priority` come from its source; `begun_at` is when its repair started. `asked_at`
    is when the newest finished health check was ordered, answered or not. `tries` counts in a row
    the commands that certainly did not run. `unanswered` says why the newest finished health check
    has no answer, empty if it has one; `unanswered_since` is when the first of those in a row was
    ordered.
    """

    index: int
    address: str
    machine_type: str
    operation: str
    serial: str = ""
    who: str = ""
    queued_at: Ms = Ms(0)
    status: EntryStatus = EntryStatus.QUEUED
    step: int = 0
    step_status: StepStatus = StepStatus.WAITING
    deleted: bool = False
    changed_at: Ms = Ms(0)
    backoffs: int = 0
    backoff_until: Ms = Ms(0)
    attempt: int = 0
    not_before: Ms = Ms(0)
    checked_at: Ms = Ms(0)
    healthy: bool = False
    drained: bool = False
    ending: bool = False
    why: str = ""
    domain: str = ""
    priority: int = 0
    begun_at: Ms = Ms(0)
    asked_at: Ms = Ms(0)
    tries: int = 0
    unanswered: str = ""
    unanswered_since: Ms = Ms(0)

    @property
    def owner(self) -> str:
        """Return the owner of its node's claim, which is its jobs' reason."""
        return OfEntry(self.index, "").owner

    @property
    def processing(self) -> bool:
        """Tell whether it has started and not ended."""
        return self.status is EntryStatus.PROCESSING

    @property
    def at_rest(self) -> bool:
        """Tell whether it is only remembered: it is over, and nothing is left to restore."""
        return self.status.finished and not (self.deleted or self.drained)

    @property
    def at_work(self) -> bool:
        """Tell whether it alone owns its machine, perhaps between two steps."""
        return self.processing and self.step_status is not StepStatus.WAITING and not self.ending


@dataclass(frozen=True, slots=True)
class Attempt:
    """A finished repair of a machine, by the entry of this index, at `at` (unix ms)."""

    index: int
    address: str
    serial: str
    at: Ms


@dataclass(frozen=True, slots=True)
class Refusal:
    """One of a few reasons, the number of machines it stops, and since when (unix ms)."""

    reason: str
    machines: int
    since: Ms
    why: str


@dataclass(frozen=True, slots=True)
class FailedDomain:
    """A failure domain with so many machines that these sources report broken at once."""

    domain: str
    sources: tuple[str, ...]
    machines: int


@dataclass(frozen=True, slots=True)
class Queue:
    """All entries, in order of their indices; `next` is the next entry's index.

    `enabled` switches their processing, `auto_repair` whether reports become entries. `variables`
    is the JSON text of the variables set for sabakan; empty for the default. `overrides` are the
    changed constraints, by name. `attempts` are the repairs that count, `refusals` the reasons why
    reports are no entries. `failed` are the failure domains without repairs.
    """

    entries: tuple[Entry, ...] = ()
    next: int = 0
    enabled: bool = True
    auto_repair: bool = True
    variables: str = ""
    overrides: Mapping[str, int] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    failed: tuple[FailedDomain, ...] = ()

    def entry(self, index: int) -> Entry | None:
        place = self._place(index)
        return None if place is None else self.entries[place]

    def add(self, entry: Entry) -> "Queue":
        """Return the queue with one more entry, which gets its index here."""
        entry = replace(entry, index=self.next)
        return replace(self, entries=(*self.entries, entry), next=self.next + 1)

    def put(self, changed: Entry) -> "Queue":
        return self._with(changed.index, changed)

    def drop(self, index: int) -> "Queue":
        return self._with(index)

    def _place(self, index: int) -> int | None:
        place = bisect_left(self.entries, index, key=lambda entry: entry.index)
        exists = place < len(self.entries) and self.entries[place].index == index
        return place if exists else None

    def _with(self, index: int, *changed: Entry) -> "Queue":
        place = self._place(index)
        if place is None:
            return self
        around = self.entries[:place], self.entries[place + 1 :]
        return replace(self, entries=(*around[0], *changed, *around[1]))


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One repair attempt, and how long to watch whether it has helped; seconds."""

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


INCIDENTS = "incidents"  # the source, and the author, of the entries made of incidents


@dataclass(frozen=True, slots=True)
class Referral:
    """The incidents left to the repair queue, and the operation for them.

    It fits incidents of one of `needs` and, unless these are empty, with one of `commands`, on a
    node of one of the node `groups` (by name).
    """

    machine_type: str
    operation: str
    needs: tuple[Need, ...]
    commands: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Procedures:
    """Settings of the queue's processing; seconds.

    `eviction_timeout_seconds` is how long an evacuation may take. After the n-th failure in a row
    the node rests for `back_off_seconds`, doubled each time, up to `most_back_off_seconds`. The
    first of `incidents` that fits an incident gives its operation.
    """

    repair_procedures: tuple[Procedure, ...] = ()
    max_concurrent_repairs: int = 1
    eviction_timeout_seconds: Seconds = Seconds(14_400)
    back_off_seconds: Seconds = Seconds(300)
    most_back_off_seconds: Seconds = Seconds(3_600)
    incidents: tuple[Referral, ...] = ()

    def look_up(self, machine_type: str, operation: str) -> Operation | str:
        """Return the operation of the procedure for this type, or its obstacle."""
        for procedure in self.repair_procedures:
            if machine_type in procedure.machine_types:
                operations = (o for o in procedure.repair_operations if o.operation == operation)
                missing = (
                    f"no operation {operation!r} is configured for machines of {machine_type!r}"
                )
                return next(operations, None) or missing
        return f"no repair procedure is configured for machines of {machine_type!r}"

    def refusal(self, machine_type: str, operation: str) -> str:
        """Say why there is nothing for this type and operation, and what exists; "" if there is."""
        result = self.look_up(machine_type, operation)
        if isinstance(result, Operation):
            return ""
        procedures = self.repair_procedures
        theirs = [procedure for procedure in procedures if machine_type in procedure.machine_types]
        available = [o.operation for procedure in theirs for o in procedure.repair_operations]
        available = available or [
            name for procedure in procedures for name in procedure.machine_types
        ]
        return f"{result}; there may be: {', '.join(available)}" if available else result
