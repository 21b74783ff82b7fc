"""One observation of the whole cluster. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from nodeagent.model.alerts import Alerts
from nodeagent.model.balance import Advice
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.evidence import Evidence
from nodeagent.model.keeping import Uncertain
from nodeagent.model.ledger import Result, RoleChange
from nodeagent.model.series import Zone
from nodeagent.model.sick import Sick
from nodeagent.model.units import Ms
from nodeagent.model.window import Standing
from nodeagent.model.wish import Wish


@dataclass(frozen=True, slots=True)
class Node:
    """A node as in Ganeti's configuration; `address` is its primary one, `group` a UUID.

    `spindles` is the number of disks it counts as, `speed` its processors' relative to a usual
    one's. With `exclusive` storage instances have physical disks for themselves. `controlled` tells
    that Ganeti has a program for its power.
    """

    name: str
    uuid: str
    address: str
    group: str = "default"
    drained: bool = False
    offline: bool = False
    tags: frozenset[str] = frozenset()
    candidate: bool = False
    vm_capable: bool = True
    spindles: int = 1
    exclusive: bool = False
    speed: float = 1.0
    controlled: bool = False

    @property
    def in_service(self) -> bool:
        """Tell whether Ganeti may put instances on it."""
        return self.vm_capable and not self.is_out

    @property
    def is_out(self) -> bool:
        """Tell whether somebody has taken it out of service: one may never take instances."""
        return self.drained or self.offline

    @property
    def standing(self) -> Standing:
        if self.offline:
            return Standing.OFFLINE
        return Standing.DRAINED if self.drained else Standing.SERVING


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance; `secondary` is None unless all its disks are DRBD's, on one other node.

    `partly_on` are the other nodes with some of its disks where that is not so: Ganeti calls disks
    of several kinds `mixed`, and a broken instance may have several secondaries. It moves none of
    them, nor the instance.

    `memory` is in MiB, `disk` the MiB it takes on each of its nodes. `running` is the state its
    administrator wants, not the observed one. `offline`: its administrator wants it left down, and
    Ganeti then installs nothing. `spindle_use` is its pressure on disks, `spindles` how many it has
    for itself (None: unknown). Without `auto_balance` its administrator chooses its place, and no
    memory is kept free for it elsewhere. With `always_failover` Ganeti fails it over even when told
    to migrate it. `hypervisor` is empty if unknown. `disks` is how many it has, or how many of DRBD
    if `partly_on` a node; 0 if unknown.
    """

    name: str
    primary: str
    secondary: str | None = None
    template: str = "drbd"
    memory: int = 0
    disk: int = 0
    running: bool = True
    tags: frozenset[str] = frozenset()
    offline: bool = False
    vcpus: int = 1
    auto_balance: bool = True
    spindle_use: int = 1
    spindles: int | None = None
    always_failover: bool = False
    hypervisor: str = ""
    disks: int = 1
    partly_on: frozenset[str] = frozenset()

    @property
    def nodes(self) -> frozenset[str]:
        """All nodes that have it or some of its disks."""
        return self.others | {self.primary}

    @property
    def others(self) -> frozenset[str]:
        """All nodes but its primary that have some of its disks."""
        return self.partly_on if self.secondary is None else self.partly_on | {self.secondary}

    @property
    def migratable(self) -> bool:
        """Tell whether its hypervisor can migrate it: else Ganeti's migration job fails."""
        return self.hypervisor not in _NEVER_MIGRATE

    @property
    def interrupted(self) -> bool:
        """Tell whether a move to another primary node would interrupt it."""
        return self.running and (self.always_failover or not self.migratable)

    @property
    def shared(self) -> bool:
        """Tell whether any node of its group reaches its disks (or it has none)."""
        return self.template in SHARED_TEMPLATES


_NEVER_MIGRATE = frozenset({"lxc", "chroot"})
SHARED_TEMPLATES = frozenset({"sharedfile", "blockdev", "rbd", "ext", "gluster", "diskless"})


@dataclass(frozen=True, slots=True)
class Group:
    """A node group.

    `allocation` is its policy on new instances, `policy` its policy on instances' specifications,
    as the JSON text of Ganeti's own words; empty if unknown.
    """

    uuid: str
    name: str
    tags: frozenset[str] = frozenset()
    allocation: str = "preferred"
    policy: str = ""


@dataclass(frozen=True, slots=True)
class Size:
    """A node's total resources in MiB and processors, as the node reported them.

    `own_…` is its operating system's. `spindles` are its physical disks.
    """

    memory: int
    own_memory: int
    disk: int
    cpus: int
    own_cpus: int = 1
    spindles: int = 0
    free_spindles: int = 0


@dataclass(frozen=True, slots=True)
class Capacity:
    """A node's report of free resources for instances in MiB; `size` is the total."""

    memory: int
    disk: int
    size: Size | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """An instance's state as its nodes report it: Ganeti's word, and its MiB now if it runs."""

    status: str
    memory: int | None = None


