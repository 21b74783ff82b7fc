"""Replays a list of moves slowly and says what is wrong with it. Imports nothing of ours.

Written from the htools' definitions (hbal(1), and what the real hbal was measured to do), one node
at a time and from scratch: a node's state is worked out from the instances that are on it. What
counts of a node for the score is kept until a move touches it.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

LOCAL = {"drbd", "plain"}
SHARED = {"sharedfile", "blockdev", "rbd", "ext", "gluster"}
IN_MEMORY = {"running", "ERROR_up", "ERROR_nodedown", "ERROR_nodeoffline", "ERROR_wrongnode"}
NOWHERE = -1
WEIGHTS = (0.5, 0.5, 1, 1, 4, 16, 0.5, 1, 1, 1, 1, 2, 0.5, 0.5, 0.5, 0.5, 0.5, 1, 1, 0.25)


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
    speed: float
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
    load: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    common: int = 0
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


class _Known(NamedTuple):
    """What counts of a node: its part of each spread, and of each sum."""

    row: list[float]
    primaries: int
    every: int
    n1: int
    tags: int
    misplaced: int
    pairs: list[tuple[str, str]]


class Referee:
    """The cluster, move after move; `crowdable` nodes may be beyond their spindle ratio."""

    crowdable = False

    def __init__(self, text: str, options: list[str], loads: str | None = None) -> None:
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
        self._loads(loads)
        self.ext = [f"{e}:" for e in self.o.ext] + self._after("htools:iextags:")
        self._known: dict[int, _Known] = {}
        self._pri: list[dict[int, Instance]] = [{} for _ in self.nodes]
        self._sec: list[dict[int, Instance]] = [{} for _ in self.nodes]
        self.nloc = [f"{t}:" for t in self._after("htools:nlocation:")]
        self.dloc = self._after("htools:desiredlocation:")
        self.mig = [f"{t}:" for t in self._after("htools:migration:")]
        self._start()

    # --- reading ---

    def _node(self, line: str) -> Node:
        got = pad(line, ["1", "", "N", "0", "1", "1.0"], 9)
        if "?" in got[1:7]:
            return Node(got[0], 0, 0, 0, 0, 0, 0, True, got[8], 0, [], False, 0, 0, 1.0)
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
            float(got[14]),
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

    def _loads(self, text: str | None) -> None:
        for line in (text or "").splitlines():
            name, *numbers = line.split(" ")
            for i in self.instances:
                if i.name == name:
                    i.load = tuple(map(float, numbers))
        for i in self.instances:
            if self.o.idle:
                i.load = (0.0, 0.0, 0.0, 0.0)

    def _after(self, prefix: str) -> list[str]:
        return [t[len(prefix) :] for t in self.tags if t.startswith(prefix)]

    def _start(self) -> None:
        used = {n.group for n in self.nodes}
        wanted = [u for name, u in self.groups if self.o.group in (name, u)]
        self.group = wanted[0] if self.o.group else next(iter(used))
        self.members = [k for k, n in enumerate(self.nodes) if n.group == self.group]
        for number, i in enumerate(self.instances):
            i.number, i.common = number, self.common(i.p, i.s)
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

    def wanted(self, i: Instance) -> set[str]:
        return {t for t in i.tags if any(t.startswith(d) for d in self.dloc if d)}

    def places(self, k: int) -> set[str]:
        return {t for t in self.nodes[k].tags if any(t.startswith(p) for p in self.nloc)}

    def common(self, p: int, s: int) -> int:
        return 0 if s == NOWHERE else len(self.places(p) & self.places(s))

    def may_migrate(self, a: int, b: int) -> bool:
        def marks(k: int) -> set[str]:
            return {t for t in self.nodes[k].tags if any(t.startswith(m) for m in self.mig)}

        receive = marks(b)
        for pair in self._after("htools:allowmigration:"):
            parts = pair.split("::")
            if len(parts) == 2 and parts[1] in marks(b):
                receive.add(parts[0])
        return marks(a) <= receive

    # --- score ---

    def components(self) -> list[float]:
        for k in self.members:
            if k not in self._known:
                self._known[k] = self._know(k)
        on = [self._known[k] for k in self.members if not self.nodes[k].off]
        off = [self._known[k] for k in self.members if self.nodes[k].off]
        if not on:
            return []
        spreads = [_sd([node.row[place] for node in on]) for place in range(13)]
        mem, dsk, res, cpu, lc, lm, ld, ln, sp, memf, dskf, cpuf, spf = spreads
        pairs = [pair for node in on for pair in node.pairs]
        return [
            mem,
            dsk,
            sum(node.n1 for node in on),
            res,
            sum(node.every for node in off),
            sum(node.primaries for node in off),
            cpu,
            lc,
            lm,
            ld,
            ln,
            sum(node.tags for node in on),
            sp,
            memf,
            dskf,
            cpuf,
            spf,
            sum(node.misplaced for node in on),
            _repeats(pairs),
            math.fsum(node.row[2] for node in on),
        ]

    def _know(self, k: int) -> "_Known":
        here, places = self.pri(k), self.places(k)
        real = [i for i in here if not i.forth]
        every = len(real) + self._real(self.sec(k))
        return _Known(
            self._row(k) if not self.nodes[k].off else [],
            len(real),
            every,
            every if self.nodes[k].failing else 0,
            _repeats([t for i in here for t in self.excl(i)]),
            sum(i.common + len(self.wanted(i) - places) for i in real),
            [(place, tag) for i in real for tag in self.excl(i) for place in places],
        )

    def score(self) -> float:
        return math.fsum(w * v for w, v in zip(WEIGHTS, self.components(), strict=False))

    @staticmethod
    def _real(instances: list[Instance]) -> int:
        return sum(not i.forth for i in instances)

    def _row(self, k: int) -> list[float]:
        n = self.nodes[k]
        loads = [math.fsum(i.load[d] for i in self.pri(k) if not i.forth) for d in range(4)]
        loads[2] = math.fsum(i.load[2] for i in self.pri(k) + self.sec(k) if not i.forth)
        limit = n.pressure * n.spindles
        if n.exclusive:
            disks = [_by(n.free_spindles, n.spindles), _by(n.promised_free_spindles, n.spindles)]
        else:
            disks = [_by(self.disk(k, forth=f), n.disk) for f in (False, True)]
        return [
            _over(self.memory(k), n.total),
            disks[0],
            _over(self.reserved(k), n.total),
            _over(self.cpus(k, forth=False), n.cpus) / n.speed,
            *loads,
            _over(self.pressure(k, forth=False), limit),
            _over(self.promised_memory(k), n.total),
            disks[1],
            _over(self.cpus(k, forth=True), n.cpus) / n.speed,
            _over(self.pressure(k, forth=True), limit),
        ]

    # --- moves ---

    def play(self, name: str, action: str, domain: str = "") -> float:
        """Make a move as it is printed, or raise Foul; the score afterwards."""
        (i,) = [i for i in self.instances if i.name.removesuffix(domain) == name]
        words = action.split(" ")
        targets = [w.partition(":")[2] for w in words if ":" in w]
        t = next(
            (k for k, n in enumerate(self.nodes) if n.name.removesuffix(domain) in targets), NOWHERE
        )
        shape = " ".join(w.partition(":")[0] for w in words)
        self._may(i, shape, t)
        touched = [k for k in (i.p, i.s, t) if k != NOWHERE]
        backup = [(dict(vars(self.nodes[k])), self.nodes[k]) for k in touched]
        p, s, common = i.p, i.s, i.common
        for k in touched:
            self._known.pop(k, None)
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
            i.common = common
            for old, node in backup:
                vars(node).update(old)
            raise
        return self.score()

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
        i.common = self.common(p, t)
        self._add_sec(i, t, p, self.nodes[s].off)
        self._add_pri(i, p, True)

    def _rf(self, i: Instance, t: int) -> None:
        p, s = i.p, i.s
        self._migrates(p, t)
        self._out(i)
        i.common = self.common(t, p)
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
        i.common = self.common(t, s)
        self._add_pri(i, t, off)
        self._add_sec(i, s, t, off)

    def _fr(self, i: Instance, t: int) -> None:
        p, s = i.p, i.s
        off = self.nodes[p].off
        self._migrates(p, s)
        self._out(i)
        i.common = self.common(s, t)
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


def _sd(values: list[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values))


def _repeats(things: Sequence[object]) -> int:
    return sum(Counter(things).values()) - len(set(things))


def _over(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 else math.copysign(math.inf, a)
    return a / b


def _by(a: float, b: float) -> float:
    return 1.0 if b == 0 else a / b


def replay(
    text: str,
    options: list[str],
    loads: str | None,
    moves: list[tuple[str, str, str]],
    domain: str = "",
) -> list[str]:
    """What is wrong with (instance, action, score) after (instance, action, score)."""
    referee = Referee(text, options, loads)
    wrong: list[str] = []
    for number, (name, action, told) in enumerate(moves, 1):
        try:
            got = referee.play(name, action, domain)
        except Foul as foul:
            return [*wrong, f"{number}. {name} {action}: {foul}"]
        if abs(got - float(told)) > 6e-9 * max(1.0, got):
            wrong.append(f"{number}. {name} {action}: score {got:.8f}, told {told}")
    return wrong
