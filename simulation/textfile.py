"""A cluster in the htools' text format (`hbal -t`), as nodeagent reads it: written. Pure."""

from nodeagent.errors import MessageError
from nodeagent.placement.cluster.cluster import Cluster, Instance, Node, Policy


def write(cluster: Cluster) -> str:
    """Return the cluster in this format; MessageError if a name does not fit into it."""
    uuids = {group.uuid for group in cluster.groups}
    assert all(node.group in uuids for node in cluster.nodes)
    sections = (
        [_join(g.name, g.uuid, g.allocation, g.tags, g.networks) for g in cluster.groups],
        [_node_line(node) for node in cluster.nodes],
        [_instance_line(instance) for instance in cluster.instances],
        [_checked(tag, "\n") for tag in cluster.tags],
        [
            _policy_line("", cluster.policy),
            *(_policy_line(group.name, group.policy) for group in cluster.groups),
        ],
    )
    return "\n".join("".join(f"{line}\n" for line in lines) for lines in sections)


def _node_line(node: Node) -> str:
    flag = "Y" if node.offline else "M" if node.master else "N"
    return _join(
        node.name,
        _size(node.memory),
        node.own_memory,
        node.free_memory,
        _size(node.disk),
        node.free_disk,
        _size(node.cpus),
        flag,
        node.group,
        node.spindles,
        node.tags,
        "Y" if node.exclusive else "N",
        node.free_spindles,
        node.own_cpus,
        node.speed,
    )


def _instance_line(instance: Instance) -> str:
    i = instance
    return _join(
        i.name,
        i.memory,
        i.disk,
        i.vcpus,
        i.status,
        "Y" if i.auto_balance else "N",
        i.primary,
        i.secondary or "",
        i.template,
        i.tags,
        i.spindle_use,
        "-" if i.spindles is None else i.spindles,
        "Y" if i.forthcoming else "N",
    )


def _policy_line(owner: str, policy: Policy) -> str:
    ranges = ";".join(",".join(map(str, spec)) for pair in policy.ranges for spec in pair)
    return _join(
        owner,
        ",".join(map(str, policy.standard)),
        ranges,
        policy.templates,
        policy.vcpu_ratio,
        policy.spindle_ratio,
    )


def _size(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _join(*fields: object) -> str:
    return "|".join(
        ",".join(_checked(part, ",|\n") for part in field)
        if isinstance(field, tuple)
        else _checked(str(field), "|\n")
        for field in fields
    )


def _checked(text: str, parting: str) -> str:
    if any(sign in text for sign in parting):
        raise MessageError(f"{text!r} has a sign that parts fields and cannot be written")
    return text
