"""Metrics of incidents, nodes and work: what is open, what has ended, and what needs a person."""

from collections import Counter
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from nodeagent.maintd.deciding.requests import ROWS
from nodeagent.maintd.http import status as show
from nodeagent.maintd.http.metrics.families import NAMED, counters, gauge, gauges
from nodeagent.maintd.http.view import View, in_order, needs_you
from nodeagent.maintd.ledger import agent_events
from nodeagent.maintd.ledger.tally import BOUNDS, Tally, Times, verb
from nodeagent.maintd.ledger.unreachable import unreachable
from nodeagent.maintd.notices.needs_you import Sort
from nodeagent.model.diagnosis import Need
from nodeagent.model.fencing import Stage
from nodeagent.model.incident import Status
from nodeagent.model.reason import KINDS, FencingKind

_LOOKS = ("seen", "silent", "distrusted", "not-asked")
_SCOPES = ("cluster", "group", "node", "incident")
_FENCING_BLOCKED = {
    FencingKind.NO_POWER_CONTROL,
    FencingKind.FENCING_WAITS,
    FencingKind.FENCE_TRIES_AGAIN,
    FencingKind.FENCE_SWITCHED_OFF,
}
_POWER_CONTROL = {FencingKind.CONTROL_FAILS, FencingKind.LEVEL_FAILS}
_VERBS = sorted(map(verb, ROWS))


def of_outcome(tally: Tally) -> Any:
    yield counters(
        "gnt_maint_incidents_ended", "Incidents that ended, by result.", "result", tally.ended
    )
    yield counters("gnt_maint_fencing", "Events of dead nodes, by kind.", "event", tally.fencing)
    text = "From the detection of a fault until its node was evacuated."
    evacuated = HistogramMetricFamily("gnt_maint_evacuation_seconds", text)
    evacuated.add_metric([], _buckets(tally.evacuated), tally.evacuated.seconds)
    yield evacuated
    text = "From the detection of a fault until it was repaired, by what its node requested."
    repaired = HistogramMetricFamily("gnt_maint_repair_seconds", text, labels=["need"])
    for need, times in tally.repaired.items():
        repaired.add_metric([need], _buckets(times), times.seconds)
    yield repaired
    asked = CounterMetricFamily(
        "gnt_maint_requests", "Requests, by what was asked for.", labels=["verb", "result"]
    )
    for name in _VERBS:
        for result in ("granted", "refused"):
            asked.add_metric([name, result], tally.requests[name, result])
    yield asked


def of_open_incidents(view: View) -> Any:
    """Times of detection; the oldest of a status, so that the number is bounded."""
    text = f"When a node's incident was detected; the {NAMED} oldest of each status."
    detected = GaugeMetricFamily(
        "gnt_maint_node_incident_timestamp_seconds", text, labels=["node", "need", "status"]
    )
    counts: Counter[Status] = Counter()
    seen = set()
    for incident in in_order(view.ledger):
        status = incident.status
        labels = (incident.name, incident.diagnosis.need.wire, status.value)
        if status is Status.CANCELED or labels in seen or counts[status] == NAMED:
            continue
        counts[status] += 1
        seen.add(labels)
        detected.add_metric(labels, incident.noted_at / 1000)
    yield detected


def _buckets(times: Times) -> list[tuple[str, float]]:
    upto = zip(map(float, BOUNDS), times.upto, strict=True)
    return [*((str(bound), float(count)) for bound, count in upto), ("+Inf", float(times.count))]


def of_incidents(view: View) -> Any:
    counts = Counter(incident.status.value for incident in view.ledger.incidents)
    states = {status.value: counts[status.value] for status in Status}
    yield gauges("gnt_maint_incidents", "Incidents, by repair status.", "status", states)
    kinds = Counter(held.why.kind.metric for held in view.held)
    named = {kind.metric: kinds[kind.metric] for kind in KINDS}
    yield gauges("gnt_maint_held", "Blocked work, by reason.", "kind", named)


