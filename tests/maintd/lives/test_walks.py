"""Nothing that is observed or asked stops maintd's rounds."""

import os
from random import SystemRandom

from tests.maintd.lives.walks import Walk

WALKS, ROUNDS = 12, 50


def test_no_round_breaks_off_whatever_is_observed() -> None:
    """Always the same walks; LIFE_TIMES as many, other ones, where that is set."""
    new = "LIFE_TIMES" in os.environ and "CI" not in os.environ
    first = SystemRandom().randrange(10**9) if new else 0
    for seed in range(first, first + WALKS * int(os.environ.get("LIFE_TIMES", "1"))):
        walk = Walk(seed)
        for number in range(ROUNDS):
            try:
                walk.round()
            except Exception as error:
                error.add_note(f"in round {number} of the walk from seed {seed}")
                raise
