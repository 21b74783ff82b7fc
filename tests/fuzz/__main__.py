"""`python -m tests.fuzz [SECONDS]`: try bad inputs on every decoder, and keep what breaks one.

`--only NAME` is one of them; `--keep` also keeps inputs that said something new. Ends with 1 if
anything was found.
"""

import argparse
import random
import sys
import time

from tests.fuzz.fuzzer import Found, Fuzzer
from tests.fuzz.live import doors, knock
from tests.fuzz.table import DECODERS

AT_DOORS = 0.2  # of the time
TURN = 2.0  # seconds for one decoder before the next has its turn
NEW = 12  # inputs that are kept of one decoder for saying something new


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=20.0)
    parser.add_argument("--only", choices=sorted(DECODERS), action="append")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--seed", type=int, default=time.time_ns())
    asked = parser.parse_args()
    names = asked.only or list(DECODERS)
    rng = random.Random(asked.seed)
    fuzzers = [Fuzzer(DECODERS[name], random.Random(rng.random())) for name in names]
    print(f"fuzz: {len(fuzzers)} decoders for {asked.seconds:g} s, --seed {asked.seed}", flush=True)
    found: dict[tuple[str, str], Found] = {}
    broken = False if asked.only else _knock(asked.seconds * AT_DOORS, rng)
    seconds = asked.seconds * (1.0 if asked.only else 1 - AT_DOORS)
    end, turn = time.monotonic() + seconds, min(TURN, seconds / len(fuzzers))
    while time.monotonic() < end:
        for fuzzer in fuzzers:
            for one in fuzzer.run(turn):
                key = one.decoder, one.why[:40]
                if key not in found:
                    found[key] = one
                    print(f"fuzz: FOUND {one.keep()}: {one.why}", flush=True)
    for fuzzer in fuzzers:
        print(
            f"fuzz: {fuzzer.decoder.name}: {fuzzer.tried} inputs, {len(fuzzer.said)} answers,"
            f" slowest {fuzzer.slowest:.3f} s"
        )
        for raw in fuzzer.fresh[:NEW] if asked.keep else ():
            Found(fuzzer.decoder.name, raw, "").keep()
    return 1 if found or broken else 0


def _knock(seconds: float, rng: random.Random) -> bool:
    """Bad requests at real processes; whether one broke."""
    broken = False
    with doors() as open_doors:
        for door in open_doors:
            sent, why = knock(door, seconds / len(open_doors), random.Random(rng.random()))
            print(
                f"fuzz: {door.name}: {sent} requests{': FOUND ' + why if why else ''}", flush=True
            )
            broken = broken or bool(why)
    return broken


if __name__ == "__main__":
    sys.exit(main())
