"""Planner of weekly series: puts their next occurrences into the schedule in time. Pure.

A machine is in one occurrence of a series at a time: the next, once that is near enough to evacuate
its node before the start. From then on that is a window like any other, also beside others of the
same machine; a change or cancelation affects only this occurrence. maintd never schedules an
occurrence that has started already, and shows an obstacle to an occurrence until then.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

from nodeagent.maintd.planning.evacuation_time import Leads
from nodeagent.maintd.windows import recurrence
from nodeagent.maintd.windows import schedule as windows_schedule
from nodeagent.maintd.windows.membership import Planned, without
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.reason import Held, Kind, Reason, because
from nodeagent.model.series import Member, Series, Zone
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms, Seconds, in_ms, in_ns, in_seconds
from nodeagent.model.window import Machine, Schedule, Scheduled, Unavailability, Window
from nodeagent.model.wish import SetSchedule

_TOLD = 366  # days for which calendars show occurrences that did not take place


def advance(
    ledger: Ledger, observed: Observed, policy: Policy, now: Ms
) -> tuple[Ledger, list[Held]]:
    """Remove occurrences that are over, and schedule those that are near; tell the blocked ones."""
    if not ledger.series:
        return ledger, []
    ledger = _ended(_let_go(ledger, observed, now), observed, now)
    work = _Plan(ledger, observed, policy, now)
    work.all()
    return work.ledger, work.held


# Ended occurrences.


def _let_go(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Remove machines that never went down from the schedule, once their window has ended."""
    planned = Planned(ledger, observed.snapshot)
    placed = (planned.occurrence(series, m) for series in ledger.series for m in series.members)
    over = [
        scheduled for scheduled in placed if scheduled is not None and _has_ended(scheduled, now)
    ]
    after = without(ledger, over, observed, now)
    return ledger if isinstance(after, str) else after


def _has_ended(scheduled: Scheduled, now: Ms) -> bool:
    end = scheduled.when.end_ms
    return end is not None and end <= now


