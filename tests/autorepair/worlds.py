"""Random clusters to be repaired, and what has become of one afterwards, to be compared."""

import copy
import json
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from nodeagent.autorepair.tags import PREFIX
from nodeagent.cli.maint.harep_run import Options, Stopped, run
from nodeagent.cli.maint.repair import summary
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.cluster.ganeti.luxi import Luxi
from nodeagent.model.snapshot import Group, Instance, Node, Snapshot
from tests.autorepair import luxi
from tests.cluster.ganeti.answering import serving

TYPES = ("fix-storage", "migrate", "failover", "reinstall")
STATUSES = ("queued", "waiting", "canceling", "running", "canceled", "success", "error")
_TEMPLATES = ("drbd",) * 6 + ("plain",) * 2 + ("file", "sharedfile", "rbd", "ext", "diskless")
_IDS = (
    "11111111-1111-1111-1111-111111111111",
    "22222222-2222-2222-2222-222222222222",
    "a-ticket",
    "",
)


@dataclass(frozen=True, slots=True)
class Case:
    """A cluster and how harep is called."""

    world: luxi.World
    arguments: tuple[str, ...]
    options: Options


def case(seed: int, *, instances: int = 6) -> Case:
    """A cluster in which about everything is possible; the same one for the same seed."""
    draw = random.Random(seed)
    groups = {f"g{n}": _allowed(draw, often=0.3) for n in range(draw.randint(1, 3))}
    nodes = {"master": luxi.Node("g0")}
    for n in range(draw.randint(3, 6)):
        fault = draw.choices(("", "offline", "drained", "vm_capable"), (5, 3, 1, 1))[0]
        node = luxi.Node(draw.choice(list(groups)))
        if fault:
            setattr(node, fault, fault != "vm_capable")
        nodes[f"node{n}"] = node
    jobs = {
        n: luxi.Job(draw.choices(STATUSES, (1, 1, 1, 2, 1, 8, 2))[0], archived=draw.random() < 0.5)
        for n in range(1, 21)
    }
    vanished = draw.random() < 0.05
    found = {}
    for n in range(draw.randint(1, 2 * instances)):
        template = draw.choice(_TEMPLATES)
        primary, other = draw.sample(sorted(nodes), 2)
        tags = {*_allowed(draw, often=0.6), *_told(draw, vanished=vanished)}
        found[f"instance{n}.example.com"] = luxi.Instance(
            primary,
            other if template == "drbd" else None,
            template,
            {tag for tag in tags if len(tag) <= 128},
            draw.choice(("running", "ADMIN_down", "ERROR_down", "ERROR_nodeoffline")),
        )
    world = luxi.World(nodes, found, groups, _allowed(draw, often=0.5), jobs)
    if draw.random() < 0.05:
        world.spoiled = {draw.randint(1, 5): draw.choice(("error", "canceled"))}
    if draw.random() < 0.03:
        world.refuses = draw.randint(1, 5)
    delay = draw.choice((None, 0.0, 0.0, 0.5, 3.0, -1.0))
    dry = draw.random() < 0.15
    arguments = [] if delay is None else [f"--job-delay={delay:g}"]
    arguments += ["--dry-run"] if dry else []
    return Case(world, tuple(arguments), Options(10.0 if delay is None else delay, "", dry))


def _allowed(draw: random.Random, *, often: float) -> list[str]:
    """Tags that enable and suspend, readable or not."""
    if draw.random() > often:
        return []
    kinds = draw.choices((1, 2, 3), (8, 2, 1))[0]
    return [PREFIX + _policy(draw) for _ in range(kinds)]


