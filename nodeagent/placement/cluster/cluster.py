"""A cluster in the htools' view: groups, nodes and instances with their sizes, policies. Pure.

Memory and disk are in MiB. This module computes nothing: `layout` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Allocation(StrEnum):
    """Whether new instances may go to a group."""

    PREFERRED = "preferred"
    LAST_RESORT = "last_resort"
    UNALLOCABLE = "unallocable"


class Status(StrEnum):
    """An instance's status, as Ganeti names it."""

    RUNNING = "running"
    ADMIN_DOWN = "ADMIN_down"
    ADMIN_OFFLINE = "ADMIN_offline"
    USER_DOWN = "USER_down"
    ERROR_DOWN = "ERROR_down"
    ERROR_UP = "ERROR_up"
    ERROR_NODE_DOWN = "ERROR_nodedown"
    ERROR_NODE_OFFLINE = "ERROR_nodeoffline"
    ERROR_WRONG_NODE = "ERROR_wrongnode"


class Template(StrEnum):
    """Where an instance's disks are."""

    DISKLESS = "diskless"
    FILE = "file"
    SHARED_FILE = "sharedfile"
    PLAIN = "plain"
    BLOCK_DEVICE = "blockdev"
    DRBD = "drbd"
    RBD = "rbd"
    EXT = "ext"
    GLUSTER = "gluster"


def template_of(word: str) -> Template:
    """Read the template of an existing instance; one of disks that stay on their node if unknown.

    Ganeti calls an instance with several kinds of disks `mixed`, and moves none of them.
    """
    return Template(word) if word in _TEMPLATES else Template.PLAIN


_TEMPLATES = frozenset(map(str, Template))
UP = frozenset({Status.RUNNING, Status.ERROR_UP})
TAKES_MEMORY = UP | {
    Status.ERROR_NODE_DOWN,
    Status.ERROR_NODE_OFFLINE,
    Status.ERROR_WRONG_NODE,
}
_MOVED = frozenset({Status.RUNNING, Status.ADMIN_DOWN, Status.ADMIN_OFFLINE})
LOCAL = frozenset({Template.DRBD, Template.PLAIN})
SHARED = frozenset(
    {Template.SHARED_FILE, Template.BLOCK_DEVICE, Template.RBD, Template.EXT, Template.GLUSTER}
)


class Load(NamedTuple):
    """An instance's load, in units of the observer's choice, the same for all instances."""

    cpu: float = 1.0
    memory: float = 1.0
    disk: float = 1.0
    net: float = 1.0


IDLE = Load(0.0, 0.0, 0.0, 0.0)


class Spec(NamedTuple):
    memory: int
    vcpus: int
    disk: int
    disks: int
    nics: int
    spindles: int


_LEAST = Spec(128, 1, 1024, 1, 1, 1)
_MOST = Spec(32768, 8, 1048576, 16, 8, 12)


@dataclass(frozen=True, slots=True)
class Policy:
    """An instance policy; `ranges` are pairs of least and most.

    The ratios are virtual by physical CPUs of a node, and spindles used by a node's spindles.
    """

    standard: Spec = _LEAST
    ranges: tuple[tuple[Spec, Spec], ...] = ((_LEAST, _MOST),)
    templates: tuple[Template, ...] = tuple(Template)
    vcpu_ratio: float = 4.0
    spindle_ratio: float = 32.0


@dataclass(frozen=True, slots=True)
class Group:
    """A node group; `policy` is its own, without inheritance from the cluster's."""

    name: str
    uuid: str
    allocation: Allocation = Allocation.PREFERRED
    tags: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    policy: Policy = field(default_factory=Policy)


@dataclass(frozen=True, slots=True)
class Node:
    """A node's report on itself; `group` is a UUID.

    `own_memory` and `own_cpus` are the node's operating system's. `spindles` are those it has, or
    with `exclusive` storage the physical disks, of which `free_spindles` are free.
    """

    name: str
    group: str
    memory: float
    own_memory: int
    free_memory: int
    disk: float
    free_disk: int
    cpus: float
    offline: bool = False
    master: bool = False
    spindles: int = 1
    tags: tuple[str, ...] = ()
    exclusive: bool = False
    free_spindles: int = 0
    own_cpus: int = 1
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance; `disk` is its size on each node that holds it.

    `spindle_use` is its pressure on disks, `spindles` the physical disks it has for itself (None:
    unknown). A `forthcoming` one has a reserved place and does not exist yet.
    """

    name: str
    memory: int
    disk: int
    vcpus: int
    primary: str
    secondary: str | None = None
    template: Template = Template.DRBD
    status: Status = Status.RUNNING
    auto_balance: bool = True
    tags: tuple[str, ...] = ()
    spindle_use: int = 1
    spindles: int | None = None
    forthcoming: bool = False

    @property
    def takes_memory(self) -> bool:
        """Tell whether its memory is in use on its primary node."""
        return self.status in TAKES_MEMORY and not self.forthcoming

    @property
    def movable(self) -> bool:
        """Tell whether there are moves for disks like its."""
        return self.template is Template.DRBD or self.template in SHARED


@dataclass(frozen=True, slots=True)
class Cluster:
    """All of it, in the order of its source: that order decides between equals."""

    groups: tuple[Group, ...]
    nodes: tuple[Node, ...]
    instances: tuple[Instance, ...]
    tags: tuple[str, ...] = ()
    policy: Policy = field(default_factory=Policy)


@dataclass(frozen=True, slots=True)
class Known:
    """A cluster, and the reason of each node in doubt; it is offline in the cluster."""

    cluster: Cluster
    doubts: Mapping[str, str]

    @property
    def untouchable(self) -> frozenset[str]:
        """Return the instances with a part on a node in doubt: nobody can predict their moves."""
        return frozenset(
            instance.name
            for instance in self.cluster.instances
            if instance.primary in self.doubts or instance.secondary in self.doubts
        )

    @property
    def unmoved(self) -> Mapping[str, str]:
        """Return the instances whose move would fail, by name, and why.

        An instance that should run is migrated, so it must run; one that does not exist yet has
        nothing to move.
        """
        return {
            instance.name: "forthcoming" if instance.forthcoming else str(instance.status)
            for instance in self.cluster.instances
            if instance.forthcoming or instance.status not in _MOVED
        }


Loads = Mapping[str, Load]
