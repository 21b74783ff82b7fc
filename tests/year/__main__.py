"""`make year`: ten thousand machines go through a year with every guard, without each, without any.

Prints how it goes and the table; writes docs/repair-queue/year.json and, from that, year.svg beside
it and the table in docs/repair-queue-year.md. The same seeds have the same outcome. With --quick a
small fleet goes through a week, and nothing is written; with --draw nothing is measured anew.
"""

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from tests.year.fleet import DAY, Fleet
from tests.year.rows import ROWS, go, outcome
from tests.year.show import DOCUMENT, FOLDER, document, picture, table

SEEDS = range(1, 3)
SMALL = Fleet(
    machines=400, days=7, faults=4.0, reboots=6.0, resets=1.0, alarms=1.0, lied=60, works=4.0
)


def measure(row: int, seed: int, fleet: Fleet) -> dict[str, Any]:
    """One year: what it comes to, and the processor seconds it took."""
    began = time.process_time()
    rounds = go(ROWS[row], fleet, seed)
    return {
        "row": ROWS[row].name,
        "seed": seed,
        **outcome(rounds),
        "rounds": rounds.rounds,
        "seconds": round(time.process_time() - began, 1),
    }


def run(fleet: Fleet, processes: int) -> list[dict[str, Any]]:
    """All of them, in order; progress is told as they end."""
    found = []
    with ProcessPoolExecutor(processes) as pool:
        jobs = [
            pool.submit(measure, row, seed, fleet) for seed in SEEDS for row in range(len(ROWS))
        ]
        for number, job in enumerate(as_completed(jobs), 1):
            one = job.result()
            found.append(one)
            skipped = 1 - one["rounds"] / (fleet.days * DAY)
            print(
                f"{number:3} of {len(jobs)}: {one['row']}, seed {one['seed']}:"
                f" {one['seconds']} s of processor, {skipped:.0%} of the rounds left out",
                file=sys.stderr,
                flush=True,
            )
    order = [row.name for row in ROWS]
    return sorted(found, key=lambda one: (order.index(one["row"]), one["seed"]))


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="400 machines for a week")
    parser.add_argument("--draw", action="store_true", help="from what was measured last")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    data = FOLDER / "year.json"
    if not given.draw:
        found = run(SMALL if given.quick else Fleet(), given.processes)
        if given.quick:
            print(table(found))
            return
        FOLDER.mkdir(exist_ok=True)
        rows = ",\n".join(json.dumps(one) for one in found)
        data.write_text(f"[\n{rows}\n]\n")
    found = json.loads(data.read_text())
    print(table(found))
    (FOLDER / "year.svg").write_text(picture(found))
    DOCUMENT.write_text(document(DOCUMENT.read_text(), found))


if __name__ == "__main__":
    main()
