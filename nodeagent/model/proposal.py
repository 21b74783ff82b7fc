"""Proposals: things that maintd by itself wants to do, and what became of them. Pure."""

from dataclasses import dataclass
from enum import Enum

from nodeagent.model.units import Ms


class What(Enum):
    """Kinds of work that maintd may do by itself."""

    EVACUATE = "evacuate"
    REPAIR = "live repair"
    MEND = "auto-repair"
    BALANCE = "balance"
    QUEUE = "repair queue"
    FENCE = "fence"


@dataclass(frozen=True, slots=True)
class Proposal:
    """One thing that maintd wants to do to a node, an instance or a group, and how often.

    `subject` is the UUID of a node, or the name of anything else; `name` is for people. It has
    wanted it first at `since` and newest at `at` (unix ms), `times` times in all; `open`: it still
    does. `incident` is the newest one of these, if it comes from incidents.

    What became of it, in so many times: `begun`, as the stage allowed it; `taken_back` by a
    person, begun or not; done `by_person` instead; `passed` without anybody having done anything.
    `followed`: a person has taken the node out of service meanwhile.
    """

    what: What
    subject: str
    name: str
    since: Ms
    at: Ms
    times: int = 1
    open: bool = True
    incident: str = ""
    begun: int = 0
    taken_back: int = 0
    by_person: int = 0
    passed: int = 0
    followed: bool = False
    acted: bool = False
