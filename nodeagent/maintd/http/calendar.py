"""The maintenance windows, the weekly series and the roll, as JSON. Pure."""

from collections import Counter
from dataclasses import replace

from nodeagent.maintd.http.status import Json, reason_json
from nodeagent.maintd.http.view import View
from nodeagent.maintd.owners import offer_json
from nodeagent.maintd.owners.absences import of_window
from nodeagent.maintd.planning.departures import returns_at
from nodeagent.maintd.planning.evacuation_time import Leads
from nodeagent.maintd.planning.names import Names
from nodeagent.maintd.rolls.hours import hours_text
from nodeagent.maintd.windows import mesos, recurrence, schedule, timing
from nodeagent.model.outage import Way
from nodeagent.model.reason import Reason
from nodeagent.model.roll import Roll
from nodeagent.model.series import Member, Series, Zone
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms, Nanoseconds, Seconds, in_seconds
from nodeagent.model.window import NANOSECONDS, Machine, Mode, Scheduled, Unavailability, Window

COMING = 10  # occurrences shown


def calendar(view: View, times: int = COMING) -> Json:
    """The schedule with its version, its windows with their machines' states, and the rest.

    `returning` are the machines that have left their window, and are not put back yet. `series` are
    the weekly ones, `times` occurrences of each: the next one of each machine is among the windows
    once it is near.
    """
    ledger, facts = view.ledger, _MachineFacts(view)
    rows = [_window(facts, window) for window in ledger.schedule.windows]
    return {
        "version": schedule.version(ledger.schedule),
        "schedule": mesos.schedule_json(ledger.schedule),
        "windows": sorted(rows, key=lambda row: row["start"]),
        "returning": facts.returning(),
        "series": [_series(view, series, facts.names, times) for series in ledger.series],
    }


def _window(facts: "_MachineFacts", window: Window) -> Json:
    when = window.unavailability
    machines = facts.windows.machines(window)
    series, day = facts.windows.occurrence(window) or (None, 0)
    return {
        "start": when.start / NANOSECONDS / 1000,
        "duration": None if when.duration is None else when.duration / NANOSECONDS / 1000,
        "series": series,
        "occurrence": recurrence.day_text(day) if series else None,
        "machines": [facts.machine(scheduled) for scheduled in machines],
    }


class _MachineFacts:
    """Facts about each machine, from one pass over all instances."""

    def __init__(self, view: View) -> None:
        snapshot = view.observed.snapshot
        self._view = view
        self._outages = {outage.node: outage for outage in view.ledger.outages}
        self._nodes = {node.uuid: node for node in snapshot.nodes.values()}
        self.names, self.windows = Names(snapshot), Windows(view)
        self._book = offer_json.Book(view.ledger, snapshot, view.policy, view.at)
        self._leads = Leads(snapshot, view.ledger.paces)
        self._left = Counter(place for i in snapshot.instances.values() for place in i.nodes)
        self._held: dict[str, list[Reason]] = {}
        for held in view.held:
            if not held.incident:
                self._held.setdefault(held.node, []).append(held.why)

    def returning(self) -> list[Json]:
        """The nodes whose window is over, and that are not put back yet."""
        return [
            self.machine(_was_down(node, back.at)) | {"mode": "up"}
            for outage in self._outages.values()
            if (back := outage.back_by(Way.WINDOW)) is not None
            if (node := self._nodes.get(outage.node)) is not None
        ]

    def machine(self, scheduled: Scheduled) -> Json:
        view, node = self._view, self._nodes.get(scheduled.node)
        when = scheduled.when
        names = dict.fromkeys(
            (node.name, str(scheduled.machine)) if node else (str(scheduled.machine),)
        )
        reasons = [why for name in names for why in self._held.get(name, ())]
        outage = self._outages.get(scheduled.node)
        state, before = None, None
        if node is not None:
            state = node.standing.value
        if node is not None and scheduled.mode is Mode.DRAINING:
            before = (when.start_ms - self._leads.of(node)) / 1000
        return {
            "hostname": scheduled.machine.hostname,
            "ip": scheduled.machine.ip,
            "node": node.name if node else None,
            "state": state,
            "mode": scheduled.mode.value,
            "since": scheduled.since / 1000,
            "begins": before,
            "begun": scheduled.begun,
            "found": outage.found.value if scheduled.begun and outage is not None else None,
            "left": self._left[node.name] if node else 0,
            "started": when.start_ms <= view.at,
            "over": when.end_ms is not None and when.end_ms <= view.at,
            "overdue": timing.overdue(scheduled, view.at) / 1000,
            **offer_json.consent_json(scheduled.consent),
            "owners": [
                offer_json.offer_json(offer, self._book)
                for offer in self._book.made.get(of_window(scheduled).key, ())
            ],
            "held": list(map(str, reasons)),
            "reasons": list(map(reason_json, reasons)),
        }


def _was_down(node: Node, at: Ms) -> Scheduled:
    """A node whose window is over at a time (unix ms), as if it were in it still."""
    over = Unavailability(Nanoseconds(0))
    return Scheduled(Machine(node.name), over, Mode.DOWN, at, node.uuid, begun=True)


