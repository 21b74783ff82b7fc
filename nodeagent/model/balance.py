"""Balancing as values: moves, gains and results. Pure."""

from dataclasses import dataclass, field

FAILED_TAG = "maintd:balancefailed:"


@dataclass(frozen=True, slots=True)
class Spot:
    """The nodes an instance is on, by name; `secondary` is None unless its disks are mirrored."""

    primary: str
    secondary: str | None = None


@dataclass(frozen=True, slots=True)
class Shift:
    """Bringing one instance from where it is to where it is better off, by one move of hbal's.

    `gain` is by how much the group's score gets lower, the shifts before it done; 0 if unknown.
    """

    instance: str
    at: Spot
    to: Spot
    gain: float = 0.0

    @property
    def nodes(self) -> frozenset[str]:
        """The names of the nodes that take part in it."""
        places = (self.at.primary, self.at.secondary, self.to.primary, self.to.secondary)
        return frozenset(name for name in places if name is not None)


@dataclass(frozen=True, slots=True)
class Advice:
    """The search's result for a group (its UUID) as it was at `at`, unix ms.

    The shifts, one after the other, bring the score from `score` to `final`; `why` says why there
    are none. `doubt` says why the search took all instances' load to be the same though it was to
    measure it.
    """

    group: str
    at: int
    score: float = 0.0
    final: float = 0.0
    shifts: tuple[Shift, ...] = ()
    why: str = ""
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """The search's task: a group's (UUID) best shifts among `nodes`, by name.

    `never` are the instances that stay; `left` are (instance, node, part): parts that an instance
    may not take again. At most `moves` shifts; one that brings less than `share` does not count.
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
    """Since when (unix ms) a group (its UUID) has been worth balancing, without a break.

    `seen` is when that was last so, `doubted` whether load was to be measured and could not be.
    """

    group: str
    since: int
    seen: int = field(default=0, metadata={"later": True})
    doubted: bool = field(default=False, metadata={"later": True})


@dataclass(frozen=True, slots=True)
class Agenda:
    """An administrator's unfinished request for a group (its UUID).

    Do these shifts, in this order; or, without any, follow the advice until there is none.
    """

    group: str
    who: str
    at: int
    shifts: tuple[Shift, ...] = ()
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Halt:
    """A job that has failed (at `at`, unix ms) ends the balancing of its group (a UUID).

    Until somebody takes the tag off the group; `tag_seen`: it has been seen there.
    """

    group: str
    job: str
    why: str
    at: int
    tag_seen: bool = False

    @property
    def tag(self) -> str:
        """The tag that tells of it, and to acknowledge it by."""
        return f"{FAILED_TAG}{self.job}"
