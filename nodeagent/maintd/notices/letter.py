"""A message as it is handed to the thread that sends it. Pure."""

from dataclasses import dataclass
from typing import Any

from nodeagent.model.notice import Sink


@dataclass(frozen=True, slots=True)
class Letter:
    """A message for a sink: its id, how often it was tried, and the values of its templates.

    Alertmanager gets `alerts` instead.
    """

    message: str
    tries: int
    sink: Sink
    values: dict[str, Any]
    alerts: list[dict[str, Any]]
