"""The compatible mode beside the real harep on many random clusters; ends with 1 if they differ.

python -m tests.autorepair.oracle [--worlds 2000] [--first SEED]
"""

import argparse
import sys
from collections import Counter

from tests import needs
from tests.autorepair.worlds import Outcome, case, differences, ours

AT_ONCE = 64  # harep sleeps half a second for each tag


def main() -> int:
    """Compare, and show the first difference in full."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=2000)
    parser.add_argument("--first", type=int, default=10_000)
    asked = parser.parse_args()
    if why := needs.absent("harep"):
        print(f"oracle: {why}", file=sys.stderr)
        return 1
    cases = [case(asked.first + number) for number in range(asked.worlds)]
    seen = Counter(word for one in cases for word in _kinds(ours(one)))
    wrong = 0
    for number, theirs, our in differences(cases, AT_ONCE):
        wrong += 1
        if wrong == 1:
            print(f"seed {asked.first + number}\n harep: {theirs}\n ours:  {our}")
    print(f"oracle: {len(cases)} worlds, {wrong} of them differ; {dict(sorted(seen.items()))}")
    return 1 if wrong else 0


def _kinds(outcome: Outcome) -> list[str]:
    jobs = [call for call in outcome.calls if '"OP_INSTANCE' in call]
    return [f"exit {outcome.code}", *["repairs"] * len(jobs)]


if __name__ == "__main__":
    sys.exit(main())
