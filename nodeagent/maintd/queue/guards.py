"""Turn reports of sources into queue entries, within limits that stop a storm. Pure.

Each report passes these rules in their order; the first that refuses it gives the reason.

 1. A source that is not believed reports nothing.
 2. A machine needs a valid address (CKE).
 3. Reports that contradict each other, as two serials of one address, count for nothing.
 4. While automatic repair is off, no report becomes an entry.
 5. A machine that any entry is about gets no other, whatever the entry's status (CKE).
 6. If a failure domain such as a rack has many broken machines, nothing is repaired in it.
 7. A machine is not unreachable if it answers us.
 8. There must be a procedure for it.
 9. A machine in a maintenance window gets no entry, however long it is unreachable.
10. Its state must have lasted for long enough; for longer if it may be rebooting (CKE).
11. It must not have been repaired too often, or too recently.
12. The stage must allow maintd to act by itself.
13. While no limit of entries is set, there are none.
14. If entries and reports together are too many, no entry is made (CKE); or, if so configured, the
    most urgent ones are.
15. At most so many machines of a failure domain are repaired at once.

Each refusal is reported with its reason, and since when. A failed domain stays failed until its
sources report otherwise: a source that does not answer, or that maintd does not ask because
automatic repair is off, has not reported that the rack has its power back.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from nodeagent.errors import MessageError
from nodeagent.maintd.planning.names import address_of
from nodeagent.maintd.planning.situation import Situation
from nodeagent.maintd.queue.state import aged, counted
from nodeagent.maintd.windows import timing
from nodeagent.model.action import RunCommand
from nodeagent.model.constraints import Constraints
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Ledger
from nodeagent.model.purpose import OfEntry
from nodeagent.model.queue import Attempt, Entry, FailedDomain, Queue, Refusal
from nodeagent.model.reason import MOST_TOLD, Held, Kind, Reason, StageKind, because
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms

UNREACHABLE = "unreachable"
WINDOW = "window"
# Reasons for refusals; maintd remembers since when each lasts.
KINDS = (
    "source",  # its answer is not believed
    "disabled",  # automatic repair is switched off
    "inert",  # no constraint sets the maximum number of entries
    "limit",  # there are too many
    "domain-limit",  # enough machines of its failure domain are being repaired
    "domain-failure",  # its whole failure domain has probably failed
    "address",  # it has no address, or an invalid one
    "contradiction",  # another report, or the machine itself, contradicts it
    "procedure",  # no procedure is configured for it
    WINDOW,  # it is being maintained
    "waiting",  # its state has not lasted long enough
    "attempts",  # it was repaired too often
    "cool-down",  # it was repaired just now
    "stage",  # maintd does nothing by itself there
)


@dataclass(frozen=True, slots=True)
class Admitted:
    """A round's result for the reports.

    `held` lists the refusals; `shut` says, by entry index, why an entry starts nothing now.
    """

    ledger: Ledger
    held: tuple[Held, ...] = ()
    shut: Mapping[int, Reason] = field(default_factory=dict)


Reports: TypeAlias = Mapping[str, tuple[Sick, ...] | str]


def admit(ledger: Ledger, situation: Situation, reports: Reports) -> Admitted:
    """Make entries of reports, by source, as far as the constraints allow.

    A source that cannot be asked says why instead.
    """
    now = situation.now
    limits = situation.policy.constraints.over(ledger.queue.overrides)
    queue = counted(aged(ledger.queue, limits, now), limits, now)
    if queue is not ledger.queue:
        ledger = replace(ledger, queue=queue)
    if not (reports or queue.refusals or queue.entries or queue.failed):
        return Admitted(ledger)
    return _Admission(ledger, situation, reports, limits).admitted()


class _Refusals:
    """The refused reports of a round, by kind."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[str, str, str]]] = {}  # kind: machine, node, why
        self._why: dict[str, str] = {}  # kind: why, whether there are machines or not

    def add(self, kind: str, machine: str, why: str, node: Node | None = None) -> None:
        self._rows.setdefault(kind, []).append((machine, node.name if node else "", why))

    def all(self, kind: str, why: str, machines: Iterable[str]) -> None:
        """Refuse all of these for one reason, which is shown even without machines."""
        self._why[kind] = why
        self._rows[kind] = [(machine, "", why) for machine in machines]

    def remembered(self, before: Sequence[Refusal], now: Ms) -> tuple[Refusal, ...]:
        """Each kind, with the time (unix ms) since which it lasts, from `before`."""
        since = {refusal.reason: refusal.since for refusal in before}
        return tuple(
            Refusal(kind, len(rows), since.get(kind, now), rows[0][2] if rows else self._why[kind])
            for kind in KINDS
            if (rows := self._rows.get(kind)) is not None
        )

    def held(self) -> Iterator[Held]:
        """A line for each reason, with its machines."""
        for kind in KINDS:
            rows = self._rows.get(kind)
            if rows is not None:
                yield from self._held(kind, rows)

    def _held(self, kind: str, rows: list[tuple[str, str, str]]) -> Iterator[Held]:
        by_why: dict[str, list[tuple[str, str, str]]] = {} if rows else {self._why[kind]: []}
        for row in rows:
            by_why.setdefault(row[2], []).append(row)
        shown = 0
        for number, (why, same) in enumerate(by_why.items()):
            if number == MOST_TOLD:  # a broken inventory does not fill the history
                yield Held(because(Kind.MORE_REFUSED, count=len(rows) - shown, why=kind))
                return
            shown += len(same)
            machine, node, _ = same[0] if len(same) == 1 else ("", "", "")
            machines = f"{len(same)} machines" if same else ""
            of = "" if kind == "source" else machine or machines
            refused = Kind.REFUSED_IN_WINDOW if kind == WINDOW else Kind.REFUSED
            yield Held(because(refused, node, of=of, why=why), node)


