"""Where the ways of auto-repair differ; all else is the same for all of them. Pure."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from nodeagent.autorepair import health, state
from nodeagent.autorepair.health import Health
from nodeagent.autorepair.state import State
from nodeagent.model.snapshot import Instance, Node


@dataclass(frozen=True, slots=True)
class Rules:
    """One way of auto-repair, by its differences from the others.

    - `mode`: its name in settings and answers.
    - `health`: which repair an instance needs. harep repairs mirrored and plain instances, one step
      at a time, and takes a drained node for an offline one.
    - `state`: what the tags say. harep lets one tag of each repair count; safely, contradictory
      and unreadable ones are left to a person.
    - `strict`: an unreadable tag allows nothing, for it may have been meant as a suspension. harep
      ignores it.
    - `suspends_pending`: a suspension also stops a repair that has started. With harep it only
      stops new ones.
    - `jobs_decide`: the jobs of a pending repair end it, and each job is a repair of its own, as
      with harep. Safely the visible state decides, and a repair goes on until the instance is well:
      a job may fail after its work is done.
    - `refuses_once`: `enoperm` is written once, not again in each round. harep runs seldom.
    - `clears_expired`: suspensions that are over are removed. harep leaves them.
    """

    mode: str
    health: Callable[[Instance, Mapping[str, Node]], Health]
    state: Callable[[Collection[str]], State]
    strict: bool = False
    suspends_pending: bool = False
    jobs_decide: bool = True
    refuses_once: bool = True
    clears_expired: bool = False


SAFE = Rules(
    mode="safe",
    health=health.check,
    state=state.state_of,
    strict=True,
    suspends_pending=True,
    jobs_decide=False,
    clears_expired=True,
)
HAREP = Rules(mode="compatible", health=health.as_harep, state=state.as_harep)
"""harep's rules for a daemon, which gives up no data and does not repeat itself."""

HAREP_ITSELF = replace(HAREP, health=health.as_harep_itself, refuses_once=False)
"""harep's rules to the letter, for one run in its place."""


def rules_of(mode: str) -> Rules:
    """Return the rules of a mode; where auto-repair is `off`, those of `gnt-maint repair`."""
    return HAREP if mode == HAREP.mode else SAFE
