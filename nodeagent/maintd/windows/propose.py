"""A proposal of windows for many nodes: a few at a time, until all are done. Pure.

A window has nodes that hroller would reboot together, as many as can be evacuated at once,
secondaries included, while the cluster still survives one more failure. For each window the search
uses the cluster as it will be then: earlier nodes are back, and empty, as nobody moves instances
back. If no place is found so, the instances must be balanced before that window; the search then
uses their places of today. It does not count on nodes of other windows at that time.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodeagent.maintd.planning.evacuation_moves import partly_mirrored
from nodeagent.maintd.planning.evacuation_time import Leads
from nodeagent.maintd.planning.names import Names, node_of
from nodeagent.model.ledger import Ledger
from nodeagent.model.snapshot import Instance, Node, Snapshot
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import NANOSECONDS, Machine, Mode, Unavailability, Window
from nodeagent.placement.cluster.cluster import Cluster, Known
from nodeagent.placement.evacuate import batches
from nodeagent.placement.evacuate.batches import afterwards, apart, left_behind, most, obstacle
from nodeagent.placement.evacuate.evacuate import Emptier, Evacuation
from nodeagent.placement.layout.rules import Rules

_GRAIN = 5 * 60_000  # ms; durations are not known to the minute


@dataclass(frozen=True, slots=True)
class WindowsWanted:
    """A request for windows: `nodes` by full name, the first start, the duration of each.

    `gap` is the time between two windows, None: as long as evacuating the next nodes takes. Times
    are in nanoseconds. At most `most` nodes go together; `ignore` leaves out instances that cannot
    move.
    """

    nodes: tuple[str, ...]
    start: Nanoseconds
    each: Nanoseconds
    gap: Nanoseconds | None = None
    most: int | None = None
    ignore: bool = False


@dataclass(frozen=True, slots=True)
class ProposedWindows:
    """The new windows, the reason for each node without one, and remarks.

    `evacuations` are the moves, window by window. `balanced` are the numbers of the windows before
    which instances must be balanced to their places of today. `late` are the windows that are too
    early for their evacuation.
    """

    windows: tuple[Window, ...]
    left_out: Mapping[str, str]
    remarks: tuple[str, ...] = ()
    evacuations: tuple[Evacuation, ...] = ()
    balanced: frozenset[int] = frozenset()
    late: tuple[str, ...] = ()


def propose(
    wanted: WindowsWanted,
    known: Known,
    snapshot: Snapshot,
    ledger: Ledger,
    now: Ms,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> ProposedWindows:
    """Plan windows for the nodes that can have one; `snapshot` and `known` are of one moment.

    `tell` gets the number of planned nodes, and of all.
    """
    left_out = _unfit(wanted, known, snapshot, ledger)
    names = [name for name in wanted.nodes if name not in left_out]
    stays = batches.immovable(known.cluster) if wanted.ignore else frozenset()
    planned = _Planned(
        wanted,
        replace(known, cluster=batches.without(known.cluster, stays)),
        snapshot,
        ledger,
        frozenset(),
    )
    while True:
        planned.plan(names, tell)
        busy = _busy(ledger, snapshot, names, planned.begins, planned.until)
        if busy <= planned.busy:
            break
        planned = replace(planned, busy=busy | planned.busy).afresh()
    remarks = planned.remarks()
    if wanted.ignore:
        remarks += _staying(known.cluster, stays, planned, snapshot)
    left_out |= planned.stuck
    reasons = {name: left_out[name] for name in wanted.nodes if name in left_out}
    return ProposedWindows(
        tuple(planned.windows),
        reasons,
        tuple(remarks),
        tuple(planned.evacuations),
        frozenset(planned.balanced),
        tuple(planned.late(now)),
    )


# Nodes that can have a window.


def _unfit(
    wanted: WindowsWanted, known: Known, snapshot: Snapshot, ledger: Ledger
) -> dict[str, str]:
    windows = _windows(ledger, snapshot)
    kept = {} if wanted.ignore else _with_parts(snapshot)
    reasons = {}
    for name in wanted.nodes:
        why = windows.get(name) or _out(snapshot.nodes.get(name)) or known.doubts.get(name)
        if why := why or kept.get(name):
            reasons[name] = why
    return reasons


def _with_parts(snapshot: Snapshot) -> dict[str, str]:
    """Why nodes cannot be evacuated that have only some disks of an instance."""
    return {
        name: f"cannot be evacuated: instance {instance.name} stays: {partly_mirrored(instance)}"
        for instance in snapshot.instances.values()
        for name in instance.partly_on
    }


def _windows(ledger: Ledger, snapshot: Snapshot) -> dict[str, str]:
    reasons = {}
    for scheduled in ledger.scheduled:
        node = snapshot.by_uuid.get(scheduled.node) or node_of(scheduled.machine, snapshot)
        name = node.name if node else ""
        match scheduled.mode:
            case Mode.DOWN:
                reasons[name] = "is down for its maintenance window"
            case Mode.DRAINING:
                reasons[name] = "is in a maintenance window already"
    reasons |= {
        snapshot.by_uuid[outage.node].name: "is on its way back into service"
        for outage in ledger.outages
        if outage.back is not None and outage.node in snapshot.by_uuid
    }
    return reasons


def _out(node: Node | None) -> str:
    if node is None:
        return "no longer exists"
    if node.offline:
        return "is offline"
    if node.drained:
        return "is drained"
    return "" if node.vm_capable else "has no instances (vm_capable is off): nothing is to be moved"


def _busy(
    ledger: Ledger, snapshot: Snapshot, names: Collection[str], begins: Ms, until: Ms
) -> frozenset[str]:
    """The nodes that other windows may have at that time, from their evacuation on (unix ms)."""
    busy: set[str] = set()
    called, leads = Names(snapshot), Leads(snapshot, ledger.paces)
    for scheduled in ledger.scheduled:
        node, when = called.only(scheduled.machine), scheduled.when
        if node is None or node.name in names:
            continue
        starts = when.start_ms - leads.of(node)
        over = scheduled.mode is Mode.DRAINING and when.end_ms is not None and when.end_ms <= begins
        if not over and starts < until:
            busy.add(node.name)
    return frozenset(busy)


def _staying(
    cluster: Cluster, names: Collection[str], planned: "_Planned", snapshot: Snapshot
) -> list[str]:
    inside = {machine.hostname for window in planned.windows for machine in window.machines}
    stays = [(one.name, one.primary) for one in cluster.instances if one.name in names]
    stays += [
        (one.name, node) for one in snapshot.instances.values() for node in sorted(one.partly_on)
    ]
    return [
        f"instance {name} stays on {node}, and keeps it from going down"
        " until somebody has moved or removed it"
        for name, node in stays
        if node in inside
    ]


# Times.


@dataclass
class _Planned:
    """Windows as far as they are planned; the search does not count on `busy` nodes."""

    wanted: WindowsWanted
    known: Known
    snapshot: Snapshot
    ledger: Ledger
    busy: frozenset[str]
    windows: list[Window] = field(default_factory=list)
    stuck: dict[str, str] = field(default_factory=dict)
    evacuations: list[Evacuation] = field(default_factory=list)
    leads: list[int] = field(default_factory=list)  # ms
    balanced: set[int] = field(default_factory=set)

    def afresh(self) -> "_Planned":
        return _Planned(self.wanted, self.known, self.snapshot, self.ledger, self.busy)

    @property
    def begins(self) -> Ms:
        """The start of the first evacuation, unix ms."""
        return Ms(self.wanted.start // NANOSECONDS - (self.leads[0] if self.leads else 0))

    @property
    def until(self) -> Ms:
        """The end of the last window, unix ms."""
        ends = (window.unavailability.end_ms or Ms(0) for window in self.windows)
        return max(ends, default=self.begins)

    def plan(self, names: Sequence[str], tell: Callable[[int, int], None]) -> None:
        today = Emptier(self.known.cluster, Rules(), self.known.doubts)
        cluster, emptier, snapshot = self.known.cluster, today, self.snapshot
        for group in apart(cluster, names):
            rest = list(group)
            while rest:
                planned = sum(len(window.machines) for window in self.windows)
                tell(planned + len(self.stuck), len(names))
                count, evacuation = self._most(emptier, rest)
                if not count and emptier is not today:
                    count, evacuation = self._most(today, rest)
                    if count:
                        cluster, snapshot = self.known.cluster, self.snapshot
                        self.balanced.add(len(self.windows))
                if not count:
                    name = rest.pop(0)
                    self.stuck[name] = obstacle(evacuation, name)
                    continue
                self._add(rest[:count], snapshot, evacuation)
                cluster = afterwards(cluster, evacuation)
                emptier, snapshot = emptier.moved(cluster), _moved(snapshot, evacuation)
                rest = rest[count:]

    def _add(self, names: Sequence[str], snapshot: Snapshot, evacuation: Evacuation) -> None:
        start, lead = self.wanted.start, _lead(names, snapshot, self.ledger)
        if self.windows:
            gap = lead * NANOSECONDS if self.wanted.gap is None else self.wanted.gap
            start = self.windows[-1].unavailability.start + self.wanted.each + gap
        machines = tuple(Machine(name) for name in names)
        self.windows.append(Window(machines, Unavailability(start, self.wanted.each)))
        self.evacuations.append(evacuation)
        self.leads.append(lead)

    def _most(self, emptier: Emptier, names: Sequence[str]) -> tuple[int, Evacuation]:
        """The most of these, from the first on, that can be evacuated at once, and how."""
        limit = min(len(names), self.wanted.most or len(names))
        first = emptier.empty([names[0], *(n for n in self.busy if n != names[0])])
        tried = {1: first}

        def fits(count: int) -> bool:
            if count == 1:
                return not left_behind(first, names[:1])
            evacuation = emptier.fits(names[:count], self.busy.difference(names[:count]))
            if evacuation is not None:
                tried[count] = evacuation
            return evacuation is not None

        good = most(limit, fits)
        return good, tried[good or 1]

    def late(self, now: Ms) -> list[str]:
        """The windows whose nodes cannot be evacuated before they start, with the reason."""
        lines = []
        for number, (window, lead) in enumerate(zip(self.windows, self.leads, strict=True)):
            remaining, why = window.unavailability.start_ms - now, "are left"
            if number and self.wanted.gap is not None:
                remaining = Ms(self.wanted.gap // NANOSECONDS)
                why = "are between it and the one before"
            if remaining < lead:
                names = ", ".join(machine.hostname for machine in window.machines)
                minutes = -(-lead // 60_000)
                lines.append(
                    f"{names} cannot be evacuated in time: that takes {minutes} min, and"
                    f" {max(0, remaining) / 60_000:.0f} min {why}"
                )
        return lines

    def remarks(self) -> list[str]:
        lines = []
        for number in sorted(self.balanced):
            name = self.windows[number].machines[0].hostname
            lines.append(
                f"before the window of {name} the instances must be balanced, because the nodes"
                " before it are evacuated by then: gnt-maint balance"
            )
        if self.busy:
            names = ", ".join(sorted(self.busy))
            lines.append(f"in maintenance windows of their own meanwhile: {names}")
        if any(
            machine.hostname == self.snapshot.master for w in self.windows for machine in w.machines
        ):
            lines.append(
                f"{self.snapshot.master} is the master node, and comes last: run gnt-cluster"
                " master-failover on another master candidate before"
            )
        return lines


def _lead(names: Iterable[str], snapshot: Snapshot, ledger: Ledger) -> int:
    """The time (ms) that these nodes take when evacuated side by side."""
    leads = Leads(snapshot, ledger.paces)
    longest = max(leads.of(snapshot.nodes[name]) for name in names)
    return -(-longest // _GRAIN) * _GRAIN


def _moved(snapshot: Snapshot, evacuation: Evacuation) -> Snapshot:
    instances: dict[str, Instance] = dict(snapshot.instances)
    nodes = [node.name for node in evacuation.before.cluster.nodes]
    for way in evacuation.ways:
        name, at = evacuation.before.cluster.instances[way.instance].name, way.after
        if name in instances:
            mirror = None if at.secondary == -1 else nodes[at.secondary]
            instance = replace(instances[name], primary=nodes[at.primary], secondary=mirror)
            instances[name] = instance
    return replace(snapshot, instances=instances)
