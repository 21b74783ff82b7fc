"""The front's metrics for Prometheus."""

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from nodeagent import __version__
from nodeagent.agent.link import Frame
from nodeagent.web.server import Server

_NEEDS = ("Ok", "live-repair", "evacuate", "evacuate-failover")


def write(health: Frame, server: Server) -> bytes:
    """Write the metrics in Prometheus' text format; no runner's answer means empty `health`."""
    registry = CollectorRegistry()
    registry.register(_Metrics(health, server))
    return generate_latest(registry)


@dataclass(eq=False)
class _Metrics(Collector):
    health: Frame
    server: Server

    def collect(self) -> Iterator[Metric]:
        health, server = self.health, self.server
        info = InfoMetricFamily("gnt_health_build", "Version of the agent.")
        info.add_metric([], {"version": __version__})
        yield info
        yield _gauge("gnt_health_runner_up", "Whether the runner answers.", bool(health))
        yield _gauge("gnt_health_ready", "Whether reports can be sealed.", health.get("ready"))
        answered = CounterMetricFamily(
            "gnt_health_http_requests", "Requests answered, by status code.", labels=["code"]
        )
        for code, count in sorted(server.answered.items()):
            answered.add_metric([str(code)], count)
        yield answered
        shed = CounterMetricFamily(
            "gnt_health_http_shed", "Connections closed to make room, or for reading too slowly."
        )
        shed.add_metric([], server.shed)
        yield shed
        runs = CounterMetricFamily(
            "gnt_health_diagnose_runs", "Runs of diagnose commands, by result.", labels=["result"]
        )
        for result, count in sorted(health.get("runs", {}).items()):
            runs.add_metric([result], count)
        yield runs
        yield _gauge(
            "gnt_health_unusable_commands",
            "Diagnose commands whose last run was unusable.",
            len(health.get("unusable", ())),
        )
        yield _gauge(
            "gnt_health_unkillable_runs",
            "Commands that do not even heed SIGKILL.",
            health.get("stuck", 0),
        )
        refused = CounterMetricFamily("gnt_health_orders_refused", "Orders refused.")
        refused.add_metric([], health.get("refused", 0))
        yield refused
        need = GaugeMetricFamily(
            "gnt_health_need", "Requested action of the node: 1 for its state.", labels=["need"]
        )
        for name in _NEEDS:
            need.add_metric([name], float(health.get("need") == name))
        yield need
        yield _gauge(
            "gnt_health_diagnosis_firm",
            "Whether there is a diagnosis that may be acted upon.",
            bool(health.get("need")) and health.get("firm"),
        )
        # Never counts as long ago, so that an alert on an old diagnosis also fires without any.
        for which in ("checked", "changed"):
            yield _gauge(
                f"gnt_health_diagnosis_{which}_timestamp_seconds",
                f"When the diagnosis was last {which}; 0 is never.",
                (health.get(which) or 0) / 1000,
            )


def _gauge(name: str, text: str, value: object) -> GaugeMetricFamily:
    return GaugeMetricFamily(
        name, text, value=float(value) if isinstance(value, int | float) else 0.0
    )
