"""A Ganeti whose configuration and nodes are a cluster of the text format, behind a LUXI socket."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from nodeagent.placement.cluster.cluster import Cluster, Group, Instance, Node, Policy, Spec, Status
from tests.cluster.ganeti import answering

_NORMAL, _NO_DATA, _UNAVAILABLE, _OFFLINE = 0, 2, 3, 4
_LIVE = ("mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos", "sptotal", "spfree")
_WANTED = {Status.ADMIN_DOWN: "down", Status.ADMIN_OFFLINE: "offline"}

Row: TypeAlias = dict[str, tuple[int, Any]]


@dataclass
class Luxid(answering.Luxid):
    """`drained` and `silent` are nodes; what the cluster has as offline is `drained` or offline."""

    cluster: Cluster
    drained: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()
    hypervisor: str = "xen-pvm"

    def answer(self, method: str, args: list[Any]) -> Any:
        """What luxid would answer."""
        match method, args:
            case "Query", [what, fields, condition]:
                rows = [
                    row
                    for row in self._rows(what)
                    if answering.meets({name: cell[1] for name, cell in row.items()}, condition)
                ]
                data = [[row[name] for name in fields] for row in rows]
                return {"fields": [answering.field(name) for name in fields], "data": data}
            case "QueryClusterInfo", []:
                masters = [node.name for node in self.cluster.nodes if node.master]
                return {
                    "name": "cluster.example",
                    "master": masters[0] if masters else self.cluster.nodes[0].name,
                    "tags": list(self.cluster.tags),
                    "ipolicy": policy(self.cluster.policy),
                    "default_hypervisor": self.hypervisor,
                }
        raise KeyError(method)

    def _rows(self, what: str) -> list[Row]:
        match what:
            case "node":
                return [self._node(node) for node in self.cluster.nodes]
            case "instance":
                return [_instance(instance) for instance in self.cluster.instances]
            case "group":
                return [_group(group) for group in self.cluster.groups]
        raise KeyError(what)

    def _node(self, node: Node) -> Row:
        offline = node.offline and node.name not in self.drained
        status = _OFFLINE if offline else _NO_DATA if node.name in self.silent else _NORMAL
        known = node_row(node) | {"offline": offline, "drained": node.offline and not offline}
        return {
            name: (status, value if status == _NORMAL else None)
            if name in _LIVE
            else (_NORMAL, value)
            for name, value in known.items()
        }


def node_row(node: Node) -> dict[str, Any]:
    """What Ganeti tells of a node that answers."""
    return {
        "name": node.name,
        "uuid": f"uuid-of-{node.name}",
        "pip": "127.0.0.1",
        "master_candidate": True,
        "offline": node.offline,
        "drained": False,
        "vm_capable": True,
        "group.uuid": node.group,
        "tags": list(node.tags),
        "ndp/spindle_count": 1 if node.exclusive else node.spindles,
        "ndp/exclusive_storage": node.exclusive,
        "ndp/cpu_speed": node.speed,
        "ndp/oob_program": "",
        "mtotal": int(node.memory),
        "mnode": node.own_memory,
        "mfree": node.free_memory,
        "dtotal": int(node.disk),
        "dfree": node.free_disk,
        "ctotal": int(node.cpus),
        "cnos": node.own_cpus,
        "sptotal": node.spindles,
        "spfree": node.free_spindles,
    }


def _instance(instance: Instance) -> Row:
    ram = _NORMAL if instance.takes_memory else _UNAVAILABLE
    known = instance_row(instance)
    row = {name: (_NORMAL, value) for name, value in known.items()}
    return row | {"oper_ram": (ram, known["oper_ram"])}


def instance_row(instance: Instance) -> dict[str, Any]:
    """What Ganeti tells of an instance."""
    return {
        "name": instance.name,
        "disk_usage": instance.disk,
        "be/memory": instance.memory,
        "be/maxmem": instance.memory,
        "be/vcpus": instance.vcpus,
        "status": instance.status,
        "admin_state": _WANTED.get(instance.status, "up"),
        "pnode": instance.primary,
        "snodes": [instance.secondary] if instance.secondary else [],
        "tags": list(instance.tags),
        "be/auto_balance": instance.auto_balance,
        "be/always_failover": False,
        "hypervisor": "kvm",
        "disk_template": instance.template,
        "be/spindle_use": instance.spindle_use,
        "disk.sizes": [instance.disk],
        "disk.spindles": [instance.spindles],
        "forthcoming": instance.forthcoming,
        "oper_ram": instance.memory if instance.takes_memory else None,
    }


def _group(group: Group) -> Row:
    known = {
        "uuid": group.uuid,
        "name": group.name,
        "alloc_policy": group.allocation,
        "ipolicy": policy(group.policy),
        "tags": list(group.tags),
    }
    return {name: (_NORMAL, value) for name, value in known.items()}


def policy(of: Policy) -> dict[str, Any]:
    """An instance policy in Ganeti's words."""
    return {
        "std": _spec(of.standard),
        "minmax": [{"min": _spec(least), "max": _spec(most)} for least, most in of.ranges],
        "disk-templates": list(of.templates),
        "vcpu-ratio": of.vcpu_ratio,
        "spindle-ratio": of.spindle_ratio,
    }


def _spec(spec: Spec) -> dict[str, int]:
    return {
        "memory-size": spec.memory,
        "cpu-count": spec.vcpus,
        "disk-size": spec.disk,
        "disk-count": spec.disks,
        "nic-count": spec.nics,
        "spindle-use": spec.spindles,
    }
