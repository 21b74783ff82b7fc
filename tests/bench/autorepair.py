"""What a pass of auto-repair costs: on a large cluster, and beside harep on the same one.

Harep and both of our modes run in turn, as processes, against one fake of Ganeti's LUXI whose
answers are made beforehand; so what is measured is them.
"""

import copy
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from nodeagent.autorepair.tags import PREFIX
from nodeagent.maintd.autorepair.one_pass import one_pass
from nodeagent.model.snapshot import Group, Instance, Node
from nodeagent.model.units import Ms
from simulation.cluster import SimulatedCluster
from tests import needs
from tests.autorepair import luxi
from tests.bench.cost import least
from tests.bench.table import Row, row
from tests.cluster.ganeti.answering import serving

NOW = Ms(1_700_000_000_000)
OURS = (sys.executable, "-m", "nodeagent.cli.gnt_maint", "--socket", "/nonexistent", "repair")


def rows(*, quick: bool = False) -> list[Row]:
    """Measure everything."""
    scale = 10 if quick else 1
    return [
        _passing(100_000 // scale, 1000 // scale),
        *beside(50_000 // scale, 100 // scale),
    ]


# A pass of ours alone.


def _passing(instances: int, nodes: int) -> Row:
    """Every hundredth node is offline; a third of the instances have tags of their own."""
    cluster = _large(instances, nodes)
    done, seconds = least(lambda: one_pass(cluster, lambda: NOW, dry=True, most=instances))
    what = f"{instances:,} instances, {len(done.plan.jobs):,} repairs"
    goal = 2.0 * instances / 100_000
    return row(f"a pass once the cluster is read, CPU s: {what}", seconds, most=goal)


def _large(instances: int, nodes: int) -> SimulatedCluster:
    group = 50
    fleet = [
        Node(f"node{n}.example.com", f"u{n}", "", f"g{n // group}", offline=n % 100 == 7)
        for n in range(nodes)
    ]
    tagged = frozenset({PREFIX + "failover", "owner:somebody"})
    placed = []
    for n in range(instances):
        first = n % nodes
        other = first // group * group + (first + 1 + n // nodes % (group - 1)) % group
        tags = tagged if n % 3 == 0 else frozenset({"owner:somebody"})
        sides = fleet[first].name, fleet[other % nodes].name
        placed.append(Instance(f"i{n}.example.com", *sides, memory=1024, disk=4096, tags=tags))
    groups = [
        Group(f"g{n}", f"g{n}", frozenset({PREFIX + "failover"})) for n in range(nodes // group)
    ]
    master = fleet[0].name
    return SimulatedCluster.of(lambda: NOW / 1000, fleet, placed, groups, master=master)


# Beside harep.


@dataclass
class Rendered(luxi.World):
    """A world whose questions have been asked before: the answers are there."""

    answers: dict[bytes, bytes] = field(default_factory=dict)

    def said(self, request: bytes) -> bytes:
        """The answer's bytes; only what changes something, or depends on it, is made now."""
        asked = json.loads(request)
        still = asked["method"] in ("Query", "QueryClusterInfo") and asked["args"][:1] != ["job"]
        if not still:
            return super().said(request)
        key = json.dumps([asked["method"], asked["args"]]).encode()
        if key not in self.answers:
            self.answers[key] = super().said(request)
        return self.answers[key]


def beside(instances: int, broken: int) -> list[Row]:
    """So many instances, and as many to be repaired as harep manages in a minute."""
    if needs.absent("harep"):
        return [row("a pass beside harep: not installed", None)]
    world = _world(instances, broken)
    harep = _run(world, ["harep", "-L{}", "--job-delay=0"])
    found = []
    for mode, more in (
        ("compatible", ("--job-delay", "0")),
        ("safe", ("--at-most", str(instances))),
    ):
        command = [*OURS, "--mode", mode, *more, "--luxi", "{}"]
        took = _run(world, command)
        what = f"gnt-maint repair --mode {mode}, s: {instances:,} instances, {broken} repairs"
        found.append(row(f"{what} (peer: harep)", took, harep, times=1))
    return found


def _world(instances: int, broken: int) -> Rendered:
    nodes = {f"node{n}": luxi.Node(f"g{n // 50}") for n in range(max(100, instances // 50))}
    names = list(nodes)
    nodes[names[-1]].offline = True
    placed = {}
    for n in range(instances):
        at = n % (len(names) - 2)
        placed[f"i{n}.example.com"] = luxi.Instance(
            names[-1] if n < broken else names[at],
            names[at + 1] if n >= broken else names[-2],
            tags={PREFIX + "failover"} if n % 3 == 0 else set(),
        )
    groups = {f"g{n}": [PREFIX + "failover"] for n in range(len(names) // 50 + 1)}
    return Rendered(nodes, placed, groups)


def _run(world: Rendered, command: Sequence[str]) -> float:
    """Seconds it takes as a process, on a world of its own; once before to have the answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/luxi"
        full = [part.format(path) for part in command]
        own = copy.deepcopy(world)
        with serving(own, path):
            subprocess.run([*full, "--dry-run"], check=True, capture_output=True)
            began = time.monotonic()
            subprocess.run(full, check=True, capture_output=True)
            return time.monotonic() - began