class _Domains:
    """Failure domains that a round's reports name, and the failed ones."""

    def __init__(self) -> None:
        self._of: dict[str, set[str]] = {}  # by address
        self._sources: dict[str, set[str]] = {}  # by domain
        self._failed: dict[str, FailedDomain] = {}

    def note(self, address: str, report: Sick) -> None:
        """Record a report: each source may give another domain for one machine."""
        if report.domain:
            self._of.setdefault(address, set()).add(report.domain)
            self._sources.setdefault(report.domain, set()).add(report.source)

    def of(self, address: str) -> Collection[str]:
        return sorted(self._of.get(address, ()))

    def of_entry(self, entry: Entry) -> Collection[str]:
        """The domains of an entry's machine; empty for an entry that an operator added."""
        return {entry.domain, *self._of.get(entry.address, ())} if entry.domain else ()

    def judge(
        self,
        broken: Collection[str],
        least: int,
        before: Collection[FailedDomain],
        unheard: Collection[str],
    ) -> tuple[FailedDomain, ...]:
        """The failed domains, given the addresses of `broken` machines.

        `before` are those that had failed, `unheard` the sources whose state is unknown now.
        """
        if not least:
            return ()
        counts = Counter(domain for address in broken for domain in self._of.get(address, ()))
        for domain, machines in counts.items():
            if machines >= least:
                sources = tuple(sorted(self._sources[domain]))
                self._failed[domain] = FailedDomain(domain, sources, machines)
        for known in before:
            silent = set(known.sources).intersection(unheard)
            if silent:
                now = self._failed.get(known.domain, known)
                sources = tuple(sorted({*now.sources, *silent}))
                machines = max(now.machines, known.machines)
                self._failed[known.domain] = FailedDomain(known.domain, sources, machines)
        return tuple(self._failed[domain] for domain in sorted(self._failed))

    def why_failed(self, domains: Collection[str]) -> Reason | None:
        for domain in domains:
            if (failed := self._failed.get(domain)) is not None:
                return because(Kind.DOMAIN_FAILED, machines=failed.machines, domain=failed.domain)
        return None


