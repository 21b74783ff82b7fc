"""`make year` too: what becomes of dead machines in a year, by the setting `dead-nodes`.

Prints the table, and writes docs/dead-nodes-year.json, and from that the table in the docs.
With --quick twenty machines go through half a year, and nothing is written; with --draw nothing is
measured anew. The same seed has the same faults in every row.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from nodeagent.model.ledger import Policy
from nodeagent.model.stage import FULL
from tests.year.dead import Outcome, year
from tests.year.dead_faults import NODES, Fleet

DOCS = Path(__file__).resolve().parents[2] / "docs"
DATA, DOCUMENT = DOCS / "dead-nodes-year.json", DOCS / "dead-nodes.md"
BEGIN, END = "<!-- year -->\n", "<!-- end of year -->\n"
SEED, PART = 1, 25  # clusters of one process's turn
ROWS = {
    "`observe`": Policy(stage=FULL),
    "`fence`": Policy(stage=FULL, dead_nodes="fence"),
    "`restart`": Policy(stage=FULL, dead_nodes="restart"),
    '`restart`, `revive = "no"`': Policy(stage=FULL, dead_nodes="restart", revive=False),
}
HEADS = {
    "down": "hours down",
    "local": "local disks",
    "by_hand": "by hand",
    "power_offs": "power-offs",
    "booting": "booting",
    "wrong": "healthy",
    "twice": "twice",
}


def measure(fleet: Fleet, processes: int) -> list[dict[str, Any]]:
    """A year by row; progress is told."""
    sums: dict[str, dict[str, float]] = {
        row: dict.fromkeys((field.name for field in fields(Outcome)), 0) for row in ROWS
    }
    with ProcessPoolExecutor(processes) as pool:
        parts = [range(n, min(n + PART, fleet.clusters)) for n in range(0, fleet.clusters, PART)]
        jobs = {
            pool.submit(year, fleet, policy, SEED, part): row
            for part in parts
            for row, policy in ROWS.items()
        }
        began = time.monotonic()
        for number, job in enumerate(as_completed(jobs), 1):
            for key, value in asdict(job.result()).items():
                sums[jobs[job]][key] += value
            told = f"{number} of {len(jobs)} after {time.monotonic() - began:.0f} s"
            print(told, file=sys.stderr, flush=True)
    hours = {"down", "local"}
    return [
        {"row": row}
        | {key: round(value / 3600 if key in hours else value) for key, value in one.items()}
        for row, one in sums.items()
    ]


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a table of the docs."""
    lines = [
        "| `dead-nodes` | " + " | ".join(HEADS.values()) + " |",
        "|---" * (len(HEADS) + 1) + "|",
    ]
    for one in found:
        lines.append(f"| {one['row']} | " + " | ".join(f"{one[key]:,}" for key in HEADS) + " |")
    return "\n".join(lines) + "\n"


def document(text: str, found: Sequence[Mapping[str, Any]]) -> str:
    """The document with the table in its place."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + table(found) + END + rest.split(END)[1]


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one cluster for half a year")
    parser.add_argument("--draw", action="store_true", help="from what was measured last")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if given.quick:
        print(table(measure(Fleet(clusters=1, days=180.0), 1)), end="")
        return
    if not given.draw:
        fleet = Fleet()
        found = measure(fleet, given.processes)
        rows = ",\n".join(json.dumps(one) for one in found)
        DATA.write_text(f"[\n{rows}\n]\n")
        print(f"{fleet.clusters * NODES:,} machines")
    found = json.loads(DATA.read_text())
    print(table(found), end="")
    DOCUMENT.write_text(document(DOCUMENT.read_text(), found))


if __name__ == "__main__":
    main()
