"""Events of agents: they stop answering, lose trust, and answer again. Pure.

A missing answer counts from its second round on. An agent that comes and goes makes an event every
ten minutes at most, and many agents at once make one event.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodeagent.model.event import Event, happened
from nodeagent.model.units import Ms
from nodeagent.protocol.look import Distrusted, Look, Seen, Silent

QUIET = 600_000  # ms without new events after an agent was reported to be back
APART = 3  # agents that have an event each
_NAMED = 10  # agents by name in an event about many
_WHY = 300  # characters of a reason
_SEEN = "seen"


@dataclass(frozen=True, slots=True)
class AgentStates:
    """States of agents in the newest round, by name, those reported as bad, and `events`.

    `back` is when (unix ms) an agent was last reported to be back.
    """

    last: Mapping[str, str] = field(default_factory=dict)
    told: Mapping[str, str] = field(default_factory=dict)
    back: Mapping[str, int] = field(default_factory=dict)
    events: tuple[Event, ...] = ()


def hear(before: AgentStates, looks: Mapping[str, Look], now: Ms) -> AgentStates:
    reported = {name: word for name, word in before.told.items() if name in looks}
    back = {name: at for name, at in before.back.items() if 0 <= now - at < QUIET}
    changed: dict[str, dict[str, str]] = {}
    last: dict[str, str] = {}
    for name, look in looks.items():
        word, why = how_seen(look)
        last[name] = word
        if word == _SEEN:
            if reported.pop(name, None):
                changed.setdefault(word, {})[name] = ""
                back[name] = now
        elif before.last.get(name) == word != reported.get(name) and (
            name in reported or name not in back
        ):
            changed.setdefault(word, {})[name] = (why or "")[:_WHY]
            reported[name] = word
    events = [event for word, reasons in changed.items() for event in _events(word, reasons, now)]
    return AgentStates(last, reported, back, tuple(events))


def _events(word: str, reasons: Mapping[str, str], now: Ms) -> list[Event]:
    kind = "agent-back" if word == _SEEN else f"agent-{word}"
    if len(reasons) <= APART:
        alone = "yes" if word == _SEEN else ""
        return [happened(now, kind, "", n, why=why, alone=alone) for n, why in reasons.items()]
    agents, more = tuple(sorted(reasons)), max(0, len(reasons) - _NAMED)
    counts = {"count": str(len(agents)), "more": str(more or "")}
    return [happened(now, kind, agents=agents[:_NAMED], **counts)]


def how_seen(look: Look | None) -> tuple[str, str | None]:
    """The result of polling a node, in a word, and why it is not better."""
    match look:
        case Seen():
            return "seen", None
        case Silent(why):
            return "silent", why
        case Distrusted(why):
            return "distrusted", why
        case None:
            return "not-asked", None
