"""The schedule of maintenance and the modes of its machines: their permitted changes. Pure.

The rules and the order of the checks are those of Mesos' master (`maintenance.cpp`): a change takes
effect whole or not at all. In addition, each name of a node means that node, in any spelling, and a
change may be bound to the version of the schedule that its author has seen.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from nodeagent.maintd.outage.claims import release
from nodeagent.maintd.owners import offers
from nodeagent.maintd.planning.names import Identity, Names
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.maintd.windows.mesos import schedule_json
from nodeagent.model.address import read_address
from nodeagent.model.asked import some_of
from nodeagent.model.ledger import Ledger, Outcome
from nodeagent.model.outage import Way
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.window import Consent, Machine, Mode, Schedule, Scheduled, Unavailability
from nodeagent.model.wish import BringUp, SetSchedule, TakeDown
from nodeagent.protocol.canonical import canonical

"""What all names of one machine have in common: its node's UUID, or else the name itself."""
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
                ledger, machines, names, Mode.DRAINING, lambda one: _down(one, ledger, now)
            )
        case BringUp(machines):
            return wrong_machines(machines) or _brought_up(ledger, machines, names, now)


def asked_for(asked: SetSchedule, ledger: Ledger) -> str:
    """The words after "asked to" for a new schedule: what it changes in this ledger."""
    old, new = _spans(ledger.schedule), _spans(asked.schedule)
    consents = {one.machine.key: one.consent for one in ledger.scheduled}
    given = zip(asked.schedule.windows, asked.consents, strict=False)
    told = {m.key: consent for window, consent in given for m in window.machines if consent}
    changes: dict[str, list[tuple[Machine, Unavailability | None]]] = {
        "cancel the window of": [(m, None) for key, (m, _) in old.items() if key not in new],
        "plan maintenance of": [(m, span) for key, (m, span) in new.items() if key not in old],
        "change the window of": [
            (m, span) for key, (m, span) in new.items() if key in old and span != old[key][1]
        ],
        "change the owners' policy of": [
            (m, None)
            for key, (m, span) in new.items()
            if key in old
            and span == old[key][1]
            and told.get(key, consents.get(key)) != consents.get(key)
        ],
    }
    parts = [f"{verb} {_named(found)}" for verb, found in changes.items() if found]
    return ", ".join(parts) or "leave the schedule as it is"


def _spans(schedule: Schedule) -> dict[tuple[str, str], tuple[Machine, Unavailability]]:
    """Each machine in the schedule with its window's span, by its key."""
    rows = schedule.windows
    return {m.key: (m, window.unavailability) for window in rows for m in window.machines}


def _named(found: Sequence[tuple[Machine, Unavailability | None]]) -> str:
    """Name some machines, and the span that all of them have."""
    named = some_of([machine for machine, _ in found])
    (span, *others) = dict.fromkeys(span for _, span in found)
    if span is None or others:
        return named
    until = "" if span.end_ms is None else f" until {rfc3339(span.end_ms)}"
    return f"{named} from {rfc3339(span.start_ms)}{until}"


def wrong_schedule(schedule: Schedule) -> str:
    """Return the fault of a schedule in itself; "" if it has none."""
    seen: set[tuple[str, str]] = set()
    for number, window in enumerate(schedule.windows, 1):
        if not window.machines:
            return f"window {number} has no machine"
        if (window.unavailability.duration or 0) < 0:
            return f"window {number} ({window.machines[0]}) has a negative duration"
        if again := next((one for one in window.machines if one.key in seen), None):
            return (
                f"machine {again} is in the schedule more than once, and it is in one window at a"
                f" time: move that with gnt-maint window edit {again} --start TIME, or take the"
                f" machine out of it with gnt-maint window cancel {again}"
            )
        if why := _wrong(window.machines, seen, "in the schedule", f"of window {number}"):
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


