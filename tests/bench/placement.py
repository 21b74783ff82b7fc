"""Balancing beside hbal: whole processes, from the file to the last move.

hbal would need days for 200 nodes, so there it is asked for one step; its later ones cost it as
much. Everything is processor time: what else the machine does is no affair of either.
"""

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from nodeagent.placement.balance.search import best, exact
from nodeagent.placement.layout.rules import Enough
from nodeagent.placement.layout.score import score
from tests.bench.cost import process
from tests.bench.table import Row, row
from tests.placement.hbal import DATA, HBAL, shown
from tests.placement.optima import optima, small

GENERATOR = DATA.parent / "gen_cluster.py"
BALANCER = Path(__file__).with_name("balancer.py")
_MOVE = re.compile(r"^ +\d+\. (\S+) +\S+ +=> \S+ +(\S+) a=(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Ran:
    """What a process has found, and the processor seconds it took."""

    initial: float
    moves: list[tuple[str, str, str]]
    seconds: float

    @property
    def final(self) -> float:
        """The score in the end."""
        return float(self.moves[-1][2]) if self.moves else self.initial


def cluster(folder: Path, nodes: int, instances: int, seed: int = 1) -> Path:
    """A generated one: three classes of nodes, five kinds of disks, unevenly filled."""
    file = folder / f"{nodes}-{instances}-{seed}.data"
    asked = ["--nodes", nodes, "--instances", instances, "--seed", seed, "-o", file]
    subprocess.run([sys.executable, GENERATOR, *map(str, asked)], check=True, capture_output=True)
    return file


def ours(file: Path, way: str, seconds: float = 0.0) -> Ran:
    """Balance it; `way` is exact or best."""
    ran = process([sys.executable, "-I", str(BALANCER), str(file), way, str(seconds)])
    told = json.loads(ran.out)
    moves = [(name, action, shown(score)) for name, action, score in told["moves"]]
    return Ran(told["initial"], moves, ran.cpu)


def hbal(file: Path, *options: str) -> Ran:
    """The real one."""
    assert HBAL
    ran = process([HBAL, "-t", str(file), *options])
    initial = re.search(r"^Initial score: (\S+)$", ran.out, re.MULTILINE)
    assert initial, ran.out
    moves = [(name, action, score) for name, score, action in _MOVE.findall(ran.out)]
    return Ran(float(initial[1]), moves, ran.cpu)


def rows(*, quick: bool = False) -> list[Row]:
    """Measure everything that hbal and the material beside the checkout let us."""
    if not (GENERATOR.exists() and HBAL):
        print("bench: no hbal or no ../shared/htools, so nothing balanced", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = [_near_the_optimum(), *_whole(folder, 10, 80)]
        if quick:
            return found
        found += _whole(folder, 40, 400, goal=200)
        return [*found, *_steps(folder), _largest(folder)]


def _near_the_optimum() -> Row:
    """How much of the way to the optimum is left in small clusters, beside hbal's."""
    gaps, hbals = [], []
    for name, optimum in optima():
        layout = small(name)
        whole = score(layout) - optimum
        gaps.append(100 * (best(layout, Enough()).final - optimum) / whole)
        hbals.append(100 * (list(exact(layout, Enough()))[-1].score - optimum) / whole)
    what = f"balance {len(gaps)} clusters of 3 to 6 nodes, best, mean gap to the optimum, %"
    return row(what, mean(gaps), mean(hbals), most=2)


def _whole(folder: Path, nodes: int, instances: int, goal: int = 0) -> list[Row]:
    """Until nothing is left to gain: the same moves as hbal's, and ours soon."""
    file = cluster(folder, nodes, instances)
    theirs, exact = hbal(file), ours(file, "exact")
    assert [move[2] for move in exact.moves] == [move[2] for move in theirs.moves]
    least = theirs.seconds / goal if goal else 2.0
    best = ours(file, "best", least * 0.9)
    what = f"balance {nodes} nodes, {instances:,} instances"
    times = 1 / goal if goal else None
    return [
        row(f"{what}, exact, CPU s", exact.seconds, theirs.seconds, times=times),
        row(f"{what}, best, CPU s", best.seconds, theirs.seconds, times=times),
        row(f"{what}, best, score", best.final, theirs.final, times=1),
    ]


def _steps(folder: Path) -> list[Row]:
    """Where hbal can be asked for a step only."""
    file = cluster(folder, 200, 4000)
    exact, best = ours(file, "exact"), ours(file, "best", 8.5)
    theirs = hbal(file, "-l", "1")
    assert theirs.moves[0][2] == exact.moves[0][2]
    what = "balance 200 nodes, 4,000 instances"
    step, best_step = exact.seconds / len(exact.moves), best.seconds / len(best.moves)
    moves, exact_moves = len(best.moves), len(exact.moves)
    return [
        row(f"{what}, exact, CPU s a step", step, theirs.seconds, times=1 / 1000),
        row(f"{what}, best, CPU s a step", best_step, theirs.seconds, times=1 / 1000),
        row(f"{what}, best, CPU s", best.seconds, most=10),
        row(f"{what}, best, score beside exact's", best.final, exact.final, times=0.9),
        row(f"{what}, best, moves beside exact's", moves, exact_moves, times=1.15),
    ]


def _largest(folder: Path) -> Row:
    """What nobody would wait for."""
    best = ours(cluster(folder, 500, 10_000), "best", 50)
    what = "balance 500 nodes, 10,000 instances, best, CPU s"
    return row(what, best.seconds, most=60)
