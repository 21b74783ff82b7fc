"""Metrics of the repair queue and its sources: CKE's, and reasons for refusals."""

from typing import Any

from prometheus_client.core import GaugeMetricFamily

from nodeagent.maintd.http.metrics.families import counters, gauge, gauges
from nodeagent.maintd.http.view import View
from nodeagent.maintd.queue.guards import KINDS
from nodeagent.maintd.queue.inventory import Inventory
from nodeagent.maintd.queue.sabakan import SABAKAN
from nodeagent.maintd.queue.state import counts, matrix
from nodeagent.model.ledger import Policy
from nodeagent.model.queue import Queue


def of_queue(view: View, policy: Policy) -> Any:
    """CKE's own metrics; without any procedure no node has a line."""
    queue, nodes = view.ledger.queue, view.observed.snapshot.nodes.values()
    addresses = [node.address for node in nodes] if policy.procedures.repair_procedures else []
    yield gauge("gnt_maint_repair_queue_enabled", "Whether the queue is processed.", queue.enabled)
    items = {status.value: count for status, count in counts(queue).items()}
    yield gauges("gnt_maint_repair_queue_items", "Entries, by status.", "status", items)
    labels = ("index", "address", "operation", "status", "step")
    entries = GaugeMetricFamily("gnt_maint_repair_queue_entries", "1 for each.", labels=labels)
    for entry in queue.entries:
        named = (str(entry.index), entry.address, entry.operation, entry.status.value)
        entries.add_metric([*named, str(entry.step)], 1)
    yield entries
    machines = GaugeMetricFamily(
        "gnt_maint_machine_repair_status",
        "Whether an entry of this status is about the machine.",
        labels=("address", "status"),
    )
    for address, status, has_entry in matrix(queue, addresses):
        machines.add_metric([address, status.value], has_entry)
    yield machines


def of_sources(view: View, inventory: Inventory) -> Any:
    """Yield metrics of sources; one that is not polled has only its earlier ones."""
    yield gauge(
        "gnt_maint_auto_repair_enabled",
        "Whether entries are made of what is reported.",
        view.ledger.queue.auto_repair,
    )
    sources = sorted(view.sick.items())
    believed = {name: int(not isinstance(sick, str)) for name, sick in sources}
    yield gauges(
        "gnt_maint_repair_source_up",
        "Whether what a source reports is believed.",
        "source",
        believed,
    )
    machines = {name: len(sick) for name, sick in sources if not isinstance(sick, str)}
    yield gauges(
        "gnt_maint_repair_source_machines", "Machines that it reports broken.", "source", machines
    )
    if not inventory.on:
        return
    heard = inventory.heard
    failures = {SABAKAN: heard.failures}
    yield counters(
        "gnt_maint_repair_source_failures",
        "Answers that were none to be believed.",
        "source",
        failures,
    )
    if heard.failed:
        name = "gnt_maint_repair_source_failed_timestamp_seconds"
        yield gauges(name, "When the last was.", "source", {SABAKAN: heard.failed / 1000})
    if inventory.age is not None:
        name = "gnt_maint_repair_source_age_seconds"
        documentation = "How long ago the last came that was believed."
        yield gauges(name, documentation, "source", {SABAKAN: inventory.age})


def of_refusals(queue: Queue) -> Any:
    """Yield refusals of limiter and guards, which CKE does not report."""
    by_reason = {refusal.reason: refusal for refusal in queue.refusals}
    machines = {reason: refusal.machines for reason in KINDS if (refusal := by_reason.get(reason))}
    yield gauges(
        "gnt_maint_auto_repair_refused",
        "Machines that are reported broken and not repaired, by reason.",
        "reason",
        {reason: machines.get(reason, 0) for reason in KINDS},
    )
    yield gauges(
        "gnt_maint_auto_repair_refused_since_timestamp_seconds",
        "Since when the reason has been there; without it nothing.",
        "reason",
        {refusal.reason: refusal.since / 1000 for refusal in queue.refusals},
    )