class Windows:
    """The machines of the windows, and the occurrences of series that windows are."""

    def __init__(self, view: View) -> None:
        self._names = Names(view.observed.snapshot)
        self._scheduled = {scheduled.key: scheduled for scheduled in view.ledger.scheduled}
        self._placed = {
            (series.number, self._names.identity(member.machine)): (series.name, member.day)
            for series in view.ledger.series
            for member in series.members
            if member.placed
        }

    def machines(self, window: Window) -> list[Scheduled]:
        """Return the states of a window's machines."""
        return [self._scheduled[m.key, window.unavailability] for m in window.machines]

    def occurrence(self, window: Window) -> tuple[str, int] | None:
        """Return the series and the day that a window belongs to, if any."""
        occurrences = (
            self._placed.get((scheduled.series, self._names.identity(scheduled.machine)))
            for scheduled in self.machines(window)
        )
        return next(filter(None, occurrences), None)


# Weekly series.


def _series(view: View, series: Series, names: Names, times: int) -> Json:
    """A series, some of its next occurrences, and the states of its machines."""
    rule, zone = series.rule, view.observed.zones.get(series.rule.zone)
    now = in_seconds(view.at)
    return {
        "name": series.name,
        "number": series.number,
        "uid": series.uid,
        "who": series.who,
        "weekly": recurrence.weekly_text(rule),
        "zone": rule.zone,
        "duration": rule.seconds,
        "every": rule.every,
        "from": recurrence.day_text(rule.first),
        "until": recurrence.day_text(rule.until) if rule.until else None,
        "times": rule.times or None,
        "owners": offer_json.consent_json(series.consent),
        "skipped": [recurrence.day_text(day) for day in rule.skipped],
        "machines": [_member(member, series, zone, names, now) for member in series.members],
        "next": [] if zone is None else _coming(series, zone, now, times),
        "trouble": None if zone else f"time zone {rule.zone} is unknown here",
    }


def _coming(series: Series, zone: Zone, now: Seconds, times: int) -> list[Json]:
    """Running and future occurrences, including skipped ones."""
    rows: list[Json] = []
    whole = replace(series.rule, skipped=())
    for day, at in recurrence.coming(whole, zone, now - series.rule.seconds):
        rows.append(
            {
                "day": recurrence.day_text(day),
                "start": at,
                "end": at + series.rule.seconds,
                "local": recurrence.moment_text(zone, at),
                "local_end": recurrence.moment_text(zone, at + series.rule.seconds),
                "skipped": day in series.rule.skipped,
                "planned": any(m.placed and m.day == day for m in series.members),
            }
        )
        if len(rows) == times:
            break
    return rows


def _member(member: Member, series: Series, zone: Zone | None, names: Names, now: Seconds) -> Json:
    node = names.node(member.machine)
    late = None
    if member.late:
        missed = zone is not None and recurrence.start(series.rule, zone, member.late) <= now
        late = {"day": recurrence.day_text(member.late), "why": member.why, "missed": missed}
    return {
        "hostname": member.machine.hostname,
        "ip": member.machine.ip,
        "node": node.name if isinstance(node, Node) else None,
        "planned": recurrence.day_text(member.day) if member.placed else None,
        "late": late,
    }


# Rolling maintenance.


def roll_json(view: View) -> Json | None:
    """The roll, or the last one; None if there was none. Times are unix seconds."""
    roll = view.ledger.roll
    if roll is None:
        return None
    terms, back = roll.terms, returns_at(roll, view.at)
    return {
        "number": roll.number,
        "who": roll.who,
        "why": terms.why,
        "at": roll.at / 1000,
        "state": state_of(roll),
        "paused-by": roll.paused or None,
        "stopped": roll.stopped or None,
        "over-at": roll.over_at / 1000 if roll.over else None,
        "command": terms.command,
        "at-once": terms.at_once,
        "hours": hours_text(terms.hours) if terms.hours else None,
        "zone": terms.hours.zone if terms.hours else None,
        "return-within": terms.return_within / 1000,
        "pause-between": terms.pause_between / 1000,
        "quiet": terms.quiet / 1000,
        "check": terms.check or None,
        "reboots": terms.reboots,
        "offline": terms.offline,
        "keep-secondaries": terms.keep_secondaries,
        "blocked-by": list(terms.blocked_by),
        "notice": terms.notice / 1000,
        "owners": offer_json.consent_json(replace(terms.consent, before=terms.deadline)),
        "returns-at": max(back.values()) / 1000 if back else None,
        "nodes": [
            {
                "name": roll_node.name,
                "phase": roll_node.phase.value,
                "since": roll_node.since / 1000,
                "late": roll_node.late,
                "why": roll_node.why or None,
                "returns-at": back[roll_node.node] / 1000 if roll_node.node in back else None,
            }
            for roll_node in roll.nodes
        ],
    }


def state_of(roll: Roll) -> str:
    """Say in a word how the roll stands."""
    if roll.over:
        return "canceled" if roll.canceled else "over"
    if roll.canceled:
        return "ending"
    return "stopped" if roll.stopped else "paused" if roll.paused else "active"