def _policy(draw: random.Random) -> str:
    now = int(time.time())
    future, past = now + draw.randint(10_000, 10**8), now - draw.randint(10_000, 10**8)
    suspended = ("", ":", f":{future}", f":{past}", f":{future:#x}", f":0O{past:o}", ":-7", ":0")
    odd = (":tomorrow", f":{future}.5", f":{future}:x", f":{future}e1", ":0x", "foo", f":+{future}")
    if draw.random() < 0.75:
        return draw.choice((*TYPES, "reinstall", "reinstall"))
    if draw.random() < 0.6:
        return "suspend" + draw.choice(suspended)
    faulty = ("Failover", "failover:", "reinstal", "", "x", "fix-storage:now", "pending")
    return draw.choice((*faulty, *("suspend" + one for one in odd)))


def _told(draw: random.Random, *, vanished: bool) -> list[str]:
    """Tags that tell of repairs. What stops harep altogether is rare among them."""
    if draw.random() < 0.45:
        return []
    now = int(time.time())
    one, other = draw.sample(_IDS, 2)
    old, new, newest = sorted(now - draw.randint(10_000, 10**6) for _ in range(3))

    def pending(identity: str = one, at: object = new) -> str:
        return f"pending:{draw.choice(TYPES)}:{identity}:{at}:{_jobs(draw, vanished=vanished)}"

    def result(ending: str, identity: str = one, at: object = old) -> str:
        jobs = _jobs(draw, vanished=vanished)
        return f"result:{draw.choice(TYPES)}:{identity}:{at}:{ending}:{jobs}"

    good = draw.choice(("success", "enoperm"))
    shapes = (
        [pending()],
        [pending(at=f"{new:#x}")],
        [result("success")],
        [result("enoperm")],
        [result("failure")],
        [pending(), result(draw.choice(("success", "failure", "enoperm")), at=new)],
        [result(good), pending(other)],
        [result(good), result(good, other, new)],
        [result(good), result(good, other, new), pending("a-third", newest)],
        [result("failure"), pending(other)],
        [result("failure"), result("failure", other, new)],
        [result("success"), result("enoperm", at=new)],
        [pending(), pending(at=old)],
        [pending(), pending(), pending(at=new)],
        [_garbled(draw, pending())],
        [_garbled(draw, result(good))],
        [_garbled(draw, pending()), pending(other)],
    )
    fatal = ([pending(at=old), pending(other)], [pending(at=old), result(good, other, new)])
    chosen = draw.choice(fatal if draw.random() < 0.02 else shapes)
    return [PREFIX + tag for tag in chosen]


def _jobs(draw: random.Random, *, vanished: bool) -> str:
    many = draw.choices((0, 1, 2, 3), (2, 8, 2, 1))[0]
    top = 25 if vanished else 20
    return "+".join(str(draw.randint(1, top)) for _ in range(many))


