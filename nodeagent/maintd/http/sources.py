"""Reports of the sources of the repair queue, as JSON."""

import json
from collections.abc import Iterable
from typing import Any

from nodeagent.maintd.http.status import Json, View
from nodeagent.maintd.queue.inventory import Inventory
from nodeagent.maintd.queue.sabakan import DEFAULT, SABAKAN
from nodeagent.model.sick import Sick

_SAID = ("address", "serial", "machine_type", "operation", "state", "domain")


def reported(view: View, inventory: Inventory) -> Json:
    """Whether reports become entries, sabakan's query, and the answer of each source."""
    queue, sources = view.ledger.queue, view.sick
    names = [*([SABAKAN] if inventory.on else []), *sorted(sources.keys() - {SABAKAN})]
    off = "no round has asked it yet" if queue.auto_repair else "automatic repair is disabled"
    asked: Any = json.loads(queue.variables or DEFAULT)
    return {
        "enabled": queue.auto_repair,
        "variables": asked,
        "sources": [_source(name, sources.get(name, off), inventory) for name in names],
    }


def _source(name: str, said: tuple[Sick, ...] | str, inventory: Inventory) -> Json:
    found = None if isinstance(said, str) else _machines(said)
    known = {
        "url": inventory.settings.url,
        "age": inventory.age,
        "failures": inventory.heard.failures,
        "failed": inventory.heard.failed / 1000 or None,
    }
    return {
        "name": name,
        "believed": found is not None,
        "why": said if isinstance(said, str) else "",
        "machines": found,
        **(known if name == SABAKAN else {}),
    }


def _machines(sick: Iterable[Sick]) -> list[Json]:
    return [
        {
            **{key: getattr(one, key) for key in _SAID},
            "since": one.since / 1000 or None,
            "why": one.why,
        }
        for one in sick
    ]
