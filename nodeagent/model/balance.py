"""Balancing as values: moves, gains and results. Pure."""

from dataclasses import dataclass

from nodeagent.model.units import Ms

HALT_TAG = "maintd:balancefailed:"


@dataclass(frozen=True, slots=True)
class Spot:
    """The nodes an instance is on, by name; `secondary` is None unless its disks are mirrored."""

    primary: str
    secondary: str | None = None


@dataclass(frozen=True, slots=True)
class Shift:
    """Move one instance to a better place, by one move of hbal's.

    `gain` is how much lower the group's score gets, after the shifts before it; 0 if unknown.
    """

    instance: str
    at: Spot
    to: Spot
    gain: float = 0.0

    @property
    def nodes(self) -> frozenset[str]:
        """Return the names of the nodes that take part."""
        places = (self.at.primary, self.at.secondary, self.to.primary, self.to.secondary)
        return frozenset(name for name in places if name is not None)


@dataclass(frozen=True, slots=True)
class Advice:
    """The search's result for a group (its UUID) as it was at `at`, unix ms.

    The shifts, in their order, bring the score from `score` to `final`; `why` says why there are
    none. `doubt` says why the search assumed equal load for all instances though it was to measure
    load.
    """

    group: str
    at: Ms
    score: float = 0.0
    final: float = 0.0
    shifts: tuple[Shift, ...] = ()
    why: str = ""
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """The search's task: a group's (UUID) best shifts among `nodes`, by name.

    `never` lists the instances that stay. `left` lists (instance, node, part): an instance may not
    return to that node in that part. There are at most `moves` shifts; a shift that gains less than
    `share` does not count.
    """

    group: str
    nodes: frozenset[str]
    moves: int
    share: float
    disks: bool = True
    load: bool = False
    never: frozenset[str] = frozenset()
    left: frozenset[tuple[str, ...]] = frozenset()


@dataclass(frozen=True, slots=True)
class Lopsided:
    """The time (unix ms) since which a group (its UUID) has been worth balancing without a break.

    `seen` is the last time it was worth balancing. `doubted` tells that the load could not be
    measured though it was to be.
    """

    group: str
    since: Ms
    seen: Ms = Ms(0)
    doubted: bool = False


@dataclass(frozen=True, slots=True)
class Agenda:
    """An administrator's unfinished request for a group (its UUID).

    Do these shifts, in this order; or, if there are none, follow the advice until it ends.
    """

    group: str
    who: str
    at: Ms
    shifts: tuple[Shift, ...] = ()
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Halt:
    """A failed job (at `at`, unix ms) that stopped the balancing of its group (a UUID).

    Balancing stays stopped until somebody removes the tag from the group. `tag_seen`: the group has
    shown the tag.
    """

    group: str
    job: str
    why: str
    at: Ms
    tag_seen: bool = False

    @property
    def tag(self) -> str:
        """Return the tag that shows the halt; removing it closes the halt."""
        return f"{HALT_TAG}{self.job}"
