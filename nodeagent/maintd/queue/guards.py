"""Turn reports of sources into queue entries, within limits that stop a storm. Pure.

CKE's rules, in its order: skip a machine without an address; skip a machine that any entry is
about; leave a machine that became unreachable just now alone where it may be rebooting; and if
entries and new reports together are too many, make no entry at all. On top:

- a report without a procedure, one that another report contradicts, and one that calls a machine
  unreachable although it answers us, make no entry and take no room;
- a machine in a maintenance window gets no entry, however long it is unreachable;
- settings can limit how often and how soon again a machine is repaired, and how many of one
  failure domain at once, and count a domain with many reports as failed as a whole;
- of too many, the most urgent can be taken rather than none.

Each refusal is reported with its reason, and since when.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nodeagent.maintd.queue.failure_domains import Domains, unheard
from nodeagent.maintd.queue.refusals import WINDOW, Refusals
from nodeagent.maintd.queue.reports import believed, by_machine
from nodeagent.maintd.queue.state import aged, counted
from nodeagent.maintd.windows import timing
from nodeagent.model.action import RunCommand
from nodeagent.model.constraints import Constraints
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.queue import Attempt, Entry, Procedures
from nodeagent.model.reason import Held, Reason
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms

UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Admitted:
    """A round's result for the reports.

    `held` lists the refusals; `shut` says, by entry index, why an entry starts nothing now.
    """

    ledger: Ledger
    held: tuple[Held, ...] = ()
    shut: Mapping[int, Reason] = field(default_factory=dict)


def admit(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> Admitted:
    """Make entries of reports, as far as the constraints allow."""
    limits = policy.constraints.over(ledger.queue.overrides)
    queue = counted(aged(ledger.queue, limits, now), limits, now)
    if queue is not ledger.queue:
        ledger = replace(ledger, queue=queue)
    if not (observed.sick or queue.refusals or queue.entries or queue.failed):
        return Admitted(ledger)
    round_ = _Round(ledger, observed, policy.procedures, limits, now)
    round_.all()
    return round_.done()


@dataclass
class _Round:
    ledger: Ledger
    observed: Observed
    procedures: Procedures
    limits: Constraints
    now: Ms

    def __post_init__(self) -> None:
        self.queue = self.ledger.queue
        self.refusals = Refusals()
        self.shut: dict[int, Reason] = {}
        self.domains = Domains()
        snapshot = self.observed.snapshot
        some = any(self.observed.sick.values())
        self.by_address = {n.address: n for n in snapshot.nodes.values()} if some else {}
        entries = self.queue.entries if some else ()
        self.recent = {e.address for e in entries} | {e.serial for e in entries} - {""}
        self.repairs: dict[tuple[str, str], list[Attempt]] = {}
        counted = self.limits.maximum_repairs_per_machine or self.limits.cool_down_seconds
        for attempt in self.queue.attempts if some and counted else ():
            self.repairs.setdefault(("", attempt.address), []).append(attempt)
            if attempt.serial:
                self.repairs.setdefault(("serial", attempt.serial), []).append(attempt)
        self.in_window = timing.in_window(self.ledger, snapshot, self.now)
        self.outside = timing.outside(self.ledger, snapshot, self.now)

    def all(self) -> None:
        machines = by_machine(
            believed(self.observed.sick, self.refusals),
            self.observed.snapshot,
            self.by_address,
            self.domains,
            self.refusals,
        )
        self._judge_domains(machines)
        self._shut()
        if not self.queue.auto_repair:
            if machines:
                self.refusals.all("disabled", "automatic repair is disabled", list(machines))
            return
        new = [
            (address, one)
            for address, one in machines.items()
            if not self._is_refused(address, one)
        ]
        most = self.limits.maximum_repair_queue_entries
        if not most:
            if any(not isinstance(said, str) for said in self.observed.sick.values()):
                why = (
                    "maximum-repair-queue-entries is 0: no report becomes an entry until it is set"
                )
                self.refusals.all("inert", why, [address for address, _ in new])
            return
        self._fill(new, most)

    def done(self) -> Admitted:
        """The queue with its new entries and refusals, and all reasons to show."""
        refusals = self.refusals.remembered(self.queue.refusals, self.now)
        ledger = self.ledger
        queue = replace(self.queue, refusals=refusals)
        if queue != ledger.queue:
            ledger = replace(ledger, queue=queue)
        return Admitted(ledger, tuple(self.refusals.held()), self.shut)

    # One report.

    def _is_refused(self, address: str, one: Sick) -> bool:
        """Check whether a report makes no entry, regardless of other reports."""
        if address in self.recent or one.serial in self.recent:
            return True
        node = self.by_address.get(address)
        if why := self.domains.why_failed(self.domains.of(address)):
            self.refusals.add("domain-failure", address, str(why), node)
            return True
        found = (
            self._contradicted(one, node)
            or self._without_procedure(one)
            or self._maintained(address, one, node)
            or self._too_new(one, node)
            or self._repaired_before(address, one)
        )
        if found:
            self.refusals.add(found[0], address, found[1], node)
        return bool(found)

    def _contradicted(self, one: Sick, node: Node | None) -> tuple[str, str] | None:
        """Refuse 'unreachable' if a genuine answer disproves it."""
        if node is None or not _is_unreachable(one) or node.name not in self.observed.diagnoses:
            return None
        why = f"{one.source} says that it is unreachable, and its agent answers"
        return "contradiction", why

    def _without_procedure(self, one: Sick) -> tuple[str, str] | None:
        found = self.procedures.look_up(one.machine_type, one.operation)
        return ("procedure", found) if isinstance(found, str) else None

    def _maintained(self, address: str, one: Sick, node: Node | None) -> tuple[str, str] | None:
        why = self._window(address, one.serial, node)
        return (WINDOW, str(why)) if why else None

    def _window(self, address: str, serial: str, node: Node | None) -> Reason | None:
        """Why no work starts at a machine: any of its known names is in a window."""
        there = self.in_window.get(node.name) if node is not None else None
        return there or self.outside.get(address) or self.outside.get(serial.lower())

    def _too_new(self, one: Sick, node: Node | None) -> tuple[str, str] | None:
        """Refuse a report until its state has lasted for the configured wait, to the ms."""
        wait, because = self.limits.wait_seconds_to_repair, ""
        rebooting = self.limits.wait_seconds_to_repair_rebooting
        if _is_unreachable(one) and rebooting > wait:
            if node is None:
                wait, because = rebooting, " of a machine that is not a node"
            elif self._is_rebooting(node):
                wait, because = rebooting, " of a machine that is being repaired"
        if not wait:
            return None
        if not one.since:
            return "waiting", f"{one.source} does not say since when it is {_state(one)}"
        if one.since + wait * 1000 <= self.now:
            return None
        return (
            "waiting",
            f"it is left alone for the first {wait} s that it is {_state(one)}{because}",
        )

    def _is_rebooting(self, node: Node) -> bool:
        """Check whether a repair of its own may be rebooting it, as far as maintd knows."""
        if any(
            isinstance(i.action, RunCommand) and i.node == node.name and not i.purpose.entry
            for i in self.ledger.intents
        ):
            return True
        return any(
            incident.node == node.uuid
            and incident.status is Status.PENDING
            and incident.diagnosis.need is Need.LIVE_REPAIR
            for incident in self.ledger.incidents
        )

    def _repaired_before(self, address: str, one: Sick) -> tuple[str, str] | None:
        limits = self.limits
        known = {
            *self.repairs.get(("", address), ()),
            *self.repairs.get(("serial", one.serial), ()),
        }
        mine = [attempt.at for attempt in known]
        lately = [at for at in mine if at + limits.repairs_counted_seconds * 1000 > self.now]
        most = limits.maximum_repairs_per_machine
        if most and len(lately) >= most:
            days = limits.repairs_counted_seconds / 86_400
            return "attempts", f"it was repaired {len(lately)} times within {days:g} days"
        if mine and max(mine) + limits.cool_down_seconds * 1000 > self.now:
            return "cool-down", f"it is left alone for {limits.cool_down_seconds} s after a repair"
        return None

    # Domains.

    def _judge_domains(self, machines: Mapping[str, Sick]) -> None:
        """Find failed domains; machines with finished entries or in windows do not count."""
        over = {entry.address for entry in self.queue.entries if entry.status.finished}
        planned = {
            address
            for address, one in machines.items()
            if self._window(address, one.serial, self.by_address.get(address))
        }
        silent = unheard(self.queue.failed, self.observed.sick, on=self.queue.auto_repair)
        least = self.limits.domain_failure_machines
        broken = machines.keys() - over - planned
        failed = self.domains.judge(broken, least, self.queue.failed, silent)
        if failed != self.queue.failed:
            self.queue = replace(self.queue, failed=failed)

    def _shut(self) -> None:
        """Start nothing for entries in a window or in a failed domain."""
        if not (self.queue.failed or self.in_window or self.outside):
            return
        nodes = {n.address: n for n in self.observed.snapshot.nodes.values()}
        for entry in self.queue.entries:
            maintained = self._window(entry.address, entry.serial, nodes.get(entry.address))
            why = maintained or self.domains.why_failed(self.domains.of_entry(entry))
            if why:
                self.shut[entry.index] = why

    # All reports together.

    def _fill(self, new: list[tuple[str, Sick]], most: int) -> None:
        """Admit all or none of them; or, if so configured, as many as fit."""
        if not new:
            return
        there = len(self.queue.entries)
        room = most - there
        why = (
            f"{there} entries and {len(new)} reports that would become some are more than"
            f" maximum-repair-queue-entries, {most}: "
        )
        if len(new) > room and not self.limits.partial_admission:
            self.refusals.all("limit", why + "not one is made", [address for address, _ in new])
            return
        why += "the most urgent are made"
        busy = Counter(
            domain
            for entry in self.queue.entries
            if not (entry.status.finished or entry.deleted)
            for domain in self.domains.of_entry(entry)
        )
        each = self.limits.maximum_repairs_per_domain
        for address, one in new:
            domains = self.domains.of(address)
            full = next((d for d in domains if each and busy[d] >= each), "")
            if full:
                enough = f"{each} of {full} are being repaired, and no more are at once"
                self.refusals.add("domain-limit", address, enough, self.by_address.get(address))
            elif room <= 0:
                self.refusals.add("limit", address, why, self.by_address.get(address))
            else:
                room -= 1
                busy.update(domains)
                self._add(address, one)

    def _add(self, address: str, one: Sick) -> None:
        entry = Entry(
            0,
            address,
            one.machine_type,
            one.operation,
            one.serial,
            one.source,
            queued_at=self.now,
            changed_at=self.now,
            domain=one.domain,
            priority=one.priority,
        )
        self.queue = self.queue.add(entry)


def _is_unreachable(one: Sick) -> bool:
    return _state(one).lower() == UNREACHABLE


def _state(one: Sick) -> str:
    return one.state or one.operation