def _ended(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Record which machines are out of the schedule: up again, canceled, or removed."""
    planned = Planned(ledger, observed.snapshot)

    def end(series: Series) -> Series:
        over = {m for m in series.members if m.placed and planned.occurrence(series, m) is None}
        if not over:
            return series
        members = tuple(replace(m, placed=False) if m in over else m for m in series.members)
        after = replace(series, members=members)
        zone = observed.zones.get(series.rule.zone)
        return after if zone is None else _canceled(after, {m.day for m in over}, zone, now)

    return replace(ledger, series=tuple(map(end, ledger.series)))


def _canceled(series: Series, days: set[int], zone: Zone, now: Ms) -> Series:
    """Skip those of the days that lost all machines before their start: they were canceled."""
    rule = series.rule
    taking_place = {member.day for member in series.members if member.placed}
    own = {day for day in days - taking_place if recurrence.is_day(rule, day)}
    ahead = {day for day in own if in_ms(recurrence.start(rule, zone, day)) > now}
    oldest = recurrence.today(zone, in_seconds(now)) - _TOLD
    known = {day for day in rule.skipped if day >= oldest}
    return replace(series, rule=replace(rule, skipped=tuple(sorted(known | ahead))))


# Coming occurrences.


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """The next occurrence for one machine; `at` is its start in unix seconds."""

    at: Seconds
    day: int
    series: Series
    member: Member

    @property
    def when(self) -> Unavailability:
        return Unavailability(in_ns(self.at), in_ns(self.series.rule.seconds))

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
        chosen: list[_Occurrence] = []
        for near in sorted(self._near(), key=lambda near: (near.at, near.series.number)):
            if why := self._obstacle(near):
                self._wait(near, why)
            else:
                identity = self.planned.identity(near.member.machine)
                self.planned.times.setdefault(identity, set()).add(near.when)
                chosen.append(near)
        if chosen:
            self._put(chosen)
        self.ledger = replace(self.ledger, series=tuple(map(self._after, self.ledger.series)))

    def _after(self, series: Series) -> Series:
        """The series with its changed members."""
        members = (self.changed.get((series.number, m.machine), m) for m in series.members)
        return replace(series, members=tuple(members))

    def _near(self) -> Iterator[_Occurrence]:
        for series in self.ledger.series:
            zone = self.observed.zones.get(series.rule.zone)
            if zone is None:
                missing = because(Kind.NO_TIME_ZONE, series.name, zone=series.rule.zone)
                self.held.append(Held(because(Kind.SERIES_WAITS, series.name, why=missing)))
            else:
                yield from self._near_of(series, zone)

    def _near_of(self, series: Series, zone: Zone) -> Iterator[_Occurrence]:
        """The next occurrence for each machine that can be in one, if it is near."""
        ahead = {m: self._ahead(m) for m in series.members if self._may_be_next(series, m)}
        farthest = in_seconds(self.now + max(ahead.values(), default=0))
        coming = recurrence.coming(series.rule, zone, in_seconds(self.now))
        soon = list(takewhile(lambda occurrence: occurrence[1] <= farthest, coming))
        if not soon:
            return
        placed = {member.day for member in series.members if member.placed}
        for member, lead in ahead.items():
            # A distant occurrence without machines was processed while the clock was ahead.
            processed = in_ms(recurrence.start(series.rule, zone, member.day))
            is_distant = processed - lead > self.now and member.day not in placed
            after = 0 if is_distant else member.day
            for day, at in soon:
                if day > after and in_ms(at) - lead <= self.now:
                    yield _Occurrence(at, day, series, member)
                    break

    def _may_be_next(self, series: Series, member: Member) -> bool:
        """Check whether it is in no occurrence, or in one that is over: then it is still down.

        A machine that is returning comes first: planned again, it would stay drained in between.
        """
        if member.placed:
            scheduled = self.planned.occurrence(series, member)
            return scheduled is not None and _has_ended(scheduled, self.now)
        return not self.planned.is_returning(member.machine)

    def _ahead(self, member: Member) -> int:
        """The ms between scheduling an occurrence and its start."""
        node = self.planned.names.node(member.machine)
        if not isinstance(node, Node):
            return self.policy.window_ahead
        return max(self.policy.window_ahead, self.leads.of(node))

    def _obstacle(self, near: _Occurrence) -> Reason | None:
        machine, member = near.member.machine, near.member
        node = self.planned.names.node(machine)
        if not isinstance(node, Node):
            name = str(machine)
            if node is None:
                return because(Kind.NO_SUCH_NODE, name)
            return because(Kind.UNCLEAR_MACHINE, name, why=node)
        if member.placed:
            return because(Kind.DOWN_STILL, node.name, day=recurrence.day_text(member.day))
        if near.when in self.planned.times.get(self.planned.identity(machine), ()):
            return because(Kind.SAME_WINDOW, node.name)
        return None

    def _wait(self, near: _Occurrence, why: Reason) -> None:
        node = self.planned.names.node(near.member.machine)
        name = node.name if isinstance(node, Node) else str(near.member.machine)
        self.held.append(Held(because(Kind.SERIES_WAITS, str(near), why=why), name))
        late = replace(near.member, late=near.day, why=str(why))
        self.changed[near.series.number, late.machine] = late

    def _put(self, chosen: list[_Occurrence]) -> None:
        """Put machines of one occurrence into one window, even if they join later."""
        windows = list(self.ledger.schedule.windows)
        places = self._places()
        for near in chosen:
            place = places.setdefault((near.series.number, near.day, near.when), len(windows))
            if place == len(windows):
                windows.append(Window((), near.when))
            machines = (*windows[place].machines, near.member.machine)
            windows[place] = Window(machines, near.when)
        asked = SetSchedule(Schedule(tuple(windows)))
        after = windows_schedule.grant(self.ledger, asked, self.observed, self.now)
        if isinstance(after, str):
            for near in chosen:
                self._wait(near, because(Kind.NOT_SCHEDULED, str(near), why=after))
            return
        new = {(near.member.machine.key, near.when): near.series for near in chosen}
        scheduled = tuple(
            replace(scheduled_machine, consent=series.consent, series=series.number)
            if (series := new.get(scheduled_machine.key)) is not None
            else scheduled_machine
            for scheduled_machine in after.scheduled
        )
        self.ledger = replace(after, scheduled=scheduled)
        for near in chosen:
            machine = near.member.machine
            self.changed[near.series.number, machine] = Member(machine, near.day, placed=True)

    def _places(self) -> dict[tuple[int, int, Unavailability], int]:
        """The places of occurrences in the schedule: by number of the series, day, and time."""
        windows = enumerate(self.ledger.schedule.windows)
        places = {(m.key, w.unavailability): place for place, w in windows for m in w.machines}
        placed = (
            (series.number, member.day, scheduled)
            for series in self.ledger.series
            for member in series.members
            if (scheduled := self.planned.occurrence(series, member)) is not None
        )
        return {
            (number, day, scheduled.when): places[scheduled.key]
            for number, day, scheduled in placed
        }
