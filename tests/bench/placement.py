"""Balancing beside hbal: whole processes, from the file to the last move.

    python -m tests.bench.placement [--quick]

Every move of ours is replayed by the tests' referee. hbal would need days for 200 nodes, so there
it is asked for one step; its later ones cost it as much. Everything is processor time: what else
the machine does is no affair of either.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from nodeagent.placement.balance.search import best, exact
from nodeagent.placement.layout.rules import Enough
from nodeagent.placement.layout.score import score
from tests.bench.table import row, run
from tests.placement.hbal import DATA, HBAL, shown
from tests.placement.optima import optima, small
from tests.placement.referee import replay

GENERATOR = DATA.parent / "gen_cluster.py"
BALANCER = Path(__file__).with_name("balancer.py")
_MOVE = re.compile(r"^ +\d+\. (\S+) +\S+ +=> \S+ +(\S+) a=(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Ran:
    """What a process has found, and the processor seconds and MiB it took."""

    initial: float
    moves: list[tuple[str, str, str]]
    seconds: float
    memory: float

    @property
    def final(self) -> float:
        """The score in the end."""
        return float(self.moves[-1][2]) if self.moves else self.initial

    @property
    def scores(self) -> list[float]:
        """After so many moves."""
        return [self.initial, *(float(move[2]) for move in self.moves)]


def cluster(folder: Path, nodes: int, instances: int, seed: int = 1) -> Path:
    """A generated one: three classes of nodes, five kinds of disks, unevenly filled."""
    file = folder / f"{nodes}-{instances}-{seed}.data"
    asked = ["--nodes", nodes, "--instances", instances, "--seed", seed, "-o", file]
    subprocess.run([sys.executable, GENERATOR, *map(str, asked)], check=True, capture_output=True)
    return file


def ours(file: Path, way: str, seconds: float = 0.0, most: int | None = None) -> Ran:
    """`exact` or `best`, with so many moves at most; the referee has nothing to say."""
    asked = [str(BALANCER), str(file), way, str(seconds), *([] if most is None else [str(most)])]
    out, spent, memory = _run([sys.executable, "-I", *asked])
    told = json.loads(out)
    moves = [(name, action, shown(score)) for name, action, score in told["moves"]]
    wrong = replay(file.read_text(), [], None, moves)
    assert not wrong, wrong[:3]
    return Ran(told["initial"], moves, spent, memory)


def hbal(file: Path, *options: str) -> Ran:
    """The real one."""
    assert HBAL
    out, spent, memory = _run([HBAL, "-t", str(file), *options])
    initial = re.search(r"^Initial score: (\S+)$", out, re.MULTILINE)
    assert initial, out
    moves = [(name, action, score) for name, score, action in _MOVE.findall(out)]
    return Ran(float(initial[1]), moves, spent, memory)


def rows(*, quick: bool = False) -> list[dict[str, Any]]:
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
        return found + _steps(folder) + _largest(folder)


def _near_the_optimum() -> dict[str, Any]:
    """How much of the way to the optimum is left in small clusters, beside hbal's."""
    gaps, hbals = [], []
    for name, optimum in optima():
        layout = small(name)
        whole = score(layout) - optimum
        gaps.append(100 * (best(layout, Enough()).final - optimum) / whole)
        hbals.append(100 * (list(exact(layout, Enough()))[-1].score - optimum) / whole)
    what = f"balance {len(gaps)} clusters of 3 to 6 nodes, best, mean gap to the optimum, %"
    gap = mean(gaps)
    return row(what, gap, mean(hbals), goal="<= 2 %", met=gap <= 2)


def _whole(folder: Path, nodes: int, instances: int, goal: int = 0) -> list[dict[str, Any]]:
    """Until nothing is left to gain: the same moves as hbal's, and ours soon."""
    file = cluster(folder, nodes, instances)
    theirs, exact = hbal(file), ours(file, "exact")
    assert [move[2] for move in exact.moves] == [move[2] for move in theirs.moves]
    least = theirs.seconds / goal if goal else 2.0
    best = ours(file, "best", least * 0.9)
    what, asked = f"balance {nodes} nodes, {instances:,} instances", None
    if goal:
        asked = f"<= 1/{goal}"
    found = []
    for name, one in (("exact", exact), ("best", best)):
        met = one.seconds * goal <= theirs.seconds if goal else None
        found.append(
            row(f"{what}, {name}, CPU s", one.seconds, theirs.seconds, goal=asked, met=met)
        )
    met = best.final <= theirs.final
    found.append(row(f"{what}, best, score", best.final, theirs.final, goal="<= 1", met=met))
    found.append(row(f"{what}, best, moves", len(best.moves), len(theirs.moves)))
    return found


def _steps(folder: Path) -> list[dict[str, Any]]:
    """Where hbal can be asked for a step only."""
    file = cluster(folder, 200, 4000)
    exact, best = ours(file, "exact"), ours(file, "best", 8.5)
    theirs = hbal(file, "-l", "1")
    assert theirs.moves[0][2] == exact.moves[0][2]
    what = "balance 200 nodes, 4,000 instances"
    found = []
    for name, one in (("exact", exact), ("best", best)):
        each = one.seconds / len(one.moves)
        met = each * 1000 <= theirs.seconds
        found.append(
            row(f"{what}, {name}, CPU s a step", each, theirs.seconds, goal="<= 1/1000", met=met)
        )
    found.append(row(f"{what}, exact, CPU s", exact.seconds, None))
    met = best.seconds <= 10
    found.append(row(f"{what}, best, CPU s", best.seconds, None, goal="<= 10", met=met))
    met = best.final <= 0.9 * exact.final
    found.append(
        row(f"{what}, best, score beside exact's", best.final, exact.final, goal="<= 0.9", met=met)
    )
    count, most = len(best.moves), len(exact.moves)
    met = count <= 1.15 * most
    found.append(row(f"{what}, best, moves beside exact's", count, most, goal="<= 1.15", met=met))
    return found


def _largest(folder: Path) -> list[dict[str, Any]]:
    """What nobody would wait for."""
    best = ours(cluster(folder, 500, 10_000), "best", 50)
    what = "balance 500 nodes, 10,000 instances, best, CPU s"
    return [row(what, best.seconds, None, goal="<= 60", met=best.seconds <= 60)]


def _run(command: list[str]) -> tuple[str, float, float]:
    """What it prints, and the processor seconds and MiB of the whole process."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return out, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


if __name__ == "__main__":
    run(rows, __doc__)
