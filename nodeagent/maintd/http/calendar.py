"""The maintenance windows, as JSON. Pure."""

from collections import Counter
from collections.abc import Mapping

from nodeagent.maintd.http import series as http_series
from nodeagent.maintd.http.status import Json, View, reason_json
from nodeagent.maintd.owners import offer_json
from nodeagent.maintd.planning.evacuation_time import Leads
from nodeagent.maintd.planning.names import Names
from nodeagent.maintd.windows import mesos, recurrence, schedule, timing
from nodeagent.model.outage import Way
from nodeagent.model.reason import Reason
from nodeagent.model.window import NANOSECONDS, Machine, Mode, Scheduled, Standing, Window


def calendar(view: View, times: int = http_series.COMING) -> Json:
    """The schedule with its version, its windows with their machines' states, and the rest.

    `returning` are the machines that have left their window, and are not put back yet. `series` are
    the weekly ones, `times` occurrences of each: the next one of each machine is among the windows
    once it is near.
    """
    ledger, told = view.ledger, _Told(view)
    known = {one.machine.key: one for one in ledger.scheduled}
    rows = [_window(told, window, known) for window in ledger.schedule.windows]
    return {
        "version": schedule.version(ledger.schedule),
        "schedule": mesos.schedule_json(ledger.schedule),
        "windows": sorted(rows, key=lambda row: row["start"]),
        "returning": told.returning(),
        "series": [http_series.series_json(view, one, told.names, times) for one in ledger.series],
    }


def _window(told: "_Told", window: Window, known: Mapping[tuple[str, str], Scheduled]) -> Json:
    when = window.unavailability
    machines = [known[machine.key] for machine in window.machines]
    series, day = told.occurrence(window)
    return {
        "start": when.start / NANOSECONDS / 1000,
        "duration": None if when.duration is None else when.duration / NANOSECONDS / 1000,
        "series": series,
        "occurrence": recurrence.day_text(day) if series else None,
        "machines": [told.machine(one) for one in machines],
    }


class _Told:
    """Facts about each machine, from one pass over all instances."""

    def __init__(self, view: View) -> None:
        snapshot = view.observed.snapshot
        self._view = view
        self._outages = {outage.node: outage for outage in view.ledger.outages}
        self._nodes = {node.uuid: node for node in snapshot.nodes.values()}
        self.names, self._placed = Names(snapshot), http_series.placed(view)
        self._book = offer_json.Book(view.ledger, snapshot, view.at)
        self._leads = Leads(snapshot, view.ledger.paces)
        self._left = Counter(
            place for i in snapshot.instances.values() for place in (i.primary, i.secondary)
        )
        self._held: dict[str, list[Reason]] = {}
        for held in view.held:
            if not held.incident:
                self._held.setdefault(held.node, []).append(held.why)

    def occurrence(self, window: Window) -> tuple[str | None, int]:
        """The series and the day that a window belongs to, if any."""
        found = (self._placed.get(self.names.identity(machine)) for machine in window.machines)
        return next(filter(None, found), (None, 0))

    def returning(self) -> list[Json]:
        """The nodes whose window is over, and that are not put back yet."""
        return [
            self.machine(Scheduled(Machine(node.name), Mode.DOWN, outage.back.at, node.uuid, True))
            | {"mode": "up"}
            for outage in self._outages.values()
            if outage.back is not None and outage.back.way is Way.WINDOW
            if (node := self._nodes.get(outage.node)) is not None
        ]

    def machine(self, one: Scheduled) -> Json:
        view, ledger, node = self._view, self._view.ledger, self._nodes.get(one.node)
        when = ledger.schedule.of(one.machine)
        names = dict.fromkeys((node.name, str(one.machine)) if node else (str(one.machine),))
        reasons = [why for name in names for why in self._held.get(name, ())]
        outage = self._outages.get(one.node)
        state, before = None, None
        if node is not None:
            state = Standing.of(drained=node.drained, offline=node.offline).value
        if node is not None and when is not None and one.mode is Mode.DRAINING:
            before = (when.start_ms - self._leads.of(node)) / 1000
        return {
            "hostname": one.machine.hostname,
            "ip": one.machine.ip,
            "node": node.name if node else None,
            "state": state,
            "mode": one.mode.value,
            "since": one.since / 1000,
            "begins": before,
            "begun": one.begun,
            "found": outage.found.value if one.begun and outage is not None else None,
            "left": self._left[node.name] if node else 0,
            "started": when is not None and when.start_ms <= view.at,
            "over": when is not None and when.end_ms is not None and when.end_ms <= view.at,
            "overdue": timing.overdue(one, ledger, view.at) / 1000,
            **offer_json.consent_json(one.consent),
            "owners": [
                offer_json.offer_json(offer, self._book)
                for offer in self._book.made.get(one.node, ())
            ],
            "held": list(map(str, reasons)),
            "reasons": list(map(reason_json, reasons)),
        }
