"""Rules over the records of the simulated cluster, which need no search. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.torture.door import Effect

BELIEVED = 8.0  # seconds a vote lasts here; of maintd's own a phase would see no end


class Naming(NamedTuple):
    """When most nodes' files named another master (the host's monotonic clock)."""

    at: float
    master: str


def more_than_once(reasons: Iterable[str]) -> list[str]:
    """Return the intents with more than one job."""
    return sorted(reason for reason, times in Counter(reasons).items() if times > 1)


def beside_the_master(
    effects: Sequence[Effect], namings: Sequence[Naming], believed: float = BELIEVED
) -> list[Effect]:
    """Return the effects by one whom most nodes had not named their master for so many seconds.

    The luxid of a master that was cut off takes its jobs, so that only the age of its last vote
    keeps it from them.
    """

    def named(since: float, until: float) -> set[str]:
        before = [one.master for one in namings if one.at <= since]
        return {*before[-1:], *(one.master for one in namings if since < one.at <= until)}

    return [
        effect
        for effect in effects
        if not effect.refused and effect.caller not in named(effect.asked - believed, effect.asked)
    ]
