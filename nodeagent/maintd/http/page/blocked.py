"""Blocked work as the pages show it: each reason once, with the nodes that it blocks."""

from dataclasses import dataclass, replace

from nodeagent.maintd.http.status import View
from nodeagent.model.reason import Held, Reason

_SHARED = 3  # places that show a sentence before it is shown once, and linked
_NAMED = 12  # nodes by name


@dataclass(frozen=True, slots=True)
class Block:
    """One reason that blocks work, with its nodes; `more` are not named."""

    anchor: str
    reason: str
    command: str
    nodes: tuple[str, ...]
    more: int


class Blocked:
    """The reasons of a view."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._said: dict[Reason, tuple[str, str]] = {}
        places: dict[tuple[str, str], list[str]] = {}
        self._of_incident: dict[str, list[Held]] = {}
        self.told: list[tuple[Held, str, str]] = []
        for held in view.held:
            words = self.words(held)
            self.told.append((held, *words))
            places.setdefault(words, []).append(held.node)
            self._of_incident.setdefault(held.incident, []).append(held)
        self.helps = dict(places.keys())
        self.blocks: list[Block] = []
        self.shared: dict[str, Block] = {}
        for number, ((reason, command), there) in enumerate(places.items(), 1):
            nodes = tuple(dict.fromkeys(filter(None, there)))
            help_ = "" if command in reason else command
            more = max(0, len(nodes) - _NAMED)
            block = Block(f"blocked-{number}", reason, help_, nodes[:_NAMED], more)
            self.blocks.append(block)
            if len(there) > _SHARED:
                self.shared[reason] = block

    def words(self, held: Held) -> tuple[str, str]:
        """A reason in a sentence, and the command that helps; each is made once."""
        words = self._said.get(held.why)
        if words is None:
            words = self._said[held.why] = held.reason, held.why.help
        return words

    def about(self, incident: str) -> View:
        """The view with only this incident's reasons; there may be ten thousand others."""
        return replace(self._view, held=tuple(self._of_incident.get(incident, ())))
