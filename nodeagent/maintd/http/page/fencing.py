"""The fencing of a node as the pages show it."""

from collections.abc import Iterator

from nodeagent.maintd.http.page.text import when
from nodeagent.maintd.http.status import Json


def fencing_facts(one: Json | None) -> Iterator[tuple[str, str]]:
    """Yield name and text of each fact about a node's fencing."""
    if one is None:
        return
    yield "Fencing", f"{one['stage']} since {when(one['at'])}"
    yield "Because", one["why"]
    if one["failure"]:
        tries = f"{one['failures']} in a row: " if one["failures"] else ""
        yield "Failure", f"{tries}{one['failure']}"
    if one["next"]:
        at = "as soon as maintd can" if one["next-at"] is None else f"at {when(one['next-at'])}"
        yield "Next step", f"{one['next']}, {at}"
