"""The safety net under `decide`: rounds that were decided before are decided alike."""

import json

import pytest

from tests.maintd.decisions import as_read, decided_anew, saved

ROUNDS = list(saved())
PARTS = 8


def test_there_are_enough_rounds_to_hold_what_is_carved() -> None:
    assert len(ROUNDS) >= 2000


@pytest.mark.parametrize("part", range(PARTS))
def test_what_was_decided_is_decided_again(part: int) -> None:
    """Byte for byte; `make decisions` keeps what is to be otherwise on purpose."""
    for number in range(part, len(ROUNDS), PARTS):
        observation, before = ROUNDS[number]
        after = decided_anew(observation)
        if after != as_read(before):
            old, new = json.loads(as_read(before)), json.loads(after)
            other = {key: (old[key], new[key]) for key in old if old[key] != new[key]}
            pytest.fail(f"round {number} is decided otherwise: {json.dumps(other)[:4000]}")
