"""Ganeti's question to an instance allocator, read from its JSON (iallocator protocol 2). Pure.

A wrong value is refused with its place, as `nodes.node1.free_memory`. Unused names are ignored.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from nodeagent.placement.cluster.cluster import (
    Allocation,
    Cluster,
    Group,
    Instance,
    Node,
    Status,
    Template,
    template_of,
)
from nodeagent.placement.cluster.json_reader import Object
from nodeagent.placement.cluster.policy import read_policy

_STATUS = {
    "up": Status.RUNNING,
    "down": Status.ADMIN_DOWN,
    "offline": Status.ADMIN_OFFLINE,
}


class Type(StrEnum):
    ALLOCATE = "allocate"
    ALLOCATE_SECONDARY = "allocate-secondary"
    MULTI_ALLOCATE = "multi-allocate"
    RELOCATE = "relocate"
    NODE_EVACUATE = "node-evacuate"
    CHANGE_GROUP = "change-group"


class Leaving(StrEnum):
    """Nodes that instances leave."""

    PRIMARY = "primary-only"
    SECONDARY = "secondary-only"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Newcomer:
    """An instance to place; its nodes are not set. `disks` are sizes, `nodes` how many it needs."""

    instance: Instance
    disks: tuple[int, ...]
    networks: tuple[str, ...]
    nodes: int


@dataclass(frozen=True, slots=True)
class Request:
    """A request and its cluster; `disks` and `networks` belong to its instances.

    The other fields are set only for the types that need them. `group` is a name or UUID,
    `instances` and `away` (nodes to leave) are names, `groups` UUIDs.
    """

    type: Type
    cluster: Cluster
    disks: tuple[tuple[int, ...], ...]
    networks: tuple[tuple[str, ...], ...]
    newcomers: tuple[Newcomer, ...] = ()
    group: str | None = None
    only: frozenset[str] | None = None
    instances: tuple[str, ...] = ()
    required: int = 1
    away: tuple[str, ...] = ()
    leaving: Leaving = Leaving.ALL
    groups: tuple[str, ...] = ()


def read_request(
    document: object, own_memory: int = 4096, instead: Cluster | None = None
) -> Request:
    """Read a request, or raise MessageError; it may be about another cluster `instead`.

    On clusters whose first hypervisor is kvm the nodes' own memory counts as `own_memory` MiB,
    unless that is 0: nodes report it badly.
    """
    whole = Object(document, "")
    asked = whole.object("request")
    kind = asked.word("type", Type)
    if instead is not None:
        # The text format only has the total disk of an instance.
        disks: tuple[tuple[int, ...], ...] = tuple(
            (instance.disk,) for instance in instead.instances
        )
        nowhere: tuple[tuple[str, ...], ...] = ((),) * len(instead.instances)
        return Request(kind, instead, disks, nowhere, **_asked(kind, asked, instead))
    hypervisors = whole.texts("enabled_hypervisors")
    static = own_memory if hypervisors[:1] == ("kvm",) else 0
    groups = [_group(uuid, of) for uuid, of in whole.objects("nodegroups")]
    uuids = frozenset(group.uuid for group in groups)
    nodes = [_node(name, of, uuids, static) for name, of in whole.objects("nodes")]
    names = frozenset(node.name for node in nodes)
    known = [_placed(name, of, names) for name, of in whole.objects("instances")]
    cluster = Cluster(
        tuple(groups),
        tuple(nodes),
        tuple(newcomer.instance for newcomer in known),
        whole.texts("cluster_tags"),
    )
    disks = tuple(newcomer.disks for newcomer in known)
    networks = tuple(newcomer.networks for newcomer in known)
    return Request(kind, cluster, disks, networks, **_asked(kind, asked, cluster))


def _asked(kind: Type, asked: Object, cluster: Cluster) -> dict[str, Any]:
    match kind:
        case Type.ALLOCATE:
            only = None if asked.lacks("restrict-to-nodes") else asked.texts("restrict-to-nodes")
            return {
                "newcomers": (_newcomer(asked),),
                "group": asked.text_or_none("group_name"),
                "only": None if only is None else frozenset(only),
            }
        case Type.MULTI_ALLOCATE:
            newcomers = tuple(_newcomer(instance) for instance in asked.sequence("instances"))
            return {"newcomers": newcomers, "group": asked.text_or_none("group_name")}
        case Type.ALLOCATE_SECONDARY:
            return {"instances": _instances(asked, "name", (asked.text("name"),), cluster)}
        case Type.RELOCATE:
            away = asked.texts("relocate_from")
            nodes = {node.name for node in cluster.nodes}
            return {
                "away": _known(asked, "relocate_from", "node", away, nodes),
                "instances": _instances(asked, "name", (asked.text("name"),), cluster),
                "required": asked.whole("required_nodes"),
            }
        case Type.NODE_EVACUATE | Type.CHANGE_GROUP:
            names = _instances(asked, "instances", asked.texts("instances"), cluster)
            if kind is Type.NODE_EVACUATE:
                return {"instances": names, "leaving": asked.word("evac_mode", Leaving)}
            groups = {key: group.uuid for group in cluster.groups for key in _keys(group)}
            targets = asked.texts("target_groups")
            known_targets = _known(asked, "target_groups", "group", targets, groups)
            return {"instances": names, "groups": tuple(groups[name] for name in known_targets)}


def _keys(group: Group) -> tuple[str, str]:
    return group.name, group.uuid


def _instances(
    asked: Object, key: str, names: tuple[str, ...], cluster: Cluster
) -> tuple[str, ...]:
    return _known(asked, key, "instance", names, {instance.name for instance in cluster.instances})


def _known(
    asked: Object, key: str, what: str, names: tuple[str, ...], known: Collection[str]
) -> tuple[str, ...]:
    """Return the names at a key, or refuse the first that the cluster does not have."""
    for name in names:
        if name not in known:
            asked.wrong(key, f"there is no {what} {name}")
    return names


def _group(uuid: str, of: Object) -> Group:
    return Group(
        of.text("name"),
        uuid,
        of.word("alloc_policy", Allocation),
        of.texts("tags"),
        of.texts("networks"),
        read_policy(of.object("ipolicy")),
    )


def _node(name: str, of: Object, groups: frozenset[str], own_memory: int) -> Node:
    offline, drained = of.flag("offline"), of.flag("drained")
    live = of.flag("vm_capable", default=True) and not offline
    group = of.text("group")
    if group not in groups:
        of.wrong("group", f"there is no group {group}")
    parameters = of.object("ndparams")
    exclusive = parameters.flag("exclusive_storage")
    tags = () if of.lacks("tags") else of.texts("tags")
    spindles = 0 if exclusive else parameters.count("spindle_count")
    if not live:
        return Node(
            name=name,
            group=group,
            memory=0.0,
            own_memory=own_memory,
            free_memory=0,
            disk=0.0,
            free_disk=0,
            cpus=0.0,
            offline=True,
            spindles=spindles,
            tags=tags,
            exclusive=exclusive,
            own_cpus=0,
        )
    return Node(
        name=name,
        group=group,
        memory=of.amount("total_memory"),
        own_memory=own_memory or of.whole("reserved_memory"),
        free_memory=of.whole("free_memory"),
        disk=of.amount("total_disk"),
        free_disk=of.whole("free_disk"),
        cpus=of.amount("total_cpus"),
        offline=drained,
        spindles=of.count("total_spindles") if exclusive else spindles,
        tags=tags,
        exclusive=exclusive,
        free_spindles=of.whole("free_spindles"),
        own_cpus=of.count("reserved_cpus"),
    )


def _newcomer(of: Object) -> Newcomer:
    template = of.word("disk_template", Template)
    return _instance(of.text("name"), of, template, "", None, of.whole("required_nodes"))


def _placed(name: str, of: Object, nodes: frozenset[str]) -> Newcomer:
    at = of.texts("nodes")
    if not at:
        of.wrong("nodes", "there is none")
    for place in at[:2]:
        if place not in nodes:
            of.wrong("nodes", f"there is no node {place}")
    word = of.text("disk_template")
    template = template_of(word)
    secondary = at[1] if len(at) > 1 and word == template else None
    if template is Template.DRBD and secondary in (None, at[0]):
        of.wrong("nodes", "drbd needs two")
    return _instance(name, of, template, at[0], secondary, len(at))


def _instance(
    name: str, of: Object, template: Template, primary: str, secondary: str | None, nodes: int
) -> Newcomer:
    disks, spindles = [], cast(int | None, 0)
    for disk in of.sequence("disks"):
        disks.append(disk.count("size"))
        if disk.lacks("spindles"):
            spindles = None
        elif spindles is not None:
            spindles += disk.count("spindles")
    networks = [nic.text_or_none("network") for nic in of.sequence("nics")]
    state = "up" if of.lacks("admin_state") else of.text("admin_state")
    if state not in _STATUS:
        of.wrong("admin_state", f"{state!r} is not one of {', '.join(_STATUS)}")
    instance = Instance(
        name=name,
        memory=of.count("memory"),
        disk=of.count("disk_space_total"),
        vcpus=of.count("vcpus"),
        primary=primary,
        secondary=secondary,
        template=template,
        status=_STATUS[state],
        tags=of.texts("tags"),
        spindle_use=of.count("spindle_use"),
        spindles=spindles,
        forthcoming=of.flag("forthcoming", default=False),
    )
    return Newcomer(instance, tuple(disks), tuple(filter(None, networks)), nodes)
