"""The safety net under `decide`: rounds that were decided before are decided alike."""

import json

from tests.maintd.decisions import MOST, as_read, decided_anew, saved


def test_what_was_decided_is_decided_again() -> None:
    """Byte for byte; `make decisions` keeps what is to be otherwise on purpose."""
    number = 0
    for number, (observation, before) in enumerate(saved(), 1):
        after = decided_anew(observation)
        if after != before and after != as_read(before):
            old, new = json.loads(as_read(before)), json.loads(after)
            other = {key: (old[key], new[key]) for key in old if old[key] != new[key]}
            raise AssertionError(f"round {number} is decided otherwise: {str(other)[:4000]}")
    assert number == MOST
