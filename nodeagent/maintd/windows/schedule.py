"""The schedule of maintenance and the modes of its machines: their permitted changes. Pure.

The rules and the order of the checks are those of Mesos' master (`maintenance.cpp`): a change takes
effect whole or not at all. In addition, each name of a node means that node, in any spelling, and a
change may be bound to the version of the schedule that its author has seen.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from nodeagent.maintd.outage.claims import release
from nodeagent.maintd.owners import offers
from nodeagent.maintd.owners.absences import of_window
from nodeagent.maintd.planning.intents import without_lost
from nodeagent.maintd.planning.names import Identity, Names
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.maintd.windows.mesos import schedule_json
from nodeagent.model.address import read_address
from nodeagent.model.asked import some_of
from nodeagent.model.ledger import Ledger
from nodeagent.model.outage import Way
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.window import (
    Consent,
    Machine,
    Mode,
    Schedule,
    Scheduled,
    Unavailability,
    Window,
)
from nodeagent.model.wish import BringUp, SetSchedule, TakeDown
from nodeagent.protocol.canonical import canonical

STALE = "the schedule has changed since: read it again, and change that"


def version(schedule: Schedule) -> str:
    return hashlib.sha256(canonical(schedule_json(schedule)).encode()).hexdigest()[:32]


def grant(
    ledger: Ledger, asked: SetSchedule | TakeDown | BringUp, observed: Observed, now: Ms
) -> Ledger | str:
    """The ledger after an operator's request, or why it is refused."""
    if asked.versions and version(ledger.schedule) not in asked.versions:
        return STALE
    after = changed(ledger, asked, observed.snapshot, now)
    return after if isinstance(after, str) else _let_go(ledger, after, observed)


def changed(
    ledger: Ledger, asked: SetSchedule | TakeDown | BringUp, snapshot: Snapshot, now: Ms
) -> Ledger | str:
    """The ledger with a new schedule and new modes, or why they are refused."""
    names = Names(snapshot)
    match asked:
        case SetSchedule(schedule, consents=consents):
            return wrong_schedule(schedule) or _replaced(ledger, schedule, consents, names, now)
        case TakeDown(machines):
            return wrong_machines(machines) or _changed(
                ledger,
                machines,
                names,
                Mode.DRAINING,
                lambda scheduled: _down(scheduled, ledger, now),
            )
        case BringUp(machines):
            return wrong_machines(machines) or _brought_up(ledger, machines, names, now)


def asked_for(asked: SetSchedule, ledger: Ledger) -> str:
    """The words after "asked to" for a new schedule: what it changes in this ledger."""
    old, new = _times(ledger.schedule), _times(asked.schedule)
    consents = {scheduled.key: scheduled.consent for scheduled in ledger.scheduled}
    given = zip(asked.schedule.windows, asked.consents, strict=False)
    new_consents = {
        (machine.key, window.unavailability): consent
        for window, consent in given
        for machine in window.machines
        if consent
    }
    canceled: list[tuple[Machine, Unavailability | None]] = []
    planned: list[tuple[Machine, Unavailability | None]] = []
    moved: list[tuple[Machine, Unavailability | None]] = []
    other: list[tuple[Machine, Unavailability | None]] = []
    for key, (machine, times) in old.items():
        later = new[key][1] if key in new else []
        kept = _kept_times(times, later)
        canceled += [(machine, None) for when in times if when not in kept]
    for key, (machine, times) in new.items():
        before = {after: when for when, after in _kept_times(_of(old, key), times).items()}
        planned += [(machine, when) for when in times if when not in before]
        moved += [(machine, when) for when in times if before.get(when, when) != when]
        for when in times:
            consent = consents.get((key, when))
            if before.get(when) == when and new_consents.get((key, when), consent) != consent:
                other.append((machine, None))
    changes = {
        "cancel the window of": canceled,
        "plan maintenance of": planned,
        "change the window of": moved,
        "change the owners' policy of": other,
    }
    parts = [f"{verb} {_named(affected)}" for verb, affected in changes.items() if affected]
    return ", ".join(parts) or "leave the schedule as it is"


_Times: TypeAlias = dict[tuple[str, str], tuple[Machine, list[Unavailability]]]


def _times(schedule: Schedule) -> _Times:
    """Each machine in the schedule with the times of its windows, by its key."""
    times: _Times = {}
    for window in schedule.windows:
        for machine in window.machines:
            times.setdefault(machine.key, (machine, []))[1].append(window.unavailability)
    return times


def _of(times: _Times, key: tuple[str, str]) -> list[Unavailability]:
    return times[key][1] if key in times else []


def _kept_times(
    old: Sequence[Unavailability], new: Sequence[Unavailability]
) -> dict[Unavailability, Unavailability]:
    """Map a machine's windows to what becomes of them; those that are canceled are missing.

    A schedule does not name its windows. One whose time is still there stays; the others have moved
    to the new times, in their order.
    """
    same = {when: when for when in old if when in new}
    gone = (when for when in old if when not in same)
    come = (when for when in new if when not in same)
    return same | dict(zip(gone, come, strict=False))


