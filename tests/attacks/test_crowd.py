"""512 slow readers of a large answer, before a maintd in a process of its own."""

import gzip
import statistics
import time

import pytest

from tests.attacks.crowd import LARGE, SMALL, crowd, target

pytestmark = pytest.mark.measures

NODES = 13_500  # whose answer has 4 MB
MOST = 200e6  # bytes


def test_maintd_bears_512_slow_readers_of_4_mb_and_answers_newcomers() -> None:
    with target(NODES) as at:
        large = len(at.get(LARGE))
        assert large > 4e6
        with crowd(at, 512) as readers:
            waits = []
            for _ in range(9):
                waits.append(at.seconds(SMALL))
                time.sleep(1)
            # The longer they take to come, the more versions of the answer, of which few are kept.
            assert len(readers.readers) > 20, "who reads on is served as long as there is room"
            assert len(at.get(LARGE)) == large, "a newcomer that reads has all of it"
        assert statistics.median(waits) < 1
        assert at.memory()[1] <= MOST
        answer = at.get(LARGE, headers="Accept-Encoding: gzip\r\n")
        body = answer.partition(b"\r\n\r\n")[2]
        assert len(body) < large / 5
        assert len(gzip.decompress(body)) > 4e6
