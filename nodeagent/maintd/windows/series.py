"""Requests of operators about weekly series of windows, and their effects. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from nodeagent.maintd.planning.names import Identity, Names
from nodeagent.maintd.windows import recurrence, schedule
from nodeagent.maintd.windows.membership import Planned, without
from nodeagent.model.ledger import Ledger
from nodeagent.model.series import Member, Series, Weekly, Zone
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.units import Ms, in_seconds
from nodeagent.model.window import Machine, Mode, Scheduled
from nodeagent.model.wish import AddSeries, EditSeries, EndSeries, Wish

MOST = 200  # series
MOST_MACHINES = 1000  # machines of one series
MOST_TIMES = 10_000
MOST_SKIPPED = 1000  # skipped days of one series
_SHORTEST = 60  # seconds of a window
_APART = 7200  # seconds from its end to the next: the clocks may change in between


def zones_of(ledger: Ledger, wishes: Iterable[Wish]) -> set[str]:
    asked = (wish.asked for wish in wishes)
    wanted = {
        request.zone
        for request in asked
        if isinstance(request, AddSeries | EditSeries) and request.zone
    }
    return wanted | {series.rule.zone for series in ledger.series}


def grant(
    ledger: Ledger,
    asked: AddSeries | EditSeries | EndSeries,
    who: tuple[str, str],
    observed: Observed,
    now: Ms,
) -> Ledger | str:
    """The ledger after the request, or why it is refused; `who`: the request's id and author."""
    if isinstance(asked, AddSeries):
        return _add(ledger, asked, who, observed, now)
    old = next((series for series in ledger.series if series.number == asked.number), None)
    if old is None:
        return f"there is no series/{asked.number}: see gnt-maint window list"
    if isinstance(asked, EndSeries):
        remaining = tuple(series for series in ledger.series if series is not old)
        return _withdraw(replace(ledger, series=remaining), old, old.members, observed, now)
    return _edit(ledger, old, asked, observed, now)


def _add(
    ledger: Ledger, asked: AddSeries, who: tuple[str, str], observed: Observed, now: Ms
) -> Ledger | str:
    if len(ledger.series) >= MOST:
        return f"there are {MOST} series already"
    if why := _wrong_machines(asked.machines, observed.snapshot):
        return why
    rule = Weekly(asked.weekdays, asked.minute, asked.zone, asked.seconds, 0, asked.every)
    rule = replace(rule, until=asked.until, times=asked.times)
    begun = _begin(rule, asked.begins, observed.zones.get(rule.zone), now)
    if why := (begun if isinstance(begun, str) else _wrong_rule(begun)):
        return why
    assert not isinstance(begun, str)
    number = ledger.last_series + 1
    members = tuple(Member(machine) for machine in asked.machines)
    series = Series(number, who[0], who[1], begun, members, asked.consent)
    return replace(ledger, series=(*ledger.series, series), last_series=number)


def _begin(rule: Weekly, begins: int, zone: Zone | None, now: Ms, week_of: int = 0) -> Weekly | str:
    """The rule with its first day: the first one from a given day (0: from now) on.

    It is in any week, or, given `week_of`, in one that is `every` weeks from the week of that day.
    """
    if zone is None:
        return f"time zone {rule.zone} is unknown here"
    begins = max(begins, recurrence.today(zone, in_seconds(now)))
    every = rule.every if week_of else 1
    earlier = recurrence.earlier_week(week_of or begins, every, begins)
    loose = replace(rule, first=earlier, every=every, until=0, times=0, skipped=())
    first = next(recurrence.coming(loose, zone, in_seconds(now), begins - 1), None)
    if first is None:
        return "it would begin too far in the future"
    kept = tuple(day for day in rule.skipped if day >= first[0])
    return replace(rule, first=first[0], skipped=kept)


def _wrong_rule(rule: Weekly) -> str:
    if rule.seconds < _SHORTEST:
        return f"a window lasts {_SHORTEST} s at least"
    if rule.seconds > recurrence.shortest(rule) * 86_400 - _APART:
        hours = _APART // 3600
        return f"from the end of one to the beginning of the next there must be {hours} h at least"
    if rule.times > MOST_TIMES:
        return f"a series ends after {MOST_TIMES} times at most"
    if rule.until and rule.until < rule.first:
        return f"it ends before its first time, on {recurrence.day_text(rule.first)}"
    return ""


def _wrong_machines(machines: tuple[Machine, ...], snapshot: Snapshot) -> str:
    """Require each machine of a series to be a known node."""
    if why := schedule.wrong_machines(machines):
        return why
    if len(machines) > MOST_MACHINES:
        return f"a series has {MOST_MACHINES} machines at most"
    names, seen = Names(snapshot), dict[Identity, Machine]()
    for machine in machines:
        node = names.node(machine)
        if not isinstance(node, Node):
            return node or f"machine {machine} is not a node of this cluster"
        if node.uuid in seen:
            return f"machine {machine} is in the list as {seen[node.uuid]} already"
        seen[node.uuid] = machine
    return ""


