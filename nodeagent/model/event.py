"""One line of the history: an event as values and as a sentence. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TypeAlias

from nodeagent.model.action import Action, RunCommand, describe
from nodeagent.model.event_kinds import SENTENCES
from nodeagent.model.sentence import filled
from nodeagent.model.units import Ms

# Only callers with write access cause these kinds. They are kept apart, so nobody else evicts them.
AUDIT = ("wish-granted", "wish-refused")
MOST = 1000  # characters of a sentence, and of a detail; a log may be very long

Detail: TypeAlias = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """An event at `at` (unix ms), whose text is its sentence.

    `kind` is one of the words of `event_kinds`. `incident`, `node` (a name) and `job` are empty
    where they do not apply. `action` is the planned or finished action, without a command's stdin.
    `text` is the sentence that an earlier release has stored; now it is empty.
    """

    at: Ms
    kind: str
    incident: str = ""
    node: str = ""
    text: str = ""
    job: str = ""
    action: Action | None = None
    details: Mapping[str, Detail] = field(default_factory=dict)

    def __str__(self) -> str:
        """Say it in a sentence."""
        return _cut(self.text or filled(SENTENCES.get(self.kind, ""), self._value))

    def about(self, action: Action) -> "Event":
        """Return the same event with this action."""
        short = replace(action, stdin="") if isinstance(action, RunCommand) else action
        return replace(self, action=short)

    def _value(self, name: str) -> Detail | None:
        if name == "action" and self.action is not None:
            return describe(self.action)
        return self.job if name == "job" else self.details.get(name)


def happened(
    now: Ms, kind: str, incident: str = "", node: str = "", job: str = "", **details: Detail
) -> Event:
    """Return an event of now; empty details are left out."""
    assert kind in SENTENCES, kind
    kept = {name: _bounded(value) for name, value in details.items() if value}
    return Event(now, kind, incident, node, "", job, details=kept)


def _bounded(value: Detail) -> Detail:
    if isinstance(value, str):
        return _cut(value)
    ends = accumulate(map(len, value))
    kept = tuple(part for part, end in zip(value, ends, strict=True) if end <= MOST)
    return kept if kept == value else (*kept, "…")


def _cut(text: str) -> str:
    return text if len(text) <= MOST else text[:MOST] + "…"
