"""Seeded small clusters with everything that a score or a move can depend on, as text."""

import random
from dataclasses import dataclass, field

TEMPLATES = ("drbd",) * 14 + ("plain", "ext", "rbd", "diskless", "file", "sharedfile", "gluster")
STATUSES = ("running",) * 12 + (
    "ADMIN_down",
    "ADMIN_offline",
    "USER_down",
    "ERROR_down",
    "ERROR_up",
    "ERROR_nodedown",
    "ERROR_nodeoffline",
    "ERROR_wrongnode",
)
SIZES = ((512, 1024, 1), (1024, 2048, 1), (1024, 4096, 2), (2048, 2048, 1), (3072, 8192, 4))


@dataclass
class Case:
    """A cluster's text, the options for it, and the contents of the -U file, if any."""

    text: str
    options: list[str] = field(default_factory=list)
    loads: str | None = None


class _Node:
    def __init__(self, name: str, group: int) -> None:
        self.name, self.group = name, group
        self.used = self.disk_used = self.spindles_used = 0
        self.tags: list[str] = []


def case(seed: int, *features: str) -> Case:
    """One cluster and one set of options, the same for the same seed; with these features."""
    maker = _Maker(random.Random(seed))
    for feature in features:
        assert getattr(maker, feature) in (True, False)
        setattr(maker, feature, True)
    return maker.case()


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.groups = rng.choice((1, 1, 1, 2))
        self.excluded = rng.random() < 0.4
        self.located = rng.random() < 0.4
        self.desired = rng.random() < 0.3
        self.migrating = rng.random() < 0.3
        self.forthcoming = rng.random() < 0.3
        self.exclusive = rng.random() < 0.12
        self.dedicated = False  # every node, and the spindles of every instance are known
        self.speeds = rng.random() < 0.3
        self.tight = rng.random() < 0.4
        self.noisy = rng.random() < 0.6
        self.alike = rng.random() < 0.25
        domain = rng.choice(("", ".example.com"))
        count = rng.randint(2, 8) * self.groups
        self.nodes = [_Node(f"node{n:02d}{domain}", n % self.groups) for n in range(count)]
        self.instances = rng.randint(1, 5 * count)
        self.domain = domain

    def case(self) -> Case:
        self._tag_nodes()
        instances = [self._instance(n) for n in range(self.instances)]
        nodes = [self._node(node) for node in self.nodes]
        groups = [f"group{g}|uuid-{g}|preferred||" for g in range(self.groups)]
        tags = self._cluster_tags()
        sections = [groups, nodes, instances, tags]
        if self.rng.random() < 0.7:
            sections.append(self._policies())
        text = "\n".join("".join(f"{line}\n" for line in lines) for lines in sections)
        return Case(text, self._options(instances), self._loads(instances))

    def _tag_nodes(self) -> None:
        for node in self.nodes:
            if self.located:
                node.tags.append(f"rack:r{self.rng.randrange(3)}")
                if self.rng.random() < 0.5:
                    node.tags.append(f"power:{self.rng.choice('ab')}")
            if self.migrating and self.rng.random() < 0.7:
                node.tags.append(f"hv:{self.rng.choice(('old', 'new'))}")
            if self.rng.random() < 0.1:
                node.tags.append("other")

    def _cluster_tags(self) -> list[str]:
        tags = ["just:a:tag"] if self.rng.random() < 0.2 else []
        if self.excluded:
            tags.append("htools:iextags:svc")
        if self.located:
            tags += ["htools:nlocation:rack", "htools:nlocation:power"]
        if self.desired:
            tags += ["htools:desiredlocation:rack"]
        if self.migrating:
            tags += ["htools:migration:hv"]
            if self.rng.random() < 0.6:
                tags += ["htools:allowmigration:hv:old::hv:new"]
        return tags

    def _instance(self, number: int) -> str:
        rng = self.rng
        memory, disk, vcpus = SIZES[1] if self.alike else rng.choice(SIZES)
        template = rng.choice(TEMPLATES)
        status = rng.choice(STATUSES) if self.noisy else "running"
        primary = self._some_node(rng.randrange(self.groups))
        assert primary is not None
        # Now and then an instance is split over two groups, and must stay.
        group = primary.group if rng.random() < 0.97 else rng.randrange(self.groups)
        secondary = self._some_node(group, primary) if template == "drbd" else None
        if template == "drbd" and secondary is None:
            template = "plain"
        forthcoming = self.forthcoming and rng.random() < 0.2
        spindles: str | int = rng.choice(("-", 1, 2)) if self.exclusive else "-"
        if self.dedicated:
            spindles = rng.choice((1, 1, 2))
        if not forthcoming:
            takes = status in ("running", "ERROR_up") or status.startswith("ERROR_n")
            primary.used += memory if takes or status == "ERROR_wrongnode" else 0
            for node in (primary, secondary):
                if node is not None and template in ("drbd", "plain"):
                    node.disk_used += disk
                    node.spindles_used += spindles if isinstance(spindles, int) else 0
        tags = []
        if rng.random() < 0.3:
            tags.append(f"svc:s{rng.randrange(4)}")
        if rng.random() < 0.1:
            tags.append(f"web:w{rng.randrange(2)}")
        if rng.random() < 0.3:
            tags.append(f"rack:r{rng.randrange(4)}")
        fields = (
            f"inst{number:03d}{self.domain}",
            memory,
            disk,
            vcpus,
            status,
            "N" if self.noisy and rng.random() < 0.05 else "Y",
            primary.name,
            secondary.name if secondary else "",
            template,
            ",".join(tags),
            rng.choice((1, 1, 1, 2, 3)),
            spindles,
            "Y" if forthcoming else "N",
        )
        return "|".join(map(str, fields))

    def _some_node(self, group: int, other: _Node | None = None) -> _Node | None:
        """The first nodes are used most."""
        inside = [node for node in self.nodes if node.group == group and node is not other]
        weights = [1.0 / (1 + place) for place in range(len(inside))]
        return self.rng.choices(inside, weights)[0] if inside else None

    def _node(self, node: _Node) -> str:
        rng = self.rng
        room = rng.choice((600, 1500)) if self.tight else rng.choice((6000, 9000, 15000))
        memory = 1024 + node.used + (8192 if self.alike else room)
        disk = node.disk_used + (20000 if self.alike else rng.choice((3000, 12000, 40000)))
        if self.alike:
            memory, disk = 1024 + 40 * 1024, 400_000
        free = memory - 1024 - node.used
        if self.noisy:
            free -= rng.choice((0, 0, 64, 300, -200))
        exclusive = self.exclusive or self.dedicated
        spindles = rng.choice((1, 2, 4)) if not exclusive else node.spindles_used + 4
        flag = "N"
        if rng.random() < 0.12:
            flag = "Y"
        elif node is self.nodes[0]:
            flag = "M"
        speed = rng.choice((0.8, 1.0, 1.25)) if self.speeds else 1.0
        fields: tuple[object, ...] = (
            node.name,
            memory,
            1024,
            free,
            disk,
            disk - node.disk_used,
            8 if self.alike else rng.choice((4, 8, 16)),
            flag,
            f"uuid-{node.group}",
            spindles,
            ",".join(node.tags),
            "Y" if self.dedicated or (self.exclusive and rng.random() < 0.8) else "N",
            spindles - node.spindles_used if exclusive else 0,
            rng.choice((1, 1, 2)),
            speed,
        )
        if rng.random() < 0.02:
            fields = (node.name, "?", "?", "?", "?", "?", "?", "N", f"uuid-{node.group}")
        return "|".join(map(str, fields))

    def _policies(self) -> list[str]:
        rng = self.rng
        spec = "128,1,1024,1,1,1|128,1,1024,1,1,1;65536,16,2097152,16,8,12|drbd,plain,ext,rbd"
        return [
            f"|{spec}|4.0|32.0",
            *(
                f"group{g}|{spec}|{rng.choice((4.0, 4.0, 1.5, -1.0))}|{rng.choice((32.0, 4.0))}"
                for g in range(self.groups)
            ),
        ]

    def _loads(self, instances: list[str]) -> str | None:
        if self.rng.random() > 0.25:
            return None
        rows = []
        for line in instances:
            if self.rng.random() < 0.9:
                numbers = (f"{self.rng.random():.3f}" for _ in range(4))
                rows.append(f"{line.partition('|')[0]} {' '.join(numbers)}\n")
        return "".join(rows) + "nobody 1.0 1.0 1.0 1.0\n"

    def _options(self, instances: list[str]) -> list[str]:
        rng = self.rng
        names = [line.partition("|")[0] for line in instances]
        found = [] if self.groups == 1 else ["-G", f"group{rng.randrange(self.groups)}"]
        if rng.random() < 0.15:
            found += ["-O", rng.choice(self.nodes).name]
        for chance, options in (
            (0.12, ["--evac-mode"]),
            (0.08, ["--no-disk-moves"]),
            (0.08, ["--no-instance-moves"]),
            (0.08, ["--restricted-migration"]),
            (0.1, ["--ignore-soft-errors"]),
            (0.08, [f"--max-cpu={rng.choice((1.2, 2.5))}"]),
            (0.1, [f"--min-disk={rng.choice((0.05, 0.2))}"]),
            (0.1, ["--exclusion-tags=web"]),
            (0.05, ["--ignore-dynu"]),
            (0.06, ["--select-instances=" + ",".join(rng.sample(names, (len(names) + 1) // 2))]),
            (0.06, ["--exclude-instances=" + ",".join(rng.sample(names, len(names) // 4 + 1))]),
            (0.1, ["-l", str(rng.randint(1, 4))]),
            (0.06, ["-e", "0.5"]),
            (0.06, ["-g", "0.2", "--min-gain-limit=50"]),
        ):
            if rng.random() < chance:
                found += options
        return found
