"""What Prometheus is told of maintd. But of the repair queue, as in CKE, no label holds a name."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector as MetricsSource

from nodeagent import __version__
from nodeagent.maintd.http import status as show
from nodeagent.maintd.http.status import View
from nodeagent.maintd.owners import offers
from nodeagent.maintd.owners.webhook import Webhooks
from nodeagent.maintd.queue import refusals
from nodeagent.maintd.queue.inventory import Inventory
from nodeagent.maintd.queue.sabakan import SABAKAN
from nodeagent.maintd.queue.state import counts, matrix
from nodeagent.maintd.windows import timing as due
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Held, Policy
from nodeagent.model.offer import UNKNOWN, Reply
from nodeagent.model.queue import Queue
from nodeagent.model.window import Mode
from nodeagent.web.exchange import Request, Response

if TYPE_CHECKING:
    from nodeagent.maintd.api import Api

# The first that is found in a reason names its kind.
KINDS = (
    ("outdated", r"another node was the master"),
    ("queue", r"^left to the repair queue|^queue entry "),
    ("reported", r"^auto-repair\b"),
    ("autorepair", r"^instance \S+: "),
    ("balance", r"^group .* is not balanced: "),
    ("overdue", r"^overdue: "),
    ("owner", r"^the maintenance window of \S+ waits: owner |^owner \S+ is not told "),
    ("window-stopped", r"^the maintenance window of \S+ has stopped"),
    ("window", r"maintenance window|^series/"),
    ("paused", r"paused by|has the tag maintd:|is on hold"),
    ("storm", r"^storm brake"),
    ("doubt", r"^nothing is done while in doubt|waiting for it to last$|^rebuilt from Ganeti"),
    ("settling", r"^settling for"),
    ("cooldown", r"^cooling down|^not again for|^to be tried again|times within"),
    ("failed-before", r"^an earlier repair failed"),
    ("limit", r"nodes in work|nodes of its group in work|(part|moved) in another repair"),
    ("lost-job", r"cannot be found any more|^no word of .* is offline: look at"),
    ("job", r"^waiting for job"),
    ("master", r"is the master node"),
    ("room", r"^not emptied|cannot move"),
    ("setting", r"^a tag of "),
)
_LOOKS = ("seen", "silent", "distrusted", "not-asked")
_SCOPES = ("cluster", "group", "node", "incident")


def kind_of(held: Held) -> str:
    """What kind of reason it is held for; `other` for one that nobody has thought of."""
    return next((kind for kind, said in KINDS if re.search(said, held.reason)), "other")


class Metrics(MetricsSource):
    """Taken from the newest round at the time of asking."""

    def __init__(self, api: "Api") -> None:
        self._api = api
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def answer(self, _: Request) -> Response:
        """All of it, as Prometheus reads it."""
        text = generate_latest(self._registry)
        return Response(200, text, "text/plain; version=0.0.4; charset=utf-8")

    def describe(self) -> Iterable[Any]:
        """Nothing is known before somebody asks."""
        return ()

    def collect(self) -> Any:
        """Every family."""
        info = InfoMetricFamily("gnt_maint_build", "Version of maintd.")
        info.add_metric([], {"version": __version__})
        yield info
        yield from self._of_rounds()
        yield from self._of_http()
        view = self._api.view
        if view is not None:
            yield from _of_incidents(view)
            yield from _of_work(view)
            yield from _of_nodes(view)
            yield from _of_windows(view)
            yield from _of_offers(view)
            yield from _of_webhooks(self._api.maintd.engine.webhooks)
            yield from _of_sources(view, self._api.maintd.engine.inventory)
            yield from _of_queue(view, self._api.maintd.engine.policy)
            yield from _of_refusals(view.ledger.queue)

    def _of_rounds(self) -> Any:
        maintd = self._api.maintd
        yield _count("gnt_maint_rounds", "Rounds held or skipped.", maintd.rounds)
        yield _gauge("gnt_maint_ready", "Whether a round was held lately.", not self._api.unready())
        yield _gauge("gnt_maint_round_skipped", "Whether the last round was not held.",
                     maintd.trouble is not None)  # fmt: skip
        if (done := maintd.latest) is not None:
            name = "gnt_maint_round_timestamp_seconds"
            yield _gauge(name, "When the last round was held.", done.at / 1000)
            age = (maintd.now() - done.at) / 1000
            yield _gauge("gnt_maint_round_age_seconds", "How long ago that was.", age)
            acting = done.idle is None
            yield _gauge("gnt_maint_acting", "Whether that round was carried out.", acting)

    def _of_http(self) -> Any:
        answered = sum((server.answered for server in self._api.servers), Counter[int]())
        by_code = {str(code): count for code, count in sorted(answered.items())}
        yield _counts("gnt_maint_http_requests", "Requests answered, by status code.", "code",
                      by_code)  # fmt: skip
        shed = sum(server.shed for server in self._api.servers)
        yield _count("gnt_maint_http_shed", "Connections closed to make room.", shed)
        failures = self._api.access.throttle.failures
        yield _count("gnt_maint_logins_failed", "Logins that failed.", failures)


def _of_incidents(view: View) -> Any:
    found = Counter(incident.status.value for incident in view.ledger.incidents)
    states = {status.value: found[status.value] for status in Status}
    yield _gauges("gnt_maint_incidents", "Incidents, by repair status.", "status", states)
    kinds = Counter(kind_of(held) for held in view.held)
    named = {kind: kinds[kind] for kind in (*(kind for kind, _ in KINDS), "other")}
    yield _gauges("gnt_maint_held", "What is wanted and not done, by reason.", "kind", named)


def _of_work(view: View) -> Any:
    jobs = [intent.job for intent in view.ledger.intents]
    ganeti = sum(1 for job in jobs if job and job.isdecimal())
    yield _gauge("gnt_maint_jobs_in_flight", "Ganeti jobs not known to be over.", ganeti)
    orders = sum(1 for job in jobs if job and not job.isdecimal())
    yield _gauge("gnt_maint_orders_in_flight", "Orders to agents not known to be over.", orders)
    repairs = sum(1 for intent in view.ledger.intents if intent.repair)
    yield _gauge("gnt_maint_repairs_in_flight", "Those of them that repair instances.", repairs)
    yield _gauge("gnt_maint_promised", "Promises not known to be submitted.", jobs.count(None))
    tripped = view.ledger.storm is not None
    yield _gauge("gnt_maint_storm", "Whether the storm brake has tripped.", tripped)
    told = "Whether plans wait since another node was the master."
    yield _gauge("gnt_maint_plans_outdated", told, view.ledger.away > 0)
    scopes = Counter(hold["scope"] for hold in show.holds(view))
    paused = {scope: scopes[scope] for scope in _SCOPES}
    yield _gauges("gnt_maint_paused", "Pauses, by what they are laid on.", "scope", paused)


def _of_nodes(view: View) -> Any:
    names = view.observed.snapshot.nodes
    looks = Counter(show.how_seen(view.looks.get(name))[0] for name in names)
    by_look = {look: looks[look] for look in _LOOKS}
    yield _gauges("gnt_maint_nodes", "Nodes, by how looking at them went.", "look", by_look)
    needs = Counter(said.need for said in view.observed.diagnoses.values())
    by_need = {need.wire: needs[need] for need in Need}
    yield _gauges("gnt_maint_nodes_need", "Nodes, by what they say they need.", "need", by_need)


def _of_windows(view: View) -> Any:
    scheduled = view.ledger.scheduled
    modes = Counter(one.mode for one in scheduled)
    late = Counter(one.mode for one in scheduled if due.overdue(one, view.ledger, view.at))
    planned = (Mode.DRAINING, Mode.DOWN)
    yield _gauges("gnt_maint_machines_scheduled", "Machines in maintenance windows, by mode.",
                  "mode", {mode.value: modes[mode] for mode in planned})  # fmt: skip
    yield _gauges("gnt_maint_machines_overdue",
                  "Those that are draining past the start of their window, or down past its end.",
                  "mode", {mode.value: late[mode] for mode in planned})  # fmt: skip


def _of_offers(view: View) -> Any:
    ledger = view.ledger
    asked = [offer for offer in ledger.offers if offer.instances]
    found = Counter(offer.status for offer in asked)
    states = (UNKNOWN, *(reply.value for reply in Reply))
    yield _gauges("gnt_maint_offers",
                  "Owners asked whether their instances may leave a node, by answer.", "status",
                  {status: found[status] for status in states})  # fmt: skip
    oldest = min((o.since for o in asked if o.answer is None), default=view.at)
    yield _gauge("gnt_maint_offers_unanswered_seconds",
                 "For how long the oldest of them is unanswered.",
                 max(0, view.at - oldest) / 1000)  # fmt: skip
    made = offers.by_node(ledger)
    held = sum(any(offers.holds(one, ledger, view.at, made)) for one in ledger.scheduled)
    yield _gauge("gnt_maint_machines_held_by_owners",
                 "Machines that are not emptied because owners do not agree.", held)  # fmt: skip


def _of_webhooks(webhooks: Webhooks) -> Any:
    yield _counts("gnt_maint_offers_told", "Tries to tell an owner by its webhook.", "outcome",
                  webhooks.counts)  # fmt: skip
    yield _gauge("gnt_maint_offers_untold", "Offers that are still to be told of so.",
                 webhooks.waiting)  # fmt: skip


def _of_queue(view: View, policy: Policy) -> Any:
    """CKE's own; without any procedure no node has a line."""
    queue, nodes = view.ledger.queue, view.observed.snapshot.nodes.values()
    addresses = [node.address for node in nodes] if policy.procedures.repair_procedures else []
    yield _gauge("gnt_maint_repair_queue_enabled", "Whether the queue is worked off.",
                 queue.enabled)  # fmt: skip
    items = {status.value: count for status, count in counts(queue).items()}
    yield _gauges("gnt_maint_repair_queue_items", "Entries, by status.", "status", items)
    labels = ("index", "address", "operation", "status", "step")
    entries = GaugeMetricFamily("gnt_maint_repair_queue_entries", "1 for each.", labels=labels)
    for entry in queue.entries:
        named = (str(entry.index), entry.address, entry.operation, entry.status.value)
        entries.add_metric([*named, str(entry.step)], 1)
    yield entries
    machines = GaugeMetricFamily("gnt_maint_machine_repair_status",
                                 "Whether an entry of this status is about the machine.",
                                 labels=("address", "status"))  # fmt: skip
    for address, status, there in matrix(queue, addresses):
        machines.add_metric([address, status.value], there)
    yield machines


