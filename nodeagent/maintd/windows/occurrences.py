"""Planner of weekly series: puts their next occurrences into the schedule in time. Pure.

A machine is in one window at most, so it is in one occurrence of a series at a time: the next, once
that is near enough to evacuate its node before the start. From then on that is a window like any
other; a change or cancelation affects only this occurrence. maintd never schedules an occurrence
that has started already, and shows an obstacle to an occurrence until then.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile

from nodeagent.maintd.planning.evacuation_time import Leads
from nodeagent.maintd.planning.names import Identity
from nodeagent.maintd.windows import recurrence
from nodeagent.maintd.windows import schedule as windows_schedule
from nodeagent.maintd.windows.membership import Planned, without
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.reason import Held, Kind, Reason, because
from nodeagent.model.series import Member, Series
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms, Seconds, in_ms, in_ns, in_seconds
from nodeagent.model.window import Machine, Mode, Schedule, Unavailability, Window
from nodeagent.model.wish import SetSchedule

_TOLD = 366  # days for which calendars show occurrences that did not take place


@dataclass
class Advanced:
    """The ledger with the near occurrences in its schedule, and the blocked ones."""

    ledger: Ledger
    held: list[Held] = field(default_factory=list)


def advance(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> Advanced:
    """Remove occurrences that are over, and schedule those that are near."""
    if not ledger.series:
        return Advanced(ledger)
    ledger = _ended(_let_go(ledger, observed, now), observed, now)
    work = _Plan(ledger, observed, policy, now)
    work.all()
    return Advanced(work.ledger, work.held)


# Ended occurrences.


def _let_go(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Remove machines that never went down from the schedule, once their window has ended."""
    planned = Planned(ledger, observed.snapshot)
    placed = [m.machine for one in ledger.series for m in one.members if m.placed]
    over = [machine for machine in placed if _has_ended(machine, planned, now)]
    after = without(ledger, over, observed, now)
    return ledger if isinstance(after, str) else after


def _has_ended(machine: Machine, planned: Planned, now: Ms) -> bool:
    when = planned.when(machine)
    return when is not None and when.end_ms is not None and when.end_ms <= now