@dataclass(frozen=True)
class Snapshot:
    """The cluster at one moment: nodes and instances by name, groups by UUID.

    `master` is the master node's name; `tags` and `policy` are the cluster's own. `forthcoming`
    instances have reserved places, and do not exist yet. `hypervisor` is the default, `ganeti` the
    version that Ganeti reports.
    """

    cluster: str
    nodes: Mapping[str, Node]
    instances: Mapping[str, Instance] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    master: str = ""
    tags: frozenset[str] = frozenset()
    forthcoming: Mapping[str, Instance] = field(default_factory=dict)
    policy: str = ""
    hypervisor: str = ""
    ganeti: str = ""

    @cached_property
    def by_uuid(self) -> Mapping[str, Node]:
        """Return the nodes by UUID: a name can be used again, a UUID cannot."""
        return {node.uuid: node for node in self.nodes.values()}

    def name_of(self, uuid: str, otherwise: str = "") -> str:
        """Return the name of a node by its UUID, or something else if there is no such node."""
        node = self.by_uuid.get(uuid)
        return otherwise if node is None else node.name


@dataclass(frozen=True, slots=True)
class Beside:
    """The commands that an agent runs side by side as checks, and how many such orders it takes."""

    commands: tuple[str, ...] = ()
    most: int = 1


@dataclass(frozen=True, slots=True)
class Observed:
    """The observation of one round.

    `diagnoses` has, by name, only the nodes that answered genuinely and confirm their diagnosis
    now; `doubts` says of every other node why it has none. `results` is by intent id, for the
    intents whose job is known. `absent` are the intents that certainly have no job, and why.
    `capacity` lacks the nodes that did not report it. `wishes` are the administrators' requests.

    `jobs` has by number the state of the jobs that repairs' tags name. `advice` has by group the
    newest search result for its balance, `busy` by name the work of others' jobs. `sick` has by
    source the machines it reports broken, or why we do not believe it. `beside` has by node name
    the commands that its agent runs side by side. `zones` are the known time zones of series, by
    name.

    `watcher_paused` is until when (unix ms) Ganeti's watcher is paused, None if unknown; we ask for
    it if auto-repair is on. `roles` are the jobs about nodes' roles since our own drains, None if
    we have not asked. `keys` has by node name the fingerprint of its agent's signing key.
    `unanswered` are the nodes whose agent does not answer our poll or is not trusted; `doubts`
    gives the reason. `noded` says of some unreachable nodes whether Ganeti's noded answers there.
    `evidence` has by name what is known of the unreachable ones. `started` is when this maintd
    began its work (unix ms). `uncertain` says why it does not know whether its ledger is the
    newest, None if it does. `unwritten` says why Ganeti did not take the last ledger, empty if it
    did.
    `answering` are the nodes marked offline whose agent answers; maintd asks if auto-repair is on,
    or a roll waits for them. `boots` has by name the id of each node's present start, `runs` the
    commands that its agent takes orders for without a diagnosis; agents of 0.2.0 tell neither.
    `running` has by name the states of the instances on the nodes that budgets depend on, None if
    maintd did not ask.
    `alerts` are those that keep a roll from going on; maintd asks only while it has such a roll.
    `clocks` has by name how many ms the node's clock was ahead of ours when its agent answered,
    `refusing` why its agent refuses each order now.
    """

    snapshot: Snapshot
    diagnoses: Mapping[str, Diagnosis]
    doubts: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, Result] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, Capacity] = field(default_factory=dict)
    wishes: tuple[Wish, ...] = ()
    jobs: Mapping[str, Result] = field(default_factory=dict)
    advice: Mapping[str, Advice] = field(default_factory=dict)
    busy: Mapping[str, str] = field(default_factory=dict)
    sick: Mapping[str, tuple[Sick, ...] | str] = field(default_factory=dict)
    zones: Mapping[str, Zone] = field(default_factory=dict)
    watcher_paused: Ms | None = Ms(0)
    roles: tuple[RoleChange, ...] | None = None
    beside: Mapping[str, Beside] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    unanswered: frozenset[str] = frozenset()
    noded: Mapping[str, bool] = field(default_factory=dict)
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    started: Ms = Ms(0)
    uncertain: Uncertain | None = None
    unwritten: str = ""
    answering: frozenset[str] = frozenset()
    boots: Mapping[str, str] = field(default_factory=dict)
    runs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    running: Mapping[str, Running] | None = None
    alerts: Alerts = field(default_factory=Alerts)
    clocks: Mapping[str, Ms] = field(default_factory=dict)
    refusing: Mapping[str, str] = field(default_factory=dict)

    def is_healthy(self, name: str) -> bool:
        """Tell whether the node's agent confirms now that nothing is wrong with the node."""
        diagnosis = self.diagnoses.get(name)
        return diagnosis is not None and diagnosis.need is Need.OK
