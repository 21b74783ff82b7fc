"""Choose next steps for nodes in windows: evacuate in time, take offline. Pure.

maintd drains and evacuates draining nodes before their window begins, and takes those that are down
offline once they are empty. Only an operator moves a machine from draining to down and to up; late
ones are shown blocked. Those that are up again go back as they were found (`outage/back`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from nodeagent.maintd.outage.leave import Leaving, StepFailure, fault, leave
from nodeagent.maintd.owners import offers
from nodeagent.maintd.owners.absences import of_window
from nodeagent.maintd.planning.evacuation_time import PACES, Leads, measured
from nodeagent.maintd.planning.names import Names
from nodeagent.maintd.planning.outcomes import BACK_OFF
from nodeagent.maintd.planning.situation import Situation
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.maintd.windows.timing import due, overdue, under_repair
from nodeagent.model.ledger import Ledger
from nodeagent.model.purpose import OfWindow
from nodeagent.model.reason import Held, Kind, Reason, because
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.window import Mode, Scheduled

# Remember.


def remember(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Record durations and failures of moves, before the jobs are settled.

    A failed move stops the work at its node; maintd retries a failed change of a node's role.
    """
    paces = [*ledger.paces, *measured(ledger, observed, now)]
    if len(paces) > len(ledger.paces):
        ledger = replace(ledger, paces=tuple(paces[-PACES:]))
    faults: dict[str, StepFailure] = {}
    for intent in ledger.intents:
        if intent.purpose.window and (failed := fault(intent, observed)) is not None:
            faults.setdefault(intent.purpose.window, failed)  # its followers fail after it
    if not faults:
        return ledger
    changed = tuple(
        _failed(scheduled, failed, now)
        if scheduled.begun and (failed := faults.get(scheduled.node))
        else scheduled
        for scheduled in ledger.scheduled
    )
    return replace(ledger, scheduled=changed)


def _failed(scheduled: Scheduled, failed: StepFailure, now: Ms) -> Scheduled:
    if failed.ends:
        return replace(scheduled, stopped=failed.why)
    return replace(scheduled, not_before=now + BACK_OFF, why=failed.why)


def recognise(ledger: Ledger, snapshot: Snapshot) -> Ledger:
    """Record which nodes the machines are, and whether they were out of service."""
    if not ledger.scheduled:
        return ledger
    nodes, names = snapshot.by_uuid, Names(snapshot)
    known = tuple(_recognised(scheduled, nodes, names) for scheduled in ledger.scheduled)
    return replace(ledger, scheduled=known)


def _recognised(scheduled: Scheduled, nodes: Mapping[str, Node], names: Names) -> Scheduled:
    node = nodes.get(scheduled.node)
    if node is None or not scheduled.begun:
        node = names.only(scheduled.machine)
        return replace(scheduled, node=node.uuid if node else "", begun=False, drained=False)
    return replace(scheduled, drained=True) if node.is_out else scheduled


def wants_room(ledger: Ledger, observed: Observed, now: Ms) -> bool:
    """Check whether a node may have to be evacuated: only then nodes report their free room."""
    if not ledger.scheduled:
        return False
    known, leads = recognise(ledger, observed.snapshot), Leads(observed.snapshot, ledger.paces)
    nodes = observed.snapshot.by_uuid
    return any(
        node is not None and not node.offline and due(scheduled, node, leads, now)
        for scheduled in known.scheduled
        for node in (nodes.get(scheduled.node),)
    )


# Act.


def maintain(ledger: Ledger, situation: Situation) -> tuple[Ledger, list[Held]]:
    """Take the next steps at every node, and tell what is blocked."""
    if not ledger.scheduled:
        return ledger, []
    work = _Work(ledger, situation)
    due_by_node: dict[str, list[Scheduled]] = {}
    for scheduled in sorted(
        ledger.scheduled, key=lambda scheduled: (scheduled.when.start, scheduled.machine.key)
    ):
        if work.is_due(scheduled):
            due_by_node.setdefault(scheduled.node, []).append(scheduled)
    for windows in due_by_node.values():
        work.go_on(windows)
    return work.ledger, work.held


@dataclass
class _Work:
    ledger: Ledger
    situation: Situation
    held: list[Held] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.now, self.snapshot = self.situation.now, self.situation.observed.snapshot
        self.nodes = self.snapshot.by_uuid
        self.leads = Leads(self.snapshot, self.ledger.paces)
        self.made = offers.by_absence(self.ledger)
        self.repaired = under_repair(self.ledger, self.snapshot)

    @cached_property
    def names(self) -> Names:
        """The nodes by all their names; needed only where a name may be wrong."""
        return Names(self.snapshot)

    def is_due(self, scheduled: Scheduled) -> bool:
        """Check whether work on a node must begin or go on for a window, and say what is late."""
        node = self.nodes.get(scheduled.node)
        self._tell_overdue(scheduled, node)
        if node is None:
            if isinstance(why := self.names.node(scheduled.machine), str):
                name = str(scheduled.machine)
                self._hold(name, because(Kind.UNCLEAR_MACHINE, name, why=why))
            return False
        return due(scheduled, node, self.leads, self.now) and not self._waits_for_owners(
            scheduled, node
        )

    def _waits_for_owners(self, scheduled: Scheduled, node: Node) -> bool:
        owners = [why for _, why in offers.holds(of_window(scheduled), self.made, self.now)]
        for theirs in owners:
            self._hold(node.name, because(Kind.OWNER_WAITS, node.name, why=theirs))
        return bool(owners)

    def _tell_overdue(self, scheduled: Scheduled, node: Node | None) -> None:
        late = overdue(scheduled, self.now)
        if not late:
            return
        name = node.name if node else str(scheduled.machine)
        # Without the duration: it would be a new reason, and a line of the journal, in each round.
        at = rfc3339(self.now - late)
        kind = Kind.LATE_DRAINING if scheduled.mode is Mode.DRAINING else Kind.LATE_DOWN
        self._hold(name, because(kind, name, at=at))

    def _hold(self, name: str, why: Reason) -> None:
        self.held.append(Held(why, name))

    def go_on(self, windows: list[Scheduled]) -> None:
        """Take the next steps at a node for those of its windows that are due: for all as one."""
        node = self.nodes[windows[0].node]
        leaving = Leaving(
            node,
            OfWindow(node.uuid),
            offline=any(scheduled.mode is Mode.DOWN for scheduled in windows),
            begun=any(scheduled.begun for scheduled in windows),
            drained=any(scheduled.drained for scheduled in windows),
            obstacle=self._obstacle(windows, node),
        )
        departure = leave(leaving, self.ledger, self.situation)
        for why in departure.held:
            self._hold(node.name, why)
        self.ledger = departure.ledger
        if departure.begun:
            begun = {scheduled.key for scheduled in windows}
            changed = tuple(
                replace(scheduled, begun=True) if scheduled.key in begun else scheduled
                for scheduled in departure.ledger.scheduled
            )
            self.ledger = replace(departure.ledger, scheduled=changed)

    def _obstacle(self, windows: list[Scheduled], node: Node) -> Reason | None:
        name = node.name
        if repair := self.repaired.get(node.uuid):
            return because(Kind.WINDOW_WAITS, name, repair=repair)
        for scheduled in windows:
            if scheduled.stopped:
                return because(Kind.WINDOW_STOPPED, name, why=scheduled.stopped)
            if (remaining := scheduled.not_before - self.now) > 0:
                return because(Kind.TRY_AGAIN, name, left=remaining, why=scheduled.why)
        return self.situation.stops.maintenance.at(name)
