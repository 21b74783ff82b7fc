"""What befalls ten thousand machines in a year: crashes, deaths, hangs and cut networks.

The machines stand in clusters of twenty, in racks of five. The rates are guesses of the right
order: only the rows can be compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
BOOT = 4 * MINUTE
NODES, RACK = 20, 5  # nodes of a cluster, and of a rack


@dataclass(frozen=True)
class Fleet:
    """How many clusters there are, and how often a year something befalls a machine or a rack.

    `crashes` reboot by themselves, `deaths` lose their power, `hangs` need a power cycle, `cuts`
    lose their network. Of dead and hung ones `stay` do so after a power cycle. Of the BMCs `mute`
    do not answer when it matters, `ignore` take commands and do nothing, `lie` say that an
    unreachable machine is off. Shares are of one.
    """

    clusters: int = 500
    days: float = 365.0
    crashes: float = 0.1
    deaths: float = 0.02
    hangs: float = 0.03
    cuts: float = 0.01
    rack_cuts: float = 0.02
    rack_deaths: float = 0.005
    stay: float = 0.3
    mute: float = 0.02
    ignore: float = 0.01
    lie: float = 0.005


@dataclass(frozen=True)
class Fault:
    """What befalls these machines at a time (seconds), and after how long it is over.

    `seen` is after how long a person acts; `mended` after how long a machine that stays dead is
    replaced. `control` is how the BMC of each behaves, `apart` whether a cut one loses DRBD, too.
    """

    at: float
    kind: str
    nodes: tuple[str, ...]
    lasts: float
    stays: bool
    seen: float
    mended: float
    control: str
    apart: bool


def faults_of(fleet: Fleet, chance: Random) -> Iterator[Fault]:
    """The faults of one cluster in a year, in no order."""
    years = fleet.days / 365
    racks = [tuple(f"n{i}" for i in range(n, n + RACK)) for n in range(1, NODES + 1, RACK)]
    ones = [(f"n{i}",) for i in range(2, NODES + 1)]  # n1 is the master, which is never fenced
    for kind, rate, places in (
        ("crash", fleet.crashes, ones),
        ("death", fleet.deaths, ones),
        ("hang", fleet.hangs, ones),
        ("cut", fleet.cuts, ones),
        ("cut", fleet.rack_cuts, racks),
        ("death", fleet.rack_deaths, racks),
    ):
        for place in places:
            at = chance.expovariate(rate * years / (fleet.days * DAY))
            while at < fleet.days * DAY:
                yield _fault(fleet, chance, at, kind, place)
                at += chance.expovariate(rate * years / (fleet.days * DAY))


def _fault(fleet: Fleet, chance: Random, at: float, kind: str, place: tuple[str, ...]) -> Fault:
    alone = len(place) == 1
    median = {"crash": BOOT, "cut": (2 if alone else 0.3) * HOUR}.get(kind, 30 * MINUTE)
    return Fault(
        at,
        kind,
        place,
        lasts=max(90.0, chance.lognormvariate(0, 0.5) * median),
        stays=alone and kind in ("death", "hang") and chance.random() < fleet.stay,
        seen=max(5 * MINUTE, chance.lognormvariate(0, 0.7) * 20 * MINUTE),
        mended=chance.lognormvariate(0, 0.7) * 12 * HOUR,
        control=chance.choices(
            ("good", "mute", "ignore", "lie"),
            (1 - fleet.mute - fleet.ignore - fleet.lie, fleet.mute, fleet.ignore, fleet.lie),
        )[0],
        apart=chance.random() < 0.5,
    )


def episodes(fleet: Fleet, chance: Random) -> Iterator[list[Fault]]:
    """The faults of one cluster, those within a day of each other together."""
    together: list[Fault] = []
    for one in sorted(faults_of(fleet, chance), key=lambda one: one.at):
        if together and one.at - together[-1].at > DAY:
            yield together
            together = []
        together.append(one)
    if together:
        yield together
