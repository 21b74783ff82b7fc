"""Choose the next step of each repair queue entry: CKE's rules, in their order. Pure.

1. A deleted entry gives back its node and is removed, whatever its status.
2. A finished entry is left alone, but its node goes back into service.
3. An entry whose machine is found healthy succeeds, even if only queued.
4. An entry that backs off waits, and delays no other.
5. Started entries come first, master candidates before others, and then the oldest.
6. At most `max_concurrent_repairs` run at once, at most one of them on a master candidate, and
   not while an incident works on another candidate; one entry a machine.
7. A repair or its next step starts only after a health check that has said no.

A disabled queue starts no drain and no repair command, and gives up running drains. Health checks
still end entries, a watch that is over still fails an entry at its last step, and deleted entries
are removed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from nodeagent.maintd.queue.state import back_off, due, finished, waiting
from nodeagent.model.queue import Entry, EntryStatus, Operation, Procedures, Queue, StepStatus
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.units import Ms


class Do(Enum):
    DRAIN = "drain"
    BACK_OFF = "back off"
    EXECUTE = "execute"
    WAIT = "wait"
    SUCCEED = "succeed"
    FINISH = "finish"
    RELEASE = "release"
    DEQUEUE = "dequeue"


@dataclass(frozen=True, slots=True)
class Machine:
    """One round's view of an entry's machine.

    `name` is its node's, "" for a machine outside the cluster. `out`: it is drained or offline.
    `empty`: no instance has it as primary or secondary. `running`: a command for the entry runs;
    `moving`: a job of the cluster does. `theirs` names other work on it, or why to leave it alone;
    `taken` says that, or what else a step waits for, and `shut` why no step starts there.
    """

    name: str = ""
    candidate: bool = False
    out: bool = False
    empty: bool = False
    running: bool = False
    moving: bool = False
    taken: Reason | None = None
    theirs: Reason | None = None
    shut: Reason | None = None


OUTSIDE = Machine()


@dataclass(frozen=True, slots=True)
class Turn:
    """An action for an entry, and the entry to save with it."""

    do: Do
    entry: Entry


@dataclass
class Turns:
    """One round's actions on the queue, and why it leaves other entries alone.

    `checks` are the entries to check, the most urgent first: `urgent` are the indices of those that
    wait only for their check; then come those whose check is oldest.
    """

    turns: list[Turn] = field(default_factory=list)
    held: list[tuple[Entry, Reason]] = field(default_factory=list)
    checks: list[Entry] = field(default_factory=list)
    urgent: set[int] = field(default_factory=set)


def take_turns(
    queue: Queue, machines: Mapping[int, Machine], procedures: Procedures, now: Ms
) -> Turns:
    """Decide the next action of each entry. `machines` is by index."""
    return _Round(queue.enabled, machines, procedures, now).all(queue.entries)


@dataclass
class _Round:
    enabled: bool
    machines: Mapping[int, Machine]
    procedures: Procedures
    now: Ms
    done: Turns = field(default_factory=Turns)
    returning: dict[str, int] = field(
        default_factory=dict
    )  # machines, and the entry not done there
    known: dict[tuple[str, str], Operation | str] = field(default_factory=dict)

    def all(self, entries: Sequence[Entry]) -> Turns:
        # Skip entries at rest first: there may be thousands.
        waiting = [entry for entry in entries if not (entry.at_rest or self._over(entry))]
        slots, candidates, taken = self.procedures.max_concurrent_repairs, 1, set[str]()
        for entry in sorted(waiting, key=self._rank):
            machine = self._machine(entry)
            place = machine.name or entry.address
            if place in taken or self.returning.get(place, entry.index) != entry.index:
                self._hold(entry, because(Kind.SAME_MACHINE))
            elif not slots:
                limit = self.procedures.max_concurrent_repairs
                self._hold(entry, because(Kind.AT_MOST, most=limit))
            elif machine.candidate and not candidates:
                self._hold(entry, because(Kind.CANDIDATE))
            elif self._go_on(entry, machine):
                taken.add(place)
                slots -= 1
                candidates -= machine.candidate
        self.done.checks.sort(key=self._urgency)
        return self.done

    def _urgency(self, entry: Entry) -> tuple[bool, int, int]:
        # By the time of the request, not of the answer: an entry whose check never answers would
        # have the only check of every round.
        waits = entry.index in self.done.urgent
        return not waits, max(entry.asked_at, entry.checked_at), entry.index

    def _machine(self, entry: Entry) -> Machine:
        return self.machines.get(entry.index, OUTSIDE)

    def _look_up(self, entry: Entry) -> Operation | str:
        """Return its operation, or why it has none; cached, as thousands may be alike."""
        like = entry.machine_type, entry.operation
        if like not in self.known:
            self.known[like] = self.procedures.look_up(*like)
        return self.known[like]

    def _rank(self, entry: Entry) -> tuple[bool, bool, bool, int]:
        machine = self._machine(entry)
        at_work = entry.at_work or machine.running
        return not at_work, not entry.processing, not machine.candidate, entry.index

    def _hold(self, entry: Entry, why: Reason) -> None:
        self.done.held.append((entry, why))

    def _turn(self, do: Do, entry: Entry) -> None:
        self.done.turns.append(Turn(do, entry))

    def _over(self, entry: Entry) -> bool:
        """Apply rules 1 to 4; return whether the entry needs no limited place."""
        machine = self._machine(entry)
        if entry.deleted or entry.status.finished:
            self._put_in_order(entry, machine)
            return True
        operation = self._look_up(entry)
        if isinstance(operation, str):
            self._cannot_go_on(entry, machine, operation)
            return True
        if machine.running:
            return False
        if entry.ending or entry.healthy:
            self._succeed(entry, operation, machine)
            return True
        self.done.checks.append(entry)
        if entry.processing and entry.step_status is StepStatus.WAITING:
            remaining = entry.backoff_until - self.now
            if remaining > 0 or machine.shut or not self.enabled:
                self._give_back(entry, machine)
            if remaining > 0:
                times = str(entry.backoffs)
                self._hold(
                    entry, because(Kind.BACKS_OFF, left=remaining, times=times, why=entry.why)
                )
                return True
        return False

    def _cannot_go_on(self, entry: Entry, machine: Machine, why: str) -> None:
        """Fail a started entry that has lost its procedure; its node goes back into service."""
        if entry.processing and not machine.running:
            self._fail(entry, f"{why} (any more)")
        else:
            self._hold(entry, because(Kind.NO_PROCEDURE, why=why))

    def _put_in_order(self, entry: Entry, machine: Machine) -> None:
        if entry.deleted and (machine.running or machine.moving):
            self.returning[machine.name or entry.address] = entry.index
            self._hold(entry, because(Kind.DELETED))
        elif not self._give_back(entry, machine) and entry.deleted:
            self._turn(Do.DEQUEUE, entry)

    def _give_back(self, entry: Entry, machine: Machine) -> bool:
        """Give back a node that we drained for it, after all moves there; return whether it waits.

        The node returns to service once nobody else wants it out.
        """
        if not entry.drained:
            return False
        if machine.moving or machine.running:
            self.returning[machine.name] = entry.index
            self._hold(entry, because(Kind.RETURNS_AFTER_MOVES, machine.name))
            return True
        self._turn(Do.RELEASE, replace(entry, drained=False))
        return False

    def _succeed(self, entry: Entry, operation: Operation, machine: Machine) -> None:
        if not operation.success_command:
            over = finished(entry, EntryStatus.SUCCEEDED, self.now, "the machine is healthy")
            self._turn(Do.FINISH, over)
        elif machine.theirs:
            command = operation.success_command
            self._hold(entry, because(Kind.COMMAND_LATER, command=command, why=machine.theirs))
        elif entry.ending and entry.not_before > self.now:
            self._hold(entry, self._soon(entry, operation.success_command))
        else:
            tries = entry.tries if entry.ending else 0  # those of a repair are over
            ending = replace(entry, status=EntryStatus.PROCESSING, ending=True, tries=tries)
            self._turn(Do.SUCCEED, ending)

    def _go_on(self, entry: Entry, machine: Machine) -> bool:
        """Apply rules 6 and 7 to an entry; return whether it takes a place."""
        if machine.running:
            return True
        operation = self._look_up(entry)
        assert isinstance(operation, Operation)
        if entry.step >= len(operation.repair_steps):
            self._fail(entry, f"there is no step {entry.step + 1} in its procedure (any more)")
            return True
        if machine.taken:
            self._hold(entry, machine.taken)
            return entry.at_work
        match entry.step_status:
            case StepStatus.WAITING:
                return self._begin(entry, operation, machine)
            case StepStatus.DRAINING:
                self._drain(entry, operation, machine)
            case StepStatus.WATCHING:
                self._watch(entry, operation, machine)
        return True

    def _begin(self, entry: Entry, operation: Operation, machine: Machine) -> bool:
        step, since = operation.repair_steps[entry.step], max(entry.changed_at, entry.backoff_until)
        if machine.shut:
            self._hold(entry, machine.shut)
            return False
        if not self.enabled:
            self._hold(entry, because(Kind.QUEUE_DISABLED))
            return entry.processing
        if entry.not_before > self.now:
            self._hold(entry, self._soon(entry, step.repair_command))
        elif not self._said_no(entry, since):
            # A queued or postponed entry takes no place while it waits for a check, or an
            # impossible check would keep everybody waiting.
            keeps = entry.processing and not entry.backoffs
            if keeps and not self._is_patient(entry, max(since, entry.not_before)):
                self._back_off(entry, _no_answer(entry, operation))
            else:
                self._wait_for_check(entry, operation, since)
            return keeps
        elif step.need_drain and machine.name and not (machine.out and machine.empty):
            begun = replace(
                entry,
                status=EntryStatus.PROCESSING,
                step_status=StepStatus.DRAINING,
                changed_at=self.now,
                begun_at=entry.begun_at or self.now,
            )
            self._turn(Do.DRAIN, begun)
        else:
            self._execute(entry)
        return True

    def _soon(self, entry: Entry, command: str) -> Reason:
        remaining = entry.not_before - self.now
        return because(Kind.COMMAND_SOON, command=command, left=remaining, why=entry.why)

    def _said_no(self, entry: Entry, since: Ms) -> bool:
        return entry.checked_at >= max(since, 1) and not entry.healthy

    def _is_patient(self, entry: Entry, since: Ms) -> bool:
        """Check whether a started entry still waits for a check: others wait for its place."""
        unanswered = self.now - max(since, entry.unanswered_since)
        limit = self.procedures.eviction_timeout_seconds * 1000
        return not entry.unanswered_since or unanswered <= limit

    def _wait_for_check(self, entry: Entry, operation: Operation, since: Ms) -> None:
        if entry.processing and entry.asked_at < since:
            self.done.urgent.add(entry.index)
        command, unanswered = operation.health_check_command, entry.unanswered
        self._hold(entry, because(Kind.CHECK_AWAITED, command=command, unanswered=unanswered))

    def _execute(self, entry: Entry) -> None:
        begun = replace(
            entry,
            status=EntryStatus.PROCESSING,
            step_status=StepStatus.WATCHING,
            changed_at=self.now,
            backoffs=0,
            backoff_until=Ms(0),
            begun_at=entry.begun_at or self.now,
        )
        self._turn(Do.EXECUTE, begun)

    def _drain(self, entry: Entry, operation: Operation, machine: Machine) -> None:
        remaining = due(entry, self.procedures.eviction_timeout_seconds) - self.now
        done = not machine.name or (machine.out and machine.empty and not machine.moving)
        if not self.enabled:
            self._back_off(entry, "the repair queue was disabled")
        elif done and self._said_no(entry, entry.changed_at):
            self._execute(entry)
        elif done and remaining >= 0:
            # It may have recovered during the evacuation, which takes hours.
            self._wait_for_check(entry, operation, entry.changed_at)
        elif done:
            self._back_off(entry, _no_answer(entry, operation))
        elif entry.drained and not (machine.out or machine.moving):
            self._back_off(entry, f"somebody put {machine.name} back into service")
        elif remaining < 0:
            seconds = self.procedures.eviction_timeout_seconds
            self._back_off(entry, f"{machine.name} was not evacuated after {seconds} s")
        else:
            self._turn(Do.DRAIN, entry)

    def _back_off(self, entry: Entry, why: str) -> None:
        self._turn(Do.BACK_OFF, back_off(entry, self.procedures, self.now, why))

    def _watch(self, entry: Entry, operation: Operation, machine: Machine) -> None:
        step = operation.repair_steps[entry.step]
        until, last = due(entry, step.watch_seconds), entry.step + 1 >= len(operation.repair_steps)
        after = waiting(entry, entry.step + (not last), until)
        if self.now < until or (step.watch_seconds and self.now == until):
            remaining, step_number = until - self.now, str(entry.step + 1)
            self._hold(entry, because(Kind.WATCHED, step=step_number, left=remaining))
        elif not self._said_no(entry, until):
            if self._is_patient(entry, until):
                self._wait_for_check(entry, operation, until)
            elif last and not machine.shut:
                self._fail(entry, f"the last step is over, and {_no_answer(entry, operation)}")
            else:
                self._back_off(after, _no_answer(entry, operation))
        elif machine.shut:
            # It does not fail while steps are barred; meanwhile its place is free.
            self._turn(Do.WAIT, after)
            self._hold(entry, machine.shut)
        elif last:
            self._fail(entry, "the machine is not healthy after the last step")
        elif not self.enabled:
            self._hold(entry, because(Kind.QUEUE_DISABLED))
        else:
            self._begin(after, operation, machine)

    def _fail(self, entry: Entry, why: str) -> None:
        self._turn(Do.FINISH, finished(entry, EntryStatus.FAILED, self.now, why))


def _no_answer(entry: Entry, operation: Operation) -> str:
    why = f"{operation.health_check_command} does not answer"
    return f"{why}: {entry.unanswered}" if entry.unanswered else why