def _ended(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Record which machines are out of the schedule: up again, canceled, or removed."""
    planned = Planned(ledger, observed.snapshot)

    def end(one: Series) -> Series:
        over = {m for m in one.members if m.placed and planned.of(m.machine) is None}
        if not over:
            return one
        members = tuple(replace(m, placed=False) if m in over else m for m in one.members)
        zone, rule = observed.zones.get(one.rule.zone), one.rule
        if zone is not None:
            # An occurrence that loses all machines before its start was canceled.
            left = {member.day for member in members if member.placed}
            days = {m.day for m in over if m.day not in left and recurrence.is_day(rule, m.day)}
            ahead = {day for day in days if in_ms(recurrence.start(rule, zone, day)) > now}
            known = {
                day
                for day in rule.skipped
                if day >= recurrence.today(zone, in_seconds(now)) - _TOLD
            }
            rule = replace(rule, skipped=tuple(sorted(known | ahead)))
        return replace(one, rule=rule, members=members)

    return replace(ledger, series=tuple(map(end, ledger.series)))


# Coming occurrences.


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """The next occurrence for one machine; `at` is its start in unix seconds."""

    at: Seconds
    day: int
    series: Series
    member: Member

    def __str__(self) -> str:
        return f"{self.series.name} of {recurrence.day_text(self.day)}"


@dataclass
class _Plan:
    ledger: Ledger
    observed: Observed
    policy: Policy
    now: Ms

    def __post_init__(self) -> None:
        self.held: list[Held] = []
        self.planned = Planned(self.ledger, self.observed.snapshot)
        self.leads = Leads(self.observed.snapshot, self.ledger.paces)
        self.changed: dict[tuple[int, Machine], Member] = {}

    def all(self) -> None:
        """Schedule what is near, the first occurrence of each machine."""
        taken: dict[Identity, str] = dict.fromkeys(self.planned.identities(), "")
        chosen: list[_Occurrence] = []
        for one in sorted(self._near(), key=lambda near: (near.at, near.series.number)):
            identity = self.planned.identity(one.member.machine)
            if why := self._obstacle(one, taken.get(identity)):
                self._wait(one, why)
            else:
                taken[identity] = str(one)
                chosen.append(one)
        if chosen:
            self._put(chosen)
        self.ledger = replace(
            self.ledger,
            series=tuple(
                replace(
                    one,
                    members=tuple(
                        self.changed.get((one.number, member.machine), member)
                        for member in one.members
                    ),
                )
                for one in self.ledger.series
            ),
        )

    def _near(self) -> Iterator[_Occurrence]:
        for one in self.ledger.series:
            zone, rule = self.observed.zones.get(one.rule.zone), one.rule
            if zone is None:
                missing = because(Kind.NO_TIME_ZONE, one.name, zone=rule.zone)
                self.held.append(Held(because(Kind.SERIES_WAITS, one.name, why=missing)))
                continue
            wanted = [m for m in one.members if self._may_be_next(m)]
            ahead = {member: self._ahead(member) for member in wanted}
            farthest = in_seconds(self.now + max(ahead.values(), default=0))
            coming = recurrence.coming(rule, zone, in_seconds(self.now))
            soon = list(takewhile(lambda found: found[1] <= farthest, coming))  # noqa: B023
            placed = {member.day for member in one.members if member.placed}
            for member in wanted:
                # A distant occurrence without machines was processed while the clock was ahead.
                begins = in_ms(recurrence.start(rule, zone, member.day))
                near = begins - ahead[member] <= self.now
                done = member.day if near or member.day in placed else 0
                found = next((c for c in soon if c[0] > done), None)
                if found is not None and in_ms(found[1]) - ahead[member] <= self.now:
                    yield _Occurrence(found[1], found[0], one, member)

    def _may_be_next(self, member: Member) -> bool:
        """Check whether it is in no occurrence, or in one that is over: then it is still down.

        A machine that is returning comes first: planned again, it would stay drained in between.
        """
        if member.placed:
            return _has_ended(member.machine, self.planned, self.now)
        return not self.planned.is_returning(member.machine)

    def _ahead(self, member: Member) -> int:
        """The ms between scheduling an occurrence and its start."""
        node = self.planned.names.node(member.machine)
        if not isinstance(node, Node):
            return self.policy.window_ahead
        return max(self.policy.window_ahead, self.leads.of(node))

    def _obstacle(self, one: _Occurrence, taken: str | None) -> Reason | None:
        machine, member = one.member.machine, one.member
        node = self.planned.names.node(machine)
        if not isinstance(node, Node):
            name = str(machine)
            if node is None:
                return because(Kind.NO_SUCH_NODE, name)
            return because(Kind.UNCLEAR_MACHINE, name, why=node)
        there = self.planned.of(machine)
        if there is not None and there.mode is Mode.DOWN and member.placed:
            return because(Kind.DOWN_STILL, node.name, day=recurrence.day_text(member.day))
        if taken is None:
            return None
        return because(Kind.OTHER_WINDOW, node.name, which=taken or self._span(machine))

    def _span(self, machine: Machine) -> str:
        when = self.planned.when(machine)
        return "which has no end" if when is not None and when.duration is None else ""

    def _wait(self, one: _Occurrence, why: Reason) -> None:
        node = self.planned.names.node(one.member.machine)
        name = node.name if isinstance(node, Node) else str(one.member.machine)
        self.held.append(Held(because(Kind.SERIES_WAITS, str(one), why=why), name))
        late = replace(one.member, late=one.day, why=str(why))
        self.changed[one.series.number, late.machine] = late

    def _put(self, chosen: list[_Occurrence]) -> None:
        """Put machines of one occurrence into one window, even if they join later."""
        schedule = list(self.ledger.schedule.windows)
        places = {m: number for number, window in enumerate(schedule) for m in window.machines}
        together: dict[tuple[int, int], list[_Occurrence]] = {}
        for one in chosen:
            together.setdefault((one.series.number, one.day), []).append(one)
        for same in together.values():
            one = same[0]
            when = Unavailability(in_ns(one.at), in_ns(one.series.rule.seconds))
            beside = (m for m in one.series.members if m.placed and m.day == one.day)
            there = (places[m.machine] for m in beside if m.machine in places)
            place = next((n for n in there if schedule[n].unavailability == when), None)
            machines = tuple(other.member.machine for other in same)
            if place is None:
                schedule.append(Window(machines, when))
            else:
                schedule[place] = Window((*schedule[place].machines, *machines), when)
        asked = SetSchedule(Schedule(tuple(schedule)))
        after = windows_schedule.grant(self.ledger, asked, self.observed, self.now)
        if isinstance(after, str):
            for one in chosen:
                self._wait(one, because(Kind.NOT_SCHEDULED, str(one), why=after))
            return
        consents = {one.member.machine: one.series.consent for one in chosen}
        scheduled = tuple(
            replace(one, consent=consents.get(one.machine, one.consent)) for one in after.scheduled
        )
        self.ledger = replace(after, scheduled=scheduled)
        for one in chosen:
            machine = one.member.machine
            self.changed[one.series.number, machine] = Member(machine, one.day, placed=True)
