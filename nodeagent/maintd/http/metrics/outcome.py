"""Metrics of results: ends and their durations, requests, and open incidents by node."""

from collections import Counter
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from nodeagent.maintd.http.metrics.families import NAMED, counters
from nodeagent.maintd.http.view import View, in_order
from nodeagent.maintd.ledger.tally import BOUNDS, Tally, Times, verb
from nodeagent.maintd.requests import ROWS
from nodeagent.model.incident import Status

_VERBS = sorted(map(verb, ROWS))


def of_outcome(tally: Tally) -> Any:
    yield counters(
        "gnt_maint_incidents_ended", "Incidents that ended, by result.", "result", tally.ended
    )
    yield counters("gnt_maint_fencing", "Events of dead nodes, by kind.", "event", tally.fencing)
    told = "From the detection of a fault until its node was evacuated."
    evacuated = HistogramMetricFamily("gnt_maint_evacuation_seconds", told)
    evacuated.add_metric([], _buckets(tally.evacuated), tally.evacuated.seconds)
    yield evacuated
    told = "From the detection of a fault until it was repaired, by what its node requested."
    repaired = HistogramMetricFamily("gnt_maint_repair_seconds", told, labels=["need"])
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
    told = f"When a node's incident was detected; the {NAMED} oldest of each status."
    noted = GaugeMetricFamily(
        "gnt_maint_node_incident_timestamp_seconds", told, labels=["node", "need", "status"]
    )
    found: Counter[Status] = Counter()
    seen = set()
    for one in in_order(view.ledger):
        labels = (one.name, one.diagnosis.need.wire, one.status.value)
        if one.status is Status.CANCELED or labels in seen or found[one.status] == NAMED:
            continue
        found[one.status] += 1
        seen.add(labels)
        noted.add_metric(labels, one.noted_at / 1000)
    yield noted


def _buckets(times: Times) -> list[tuple[str, float]]:
    upto = zip(map(float, BOUNDS), times.upto, strict=True)
    return [*((str(bound), float(count)) for bound, count in upto), ("+Inf", float(times.count))]
