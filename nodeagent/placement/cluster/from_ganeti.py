"""Build a cluster from Ganeti's configuration and the reports of nodes and instances. Pure.

It equals the htools' view through LUXI, except for a node without its report: there they refuse the
whole cluster. Here such a node has nothing, takes nothing, and is listed; its instances are not to
be moved, so that nobody takes it for an empty one.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from nodeagent.errors import MessageError
from nodeagent.model import snapshot as seen
from nodeagent.model.snapshot import Capacity, Running, Snapshot
from nodeagent.placement.cluster.cluster import (
    Allocation,
    Cluster,
    Group,
    Instance,
    Known,
    Node,
    Policy,
    Status,
    Template,
    template_of,
)
from nodeagent.placement.cluster.json_reader import Object
from nodeagent.placement.cluster.policy import read_policy

OWN_MEMORY = 4096  # MiB that the htools reserve for a kvm node itself
_NOBODY: Mapping[str, str] = MappingProxyType({})
_NOT_ASKED: Mapping[str, Running] = MappingProxyType({})
_STATUS = {str(status): status for status in Status}


def assess(
    snapshot: Snapshot,
    capacity: Mapping[str, Capacity],
    running: Mapping[str, Running] = _NOT_ASKED,
    doubts: Mapping[str, str] = _NOBODY,
    own_memory: int = OWN_MEMORY,
) -> Known:
    """Combine the known facts; MessageError if some are wrong.

    `capacity` has the polled nodes that reported it. Instances missing in `running` count as their
    administrator wants them. `doubts` are the caller's own. On clusters of kvm the nodes' own
    memory counts as `own_memory` MiB, unless that is 0: nodes report it badly.
    """
    static = own_memory if snapshot.hypervisor == "kvm" else 0
    policies: dict[str, Policy] = {}

    def policy(text: str, whose: str) -> Policy:
        if text not in policies:
            policies[text] = policy_of(text, whose)
        return policies[text]

    all_doubts = {**doubts, **_silent(snapshot, capacity)}
    groups = [
        _group(group, policy(group.policy, f"group {group.name}"))
        for group in snapshot.groups.values()
    ]
    nodes = [
        _node(
            node,
            capacity.get(node.name),
            static,
            master=node.name == snapshot.master,
            doubted=node.name in all_doubts,
        )
        for node in snapshot.nodes.values()
    ]
    instances = [
        instance_of(instance, running.get(instance.name))
        for instance in snapshot.instances.values()
    ]
    promised = [
        replace(instance_of(instance, running.get(instance.name)), forthcoming=True)
        for instance in snapshot.forthcoming.values()
    ]
    cluster = Cluster(
        tuple(groups),
        tuple(nodes),
        (*instances, *promised),
        tuple(sorted(snapshot.tags)),
        policy(snapshot.policy, "the cluster"),
    )
    return Known(cluster, {name: why for name, why in all_doubts.items() if name in snapshot.nodes})


def asked(snapshot: Snapshot) -> list[str]:
    """List the nodes that should report their capacity."""
    return [node.name for node in snapshot.nodes.values() if _lives(node)]


def _lives(node: seen.Node) -> bool:
    return node.vm_capable and not node.offline


def _silent(snapshot: Snapshot, capacity: Mapping[str, Capacity]) -> dict[str, str]:
    reasons = {}
    for name in asked(snapshot):
        if name not in capacity:
            reasons[name] = f"{name} does not report its free resources"
        elif capacity[name].size is None:
            reasons[name] = f"{name} does not say how large it is"
    return reasons


def policy_of(text: str, whose: str) -> Policy:
    """Read a policy; the htools' own without one. MessageError: it is unreadable."""
    if not text:
        return Policy()
    try:
        document = json.loads(text)
    except ValueError:
        raise MessageError(f"{whose}: its instance policy is not JSON") from None
    return read_policy(Object(document, f"{whose}: ipolicy"))


def _group(group: seen.Group, policy: Policy) -> Group:
    try:
        allocation = Allocation(group.allocation)
    except ValueError:
        raise MessageError(
            f"group {group.name}: allocation policy: {group.allocation!r} is not one of"
            f" {', '.join(Allocation)}"
        ) from None
    return Group(group.name, group.uuid, allocation, tuple(sorted(group.tags)), (), policy)


def _node(
    node: seen.Node, free: Capacity | None, static: int, *, master: bool, doubted: bool
) -> Node:
    tags = tuple(sorted(node.tags))
    spindles = 0 if node.exclusive else node.spindles
    if not _lives(node) or free is None or (size := free.size) is None:
        return Node(
            node.name,
            node.group,
            0.0,
            static,
            0,
            0.0,
            0,
            0.0,
            offline=True,
            master=master,
            spindles=spindles,
            tags=tags,
            exclusive=node.exclusive,
            own_cpus=0,
            speed=node.speed,
        )
    return Node(
        name=node.name,
        group=node.group,
        memory=float(size.memory),
        own_memory=static or size.own_memory,
        free_memory=free.memory,
        disk=float(size.disk),
        free_disk=free.disk,
        cpus=float(size.cpus),
        offline=node.drained or doubted,
        master=master,
        spindles=size.spindles if node.exclusive else spindles,
        tags=tags,
        exclusive=node.exclusive,
        free_spindles=size.free_spindles,
        own_cpus=size.own_cpus,
        speed=node.speed,
    )


def instance_of(instance: seen.Instance, now: Running | None = None) -> Instance:
    """Read one instance, and its state now if that is known."""
    template = template_of(instance.template)
    if template is Template.DRBD and instance.secondary is None:
        template = Template.PLAIN  # on no second node; its disks stay on one node
    return Instance(
        name=instance.name,
        memory=instance.memory if now is None or now.memory is None else now.memory,
        disk=instance.disk,
        vcpus=instance.vcpus,
        primary=instance.primary,
        secondary=instance.secondary,
        template=template,
        status=_wanted(instance) if now is None else _STATUS.get(now.status, _wanted(instance)),
        auto_balance=instance.auto_balance,
        tags=tuple(sorted(instance.tags)),
        spindle_use=instance.spindle_use,
        spindles=instance.spindles,
    )


def _wanted(instance: seen.Instance) -> Status:
    if instance.running:
        return Status.RUNNING
    return Status.ADMIN_OFFLINE if instance.offline else Status.ADMIN_DOWN
