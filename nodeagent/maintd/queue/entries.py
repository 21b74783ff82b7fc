"""Entries of the repair queue: show them, create them, and record results. Pure."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nodeagent.errors import MessageError
from nodeagent.maintd.planning.names import address_of, node_at
from nodeagent.maintd.planning.outcomes import BACK_OFF, TRIES, how_ended, is_cut_off
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.maintd.queue.sabakan import variables
from nodeagent.maintd.queue.state import back_off, finished
from nodeagent.model.action import Drain, Restore, RunCommand
from nodeagent.model.constraints import wrong
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy, Result
from nodeagent.model.purpose import OfEntry
from nodeagent.model.queue import Entry, EntryStatus, Operation, Procedures, Queue, StepStatus
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.wish import AddEntry

CHECK, REPAIR, SUCCESS, EMPTY = "check", "repair", "success", "empty"


def entry_json(entry: Entry, snapshot: Snapshot) -> dict[str, Any]:
    """An entry in CKE's words: what its commands get on stdin, and what is listed."""
    node = node_at(entry.address, snapshot)
    return {
        "index": str(entry.index),
        "address": entry.address,
        "nodename": node.name if node else "",
        "serial": entry.serial,
        "machine_type": entry.machine_type,
        "operation": entry.operation,
        "status": entry.status.value,
        "step": entry.step,
        "step_status": entry.step_status.value,
        "deleted": entry.deleted,
        "last_transition_time": rfc3339(entry.changed_at),
        "drain_backoff_count": entry.backoffs,
        "drain_backoff_expire": rfc3339(entry.backoff_until),
        "why": entry.why or _unknown(entry),
    }


def _unknown(entry: Entry) -> str:
    return f"its health is unknown: {entry.unanswered}" if entry.unanswered else ""


def refusals_json(queue: Queue) -> list[dict[str, Any]]:
    """Why reported machines get no entry."""
    return [
        {
            "reason": refusal.reason,
            "machines": refusal.machines,
            "since": refusal.since / 1000,
            "why": refusal.why,
        }
        for refusal in queue.refusals
    ]


# Requests.


def add(
    ledger: Ledger, asked: AddEntry, who: str, snapshot: Snapshot, procedures: Procedures, now: Ms
) -> Ledger | str:
    """Add a machine to the queue, or say why not."""
    if why := procedures.refusal(asked.machine_type, asked.operation):
        return why
    try:
        address = address_of(asked.address, snapshot, {n.address for n in snapshot.nodes.values()})
    except MessageError as error:
        return str(error)
    for entry in ledger.queue.entries:
        same = entry.address == address or (asked.serial and entry.serial == asked.serial)
        if same and not (entry.status.finished or entry.deleted):
            what = address if entry.address == address else asked.serial
            return f"queue entry {entry.index} is about {what} already"
    new = Entry(0, address, asked.machine_type, asked.operation, asked.serial, who, now)
    return replace(ledger, queue=ledger.queue.add(replace(new, changed_at=now)))


def delete(ledger: Ledger, index: int) -> Ledger | str:
    """Mark an entry as deleted, or say why not."""
    entry = ledger.queue.entry(index)
    if entry is None:
        return f"there is no queue entry {index}"
    return replace(ledger, queue=ledger.queue.put(replace(entry, deleted=True)))


def delete_all(ledger: Ledger, *, finished: bool) -> Ledger:
    """Mark all finished entries as deleted, or all others."""
    return _each(ledger, lambda e: replace(e, deleted=True) if e.status.finished is finished else e)


def reset_back_off(ledger: Ledger) -> Ledger:
    """Retry at once after back-offs."""
    return _each(ledger, lambda entry: replace(entry, backoffs=0, backoff_until=Ms(0)))


def _each(ledger: Ledger, change: Callable[[Entry], Entry]) -> Ledger:
    return queue_with(ledger, entries=tuple(map(change, ledger.queue.entries)))


def queue_with(ledger: Ledger, **changes: Any) -> Ledger:
    """The ledger with a changed queue."""
    return replace(ledger, queue=replace(ledger.queue, **changes))


def set_constraint(ledger: Ledger, name: str, value: int) -> Ledger | str:
    """Set a constraint by hand, or say why not."""
    overrides = {**ledger.queue.overrides, name: value}
    return wrong(name, value) or queue_with(ledger, overrides=overrides)


def set_variables(ledger: Ledger, text: str) -> Ledger | str:
    """Set the variables of sabakan's query, or say why not."""
    try:
        variables(text)
    except MessageError as error:
        return str(error)
    return queue_with(ledger, variables=text)


# Results.


