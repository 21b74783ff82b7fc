"""The samples about repairs that maintd's metrics have."""

from tests.cli.live import Live


def samples(live: Live) -> dict[str, str]:
    """Their values by name and labels, as they are written."""
    _, text = live.ask("GET", "/metrics")
    lines = (line.rpartition(" ") for line in text.splitlines() if "repair" in line)
    return {name: value for name, _, value in lines if not name.startswith("#")}
