"""Replays a list of moves slowly and says which is not allowed. Imports nothing of ours.

Written from the htools' definitions (hbal(1), and what the real hbal was measured to do), one node
at a time and from scratch: a node's state is worked out from the instances that are on it. Scores
are the real hbal's to say (balance/test_greedy.py).
"""

import math
from dataclasses import dataclass, field

LOCAL = {"drbd", "plain"}
SHARED = {"sharedfile", "blockdev", "rbd", "ext", "gluster"}
IN_MEMORY = {"running", "ERROR_up", "ERROR_nodedown", "ERROR_nodeoffline", "ERROR_wrongnode"}
NOWHERE = -1


class Foul(Exception):
    """A move that is not allowed, or not as it was told."""


@dataclass
class Node:
    """As the file has it, and the two things that have a history: N+1 and free spindles."""

    name: str
    total: float
    own: int
    free: int
    disk: float
    free_disk: int
    cpus: float
    off: bool
    group: str
    spindles: int
    tags: list[str]
    exclusive: bool
    free_spindles: int
    own_cpus: int
    promised_free_spindles: int = 0
    failing: bool = False
    missing: int = 0
    memory_base: int = 0
    disk_base: int = 0
    ratio: float = 4.0
    pressure: float = 32.0
    low_disk: int = 0


@dataclass
class Instance:
    """As the file has it, and where it is now."""

    name: str
    mem: int
    disk: int
    vcpus: int
    status: str
    auto: bool
    p: int
    s: int
    template: str
    tags: list[str]
    spindle_use: int
    spindles: int | None
    forth: bool
    number: int = 0

    @property
    def in_memory(self) -> bool:
        return self.status in IN_MEMORY and not self.forth

    @property
    def cores(self) -> int:
        return 0 if self.status == "ADMIN_offline" else self.vcpus

    @property
    def kept(self) -> int:
        return self.mem if self.auto and self.status != "ADMIN_offline" else 0


@dataclass
class Options:
    """What hbal's command line says."""

    group: str | None = None
    off: list[str] = field(default_factory=list)
    evac: bool = False
    disk_moves: bool = True
    instance_moves: bool = True
    restricted: bool = False
    force: bool = False
    max_cpu: float | None = None
    min_disk: float = 0.0
    ext: list[str] = field(default_factory=list)
    idle: bool = False
    only: list[str] = field(default_factory=list)
    never: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, args: list[str]) -> "Options":
        found, rest = cls(), list(args)
        while rest:
            name, _, value = rest.pop(0).partition("=")
            if name in ("-G", "-O", "-l", "-e", "-g"):
                value = rest.pop(0)
            match name:
                case "-G":
                    found.group = value
                case "-O":
                    found.off.append(value)
                case "--evac-mode":
                    found.evac = True
                case "--no-disk-moves":
                    found.disk_moves = False
                case "--no-instance-moves":
                    found.instance_moves = False
                case "--restricted-migration":
                    found.restricted = True
                case "--ignore-soft-errors":
                    found.force = True
                case "--max-cpu":
                    found.max_cpu = float(value)
                case "--min-disk":
                    found.min_disk = float(value)
                case "--exclusion-tags":
                    found.ext += value.split(",")
                case "--ignore-dynu":
                    found.idle = True
                case "--select-instances":
                    found.only += value.split(",")
                case "--exclude-instances":
                    found.never += value.split(",")
                case "-l" | "-e" | "-g" | "--min-gain-limit":
                    pass
                case _:
                    raise ValueError(name)
        return found


def pad(line: str, defaults: list[str], least: int) -> list[str]:
    got = line.split("|")
    return got + defaults[len(got) - least :]


