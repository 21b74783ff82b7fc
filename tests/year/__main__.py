"""`make year`: ten thousand machines go through a year, and the docs' tables of it are printed.

First with every guard of the repair queue, without each, without any (docs/repair-queue-year.md);
then with each setting of `dead-nodes` (docs/dead-nodes.md). The same seeds have the same outcome.
With --quick it is a small fleet for a while.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from statistics import median

from nodeagent.model.ledger import Policy
from nodeagent.model.stage import FULL
from tests.year import dead, dead_faults
from tests.year.fleet import Fleet
from tests.year.rows import ROWS, go, outcome

SEEDS = range(1, 3)
SMALL = Fleet(
    machines=400, days=7, faults=4.0, reboots=6.0, resets=1.0, alarms=1.0, lied=60, works=4.0
)
QUEUE_HEADS = {
    "faults": "faults",
    "started": "repairs started",
    "wrong": "wrongly",
    "repairing": "most in repair at once",
    "rack": "of one rack",
    "hurt": "healthy ones",
    "lost": "most lost at once",
    "hours": "hours to repair",
    "left": "left to people",
    "harmed": "broken by repair",
}
SMALL_CLUSTERS = dead_faults.Fleet(clusters=1, days=180.0)
PART = 25  # clusters of one process's turn
DEAD_NODES = {
    "`observe`": Policy(stage=FULL),
    "`fence`": Policy(stage=FULL, dead_nodes="fence"),
    "`restart`": Policy(stage=FULL, dead_nodes="restart"),
    '`restart`, `revive = "no"`': Policy(stage=FULL, dead_nodes="restart", revive=False),
}
DEAD_HEADS = {
    "down": "hours down",
    "local": "local disks",
    "by_hand": "by hand",
    "power_offs": "power-offs",
    "booting": "booting",
    "wrong": "healthy",
    "twice": "twice",
}
Years = Mapping[str, Sequence[Mapping[str, float]]]
"""What every part of a row has come to, by its name."""


def queue_year(row: int, fleet: Fleet, seed: int) -> Mapping[str, float]:
    """One year of the repair queue."""
    return outcome(go(ROWS[row], fleet, seed))


def dead_year(row: str, fleet: dead_faults.Fleet, part: range) -> Mapping[str, float]:
    """A year of these clusters' dead machines; times in hours."""
    told = asdict(dead.year(fleet, DEAD_NODES[row], 1, part))
    return told | {key: told[key] / 3600 for key in ("down", "local")}


def queue_table(years: Years) -> str:
    """The median of each column, with the least and the most."""

    def cell(key: str, values: Sequence[float]) -> str:
        digits = 1 if key == "hours" else 0
        middle, least, most = (
            f"{value:,.{digits}f}" for value in (median(values), min(values), max(values))
        )
        return middle if least == most else f"{middle} ({least} to {most})"

    return _table("", QUEUE_HEADS, years, cell)


def dead_table(years: Years) -> str:
    """The sum of all clusters."""
    return _table("`dead-nodes`", DEAD_HEADS, years, lambda _, values: f"{round(sum(values)):,}")


def _table(
    corner: str,
    heads: Mapping[str, str],
    years: Years,
    cell: Callable[[str, Sequence[float]], str],
) -> str:
    lines = [[corner, *heads.values()], ["---"] * (len(heads) + 1)]
    for name, parts in years.items():
        lines.append([name, *(cell(key, [part[key] for part in parts]) for key in heads)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def run(fleet: Fleet, clusters: dead_faults.Fleet, processes: int) -> tuple[Years, Years]:
    """All of them; progress is told as they end."""
    queue: dict[str, list[Mapping[str, float]]] = {row.name: [] for row in ROWS}
    machines: dict[str, list[Mapping[str, float]]] = {row: [] for row in DEAD_NODES}
    began = time.monotonic()
    with ProcessPoolExecutor(processes) as pool:
        jobs = {}
        for seed in SEEDS:
            for number, row in enumerate(ROWS):
                jobs[pool.submit(queue_year, number, fleet, seed)] = queue[row.name]
        for first in range(0, clusters.clusters, PART):
            part = range(first, min(first + PART, clusters.clusters))
            for name in DEAD_NODES:
                jobs[pool.submit(dead_year, name, clusters, part)] = machines[name]
        for number, job in enumerate(as_completed(jobs), 1):
            jobs[job].append(job.result())
            told = f"{number} of {len(jobs)} after {time.monotonic() - began:.0f} s"
            print(told, file=sys.stderr, flush=True)
    return queue, machines


def main() -> None:
    """Go through all years, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    fleet, clusters = Fleet(), dead_faults.Fleet()
    if given.quick:
        fleet, clusters = SMALL, SMALL_CLUSTERS
    queue, machines = run(fleet, clusters, given.processes)
    print(queue_table(queue), dead_table(machines), sep="\n\n")


if __name__ == "__main__":
    main()