def _edit(
    ledger: Ledger, old: Series, asked: EditSeries, observed: Observed, now: Ms
) -> Ledger | str:
    rule = _edited_rule(old, asked, observed, now)
    if isinstance(rule, str):
        return rule
    members = _other_members(old, asked, observed.snapshot)
    if isinstance(members, str):
        return members
    if why := _wrong_rule(rule):
        return why
    kept = {member.machine for member in members}
    out = [member for member in old.members if member.machine not in kept]
    out += [member for member in members if member.placed and member.day in asked.skip]
    if _but_skipped(rule) != _but_skipped(old.rule):
        # Plan occurrences that have not started again, by the new rule.
        planned = Planned(ledger, observed.snapshot)
        idle = {m for m in members if _is_idle(planned.occurrence(old, m))}
        out += idle
        members = tuple(m if m.placed and m not in idle else _anew(m, rule) for m in members)
    members = tuple(_kept(member, asked.keep) for member in members)
    new = replace(old, rule=rule, members=members, consent=asked.consent or old.consent)
    series = tuple(new if known is old else known for known in ledger.series)
    return _withdraw(replace(ledger, series=series), old, out, observed, now)


def _edited_rule(old: Series, asked: EditSeries, observed: Observed, now: Ms) -> Weekly | str:
    """The rule as asked for, from its next day on if the times change; with its skipped days."""
    rule = _other_rule(old.rule, asked)
    if _when(rule) != _when(old.rule) or asked.begins:
        begun = _begin_again(rule, old, asked, observed, now)
        if isinstance(begun, str):
            return begun
        rule = begun
    for day in (*asked.skip, *asked.keep):
        if not recurrence.is_day(rule, day):
            return f"{old.name} has no occurrence on {recurrence.day_text(day)}"
    skipped = ({*rule.skipped} | {*asked.skip}) - {*asked.keep}
    if len(skipped) > MOST_SKIPPED:
        return f"of a series {MOST_SKIPPED} days are skipped at most"
    return replace(rule, skipped=tuple(sorted(skipped)))


def _begin_again(
    rule: Weekly, old: Series, asked: EditSeries, observed: Observed, now: Ms
) -> Weekly | str:
    """The changed rule from its next day on: in the weeks of the series, for the times left."""
    zone = observed.zones.get(old.rule.zone)
    if asked.times is None and rule.times:
        left = rule.times - recurrence.passed(old.rule, zone, in_seconds(now))
        if left <= 0:
            more = f"gnt-maint window edit {old.name} --times N"
            return f"{old.name} is over after {rule.times} times: say how many more ({more})"
        rule = replace(rule, times=left)
    begins = asked.begins or _later(old.rule, zone, now)
    same_weeks = not asked.begins and rule.every == old.rule.every
    week_of = old.rule.first if same_weeks else 0
    return _begin(rule, begins, observed.zones.get(rule.zone), now, week_of)


def _later(rule: Weekly, zone: Zone | None, now: Ms) -> int:
    """The first day of a series that starts later, by any time of day; 0 if it may start now."""
    soon = _begin(rule, 0, zone, now)
    return 0 if isinstance(soon, str) or rule.first <= soon.first else rule.first


def _other_rule(rule: Weekly, asked: EditSeries) -> Weekly:
    return replace(
        rule,
        weekdays=asked.weekdays or rule.weekdays,
        minute=rule.minute if asked.minute is None else asked.minute,
        zone=asked.zone or rule.zone,
        seconds=asked.seconds or rule.seconds,
        every=asked.every or rule.every,
        until=rule.until if asked.until is None else asked.until,
        times=rule.times if asked.times is None else asked.times,
    )


def _when(rule: Weekly) -> tuple[object, ...]:
    """Return the fields that set the times of windows, not the start or end of the series."""
    return rule.weekdays, rule.minute, rule.zone, rule.every


def _but_skipped(rule: Weekly) -> Weekly:
    return replace(rule, skipped=())


def _other_members(old: Series, asked: EditSeries, snapshot: Snapshot) -> tuple[Member, ...] | str:
    names = Names(snapshot)
    known = {names.identity(member.machine) for member in old.members}
    less = {names.identity(machine): machine for machine in asked.remove}
    for identity, machine in less.items():
        if identity not in known:
            return f"machine {machine} is not in {old.name}"
    for machine in asked.add:
        if names.identity(machine) in known - less.keys():
            return f"machine {machine} is in {old.name} already"
    kept = tuple(m for m in old.members if names.identity(m.machine) not in less)
    if asked.add and (why := _wrong_machines(asked.add, snapshot)):
        return why
    members = (*kept, *(Member(machine) for machine in asked.add))
    if not members:
        return f"no machine would be left: cancel {old.name} instead"
    if len(members) > MOST_MACHINES:
        return f"a series has {MOST_MACHINES} machines at most"
    return members


def _is_idle(scheduled: Scheduled | None) -> bool:
    return scheduled is not None and scheduled.mode is Mode.DRAINING and not scheduled.begun


def _anew(member: Member, rule: Weekly) -> Member:
    """A member for a new rule; a day that it skipped or finished stays so."""
    dealt = not member.placed and recurrence.is_day(rule, member.day)
    return Member(member.machine, member.day if dealt else 0)


def _kept(member: Member, days: tuple[int, ...]) -> Member:
    """A member that may be scheduled again on a day that it skipped."""
    if member.placed or member.day not in days:
        return member
    return replace(member, day=member.day - 1)


def _withdraw(
    ledger: Ledger, series: Series, members: Iterable[Member], observed: Observed, now: Ms
) -> Ledger | str:
    """Remove the occurrences of these; machines that are down stay in the schedule until up."""
    planned = Planned(ledger, observed.snapshot)
    scheduleds = (planned.occurrence(series, member) for member in members)
    return without(
        ledger, [scheduled for scheduled in scheduleds if scheduled is not None], observed, now
    )
