"""Asking maintd without gnt-maint, and the samples about repairs that its metrics have."""

from tests.cli.live import Live


def ask(live: Live, method: str, path: str, body: object = None) -> tuple[int, str]:
    """The status and the text of an answer over the admin socket."""
    return live.ask(method, path, body)


def samples(live: Live) -> dict[str, str]:
    """Their values by name and labels, as they are written."""
    _, text = live.ask("GET", "/metrics")
    lines = (line.rpartition(" ") for line in text.splitlines() if "repair" in line)
    return {name: value for name, _, value in lines if not name.startswith("#")}
