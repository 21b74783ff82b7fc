"""All that is seen of a cluster at once. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.ledger import Outcome


@dataclass(frozen=True, slots=True)
class Node:
    """A node as Ganeti's configuration has it; `address` is its primary one."""

    name: str
    uuid: str
    address: str
    group: str = "default"
    drained: bool = False
    offline: bool = False
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance; `secondary` is None unless its disks are mirrored to another node."""

    name: str
    primary: str
    secondary: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one moment, by name."""

    cluster: str
    nodes: Mapping[str, Node]
    instances: Mapping[str, Instance] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observed:
    """What one round sees.

    `diagnoses` has only the nodes that answered genuinely and stand by what they say now;
    `doubts` says of every other node why it has none. `outcomes` is by intent id.
    """

    snapshot: Snapshot
    diagnoses: Mapping[str, Diagnosis]
    doubts: Mapping[str, str] = field(default_factory=dict)
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
