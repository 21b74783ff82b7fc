"""`make bench`: each part in a process of its own, so that no part's memory is in another's.

A goal that is not met is shown, and fails nothing: machines are noisy.

    python -m tests.bench [--quick] [PART...]
"""

import argparse
import importlib
import subprocess
import sys

from tests.bench.table import keep, table

PARTS = (
    "serve",
    "command",
    "start",
    "idle",
    "readers",
    "page",
    "poll",
    "decide",
    "evacuation",
    "night",
    "rolls",
    "save",
    "autorepair",
    "dedicated",
    "placement",
)


def main() -> None:
    """Measure one part here, or several each by itself."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="ask less, for CI")
    parser.add_argument("part", nargs="*", choices=(*PARTS, []))
    asked = parser.parse_args()
    parts = asked.part or PARTS
    if len(parts) > 1:
        for part in parts:
            quick = ["--quick"] if asked.quick else []
            subprocess.run([sys.executable, "-m", "tests.bench", *quick, part], check=True)
        return
    found = importlib.import_module(f"tests.bench.{parts[0]}").rows(quick=asked.quick)
    keep(found)
    print(table(found), flush=True)


if __name__ == "__main__":
    main()
