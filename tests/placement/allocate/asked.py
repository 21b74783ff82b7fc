"""Requests of Ganeti for an allocator, and the cluster in them."""

from typing import Any

Asked = dict[str, Any]


# Four nodes in two groups, whole ones to be shared out in quarters.
SPEC = {
    "memory-size": 1000,
    "cpu-count": 1,
    "disk-size": 10000,
    "disk-count": 1,
    "nic-count": 0,
    "spindle-use": 1,
}


def size(quarters: int) -> dict[str, int]:
    return {
        **SPEC,
        "memory-size": 1000 * quarters,
        "cpu-count": quarters,
        "disk-size": 10000 * quarters,
        "spindle-use": quarters,
    }


def cluster(
    nodes: dict[str, int], *, exclusive: bool = True, sizes: tuple[int, ...] = (1, 2, 4)
) -> Asked:
    """Nodes by the number of their quarters that are free; the group is the name's first letter."""
    policy = {
        "std": size(1),
        "minmax": [{"min": size(n), "max": size(n)} for n in sizes],
        "disk-templates": ["plain", "drbd"],
        "vcpu-ratio": 1.0,
        "spindle-ratio": 32.0,
    }
    return {
        "cluster_tags": [],
        "enabled_hypervisors": ["xen-pvm"],
        "instances": {},
        "nodegroups": {
            f"uuid-{letter}": {
                "name": letter,
                "alloc_policy": "preferred",
                "networks": [],
                "tags": [],
                "ipolicy": policy,
            }
            for letter in sorted({name[0] for name in nodes})
        },
        "nodes": {
            name: {
                "group": f"uuid-{name[0]}",
                "tags": [],
                "offline": False,
                "drained": False,
                "vm_capable": True,
                "ndparams": {"exclusive_storage": exclusive, "spindle_count": 4},
                "total_memory": 8100,
                "reserved_memory": 0,
                "free_memory": 1000 * free + 100,
                "total_disk": 80100,
                "free_disk": 10000 * free + 100,
                "total_spindles": 8,
                "free_spindles": free,
                "total_cpus": 8,
                "reserved_cpus": 8 - free,
            }
            for name, free in nodes.items()
        },
    }


def new(name: str, quarters: int) -> Asked:
    return {
        "name": name,
        "memory": 1000 * quarters,
        "vcpus": quarters,
        "disks": [{"size": 10000 * quarters, "spindles": quarters}],
        "disk_space_total": 10000 * quarters,
        "disk_template": "plain",
        "spindle_use": 1,
        "tags": [],
        "nics": [],
        "required_nodes": 1,
    }