def _of_sources(view: View, inventory: Inventory) -> Any:
    """Of a source that is not asked nothing is told, but what was known of it before."""
    yield _gauge("gnt_maint_auto_repair_enabled", "Whether entries are made of what is reported.",
                 view.ledger.queue.auto_repair)  # fmt: skip
    said = sorted(view.sick.items())
    believed = {name: int(not isinstance(sick, str)) for name, sick in said}
    yield _gauges("gnt_maint_repair_source_up", "Whether what a source reports is believed.",
                  "source", believed)  # fmt: skip
    found = {name: len(sick) for name, sick in said if not isinstance(sick, str)}
    yield _gauges("gnt_maint_repair_source_machines", "Machines that it reports broken.",
                  "source", found)  # fmt: skip
    if not inventory.on:
        return
    heard = inventory.heard
    failures = {SABAKAN: heard.failures}
    yield _counts("gnt_maint_repair_source_failures", "Answers that were none to be believed.",
                  "source", failures)  # fmt: skip
    if heard.failed:
        name = "gnt_maint_repair_source_failed_timestamp_seconds"
        yield _seconds(name, "When the last was.", heard.failed / 1000)
    if inventory.age is not None:
        name = "gnt_maint_repair_source_age_seconds"
        yield _seconds(name, "How long ago the last came that was believed.", inventory.age)


def _seconds(name: str, text: str, value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=["source"])
    family.add_metric([SABAKAN], value)
    return family


def _of_refusals(queue: Queue) -> Any:
    """What the limiter and the other guards do, which CKE tells nobody."""
    found = {refusal.reason: refusal for refusal in queue.refusals}
    machines = {reason: one.machines for reason in refusals.KINDS if (one := found.get(reason))}
    yield _gauges("gnt_maint_auto_repair_refused",
                  "Machines that are reported broken and not repaired, by reason.", "reason",
                  {reason: machines.get(reason, 0) for reason in refusals.KINDS})  # fmt: skip
    family = GaugeMetricFamily("gnt_maint_auto_repair_refused_since_timestamp_seconds",
                               "Since when the reason has been there; without it nothing.",
                               labels=["reason"])  # fmt: skip
    for refusal in queue.refusals:
        family.add_metric([refusal.reason], refusal.since / 1000)
    yield family


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=float(value))


def _count(name: str, text: str, value: int) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=value)


def _gauges(name: str, text: str, label: str, values: dict[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _counts(name: str, text: str, label: str, values: dict[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