def _unheard(queue: Queue, sick: Reports) -> set[str]:
    """The sources of failed domains whose state is unknown now.

    A text in `sick` says why a source is not believed. While automatic repair is off, maintd asks
    no source; otherwise a source that is missing no longer exists.
    """
    sources = {source for failed in queue.failed for source in failed.sources}
    return {
        source
        for source in sources
        if isinstance(sick.get(source), str) or (source not in sick and not queue.auto_repair)
    }


class _Admission:
    def __init__(
        self, ledger: Ledger, situation: Situation, reports: Reports, limits: Constraints
    ) -> None:
        self.ledger, self.situation, self.reports = ledger, situation, reports
        self.observed, self.now, self.limits = situation.observed, situation.now, limits
        self.queue = ledger.queue
        self.refusals, self.domains = _Refusals(), _Domains()
        snapshot = self.observed.snapshot
        self.nodes = {node.address: node for node in snapshot.nodes.values()}
        entries = ledger.queue.entries
        self.recent = {e.address for e in entries} | {e.serial for e in entries} - {""}
        self.repairs = _repairs(ledger.queue, limits)
        self.in_window = timing.in_window(ledger, snapshot, self.now)
        self.outside = timing.outside(ledger, snapshot, self.now)

    def admitted(self) -> Admitted:
        """The queue with its new entries and refusals, and all reasons to show."""
        machines = self._machines()
        self._judge_domains(machines)
        shut = dict(self._shut())
        if self.queue.auto_repair:
            self._admit(machines)
        elif machines:
            self.refusals.all("disabled", "automatic repair is disabled", machines)
        refusals = self.refusals.remembered(self.ledger.queue.refusals, self.now)
        ledger, queue = self.ledger, replace(self.queue, refusals=refusals)
        if queue != ledger.queue:
            ledger = replace(ledger, queue=queue)
        return Admitted(ledger, tuple(self.refusals.held()), shut)

    # Rules 1 to 3: what is reported.

    def _believed(self) -> list[Sick]:
        """All reports of believed sources, the most urgent first."""
        reports: list[Sick] = []
        for source, answer in sorted(self.reports.items()):
            if isinstance(answer, str):
                self.refusals.add("source", source, f"{source} is not believed: {answer}")
            else:
                reports += answer
        return sorted(reports, key=lambda report: -report.priority)

    def _machines(self) -> dict[str, Sick]:
        """The reports by machine address, one each, and none of a machine with contradictions."""
        machines: dict[str, Sick] = {}
        odd: set[str] = set()
        for report in self._believed():
            address = self._address(report)
            if not address:
                continue
            self.domains.note(address, report)
            first = machines.setdefault(address, report)
            if not first.serial:
                machines[address] = replace(first, serial=report.serial)
            elif report.serial and first.serial != report.serial and address not in odd:
                odd.add(address)
                serials = f"{first.serial}, {report.serial}"
                why = f"two machines are said to have this address: {serials}"
                self.refusals.add("contradiction", address, why)
        odd |= self._at_two_places(machines)
        return {address: report for address, report in machines.items() if address not in odd}

    def _at_two_places(self, machines: Mapping[str, Sick]) -> set[str]:
        """The addresses of machines reported with several: one belongs to another machine."""
        by_serial: dict[str, list[str]] = {}
        for address, report in machines.items():
            if report.serial:
                by_serial.setdefault(report.serial, []).append(address)
        odd: set[str] = set()
        for serial, addresses in by_serial.items():
            if len(addresses) > 1:
                odd |= {*addresses}
                why = f"it is said to have two addresses: {addresses[0]}, {addresses[1]}"
                self.refusals.add("contradiction", serial, why)
        return odd

    def _address(self, report: Sick) -> str:
        """Its address; "" with a refusal if it has no valid one."""
        why = f"{report.source} knows no address of it"
        if report.address:
            try:
                return address_of(report.address, self.observed.snapshot, self.nodes)
            except MessageError as error:
                why = str(error)
        self.refusals.add("address", report.serial or report.address or "a machine", why)
        return ""

    # Rules 5 to 12: one report.

    def _is_refused(self, address: str, report: Sick) -> bool:
        """Check whether a report makes no entry, regardless of other reports."""
        if address in self.recent or report.serial in self.recent:
            return True
        node = self.nodes.get(address)
        refusal = (
            self._failed_domain(address)
            or self._contradicted(report, node)
            or self._without_procedure(report)
            or self._maintained(address, report, node)
            or self._too_new(report, node)
            or self._repaired_before(address, report)
            or self._at_stage(address, report, node)
        )
        if refusal is None:
            return False
        kind, why = refusal
        self.refusals.add(kind, address, why, node)
        return True

    def _failed_domain(self, address: str) -> tuple[str, str] | None:
        why = self.domains.why_failed(self.domains.of(address))
        return ("domain-failure", str(why)) if why else None

    def _contradicted(self, report: Sick, node: Node | None) -> tuple[str, str] | None:
        """Refuse 'unreachable' if a genuine answer disproves it."""
        answers = node is not None and node.name in self.observed.diagnoses
        if not answers or not _is_unreachable(report):
            return None
        return (
            "contradiction",
            f"{report.source} says that it is unreachable, and its agent answers",
        )

    def _without_procedure(self, report: Sick) -> tuple[str, str] | None:
        operation = self.situation.policy.procedures.look_up(report.machine_type, report.operation)
        return ("procedure", operation) if isinstance(operation, str) else None

    def _maintained(self, address: str, report: Sick, node: Node | None) -> tuple[str, str] | None:
        why = self._window(address, report.serial, node)
        return (WINDOW, str(why)) if why else None

    def _window(self, address: str, serial: str, node: Node | None) -> Reason | None:
        """Why no work starts at a machine: any of its known names is in a window."""
        why = self.in_window.get(node.name) if node is not None else None
        return why or self.outside.get(address) or self.outside.get(serial.lower())

    def _too_new(self, report: Sick, node: Node | None) -> tuple[str, str] | None:
        """Refuse a report until its state has lasted for the configured wait, to the ms."""
        wait, which = self.limits.wait_seconds_to_repair, ""
        rebooting = self.limits.wait_seconds_to_repair_rebooting
        if _is_unreachable(report) and rebooting > wait:
            if node is None:
                wait, which = rebooting, " of a machine that is not a node"
            elif self._is_rebooting(node):
                wait, which = rebooting, " of a machine that is being repaired"
        if not wait:
            return None
        state = _state(report)
        if not report.since:
            return "waiting", f"{report.source} does not say since when it is {state}"
        if report.since + wait * 1000 <= self.now:
            return None
        return "waiting", f"it is left alone for the first {wait} s that it is {state}{which}"

    def _is_rebooting(self, node: Node) -> bool:
        """Check whether a repair of its own may be rebooting it, as far as maintd knows."""
        if any(
            isinstance(intent.action, RunCommand)
            and intent.node == node.name
            and not isinstance(intent.purpose, OfEntry)
            for intent in self.ledger.intents
        ):
            return True
        return any(
            incident.node == node.uuid
            and incident.status is Status.PENDING
            and incident.diagnosis.need is Need.LIVE_REPAIR
            for incident in self.ledger.incidents
        )

    def _repaired_before(self, address: str, report: Sick) -> tuple[str, str] | None:
        limits = self.limits
        by_address = self.repairs.get(("address", address), ())
        by_serial = self.repairs.get(("serial", report.serial), ())
        ended = [attempt.at for attempt in {*by_address, *by_serial}]
        lately = [at for at in ended if at + limits.repairs_counted_seconds * 1000 > self.now]
        allowed = limits.maximum_repairs_per_machine
        if allowed and len(lately) >= allowed:
            days = limits.repairs_counted_seconds / 86_400
            return "attempts", f"it was repaired {len(lately)} times within {days:g} days"
        if ended and max(ended) + limits.cool_down_seconds * 1000 > self.now:
            return "cool-down", f"it is left alone for {limits.cool_down_seconds} s after a repair"
        return None

    def _at_stage(self, address: str, report: Sick, node: Node | None) -> tuple[str, str] | None:
        """Refuse to act by itself where only people do so far: the last rule, as it would act."""
        policy = self.situation.policy
        if node is not None:
            policy = self.situation.policy_of(node)
        if policy.acts:
            return None
        name = node.name if node is not None else address
        why = because(
            StageKind.WOULD_QUEUE,
            name,
            stage=policy.stage,
            operation=report.operation,
            machine=report.machine_type,
        )
        return "stage", str(why)

    # Rule 6: failure domains.

    def _judge_domains(self, machines: Mapping[str, Sick]) -> None:
        """Find failed domains; machines with finished entries or in windows do not count."""
        over = {entry.address for entry in self.queue.entries if entry.status.finished}
        planned = {
            address
            for address, report in machines.items()
            if self._window(address, report.serial, self.nodes.get(address))
        }
        silent = _unheard(self.queue, self.reports)
        least = self.limits.domain_failure_machines
        broken = machines.keys() - over - planned
        failed = self.domains.judge(broken, least, self.queue.failed, silent)
        if failed != self.queue.failed:
            self.queue = replace(self.queue, failed=failed)

    def _shut(self) -> Iterator[tuple[int, Reason]]:
        """Start nothing for entries in a window or in a failed domain."""
        if not (self.queue.failed or self.in_window or self.outside):
            return
        for entry in self.queue.entries:
            maintained = self._window(entry.address, entry.serial, self.nodes.get(entry.address))
            why = maintained or self.domains.why_failed(self.domains.of_entry(entry))
            if why:
                yield entry.index, why

    # Rules 13 to 15: all reports together.

    def _admit(self, machines: Mapping[str, Sick]) -> None:
        new = [
            (address, report)
            for address, report in machines.items()
            if not self._is_refused(address, report)
        ]
        limit = self.limits.maximum_repair_queue_entries
        if limit:
            self._fill(new, limit)
        elif any(not isinstance(answer, str) for answer in self.reports.values()):
            why = "maximum-repair-queue-entries is 0: no report becomes an entry until it is set"
            self.refusals.all("inert", why, [address for address, _ in new])

    def _fill(self, new: list[tuple[str, Sick]], limit: int) -> None:
        """Admit all or none of them; or, if so configured, as many as fit."""
        if not new:
            return
        entries = len(self.queue.entries)
        room = limit - entries
        why = (
            f"{entries} entries and {len(new)} reports that would become some are more than"
            f" maximum-repair-queue-entries, {limit}: "
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
        for address, report in new:
            domains = self.domains.of(address)
            full = next((d for d in domains if each and busy[d] >= each), "")
            if full:
                enough = f"{each} of {full} are being repaired, and no more are at once"
                self.refusals.add("domain-limit", address, enough, self.nodes.get(address))
            elif room <= 0:
                self.refusals.add("limit", address, why, self.nodes.get(address))
            else:
                room -= 1
                busy.update(domains)
                self._add(address, report)

    def _add(self, address: str, report: Sick) -> None:
        entry = Entry(
            0,
            address,
            report.machine_type,
            report.operation,
            report.serial,
            report.source,
            queued_at=self.now,
            changed_at=self.now,
            domain=report.domain,
            priority=report.priority,
        )
        self.queue = self.queue.add(entry)


def _repairs(queue: Queue, limits: Constraints) -> dict[tuple[str, str], list[Attempt]]:
    """The ended repairs, by address and by serial, if they limit anything."""
    repairs: dict[tuple[str, str], list[Attempt]] = {}
    if not (limits.maximum_repairs_per_machine or limits.cool_down_seconds):
        return repairs
    for attempt in queue.attempts:
        repairs.setdefault(("address", attempt.address), []).append(attempt)
        if attempt.serial:
            repairs.setdefault(("serial", attempt.serial), []).append(attempt)
    return repairs


def _is_unreachable(report: Sick) -> bool:
    return _state(report).lower() == UNREACHABLE


def _state(report: Sick) -> str:
    return report.state or report.operation
