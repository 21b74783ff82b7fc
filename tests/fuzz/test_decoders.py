"""Every decoder on inputs kept, on bad ones made up, and on the longest and nastiest texts."""

import os
import random

import pytest

from tests.fuzz.decoder import Decoder
from tests.fuzz.fuzzer import Fuzzer, corpus
from tests.fuzz.nasty import NASTY, holes, outgrows
from tests.fuzz.table import DECODERS
from tests.patience import PATIENCE

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))  # 0: so many inputs, not so long
ALL = os.environ.get("FUZZ_PLACES") == "all"
FEW = 150  # inputs a decoder
MOST_TRIED = 401  # places with a kind of text, in a short run: no multiple of how many kinds
EACH = pytest.mark.parametrize("decoder", DECODERS.values(), ids=list(DECODERS))


def _chance() -> random.Random:
    """Other inputs every time, in CI always the same."""
    return random.Random(0) if os.environ.get("CI") else random.Random()


@EACH
def test_inputs_that_are_kept(decoder: Decoder) -> None:
    """The good ones are read: a seed of an older form would say nothing of what is behind it."""
    fuzzer = Fuzzer(decoder, random.Random(0))
    for good in decoder.seeds if decoder.name != "certificate" else ():
        decoder.read(good)
    for raw in (*decoder.seeds, *corpus(decoder.name)):
        assert not fuzzer.attempt(raw), raw[:200]


@EACH
def test_bad_inputs_end_in_the_decoders_own_errors(decoder: Decoder) -> None:
    """A few of each, in CI always the same; `make fuzz` takes longer."""
    fuzzer = Fuzzer(decoder, _chance())
    found = fuzzer.run(SECONDS / len(DECODERS)) if SECONDS else fuzzer.run(PATIENCE, most=FEW)
    assert not found, "in tests/fuzz/corpus from now on"


@pytest.mark.measures
@pytest.mark.timeout(1200)
@EACH
def test_the_work_grows_as_the_text(decoder: Decoder) -> None:
    """In the places of every good input: with FUZZ_PLACES=all in all of them."""
    tried = [(place, kind, read) for place, read in holes(decoder) for kind in NASTY]
    for place, kind, read in tried if ALL else tried[:: len(tried) // MOST_TRIED + 1]:
        assert not (why := outgrows(read, kind)), f"{place}: {why}"