def _named(affected: Sequence[tuple[Machine, Unavailability | None]]) -> str:
    """Name some machines, and the span that all of them have."""
    named = some_of([machine for machine, _ in affected])
    (span, *others) = dict.fromkeys(span for _, span in affected)
    if span is None or others:
        return named
    until = "" if span.end_ms is None else f" until {rfc3339(span.end_ms)}"
    return f"{named} from {rfc3339(span.start_ms)}{until}"


def wrong_schedule(schedule: Schedule) -> str:
    """Return the fault of a schedule in itself; "" if it has none."""
    seen: dict[Unavailability, set[tuple[str, str]]] = {}
    for number, window in enumerate(schedule.windows, 1):
        when = window.unavailability
        if not window.machines:
            return f"window {number} has no machine"
        if (when.duration or 0) < 0:
            return f"window {number} ({window.machines[0]}) has a negative duration"
        taken, whose = seen.setdefault(when, set()), f"of window {number}"
        if why := _wrong(window.machines, taken, "in the schedule for the same time", whose):
            return why
    return ""


def wrong_machines(machines: Sequence[Machine]) -> str:
    """Return the fault of a list of machines in itself; "" if it has none."""
    if not machines:
        return "the list has no machine"
    return _wrong(machines, set(), "in the list", "of the list")


def _wrong(machines: Iterable[Machine], seen: set[tuple[str, str]], where: str, whose: str) -> str:
    for number, machine in enumerate(machines, 1):
        if not (machine.hostname or machine.ip):
            return f"machine {number} {whose} has neither hostname nor ip"
        if machine.ip and (why := _wrong_ip(machine.ip)):
            return f"machine {machine}: {why}"
        if machine.key in seen:
            return f"machine {machine} is {where} more than once"
        seen.add(machine.key)
    return ""


def _wrong_ip(text: str) -> str:
    """The fault of an address that is not in its normal form (RFC 5952); "" if it is."""
    try:
        address = str(read_address(text))
    except ValueError:
        return "its ip is not an IP address"
    return "" if address == text else f"its ip must be written {address}"


_Key: TypeAlias = tuple[tuple[str, str], Unavailability]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A machine as a new schedule names it in a window, and the policy given with that."""

    machine: Machine
    consent: Consent | None


def _replaced(
    ledger: Ledger,
    schedule: Schedule,
    consents: Sequence[Consent | None],
    names: Names,
    now: Ms,
) -> Ledger | str:
    asked = _by_identity(ledger, schedule, consents, names)
    if isinstance(asked, str):
        return asked
    before: dict[Identity, list[Unavailability]] = {}
    for scheduled in sorted(ledger.scheduled, key=lambda scheduled: scheduled.urgency):
        before.setdefault(names.identity(scheduled.machine), []).append(scheduled.when)
    stay = {
        identity: _kept_times(times, list(asked.get(identity, ())))
        for identity, times in before.items()
    }
    kept: dict[_Key, Scheduled] = {}
    gone: list[Scheduled] = []
    # Of two records that turn out to be one node's, the most urgent one stays.
    for scheduled in sorted(ledger.scheduled, key=lambda scheduled: scheduled.urgency):
        identity = names.identity(scheduled.machine)
        when = stay[identity].get(scheduled.when)
        new = None if when is None else _take(asked[identity][when], scheduled)
        if when is not None and new is not None:
            kept[scheduled.key] = _kept(scheduled, when, new)
        elif scheduled.mode is Mode.DOWN:
            return (
                f"machine {scheduled.machine} is down, and must be in the schedule until it is up"
            )
        else:
            gone.append(scheduled)
    remaining = [kept[old.key] for old in ledger.scheduled if old.key in kept]
    added = [
        Scheduled(new.machine, when, Mode.DRAINING, now, consent=new.consent or Consent())
        for windows in asked.values()
        for when, machines in windows.items()
        for new in machines
    ]
    ledger = replace(ledger, schedule=schedule, scheduled=(*remaining, *added))
    return _released(ledger, gone, now)


def _take(machines: list[_Asked], scheduled: Scheduled) -> _Asked | None:
    """Take the machine of this record out of those: by its own name, or by another one."""
    if not machines:
        return None
    own = (new for new in machines if new.machine.key == scheduled.machine.key)
    new = next(own, machines[0])
    machines.remove(new)
    return new


def _by_identity(
    ledger: Ledger, schedule: Schedule, consents: Sequence[Consent | None], names: Names
) -> dict[Identity, dict[Unavailability, list[_Asked]]] | str:
    """The windows of a new schedule by machine and time, or the fault of a name in it.

    What newer nodes have made ambiguous, or two names of one node, stays valid if it is in the
    schedule already.
    """
    asked: dict[Identity, dict[Unavailability, list[_Asked]]] = {}
    known = {scheduled.machine.key for scheduled in ledger.scheduled}
    placed = {scheduled.key for scheduled in ledger.scheduled}
    for number, window in enumerate(schedule.windows):
        when = window.unavailability
        consent = consents[number] if number < len(consents) else None
        for machine in window.machines:
            if isinstance(why := names.node(machine), str) and machine.key not in known:
                return why
            same = asked.setdefault(names.identity(machine), {}).setdefault(when, [])
            for earlier in same:
                if not {(machine.key, when), (earlier.machine.key, when)} <= placed:
                    return f"machine {machine} is in the schedule as {earlier.machine} already"
            same.append(_Asked(machine, consent))
    return asked


def _kept(scheduled: Scheduled, when: Unavailability, asked: _Asked) -> Scheduled:
    """Keep the record of a machine's window; if its time changed, let stopped work go on."""
    if scheduled.when != when:
        scheduled = replace(scheduled, when=when, stopped="", not_before=Ms(0), why="")
    return replace(scheduled, machine=asked.machine, consent=asked.consent or scheduled.consent)


