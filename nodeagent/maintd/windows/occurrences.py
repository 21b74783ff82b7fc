"""The next occurrences of weekly series, put into the schedule in time. Pure.

A machine is in one window at most, so of a series it is in one occurrence at a time: the next, as
soon as that is near enough for its node to be emptied before it begins. From then on that is a
window like any other; whoever changes or cancels it does so to this occurrence alone. Nothing is
put there that has begun already, and what stands in the way of an occurrence is told until then.
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

_TOLD = 366  # days for which calendars are told of what did not take place


@dataclass
class Advanced:
    """The ledger with the occurrences that are near in its schedule, and what is held."""

    ledger: Ledger
    held: list[Held] = field(default_factory=list)


def advance(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> Advanced:
    """Let go of the occurrences that are over, and plan those that are near."""
    if not ledger.series:
        return Advanced(ledger)
    ledger = _ended(_let_go(ledger, observed, now), observed, now)
    work = _Plan(ledger, observed, policy, now)
    work.all()
    return Advanced(work.ledger, work.held)


# What is over.


def _let_go(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Take out of the schedule who was never taken down, and the end has passed."""
    planned = Planned(ledger, observed.snapshot)
    placed = [m.machine for one in ledger.series for m in one.members if m.placed]
    over = [machine for machine in placed if _has_ended(machine, planned, now)]
    after = without(ledger, over, observed, now)
    return ledger if isinstance(after, str) else after


def _has_ended(machine: Machine, planned: Planned, now: Ms) -> bool:
    when = planned.when(machine)
    return when is not None and when.end_ms is not None and when.end_ms <= now


def _ended(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Note who is not in the schedule any more: up again, canceled, or let go."""
    planned = Planned(ledger, observed.snapshot)

    def end(one: Series) -> Series:
        over = {m for m in one.members if m.placed and planned.of(m.machine) is None}
        if not over:
            return one
        members = tuple(replace(m, placed=False) if m in over else m for m in one.members)
        zone, rule = observed.zones.get(one.rule.zone), one.rule
        if zone is not None:
            # What nobody is left in before it begins was canceled.
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


# What comes.


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """The next time for one machine; `at` is when it begins, unix seconds."""

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
        """Put what is near into the schedule, of each machine what comes first."""
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
                # What is not near yet, and nobody is in, a clock that was ahead has dealt with.
                begins = in_ms(recurrence.start(rule, zone, member.day))
                near = begins - ahead[member] <= self.now
                done = member.day if near or member.day in placed else 0
                found = next((c for c in soon if c[0] > done), None)
                if found is not None and in_ms(found[1]) - ahead[member] <= self.now:
                    yield _Occurrence(found[1], found[0], one, member)

    def _may_be_next(self, member: Member) -> bool:
        """Whether it is in no occurrence, or in one that is over: then it is down still.

        Who is being put back is first: planned again it would stay drained in between.
        """
        if member.placed:
            return _has_ended(member.machine, self.planned, self.now)
        return self.planned.identity(member.machine) not in self.planned.returning

    def _ahead(self, member: Member) -> int:
        """How many ms before it begins an occurrence is to be in the schedule."""
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
        """Machines of one occurrence share a window, also where they join later."""
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
