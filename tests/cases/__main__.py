"""`make cases`: every case of public bug reports beside its right result; exit 1 if one differs."""

import sys

from tests.cases.run import FOLDER, tried
from tests.cases.table import BEHAVIOURS, COMMANDS


def main() -> int:
    if not FOLDER.is_dir():
        print(f"cases: skipped, {FOLDER} is not there")
        return 0
    wrong = 0
    for one in tried(COMMANDS + BEHAVIOURS):
        print(f"{'PASS' if one.is_right else 'FAIL'}  {one.row.case}  {one.row.title}", flush=True)
        if not one.is_right:
            wrong += 1
            print(f"      right: {one.row.right}\n      is:    {one.line or 'no such line'}")
    print(f"cases: {len(COMMANDS + BEHAVIOURS) - wrong} right, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