def _released(ledger: Ledger, gone: Iterable[Scheduled], now: Ms) -> Ledger:
    """Put the nodes of windows that are over back, unless another window has begun there."""
    still = {scheduled.node for scheduled in ledger.scheduled if scheduled.begun}
    for scheduled in gone:
        if scheduled.begun and scheduled.node not in still:
            ledger = release(ledger, scheduled.node, Way.WINDOW, now)
    return ledger


def _mode(scheduled: Scheduled, mode: Mode, now: Ms) -> Scheduled:
    return replace(scheduled, mode=mode, since=now, stopped="", not_before=Ms(0), why="")


def _down(scheduled: Scheduled, ledger: Ledger, now: Ms) -> Scheduled | str:
    """The machine as down, or the answer of an owner that blocks it by the operator's policy."""
    if why := offers.hold(of_window(scheduled), offers.by_absence(ledger), now):
        name = scheduled.machine.hostname or scheduled.machine.ip
        return (
            f"machine {scheduled.machine}: {why} (gnt-maint window edit {name} --policy advisory)"
        )
    return _mode(scheduled, Mode.DOWN, now)


def _changed(
    ledger: Ledger,
    machines: Sequence[Machine],
    names: Names,
    must_be: Mode,
    change: Callable[[Scheduled], Scheduled | str],
) -> Ledger | str:
    """Change the most urgent window of each of these machines, which must be in this mode."""
    known: dict[Identity, Scheduled] = {}
    for scheduled in sorted(ledger.scheduled, key=lambda scheduled: scheduled.urgency):
        known.setdefault(names.identity(scheduled.machine), scheduled)
    changed: dict[Identity, Scheduled] = {}
    for machine in machines:
        identity = names.identity(machine)
        most_urgent = known.get(identity)
        if most_urgent is None:
            return f"machine {machine} is not in the schedule"
        if most_urgent.mode is not must_be:
            is_now = most_urgent.mode.value
            return f"machine {machine} is {is_now}, and must be {must_be.value} for that"
        if identity in changed:
            return f"machine {machine} is in the list more than once"
        after = change(most_urgent)
        if isinstance(after, str):
            return after
        changed[identity] = after
    new = {scheduled.key: scheduled for scheduled in changed.values()}
    return replace(
        ledger, scheduled=tuple(new.get(scheduled.key, scheduled) for scheduled in ledger.scheduled)
    )


def _brought_up(ledger: Ledger, machines: Sequence[Machine], names: Names, now: Ms) -> Ledger | str:
    """Take machines that are down out of their windows, and windows without machines away."""
    checked = _changed(ledger, machines, names, Mode.DOWN, lambda scheduled: scheduled)
    if isinstance(checked, str):
        return checked
    identities = {names.identity(machine) for machine in machines}
    over = [
        scheduled
        for scheduled in ledger.scheduled
        if scheduled.mode is Mode.DOWN and names.identity(scheduled.machine) in identities
    ]
    return _released(without(ledger, over), over, now)


def without(ledger: Ledger, over: Collection[Scheduled]) -> Ledger:
    """The ledger without these windows of machines, and without windows that lose all of them."""
    out = {scheduled.key for scheduled in over}
    windows = [
        Window(
            tuple(m for m in window.machines if (m.key, window.unavailability) not in out),
            window.unavailability,
        )
        for window in ledger.schedule.windows
    ]
    return replace(
        ledger,
        schedule=Schedule(tuple(window for window in windows if window.machines)),
        scheduled=tuple(scheduled for scheduled in ledger.scheduled if scheduled.key not in out),
    )


def _let_go(before: Ledger, after: Ledger, observed: Observed) -> Ledger:
    """Give up on lost jobs of nodes whose windows, or modes in them, a request changes."""
    old, new = _by_node(before), _by_node(after)
    touched = {node for node, windows in old.items() if windows != new.get(node)}
    return without_lost(after, observed, lambda intent: intent.purpose.window in touched)


def _by_node(ledger: Ledger) -> dict[str, set[tuple[Unavailability, Mode, str]]]:
    """The windows of each node (its UUID): when, the mode there, and why its work is stopped."""
    by_node: dict[str, set[tuple[Unavailability, Mode, str]]] = {}
    for scheduled in ledger.scheduled:
        if scheduled.node:
            by_node.setdefault(scheduled.node, set()).add(
                (scheduled.when, scheduled.mode, scheduled.stopped)
            )
    return by_node
