"""Seeded requests to an instance allocator, with all that an answer can depend on."""

import random
from typing import Any

TEMPLATES = (
    ("drbd",) * 8
    + ("plain",) * 4
    + (
        "ext",
        "rbd",
        "sharedfile",
        "gluster",
        "blockdev",
        "diskless",
        "file",
    )
)
ALL = ("drbd", "plain", "ext", "rbd", "sharedfile", "gluster", "blockdev", "diskless", "file")
TYPES = (
    "allocate",
    "allocate",
    "allocate",
    "multi-allocate",
    "relocate",
    "node-evacuate",
    "node-evacuate",
    "change-group",
    "allocate-secondary",
)
SIZES = ((512, 1024, 1), (1024, 2048, 1), (1024, 4096, 2), (2048, 2048, 1), (3072, 8192, 4))


def request(seed: int, kind: str | None = None) -> tuple[dict[str, Any], list[str]]:
    """One request and hail's options for it; the same for the same seed."""
    return _Maker(random.Random(seed), kind).request()


class _Maker:
    def __init__(self, rng: random.Random, kind: str | None) -> None:
        self.rng = rng
        self.kind = kind or rng.choice(TYPES)
        self.count = rng.choice((1, 1, 2, 3)) if self.kind != "change-group" else rng.choice((2, 3))
        self.alike = rng.random() < 0.3  # many equals: who comes last is taken
        self.tight = rng.random() < 0.25
        self.roomy = rng.random() < 0.5
        self.templates = rng.choice((TEMPLATES, ("drbd",), ("drbd", "plain"), ("ext", "rbd")))
        self.excluded = rng.random() < 0.4
        self.located = rng.random() < 0.35
        self.desired = rng.random() < 0.25
        self.migrating = rng.random() < 0.25
        self.networked = rng.random() < 0.15
        self.exclusive = rng.random() < 0.15
        self.nodes: dict[str, dict[str, Any]] = {}
        self.instances: dict[str, dict[str, Any]] = {}

    def request(self) -> tuple[dict[str, Any], list[str]]:
        rng = self.rng
        groups = {f"uuid-{g}": self._group(g) for g in range(self.count)}
        for g in range(self.count):
            for _ in range(rng.randint(2, 6)):
                self._node(f"uuid-{g}")
        for _ in range(rng.randint(1, rng.choice((1, 2, 4)) * len(self.nodes))):
            self._instance()
        for node in self.nodes.values():
            self._fill(node)
        whole = {
            "version": 2,
            "cluster_name": "cluster",
            "cluster_tags": self._cluster_tags(),
            "enabled_hypervisors": rng.choice((["xen-pvm"], ["xen-hvm", "kvm"], ["kvm"])),
            "ipolicy": self._policy(),
            "nodegroups": groups,
            "nodes": self.nodes,
            "instances": self.instances,
            "request": self._asked(groups),
        }
        options = []
        if rng.random() < 0.2:
            options.append("--no-capacity-checks")
        if rng.random() < 0.15:
            options.append("--ignore-soft-errors")
        if rng.random() < 0.08 and "allocate" in self.kind:
            names = rng.sample(sorted(self.nodes), (len(self.nodes) + 1) // 2)
            options.append("--restrict-allocation-to=" + ",".join(names))
        return whole, options

    def _group(self, number: int) -> dict[str, Any]:
        return {
            "name": f"group{number}",
            "alloc_policy": self.rng.choice(
                ("preferred", "preferred", "last_resort", "unallocable")
            ),
            "networks": ["net-1"] if self.networked and self.rng.random() < 0.6 else [],
            "ipolicy": self._policy(),
            "tags": [],
        }

    def _policy(self) -> dict[str, Any]:
        rng = self.rng
        small = _spec(128, 1, 256, 0 if rng.random() < 0.3 else 1, 1)
        large = _spec(rng.choice((2048, *(32768,) * 4)), 8, 1048576, rng.choice((1, 16, 16)), 12)
        ranges = [{"min": small, "max": large}]
        if rng.random() < 0.3:
            ranges.append({"min": _spec(1024, 1, 2048, 1, 1), "max": large})
        if rng.random() < 0.3:
            ranges.insert(0, {"min": _spec(3000, 2, 4096, 1, 1), "max": large})
        allowed = ALL if rng.random() < 0.85 else rng.sample(ALL, 4)
        return {
            "std": small,
            "minmax": ranges,
            "disk-templates": list(allowed),
            "vcpu-ratio": rng.choice((4.0, 4.0, 1.5)),
            "spindle-ratio": rng.choice((32.0, 32.0, 3.0)),
        }

    def _cluster_tags(self) -> list[str]:
        tags = ["just:a:tag"] if self.rng.random() < 0.2 else []
        if self.excluded:
            tags.append("htools:iextags:svc")
        if self.located:
            tags.append("htools:nlocation:rack")
        if self.desired:
            tags.append("htools:desiredlocation:rack")
        if self.migrating:
            tags += ["htools:migration:hv", "htools:allowmigration:hv:old::hv:new"]
        return tags

    def _node(self, group: str) -> None:
        rng = self.rng
        tags = []
        if self.located or self.desired:
            tags.append(f"rack:r{rng.randrange(3)}")
        if self.migrating and rng.random() < 0.7:
            tags.append(f"hv:{rng.choice(('old', 'new'))}")
        state = rng.random()
        self.nodes[f"node{len(self.nodes):02d}"] = {
            "group": group,
            "tags": tags,
            "offline": state < 0.06,
            "drained": 0.06 < state < 0.14,
            "vm_capable": state < 0.98,
            "master_candidate": True,
            "master_capable": True,
            "primary_ip": "192.0.2.1",
            "secondary_ip": "198.51.100.1",
            "ndparams": {
                "exclusive_storage": self.exclusive,
                "spindle_count": rng.choice((1, 2)),
            },
            "used": [0, 0, 0],
        }

    def _base(self, template: str) -> dict[str, Any]:
        rng = self.rng
        memory, disk, vcpus = SIZES[1] if self.alike else rng.choice(SIZES)
        disks = [{"mode": "rw", "size": disk}]
        if template == "diskless":
            disks = []
        elif not self.alike and rng.random() < 0.2:
            disks = [{"mode": "rw", "size": disk // 2}, {"mode": "rw", "size": disk // 2}]
        for one in disks:
            if self.exclusive and rng.random() < 0.9:
                one["spindles"] = 1
        tags = []
        if rng.random() < 0.35:
            tags.append(f"svc:s{rng.randrange(4)}")
        if rng.random() < 0.3:
            tags.append(f"rack:r{rng.randrange(4)}")
        nic = {"mac": "aa:00:00:00:00:01", "ip": None, "mode": "bridged", "link": "br0"}
        if self.networked and rng.random() < 0.5:
            nic["network"] = rng.choice(("net-1", "net-2", "net-1", None))
        return {
            "tags": tags,
            "memory": memory,
            "vcpus": vcpus,
            "spindle_use": 1 if self.alike else rng.choice((1, 1, 2)),
            "os": "noop",
            "hypervisor": "xen-pvm",
            "disk_template": template,
            "disks": disks,
            "disk_space_total": sum(int(str(d["size"])) for d in disks)
            + (128 * len(disks) if template == "drbd" else 0),
            "nics": [nic],
        }

    def _instance(self) -> None:
        rng = self.rng
        template = rng.choice(self.templates)
        names = list(self.nodes)
        weights = [1.0 / (1 + place) for place in range(len(names))]
        primary = rng.choices(names, weights)[0]
        nodes = [primary]
        if template == "drbd":
            near = [
                name
                for name in names
                if name != primary and self.nodes[name]["group"] == self.nodes[primary]["group"]
            ]
            if not near:
                template = "plain"
            else:
                nodes.append(rng.choice(near))
        found = self._base(template)
        state = rng.choice(("up",) * 8 + ("down", "offline"))
        found |= {"nodes": nodes, "admin_state": state, "disks_active": True}
        if rng.random() < 0.03:
            found["forthcoming"] = True
        for name in nodes:
            used = self.nodes[name]["used"]
            if not found.get("forthcoming"):
                used[0] += found["memory"] if name == primary and state == "up" else 0
                if template in ("drbd", "plain"):
                    used[1] += found["disk_space_total"]
                    used[2] += sum(disk.get("spindles", 0) for disk in found["disks"])
        self.instances[f"inst{len(self.instances):03d}"] = found

    def _fill(self, node: dict[str, Any]) -> None:
        rng = self.rng
        memory, disk, spindles = node.pop("used")
        if node["offline"] or not node["vm_capable"]:
            return
        room = rng.choice((600, 1500, 3000)) if self.tight else rng.choice((6000, 9000, 15000))
        room += 20_000 if self.roomy else 0
        total = 1024 + memory + room
        space = disk + rng.choice((3000, 12000, 40000))
        if self.alike:
            total, space = (1024 + 20 * 1024, 200_000)
        node |= {
            "total_memory": total,
            "reserved_memory": 1024,
            "free_memory": max(0, total - 1024 - memory - rng.choice((0, 0, 64))),
            "total_disk": space,
            "free_disk": max(0, space - disk),
            "total_spindles": spindles + 4,
            "free_spindles": rng.choice((4, 4, 1)) if self.exclusive else 0,
            "total_cpus": 8 if self.alike else rng.choice((4, 8, 16)),
            "reserved_cpus": 1,
            "i_pri_memory": memory,
            "i_pri_up_memory": memory,
        }

    def _asked(self, groups: dict[str, Any]) -> dict[str, Any]:
        rng = self.rng
        names = list(self.instances)
        match self.kind:
            case "allocate":
                asked = self._new("new") | {"type": "allocate"}
                if rng.random() < 0.25:
                    asked["group_name"] = rng.choice(list(groups.values()))["name"]
                if rng.random() < 0.08:
                    asked["restrict-to-nodes"] = rng.sample(list(self.nodes), 2)
                return asked
            case "multi-allocate":
                asked = {
                    "type": "multi-allocate",
                    "instances": [self._new(f"new{n}") for n in range(rng.randint(1, 5))],
                }
                if rng.random() < 0.25:
                    asked["group_name"] = rng.choice(list(groups.values()))["name"]
                return asked
            case "relocate" | "allocate-secondary":
                name = rng.choice(names)
                nodes = self.instances[name]["nodes"]
                asked = {"type": self.kind, "name": name, "disk_space_total": 0}
                if self.kind == "relocate":
                    asked |= {"required_nodes": 1, "relocate_from": nodes[-1:]}
                return asked
            case "node-evacuate":
                node = rng.choice(list(self.nodes))
                mode = rng.choice(("primary-only", "secondary-only", "all"))
                place = {"primary-only": 0, "secondary-only": 1}
                here = [
                    name
                    for name in names
                    if node in self.instances[name]["nodes"]
                    and (
                        mode == "all" or self.instances[name]["nodes"][place[mode] :][:1] == [node]
                    )
                ]
                return {"type": self.kind, "instances": here or names[:1], "evac_mode": mode}
            case _:
                chosen = rng.sample(names, min(len(names), rng.randint(1, 4)))
                targets = [rng.choice(list(groups))] if rng.random() < 0.5 else []
                return {"type": self.kind, "instances": chosen, "target_groups": targets}

    def _new(self, name: str) -> dict[str, Any]:
        template = self.rng.choice(self.templates)
        needed = 2 if template == "drbd" else 1
        return self._base(template) | {"name": name, "required_nodes": needed}


def _spec(memory: int, vcpus: int, disk: int, disks: int, spindles: int) -> dict[str, int]:
    return {
        "memory-size": memory,
        "cpu-count": vcpus,
        "disk-size": disk,
        "disk-count": disks,
        "nic-count": 8,
        "spindle-use": spindles,
    }