def remember(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> Ledger:
    """Fold results into their entries. maintd never repeats a command blindly."""
    queue, kept = ledger.queue, list[Intent]()
    void: set[str] = set()
    for intent in ledger.intents:
        if not isinstance(intent.purpose, OfEntry):
            kept.append(intent)
            continue
        entry = queue.entry(intent.purpose.index)
        receipt = observed.results.get(intent.id)
        lost = receipt is not None and receipt.outcome is Outcome.LOST
        if intent.id in observed.absent:
            void.add(intent.id)
            why = observed.absent[intent.id]
            if entry is not None:
                queue = queue.put(_not_taken(entry, intent, policy, why, now))
            continue
        if intent.job is None and intent.after in void:
            void.add(intent.id)
            continue
        is_command = isinstance(intent.action, RunCommand)
        result = receipt if lost and is_command else how_ended(intent, observed, now)
        if result is None:
            if not (lost and (entry is None or entry.deleted)):
                kept.append(intent)
            continue
        if result.outcome is not Outcome.SUCCESS:
            void.add(intent.id)
        if entry is not None:
            queue = queue.put(_after(entry, intent, result, policy, now))
    return replace(ledger, queue=queue, intents=tuple(kept))


def purpose(intent: Intent) -> str:
    """Return the purpose of an intent: one of the words above."""
    return intent.purpose.does if isinstance(intent.purpose, OfEntry) else ""


def _not_taken(entry: Entry, intent: Intent, policy: Policy, why: str, now: Ms) -> Entry:
    """Prepare a retry: the work certainly did not start."""
    if isinstance(intent.action, Drain):
        entry = replace(entry, drained=False)  # if it is drained by now, somebody else did it
    match purpose(intent):
        case "check":
            return _unanswered(entry, intent, why)
        case "repair" if entry.processing:
            return _again(replace(entry, step_status=StepStatus.WAITING), intent, why, now)
        case "success" if entry.processing:
            return _again(entry, intent, why, now)
        case "empty" if entry.processing and entry.step_status is StepStatus.DRAINING:
            return back_off(entry, policy.procedures, now, why)
        case _:
            return entry


def _again(entry: Entry, intent: Intent, why: str, now: Ms) -> Entry:
    """Retry a command that did nothing, a limited number of times: others wait for its place."""
    assert isinstance(intent.action, RunCommand)
    tries = entry.tries + 1
    if tries >= TRIES:
        why = f"{intent.action.command} was given up after {tries} tries: {why}"
        return finished(entry, EntryStatus.FAILED, now, why)
    return replace(entry, tries=tries, not_before=now + BACK_OFF, why=why)


def _after(entry: Entry, intent: Intent, result: Result, policy: Policy, now: Ms) -> Entry:
    does, why = purpose(intent), result.why or result.outcome.value
    done = result.outcome is Outcome.SUCCESS
    if result.outcome is Outcome.LOST:
        why = "its agent no longer knows it: how far it came is unknown"
    if does == CHECK:
        return _checked(entry, intent, result, why)
    if isinstance(intent.action, Drain) and not done:
        entry = replace(entry, drained=False)  # if it is drained by now, somebody else did it
    if not entry.processing or isinstance(intent.action, Restore):
        return entry  # only the version before restored a node for an entry
    assert does in (REPAIR, SUCCESS, EMPTY)
    if does != EMPTY and result.outcome is Outcome.LATER:  # by its own report it did nothing
        waits = replace(entry, step_status=StepStatus.WAITING) if does == REPAIR else entry
        return _again(waits, intent, why, now)
    if does == REPAIR:
        return _after_repair(entry, intent, result, why, policy, now)
    if does == SUCCESS:
        if done:
            return finished(entry, EntryStatus.SUCCEEDED, now, "the machine is healthy")
        return finished(entry, EntryStatus.FAILED, now, f"its success command failed: {why}")
    if done or entry.step_status is not StepStatus.DRAINING:
        return entry
    return back_off(entry, policy.procedures, now, f"job {intent.job} failed: {why}")


def _checked(entry: Entry, intent: Intent, result: Result, why: str) -> Entry:
    """Record a health check; lost, cut off, unread and postponed ones stay unanswered."""
    if is_cut_off(result) or result.outcome in (Outcome.LOST, Outcome.LATER):
        return _unanswered(entry, intent, why)
    at = intent.promised
    healthy = result.outcome is Outcome.SUCCESS and result.code == 0 and result.said == "true"
    entry = replace(entry, unanswered="", unanswered_since=Ms(0))
    return replace(entry, asked_at=at, checked_at=at, healthy=healthy)


def _unanswered(entry: Entry, intent: Intent, why: str) -> Entry:
    at = intent.promised
    since = entry.unanswered_since or at
    return replace(entry, asked_at=at, unanswered=why, unanswered_since=since)


def _after_repair(
    entry: Entry, intent: Intent, result: Result, why: str, policy: Policy, now: Ms
) -> Entry:
    """Retry a failed repair command as configured; one cut off fails: its effect is unknown."""
    assert isinstance(intent.action, RunCommand)
    if result.outcome is Outcome.SUCCESS:
        return replace(entry, changed_at=now, attempt=0, not_before=Ms(0), tries=0, why="")
    operation = policy.procedures.look_up(entry.machine_type, entry.operation)
    steps = operation.repair_steps if isinstance(operation, Operation) else ()
    step = steps[entry.step] if entry.step < len(steps) else None
    if step is None or result.code is None or entry.attempt >= step.command_retries:
        why = f"{intent.action.command} failed: {why}"
        return finished(entry, EntryStatus.FAILED, now, why)
    return replace(
        entry,
        step_status=StepStatus.WAITING,
        attempt=entry.attempt + 1,
        tries=0,
        not_before=now + step.command_interval * 1000,
        why=f"{intent.action.command} failed: {why}",
    )
