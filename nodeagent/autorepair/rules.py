"""Where the ways of auto-repair differ; all else is the same for all of them. Pure."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from nodeagent.autorepair import health, state
from nodeagent.autorepair.health import Health
from nodeagent.autorepair.state import State
from nodeagent.model.snapshot import Instance, Node


@dataclass(frozen=True, slots=True)
class Rules:
    """One way of auto-repair.

    - `mode`: its name in settings and answers.
    - `health`: which repair an instance needs. harep repairs mirrored and plain instances, one step
      at a time, and takes a drained node for an offline one.
    - `state`: what the tags say. harep lets one tag of each repair count; safely, contradictory
      and unreadable ones are left to a person.
    - `safe`: an unreadable tag allows nothing, for it may have been meant as a suspension; a
      suspension also stops a repair that has started, and is removed when it is over; and the
      visible state decides about a pending repair, which goes on until the instance is well. With
      harep the jobs decide, and each is a repair of its own.
    - `refuses_once`: `enoperm` is written once, not again in each round. harep runs seldom.
    """

    mode: str
    health: Callable[[Instance, Mapping[str, Node]], Health]
    state: Callable[[Collection[str]], State]
    safe: bool = False
    refuses_once: bool = True


SAFE = Rules(mode="safe", health=health.check, state=state.state_of, safe=True)
HAREP = Rules(mode="compatible", health=health.as_harep, state=state.as_harep)
"""harep's rules for a daemon, which gives up no data and does not repeat itself."""

HAREP_ITSELF = replace(HAREP, health=health.as_harep_itself, refuses_once=False)
"""harep's rules to the letter, for one run in its place."""


def rules_of(mode: str) -> Rules:
    """Return the rules of a mode; where auto-repair is `off`, those of `gnt-maint repair`."""
    return HAREP if mode == HAREP.mode else SAFE