def _garbled(draw: random.Random, tag: str) -> str:
    fields = tag.split(":")
    match draw.randrange(7):
        case 0:
            return tag + ":"
        case 1:
            return tag.rpartition(":")[0]
        case 2:
            return ":".join([fields[0], fields[1].title(), *fields[2:]])
        case 3:
            return ":".join([*fields[:3], fields[3] + ".5", *fields[4:]])
        case 4:
            return tag + "+"
        case 5:
            return tag.replace("result", "results").replace("pending", "pend")
        case _:
            return ":".join([*fields[:4], "succeeded", *fields[5:]])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is compared: exit code, printed lines, what was asked and submitted, tags after."""

    code: int
    lines: tuple[str, ...]
    calls: tuple[str, ...]
    tags: tuple[tuple[str, tuple[str, ...]], ...]


def snapshot_of(world: luxi.World) -> Snapshot:
    """The world as a cluster backend would show it."""
    nodes = {
        name: Node(name, name, "", n.group, n.drained, n.offline, vm_capable=n.vm_capable)
        for name, n in world.nodes.items()
    }
    instances = {
        name: Instance(name, i.primary, i.secondary, i.template, 128, 1152, i.up, frozenset(i.tags))
        for name, i in world.instances.items()
    }
    groups = {
        uuid: Group(uuid, f"name-of-{uuid}", frozenset(tags)) for uuid, tags in world.groups.items()
    }
    return Snapshot("c", nodes, instances, groups, "master", frozenset(world.tags))


class _Direct(Luxi):
    """The world without a socket."""

    def __init__(self, world: luxi.World) -> None:
        super().__init__()
        self.world = world

    def call(self, method: str, args: Sequence[object], seconds: float | None = None) -> Any:
        return self.world.answer(method, list(args))


def ours(one: Case) -> Outcome:
    """Our run, on a copy of the world, in this process."""
    world = copy.deepcopy(one.world)
    lines: list[str] = []
    try:
        direct, cluster = _Direct(world), GanetiCluster()
        cluster._luxi = direct
        lines += summary(run(cluster.snapshot(), direct, one.options, lines.append))
    except Stopped:
        return outcome(world, 1, lines)
    return outcome(world, 0, lines)


def local(seconds: int) -> str:
    """A time as harep shows it."""
    return time.strftime("%a %b %e %H:%M:%S %Z %Y", time.localtime(seconds))


def theirs(one: Case, path: str, command: tuple[str, ...] = ("harep", "-L{}")) -> Outcome:
    """A program on a copy of the world, through its socket: the real harep if none is named."""
    world = copy.deepcopy(one.world)
    with serving(world, path):
        ended = subprocess.run(
            [*(part.format(path) for part in command), *one.arguments],
            capture_output=True,
            text=True,
            timeout=300,
        )
    return outcome(world, ended.returncode, ended.stdout.splitlines())


def all_of_theirs(cases: list[Case], at_once: int) -> Iterator[Outcome]:
    """As `theirs`, many at once: harep mostly sleeps."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(theirs, cases, (f"{folder}/{n}" for n in range(len(cases))))


def outcome(after: luxi.World, code: int, lines: Iterable[str]) -> Outcome:
    """What is the same for two runs that do the same: new ids and times are none of that."""
    plain = _Plain()
    calls = [
        plain(json.dumps(_call(method, args)))
        for method, args in after.calls
        if method == "SubmitManyJobs" or (method == "QueryJobs" and not _is_new(args[0]))
    ]
    tags = tuple(
        (name, tuple(sorted(plain(tag) for tag in instance.tags)))
        for name, instance in after.instances.items()
    )
    return Outcome(code, tuple(plain(line) for line in lines), tuple(calls), tags)


def _is_new(jobs: list[int]) -> bool:
    """Whether it is one of the run's own jobs that is asked for; how often does not matter."""
    return bool(jobs) and jobs[0] >= 1000


def _call(method: str, args: list[Any]) -> Any:
    if method == "QueryJobs":
        return [method, *args]
    return [{key: op[key] for key in op if key not in _ITS_OWN} for op in args[0][0]]


_ITS_OWN = frozenset({"reason", "comment", "depends", "priority"})
_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"(?<=:)[0-9]{10}(?=:)")


class _Plain:
    """Puts a word for each new id, in order of appearance, and one for the time of the run."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {one: one for one in _IDS}
        self._now = time.time()

    def __call__(self, text: str) -> str:
        text = _UUID.sub(self._id, text)
        return _TIME.sub(self._time, text)

    def _id(self, match: re.Match[str]) -> str:
        return self._known.setdefault(match[0], f"<id {len(self._known)}>")

    def _time(self, match: re.Match[str]) -> str:
        """Times that were in the tags before are hours away."""
        return match[0] if abs(int(match[0]) - self._now) > 5000 else "<now>"


def differences(cases: list[Case], at_once: int) -> Iterator[tuple[int, Outcome, Outcome]]:
    """Number, harep's outcome and ours, of the cases where they are not the same."""
    for number, (one, their) in enumerate(zip(cases, all_of_theirs(cases, at_once), strict=True)):
        our = ours(one)
        if our != their:
            yield number, their, our