def _replaced(
    ledger: Ledger,
    schedule: Schedule,
    consents: Sequence[Consent | None],
    names: Names,
    now: Ms,
) -> Ledger | str:
    new: dict[Identity, Machine] = {}
    old = {one.machine.key for one in ledger.scheduled}
    said: dict[Machine, Consent | None] = {}
    for number, window in enumerate(schedule.windows):
        for machine in window.machines:
            said[machine] = consents[number] if number < len(consents) else None
            # A name that newer nodes made ambiguous stays valid if it is in the schedule already.
            if isinstance(why := names.node(machine), str) and machine.key not in old:
                return why
            identity = names.identity(machine)
            if identity in new:
                return f"machine {machine} is in the schedule as {new[identity]} already"
            new[identity] = machine
    kept: list[Scheduled] = []
    for one in ledger.scheduled:
        identity = names.identity(one.machine)
        if identity in new:
            machine = new.pop(identity)
            kept.append(_kept(one, machine, said[machine], ledger.schedule, schedule, now))
        elif one.mode is Mode.DOWN:
            return f"machine {one.machine} is down, and must be in the schedule until it is up"
        elif one.begun:
            ledger = release(ledger, one.node, Way.WINDOW, now)
    kept += [
        Scheduled(machine, Mode.DRAINING, now, consent=said[machine] or Consent())
        for machine in new.values()
    ]
    return replace(ledger, schedule=schedule, scheduled=tuple(kept))


def _kept(
    one: Scheduled,
    machine: Machine,
    consent: Consent | None,
    old: Schedule,
    new: Schedule,
    now: Ms,
) -> Scheduled:
    """Keep the record of a machine; if its window changed, let stopped work go on."""
    if consent is not None:
        one = replace(one, consent=consent)
    if old.of(one.machine) != new.of(machine):
        one = replace(one, stopped="", not_before=Ms(0), why="")
    return replace(one, machine=machine)


def _mode(one: Scheduled, mode: Mode, now: Ms) -> Scheduled:
    return replace(one, mode=mode, since=now, stopped="", not_before=Ms(0), why="")


def _down(one: Scheduled, ledger: Ledger, now: Ms) -> Scheduled | str:
    """The machine as down, or the answer of an owner that blocks it by the operator's policy."""
    if why := offers.hold(one, ledger, now):
        name = one.machine.hostname or one.machine.ip
        return f"machine {one.machine}: {why} (gnt-maint window edit {name} --policy advisory)"
    return _mode(one, Mode.DOWN, now)


def _changed(
    ledger: Ledger,
    machines: Sequence[Machine],
    names: Names,
    must_be: Mode,
    change: Callable[[Scheduled], Scheduled | str],
) -> Ledger | str:
    """Change all of these machines, which must be in the schedule and in this mode."""
    known = {names.identity(one.machine): one for one in ledger.scheduled}
    changed: dict[Machine, Scheduled] = {}
    for machine in machines:
        one = known.get(names.identity(machine))
        if one is None:
            return f"machine {machine} is not in the schedule"
        if one.mode is not must_be:
            return f"machine {machine} is {one.mode.value}, and must be {must_be.value} for that"
        if one.machine in changed:
            return f"machine {machine} is in the list more than once"
        after = change(one)
        if isinstance(after, str):
            return after
        changed[one.machine] = after
    scheduled = tuple(changed.get(one.machine, one) for one in ledger.scheduled)
    return replace(ledger, scheduled=scheduled)


def _brought_up(ledger: Ledger, machines: Sequence[Machine], names: Names, now: Ms) -> Ledger | str:
    """Take machines that are down out of their windows, and windows without machines away."""
    checked = _changed(ledger, machines, names, Mode.DOWN, lambda one: one)
    if isinstance(checked, str):
        return checked
    identities = {names.identity(machine) for machine in machines}
    up = [one for one in ledger.scheduled if names.identity(one.machine) in identities]
    for one in up:
        if one.begun:
            ledger = release(ledger, one.node, Way.WINDOW, now)
    keys = {one.machine.key for one in up}
    windows = [
        replace(window, machines=tuple(m for m in window.machines if m.key not in keys))
        for window in ledger.schedule.windows
    ]
    return replace(
        ledger,
        schedule=Schedule(tuple(window for window in windows if window.machines)),
        scheduled=tuple(one for one in ledger.scheduled if one.machine.key not in keys),
    )


def _let_go(before: Ledger, after: Ledger, observed: Observed) -> Ledger:
    """Give up on lost jobs of machines whose state or window a request changes."""
    now = {one.node: one for one in after.scheduled}
    touched = {
        old.node
        for old in before.scheduled
        if old.node
        and (
            (one := now.get(old.node)) is None
            or (old.mode, old.stopped) != (one.mode, one.stopped)
            or before.schedule.of(old.machine) != after.schedule.of(one.machine)
        )
    }
    lost = {name for name, said in observed.results.items() if said.outcome is Outcome.LOST}
    kept = tuple(i for i in after.intents if not (i.id in lost and i.purpose.window in touched))
    return replace(after, intents=kept)
