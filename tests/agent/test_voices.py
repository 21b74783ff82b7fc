"""Many agents, any order of events: two candidates never have a majority within an hour."""

import tempfile
from collections.abc import Callable
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from nodeagent.agent.promises import LASTS, Promises
from nodeagent.model.units import Ms

NODES = 5
START = 1_700_000_000_000
# A candidate asks these nodes about a master, so many minutes after the event before. A node's
# clock may be wrong by two minutes, and its runner starts anew each time.
asking = st.tuples(
    st.integers(0, 90),
    st.sampled_from(["b", "c", "d"]),
    st.sampled_from(["m", "m", "b"]),
    st.sets(st.integers(0, NODES - 1)),
)
Event = tuple[int, str, str, set[int]]
SKEWS = (0, 120_000, -120_000, 60_000, -60_000)


def clock(now: int) -> Callable[[], Ms]:
    return lambda: Ms(now)


def majorities(events: list[Event]) -> list[tuple[int, str, str]]:
    """When which candidate had the voices of a majority about which master."""
    # No power fails here.
    with tempfile.TemporaryDirectory() as folder, patch("os.fsync"):
        folders = [tempfile.mkdtemp(dir=folder) for _ in range(NODES)]
        now, found = START, list[tuple[int, str, str]]()
        for minutes, candidate, master, asked in events:
            now += minutes * 60_000
            voices = [
                number
                for number in asked
                if not Promises(folders[number], clock(now + SKEWS[number])).give(master, candidate)
            ]
            if len(voices) > NODES // 2:
                found.append((now, candidate, master))
        return found


@given(st.lists(asking, max_size=12))
@settings(max_examples=60)
def test_never_two_candidates_or_masters_within_an_hour(events: list[Event]) -> None:
    found = majorities(events)
    for at, candidate, master in found:
        for other, who, of in found:
            if 0 <= other - at < LASTS:
                assert (who, of) == (candidate, master)
