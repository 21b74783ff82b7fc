"""Rules over the records of the simulated cluster, which need no search. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.torture.door import Effect


class Taking(NamedTuple):
    """When somebody took the lease (the host's monotonic clock), and its fence."""

    at: float
    fence: int


def more_than_once(reasons: Iterable[str]) -> list[str]:
    """Return the intents with more than one job."""
    return sorted(reason for reason, times in Counter(reasons).items() if times > 1)


def beside_the_acting(effects: Sequence[Effect], takings: Sequence[Taking]) -> list[Effect]:
    """Return the effects that were asked for by one that did not act any more.

    It counts when it was asked: of that the caller had checked that it acts immediately before. The
    simulated Ganeti refuses what comes later than the grace, for which a real one over RAPI needs a
    job filter.
    """
    return [
        effect
        for effect in effects
        if not effect.refused
        and any(taking.fence > effect.epoch and taking.at < effect.asked for taking in takings)
    ]
