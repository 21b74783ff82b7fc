"""Nodes that do not answer: judgement, fencing, and the fate of their instances. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from nodeagent.model.reason import Reason
from nodeagent.model.units import Ms


class Life(Enum):
    """The judgement of a silent node.

    ALIVE: something of it answers. ISOLATED: its kernel lives, and no network reaches it. HUNG: its
    kernel lives, its programs do not answer, and the peers' DRBD disks have lost it. OFF: its power
    is proven off. UNKNOWN: none of these is proven.
    """

    ALIVE = "alive"
    ISOLATED = "isolated"
    HUNG = "hung"
    OFF = "off"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The conclusion from the evidence about a node, with its reason.

    `connected` are the instances with a disk that is still connected to the node: its kernel may
    write, and no other node may start them before it is fenced.
    """

    life: Life
    reason: Reason
    connected: tuple[str, ...] = ()


class Stage(Enum):
    """The next step.

    CUTS: power it off. PROVES: read its power until it is off. REVIVES: power it on once. WAITS:
    for its agent to answer. REMOVES: mark it offline. CONFIRMS: read its power again. RESTARTS:
    fail over its instances. FENCED: nothing; a person repairs it. STOPPED: nothing; a drill failed,
    or the node has recovered.
    """

    CUTS = "powering off"
    PROVES = "proving"
    REVIVES = "powering on"
    WAITS = "waiting"
    REMOVES = "marking offline"
    CONFIRMS = "confirming"
    RESTARTS = "restarting"
    FENCED = "fenced"
    STOPPED = "stopped"

    @property
    def over(self) -> bool:
        """Tell whether maintd has nothing more to do."""
        return self in (Stage.FENCED, Stage.STOPPED)

    @property
    def removed(self) -> bool:
        """Tell whether maintd has marked the node offline."""
        return self in (Stage.CONFIRMS, Stage.RESTARTS, Stage.FENCED)


class End(Enum):
    """The fate of an instance of a fenced node. STAYS: it cannot, and a reason says why."""

    OPEN = "open"
    RESTARTED = "restarted"
    STAYS = "stays"


@dataclass(frozen=True, slots=True)
class Fate:
    """The fate of an instance.

    `synced` tells that before the node was offline the agent of its secondary said that all its
    DRBD disks there were UpToDate, and in sync with the node until it died: Ganeti itself does not
    check this later. `tries` counts the
    failovers that Ganeti gave up without an effect.
    """

    instance: str
    synced: bool = False
    end: End = End.OPEN
    why: str = ""
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Fencing:
    """The fencing of a node (its UUID), begun at `since`; its stage since `at` (unix ms).

    `why` is the judgement, `who` a person who says that its plug is pulled. `off` is since when its
    power-off is over: only a later reading proves it. `revived` tells that it was powered on once.
    `drill` tells that a person drills an empty node, which is powered on again at the end.
    `answered` tells that the node answered while its power-off waited. It has not answered since
    `silent` (0: unknown). The others count failures in a row, say when to try again, and what
    failed.
    """

    node: str
    stage: Stage
    since: Ms
    at: Ms
    why: str = ""
    who: str = ""
    off: Ms = Ms(0)
    revived: bool = False
    fates: tuple[Fate, ...] = ()
    tries: int = 0
    not_before: Ms = Ms(0)
    said: str = ""
    drill: bool = False
    answered: bool = False
    silent: Ms = Ms(0)

    @property
    def word(self) -> bool:
        """Tell whether a person has said that its plug is pulled."""
        return self.who != "" and not self.drill

    @property
    def public_why(self) -> str:
        """The `why` for all readers: without the person's name."""
        if self.drill:
            return "a person drills its power"
        return "a person says that its power is cut" if self.who else self.why


@dataclass(frozen=True, slots=True)
class Unreachable:
    """An unreachable node (its UUID); at `since` (unix ms) the first poll in a row failed.

    `lived` is its last sign of life, as far as is known: an answer to a poll before, or what others
    have seen of it later. It is `since` if maintd did not poll shortly before, 0 if not known yet.
    """

    node: str
    since: Ms
    lived: Ms = Ms(0)


@dataclass(frozen=True, slots=True)
class Cut:
    """A power-off of a node (its UUID) at `at` (unix ms), which counts for an hour.

    `missed` tells that it did nothing: the node recovered before.
    """

    node: str
    at: Ms
    missed: bool = False


@dataclass(frozen=True, slots=True)
class Deaf:
    """A node (its UUID) whose power reading failed; ask again at `after` (unix ms).

    `never` tells that Ganeti has no power control for it. `since` is the first failure in a row.
    """

    node: str
    after: Ms
    why: str
    since: Ms = Ms(0)
    never: bool = False


FENCED_TAG = "maintd:fenced:"
BURST = Ms(3_600_000)  # for which a power-off counts


def fenced_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """The tags of a node that say that it was fenced, in order."""
    return tuple(sorted(tag for tag in tags if tag.startswith(FENCED_TAG)))


def is_fenced(tags: Iterable[str]) -> bool:
    """Check by a node's tags whether it was fenced, and is not put back since."""
    return any(tag.startswith(FENCED_TAG) for tag in tags)
