"""Rules of a balancing, and its end: hbal's options as values. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodeagent.placement.cluster.cluster import Load


@dataclass(frozen=True, slots=True)
class Rules:
    """The reading of the cluster, and the allowed moves. Names are whole names.

    `offline` nodes take nothing, as drained ones. `cpu_ratio` replaces the policies', `free_disk`
    is the part of each node's disk that stays free. `loads` are by instance; `idle` sets all loads
    to zero. With `evacuate` only instances of offline nodes move; with `restricted` the only
    migrations are off these. `only`, unless empty, names the instances that may move, `never` those
    that may not. `exclusion` are prefixes of tags, without a colon. `leaving` ranks the nodes that
    leave soon: an evacuation gives them only what no other node can take, the lower rank first.
    """

    offline: frozenset[str] = frozenset()
    cpu_ratio: float | None = None
    free_disk: float = 0.0
    disk_moves: bool = True
    instance_moves: bool = True
    evacuate: bool = False
    restricted: bool = False
    ignore_soft: bool = False
    loads: Mapping[str, Load] = field(default_factory=dict)
    idle: bool = False
    exclusion: tuple[str, ...] = ()
    only: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()
    leaving: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Enough:
    """When to stop: a score within `excess` of its lower bound is good enough.

    Below `gain_from` a step must lower the score by `gain`. At most `moves` steps, if not None.
    """

    excess: float = 1e-9
    gain: float = 1e-2
    gain_from: float = 1e-1
    moves: int | None = None
