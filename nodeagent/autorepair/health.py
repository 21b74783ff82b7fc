"""The health of an instance's nodes, and the least repair that helps. Pure.

Ganeti sets the limits. No instance starts on a node that is drained, offline or not vm-capable, and
no secondary is created there. A new secondary needs a primary node that answers. Local disks
without a secondary do not move.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nodeagent.autorepair.tags import RepairType
from nodeagent.model.snapshot import Instance, Node


@dataclass(frozen=True, slots=True)
class Healthy:
    """All its nodes are in service."""

    why = "all its nodes are in service"


@dataclass(frozen=True, slots=True)
class Broken:
    """Its repair, step by step, and the fault in a few words."""

    steps: tuple[RepairType, ...]
    why: str

    @property
    def need(self) -> RepairType:
        """Return the repair type that must be allowed for all steps."""
        return max(self.steps)


@dataclass(frozen=True, slots=True)
class Stuck:
    """It is broken, and why no repair of ours would help."""

    why: str


Health: TypeAlias = Healthy | Broken | Stuck

_FIX, _MIGRATE = RepairType.FIX_STORAGE, RepairType.MIGRATE
_FAILOVER, _REINSTALL = RepairType.FAILOVER, RepairType.REINSTALL
_LOCAL = frozenset({"plain", "file"})
HEALTHY = Healthy()


def check(instance: Instance, nodes: Mapping[str, Node]) -> Health:
    primary = nodes[instance.primary]
    mirror = nodes[instance.secondary] if instance.secondary is not None else None
    if primary.in_service and (lost := _lost_parts(instance, nodes)):
        return Stuck(f"{lost}, where some of its disks are, and Ganeti replaces only all of them")
    if primary.in_service and (mirror is None or mirror.in_service):
        return HEALTHY
    health = (
        _mirrored(instance, primary, mirror) if mirror is not None else _alone(instance, primary)
    )
    if instance.offline and isinstance(health, Broken) and health.need is _REINSTALL:
        # Ganeti would make new disks, and then refuse the installation.
        return Stuck(f"{health.why}; it is marked offline itself, so it is not reinstalled")
    return health


def _lost_parts(instance: Instance, nodes: Mapping[str, Node]) -> str:
    lost = (nodes[name] for name in sorted(instance.partly_on) if not nodes[name].in_service)
    return ", and ".join(map(fault_of, lost))


def _alone(instance: Instance, primary: Node) -> Health:
    trouble = f"its primary node {fault_of(primary)}"
    if instance.shared:
        return Broken((_off(instance, primary),), trouble)
    if instance.template in _LOCAL:
        if primary.offline:
            return Broken((_REINSTALL,), f"{trouble}, and its disks were there alone")
        return Stuck(f"{trouble}, and its disks ({instance.template}) cannot leave it")
    if instance.template == "drbd":
        return Stuck(f"{trouble}, and it has no secondary node")
    return Stuck(f"{trouble}, and its disk template {instance.template} is unknown")


def _mirrored(instance: Instance, primary: Node, mirror: Node) -> Health:
    if primary.in_service:
        return Broken((_FIX,), f"its secondary node {fault_of(mirror)}")
    trouble = f"its primary node {fault_of(primary)}"
    if mirror.in_service:
        # The old primary then is the secondary, and still faulty.
        return Broken((_off(instance, primary), _FIX), trouble)
    trouble = f"{trouble} and its secondary node {fault_of(mirror)}"
    if not primary.offline:
        return Broken((_FIX, _off(instance, primary), _FIX), trouble)
    if mirror.offline:
        return Broken((_REINSTALL,), trouble)
    return Stuck(f"{trouble}: put {mirror.name} back into service and it can be failed over")


def _off(instance: Instance, primary: Node) -> RepairType:
    """Return the move off its node; Ganeti does not migrate everything."""
    return _FAILOVER if primary.offline or instance.interrupted else _MIGRATE


def fault_of(node: Node) -> str:
    """Say why a node is not in service."""
    if node.offline:
        return f"{node.name} is offline"
    return f"{node.name} is {'drained' if node.drained else 'not vm-capable'}"


def harep_needs(instance: Instance, nodes: Mapping[str, Node]) -> RepairType | None:
    """Return the repair of harep 3.0.2 and 3.1: each node that is not in service counts as off."""
    off = not nodes[instance.primary].in_service
    if instance.template == "drbd" and instance.secondary is not None:
        lost = not nodes[instance.secondary].in_service
        if off:
            return _REINSTALL if lost else _FAILOVER
        return _FIX if lost else None
    return _REINSTALL if off and instance.template == "plain" else None


def as_harep_itself(instance: Instance, nodes: Mapping[str, Node]) -> Health:
    """Judge as harep does, which also gives up data; Stuck where it ends altogether."""
    if instance.template == "drbd" and instance.secondary is None:
        return Stuck("its template is drbd, and it has no secondary node")
    need = harep_needs(instance, nodes)
    if need is None:
        return HEALTHY
    faults = (fault_of(node) for node in _nodes_of(instance, nodes) if not node.in_service)
    return Broken((need,), f"its node {' and '.join(faults)}")


def as_harep(instance: Instance, nodes: Mapping[str, Node]) -> Health:
    """Judge as harep does, but for two refusals, and without an end.

    Data on a node that is only drained stay, and so do those of an instance that Ganeti would not
    install again.
    """
    health = as_harep_itself(instance, nodes)
    if isinstance(health, Stuck):
        return HEALTHY
    if isinstance(health, Broken) and health.need is _REINSTALL:
        if not all(node.offline for node in _nodes_of(instance, nodes)):
            return Stuck(f"{health.why}: its data are there, and stay")
        if instance.offline:
            return Stuck(f"{health.why}; it is itself marked offline")
    return health


def _nodes_of(instance: Instance, nodes: Mapping[str, Node]) -> list[Node]:
    names = (instance.primary, instance.secondary)
    return [nodes[name] for name in names if name is not None]
