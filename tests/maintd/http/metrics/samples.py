"""Samples of metrics in a text of Prometheus."""

from prometheus_client.parser import text_string_to_metric_families

from tests.maintd.served import Served


def samples(served: Served) -> dict[tuple[str, ...], float]:
    """The values by name and labels, which are sorted by their names."""
    text = served.ask("GET", "/metrics").body.decode()
    families = text_string_to_metric_families(text)
    return {(s.name, *s.labels.values()): s.value for f in families for s in f.samples}