def of_work(view: View) -> Any:
    jobs = [intent.job for intent in view.ledger.intents]
    ganeti = sum(1 for job in jobs if job and job.isdecimal())
    yield gauge("gnt_maint_jobs_in_flight", "Ganeti jobs that may still run.", ganeti)
    orders = sum(1 for job in jobs if job and not job.isdecimal())
    yield gauge("gnt_maint_orders_in_flight", "Orders to agents that may still run.", orders)
    repairs = sum(1 for intent in view.ledger.intents if intent.purpose.repair)
    yield gauge("gnt_maint_repairs_in_flight", "Those of them that repair instances.", repairs)
    yield gauge(
        "gnt_maint_promised",
        "Planned jobs and orders that may not be submitted yet.",
        jobs.count(None),
    )
    tripped = view.ledger.storm is not None
    yield gauge("gnt_maint_storm", "Whether the storm brake has tripped.", tripped)
    text = "Whether plans wait since another node was the master."
    outdated = view.ledger.away > 0 or view.observed.uncertain is not None
    yield gauge("gnt_maint_plans_outdated", text, outdated)
    scopes = Counter(hold["scope"] for hold in show.holds(view))
    paused = {scope: scopes[scope] for scope in _SCOPES}
    yield gauges("gnt_maint_paused", "Pauses, by what they hold.", "scope", paused)


def of_nodes(view: View) -> Any:
    names = view.observed.snapshot.nodes
    looks = Counter(agent_events.how_seen(view.looks.get(name))[0] for name in names)
    by_look = {look: looks[look] for look in _LOOKS}
    yield gauges("gnt_maint_nodes", "Nodes, by result of the last poll.", "look", by_look)
    dead = len(unreachable(view.ledger, view.observed.snapshot, view.policy, view.at))
    yield gauge(
        "gnt_maint_nodes_unreachable",
        "Nodes whose agent has not answered for unreachable-after.",
        dead,
    )
    needs = Counter(diagnosis.need for diagnosis in view.observed.diagnoses.values())
    by_need = {need.wire: needs[need] for need in Need}
    yield gauges("gnt_maint_nodes_need", "Nodes, by requested action.", "need", by_need)


def of_trouble(view: View) -> Any:
    """Nodes by name, up to a limit: alerts must name the node."""
    trouble = GaugeMetricFamily(
        "gnt_maint_node_trouble", f"1 for each, {NAMED} of a kind at most.", labels=["node", "kind"]
    )
    incidents = view.ledger.incidents
    kinds = {
        status.value: [incident.name for incident in incidents if incident.status is status]
        for status in (Status.FAILED, Status.COMPLETED)
    }
    looks = {name: agent_events.how_seen(look)[0] for name, look in view.looks.items()}
    kinds["distrusted"] = [name for name, look in looks.items() if look == "distrusted"]
    snapshot = view.observed.snapshot
    kinds["unreachable"] = list(unreachable(view.ledger, snapshot, view.policy, view.at))
    kinds |= _dead_nodes(view)
    needs = list(needs_you(view))
    kinds["needs-you"] = [need.node for need in needs if need.node]
    for kind, names in kinds.items():
        for name in sorted(set(names))[:NAMED]:
            trouble.add_metric([name, kind], 1)
    yield trouble
    sorts = Counter(need.sort for need in needs)
    text = "Things that wait for a person, by sort; gnt-maint status lists them."
    by_sort = {sort.value: sorts[sort] for sort in Sort}
    yield gauges("gnt_maint_needs_you", text, "sort", by_sort)


def _dead_nodes(view: View) -> dict[str, list[str]]:
    """Names of nodes by kind of trouble: `fencing`, `fenced`, `fencing-blocked`, `power-control`.

    A node that waits for a person to repair it is `fenced`.
    """
    nodes = view.observed.snapshot.by_uuid
    stages = [
        (nodes[fencing.node].name, fencing.stage)
        for fencing in view.ledger.fencing
        if fencing.node in nodes
    ]
    return {
        "fencing": [name for name, stage in stages if not stage.over],
        "fenced": [name for name, stage in stages if stage is Stage.FENCED],
        "fencing-blocked": [held.node for held in view.held if held.why.kind in _FENCING_BLOCKED],
        "power-control": [held.node for held in view.held if held.why.kind in _POWER_CONTROL],
    }
