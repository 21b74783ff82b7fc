"""Nodes that are out of service, and their ways back. Pure."""

from dataclasses import dataclass
from enum import Enum

from nodeagent.model.units import Ms
from nodeagent.model.window import Standing

STALE = "stale-instances"  # a shipped command: what runs here although it runs elsewhere


class Way(Enum):
    """The ways of a node back to the state in which it was found.

    DONE: a person has reported it repaired; FORCED: and wants no proof. UNDRAINED: a person has
    canceled its incident, and wants it back. The others go back by themselves: WITHDRAWN after its
    incident, WINDOW after its maintenance, ENTRY after an entry of the repair queue, ROLL after its
    turn in a rolling maintenance.
    """

    DONE = "done"
    FORCED = "forced"
    UNDRAINED = "undrained"
    WITHDRAWN = "withdrawn"
    WINDOW = "window"
    ENTRY = "entry"
    ROLL = "roll"


@dataclass(frozen=True, slots=True)
class Proof:
    """Conditions for a node's return: Ok for `quiet` ms, and success of the command `check`.

    With a `boot`, its machine must have started anew since: that was its start before.
    """

    quiet: Ms = Ms(0)
    check: str = ""
    boot: str = ""


@dataclass(frozen=True, slots=True)
class Back:
    """A node on its way back since `at`. Times are unix ms.

    `who` has asked for it. `to` is the state in which a person wants the node. `online` tells that
    we poll it, `well` since when it has said Ok without a break (0: it does not), `checked` that
    the check command has succeeded meanwhile. `fenced` tells that it was fenced, and that the check
    for stale instances has not succeeded yet. `tries` counts the failures of a job; `not_before` is
    when to try the next, `failure` why it failed. Without a `proof` of its own a node owes what the
    settings say.
    """

    way: Way
    at: Ms
    who: str = ""
    to: Standing = Standing.SERVING
    online: bool = False
    well: Ms = Ms(0)
    checked: bool = False
    fenced: bool = False
    tries: int = 0
    not_before: Ms = Ms(0)
    failure: str = ""
    proof: Proof | None = None

    @property
    def reported(self) -> bool:
        """Tell whether a person has reported the node repaired."""
        return self.way in (Way.DONE, Way.FORCED)

    @property
    def proves(self) -> bool:
        """Tell whether the node has to prove healthy before it returns."""
        return self.reported or self.way is Way.ROLL

    @property
    def unless_touched(self) -> bool:
        """Tell whether the job queue must show that nobody else has changed the node since."""
        return self.way in (Way.UNDRAINED, Way.WITHDRAWN)

    @property
    def cause(self) -> str:
        """Say why it goes back."""
        return _CAUSES.get(self.way, f"{self.who} asked for it")


_CAUSES = {
    Way.WITHDRAWN: "its incident was withdrawn",
    Way.WINDOW: "its maintenance window is over",
    Way.ENTRY: "the repair queue is done with it",
    Way.ROLL: "its turn in the rolling maintenance is over",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A person's request to evacuate a node, and to take it `offline` then if so.

    `who` asked for it at `at` (unix ms), and `why`. `begun` tells that work there has begun for it,
    `drained` that the node was seen out of service since. `stopped` is the failure that ends the
    work until a person asks again. `not_before` is when to try a refused action again (unix ms),
    and `failure` why it failed.
    """

    who: str
    at: Ms
    why: str
    offline: bool = False
    begun: bool = False
    drained: bool = False
    stopped: str = ""
    not_before: Ms = Ms(0)
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Outage:
    """A node (its UUID) that somebody wants, or wanted, out of service; perhaps on its way `back`.

    `found` is its state before the first claim on it, `candidate` tells that it was a master
    candidate then, and is to be one again. `drained_by` and `offline_by` are the jobs of
    ours that changed it, and empty if we did not. `incident` is the one that they served last, if
    any. `ended` tells that it was completed or failed; closing it accepts that. `why` says why
    maintd does not put the node back by itself. `wanted` is the request of a person, if any.
    """

    node: str
    found: Standing = Standing.SERVING
    incident: str = ""
    drained_by: str = ""
    offline_by: str = ""
    ended: bool = False
    why: str = ""
    back: Back | None = None
    wanted: Wanted | None = None
    candidate: bool = False

    @property
    def ours(self) -> bool:
        """Tell whether our own jobs took the node out of service."""
        return self.incident != "" or self.drained_by != "" or self.offline_by != ""

    @property
    def reported(self) -> Back | None:
        """Return its way back if a person has reported the node repaired."""
        return self.back if self.back is not None and self.back.reported else None

    def back_by(self, way: Way) -> Back | None:
        """Return its way back if it is this one."""
        return self.back if self.back is not None and self.back.way is way else None

    @property
    def evacuated_for(self) -> Wanted | None:
        """Return the request of a person who has had the node evacuated, and works there."""
        return self.wanted if self.wanted is not None and self.wanted.begun else None

    @property
    def disowned(self) -> "Outage":
        """Return it without what our jobs did to the node: what people asked for stays."""
        back = self.back if self.back is not None and self.back.proves else None
        return Outage(
            self.node, self.found, back=back, wanted=self.wanted, candidate=self.candidate
        )