class Referee:
    """The cluster, move after move; `crowdable` nodes may be beyond their spindle ratio."""

    crowdable = False

    def __init__(self, text: str, options: list[str]) -> None:
        self.o = Options.of(options)
        sections: list[list[str]] = [[]]
        for line in text.removesuffix("\n").split("\n"):
            sections[-1].append(line) if line else sections.append([])
        self.groups = [line.split("|")[:2] for line in sections[0]]
        self.nodes = [self._node(line) for line in sections[1]]
        self.at = {node.name: n for n, node in enumerate(self.nodes)}
        self.instances = [self._instance(line) for line in sections[2]]
        self.tags = sections[3]
        self._policies(sections[4] if len(sections) > 4 else [])
        self.ext = [f"{e}:" for e in self.o.ext] + self._after("htools:iextags:")
        self._pri: list[dict[int, Instance]] = [{} for _ in self.nodes]
        self._sec: list[dict[int, Instance]] = [{} for _ in self.nodes]
        self.mig = [f"{t}:" for t in self._after("htools:migration:")]
        self._start()

    # --- reading ---

    def _node(self, line: str) -> Node:
        got = pad(line, ["1", "", "N", "0", "1", "1.0"], 9)
        if "?" in got[1:7]:
            return Node(got[0], 0, 0, 0, 0, 0, 0, True, got[8], 0, [], False, 0, 0)
        off = got[7] == "Y" or got[0] in self.o.off
        tags = got[10].split(",") if got[10] else []
        return Node(
            got[0],
            float(got[1]),
            int(got[2]),
            int(got[3]),
            float(got[4]),
            int(got[5]),
            float(got[6]),
            off,
            got[8],
            int(got[9]),
            tags,
            got[11] == "Y",
            int(got[12]),
            int(got[13]),
        )

    def _instance(self, line: str) -> Instance:
        got = pad(line, ["1", "-", "N"], 10)
        return Instance(
            got[0],
            int(got[1]),
            int(got[2]),
            int(got[3]),
            got[4],
            got[5] == "Y",
            self.at[got[6]],
            self.at[got[7]] if got[7] else NOWHERE,
            got[8],
            got[9].split(",") if got[9] else [],
            int(got[10]),
            None if got[11] == "-" else int(got[11]),
            got[12] == "Y",
        )

    def _policies(self, lines: list[str]) -> None:
        uuids = {line[0]: line[1] for line in self.groups}
        for line in lines:
            owner, _, _, _, cpu, spindle = line.split("|")[:6]
            for node in self.nodes:
                if owner and node.group == uuids[owner]:
                    node.ratio, node.pressure = float(cpu), float(spindle)

    def _after(self, prefix: str) -> list[str]:
        return [t[len(prefix) :] for t in self.tags if t.startswith(prefix)]

    def _start(self) -> None:
        used = {n.group for n in self.nodes}
        wanted = [u for name, u in self.groups if self.o.group in (name, u)]
        self.group = wanted[0] if self.o.group else next(iter(used))
        self.members = [k for k, n in enumerate(self.nodes) if n.group == self.group]
        for number, i in enumerate(self.instances):
            i.number = number
            self._pri[i.p][number] = i
            if i.s != NOWHERE:
                self._sec[i.s][number] = i
        for k, n in enumerate(self.nodes):
            here, mirrored = self.pri(k), self.sec(k)
            n.missing = (
                math.floor(n.total) - n.own - sum(i.mem for i in here if i.in_memory) - n.free
            )
            n.memory_base = n.free + sum(i.mem for i in here if i.in_memory)
            local = [i for i in here + mirrored if i.template in LOCAL]
            n.disk_base = n.free_disk + sum(i.disk for i in local if not i.forth)
            n.low_disk = math.floor(self.o.min_disk * n.disk)
            if self.o.max_cpu is not None:
                n.ratio = self.o.max_cpu
            n.promised_free_spindles = n.free_spindles
            for i in sorted(here + mirrored, key=lambda i: i.number):
                if i.forth and n.exclusive:
                    free = n.promised_free_spindles
                    n.promised_free_spindles = -1 if i.spindles is None else free - i.spindles
            n.failing = n.free < self.reserved(k)

    # --- what a node is like, from what is on it ---

    def pri(self, k: int) -> list[Instance]:
        return list(self._pri[k].values())

    def sec(self, k: int) -> list[Instance]:
        return list(self._sec[k].values())

    def _put(self, i: Instance, p: int, s: int) -> None:
        """It is on these nodes now."""
        for on, old, new in ((self._pri, i.p, p), (self._sec, i.s, s)):
            if old != NOWHERE:
                del on[old][i.number]
            if new != NOWHERE:
                on[new][i.number] = i
        i.p, i.s = p, s

    def memory(self, k: int) -> int:
        n = self.nodes[k]
        used = sum(i.mem for i in self.pri(k) if i.in_memory)
        return math.floor(n.total) - n.own - used - max(0, n.missing)

    def peers(self, k: int) -> dict[int, int]:
        found: dict[int, int] = {}
        for i in self.sec(k):
            if not i.forth:
                found[i.p] = found.get(i.p, 0) + i.kept
        return found

    def reserved(self, k: int) -> int:
        return max(self.peers(k).values(), default=0)

    def disk(self, k: int, *, forth: bool) -> int:
        held = [i for i in self.pri(k) + self.sec(k) if i.template in LOCAL]
        return self.nodes[k].disk_base - sum(i.disk for i in held if forth or not i.forth)

    def promised_memory(self, k: int) -> int:
        return self.nodes[k].memory_base - sum(i.mem for i in self.pri(k))

    def cpus(self, k: int, *, forth: bool) -> int:
        held = [i for i in self.pri(k) if forth or not i.forth]
        return self.nodes[k].own_cpus + sum(i.cores for i in held)

    def pressure(self, k: int, *, forth: bool) -> int:
        if self.nodes[k].exclusive or self.crowdable:
            return 0
        held = [i for i in self.pri(k) + self.sec(k) if i.template in LOCAL]
        return sum(i.spindle_use for i in held if forth or not i.forth)

    def excl(self, i: Instance) -> list[str]:
        return [t for t in i.tags if any(t.startswith(e) for e in self.ext if e)]

    def may_migrate(self, a: int, b: int) -> bool:
        def marks(k: int) -> set[str]:
            return {t for t in self.nodes[k].tags if any(t.startswith(m) for m in self.mig)}

        receive = marks(b)
        for pair in self._after("htools:allowmigration:"):
            parts = pair.split("::")
            if len(parts) == 2 and parts[1] in marks(b):
                receive.add(parts[0])
        return marks(a) <= receive

    # --- moves ---

    def play(self, name: str, action: str) -> None:
        """Make a move as it is printed, or raise Foul."""
        (i,) = [i for i in self.instances if i.name == name]
        words = action.split(" ")
        targets = [w.partition(":")[2] for w in words if ":" in w]
        t = next((k for k, n in enumerate(self.nodes) if n.name in targets), NOWHERE)
        shape = " ".join(w.partition(":")[0] for w in words)
        self._may(i, shape, t)
        touched = [k for k in (i.p, i.s, t) if k != NOWHERE]
        backup = [(dict(vars(self.nodes[k])), self.nodes[k]) for k in touched]
        p, s = i.p, i.s
        try:
            {
                "f": self._f,
                "r": self._r,
                "r f": self._rf,
                "f r f": self._frf,
                "f r": self._fr,
                "fa": self._fa,
            }[shape](i, t)
        except Foul:
            self._put(i, p, s)
            for old, node in backup:
                vars(node).update(old)
            raise

    def _may(self, i: Instance, shape: str, t: int) -> None:
        o, nodes = self.o, self.nodes
        if i.p not in self.members or (i.s != NOWHERE and i.s not in self.members):
            raise Foul("another group's")
        if not i.auto or i.name in o.never or (o.only and i.name not in o.only):
            raise Foul("may not move")
        if i.template not in SHARED | {"drbd"}:
            raise Foul("cannot move")
        holders = [i.p, i.s] if i.template == "drbd" else [i.p]
        if o.evac and not any(nodes[k].off for k in holders):
            raise Foul("is on no offline node")
        if t != NOWHERE and (t not in self.members or nodes[t].off or t in (i.p, i.s)):
            raise Foul("no target")
        p_off = nodes[i.p].off
        s_off = i.s != NOWHERE and nodes[i.s].off
        if i.template in SHARED:
            allowed = {"fa"} if o.instance_moves else set()
        else:
            allowed = {"f", "r", "r f", "f r f", "f r"}
            if s_off:
                allowed &= {"r", "r f"}
            if not o.instance_moves:
                allowed &= {"r"}
            if not o.disk_moves:
                allowed &= {"f"}
            if o.restricted:
                allowed &= {"f", "r", "r f", "f r"} if p_off else {"f", "r"}
        if shape not in allowed:
            raise Foul(f"{shape} is not allowed")

    def _f(self, i: Instance, t: int) -> None:
        p, s = i.p, i.s
        off = self.nodes[p].off
        self._migrates(p, s)
        self._out(i)
        self._add_pri(i, s, off)
        self._add_sec(i, p, s, off, disks=off)

    def _fa(self, i: Instance, t: int) -> None:
        p = i.p
        off = self.nodes[p].off
        self._migrates(p, t)
        self._take_pri(i)
        self._add_pri(i, t, off)

    def _r(self, i: Instance, t: int) -> None:
        p, s = i.p, i.s
        self._out(i)
        self._add_sec(i, t, p, self.nodes[s].off)
        self._add_pri(i, p, True)

    def _rf(self, i: Instance, t: int) -> None:
        p, s = i.p, i.s
        self._migrates(p, t)
        self._out(i)
        self._add_pri(i, t, False)
        self._add_sec(i, p, t, self.nodes[s].off)

    def _frf(self, i: Instance, t: int) -> None:
        p, s = i.p, i.s
        off = self.nodes[p].off
        self._migrates(p, s)
        self._migrates(s, t)
        self._out(i)
        self._add_pri(i, s, off)
        self._take_pri(i)
        self._add_pri(i, t, off)
        self._add_sec(i, s, t, off)

    def _fr(self, i: Instance, t: int) -> None:
        p, s = i.p, i.s
        off = self.nodes[p].off
        self._migrates(p, s)
        self._out(i)
        self._add_pri(i, s, off)
        self._add_sec(i, t, s, off)

    def _migrates(self, a: int, b: int) -> None:
        if not self.may_migrate(a, b):
            raise Foul("migration tags")

    def _out(self, i: Instance) -> None:
        s = i.s
        self._take_pri(i)
        self._put(i, NOWHERE, NOWHERE)
        self._give(i, s)
        if not i.forth:
            self.nodes[s].failing = self.memory(s) <= self.reserved(s)

    def _take_pri(self, i: Instance) -> None:
        p = i.p
        self._put(i, NOWHERE, i.s)
        self._give(i, p)
        if not i.forth:
            self.nodes[p].failing = self.memory(p) <= self.reserved(p)

    def _give(self, i: Instance, k: int) -> None:
        n = self.nodes[k]
        if n.exclusive and i.spindles is not None:
            n.promised_free_spindles += i.spindles
            n.free_spindles += 0 if i.forth else i.spindles

    def _take(self, i: Instance, k: int) -> None:
        n = self.nodes[k]
        if n.exclusive:
            promised, free = n.promised_free_spindles, n.free_spindles
            n.promised_free_spindles = -1 if i.spindles is None else promised - i.spindles
            if not i.forth:
                n.free_spindles = -1 if i.spindles is None else free - i.spindles

    def _add_pri(self, i: Instance, k: int, force: bool) -> None:
        n, force, local = self.nodes[k], force or self.o.force, i.template in LOCAL
        failing = n.failing
        clash = {t for x in self.pri(k) for t in self.excl(x)} & set(self.excl(i))
        self._put(i, k, i.s)
        self._take(i, k)
        now_failing = self.memory(k) <= self.reserved(k)
        if not i.forth:
            if self.memory(k) <= 0:
                raise Foul("memory")
            if local and self.disk(k, forth=False) <= 0:
                raise Foul("disk")
            if local and n.exclusive and n.free_spindles < 0:
                raise Foul("spindles")
        if not i.forth and not force:
            self._disks(k, local, forth=False)
            if now_failing and not failing:
                raise Foul("N+1")
            if 0 <= n.ratio < _over(self.cpus(k, forth=False), n.cpus):
                raise Foul("cpu")
            if clash:
                raise Foul("tags")
        if not force:
            if self.promised_memory(k) <= 0:
                raise Foul("promised memory")
            self._disks(k, local, forth=True)
            if 0 <= n.ratio < _over(self.cpus(k, forth=True), n.cpus):
                raise Foul("promised cpu")
        if not i.forth:
            n.failing = now_failing

    def _disks(self, k: int, local: bool, *, forth: bool) -> None:
        n = self.nodes[k]
        if local and (
            self.disk(k, forth=forth) < n.low_disk or (forth and self.disk(k, forth=True) <= 0)
        ):
            raise Foul("low disk")
        if local and forth and n.exclusive and n.promised_free_spindles < 0:
            raise Foul("promised spindles")
        if local and self.pressure(k, forth=forth) > n.pressure * n.spindles:
            raise Foul("spindle use")

    def _add_sec(self, i: Instance, k: int, p: int, force: bool, disks: bool = False) -> None:
        n, force = self.nodes[k], force or self.o.force
        failing = n.failing
        # The primary is booked last for r, and first for the others; peers go by its node.
        own = i.p
        self._put(i, p, k)
        self._take(i, k)
        now_failing = self.memory(k) <= self.reserved(k)
        if not i.forth:
            if self.disk(k, forth=False) <= 0 and not disks:
                raise Foul("disk")
            if n.exclusive and n.free_spindles < 0:
                raise Foul("spindles")
        if not i.forth and not force:
            self._disks(k, True, forth=False)
            if i.kept >= self.memory(k):
                raise Foul("memory")
            if now_failing and not failing:
                raise Foul("N+1")
        if not force:
            self._disks(k, True, forth=True)
            if i.kept >= self.promised_memory(k):
                raise Foul("promised memory")
        if not i.forth:
            n.failing = now_failing
        self._put(i, own, k)


def _over(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 else math.copysign(math.inf, a)
    return a / b


def replay(text: str, options: list[str], moves: list[tuple[str, str]]) -> str:
    """The first of (instance, action) that is not allowed, and why; or nothing."""
    referee = Referee(text, options)
    for number, (name, action) in enumerate(moves, 1):
        try:
            referee.play(name, action)
        except Foul as foul:
            return f"{number}. {name} {action}: {foul}"
    return ""
