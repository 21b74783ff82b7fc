"""A message as the sending thread gets it. Pure."""

from dataclasses import dataclass
from typing import Any

from nodeagent.model.notice import Sink


@dataclass(frozen=True, slots=True)
class Letter:
    """A message for a sink: its id, the number of tries so far, and the values of its templates."""

    message: str
    tries: int
    sink: Sink
    values: dict[str, Any]
    alerts: list[dict[str, Any]]
