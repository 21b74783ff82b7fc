"""What happens to a fleet of machines in a year by itself, drawn from a seed. Pure.

Nothing here depends on what anybody does about it, so every row of the table has the same year.
Times are minutes from its beginning. The rates are guesses of the right order, no measurements:
the table compares guards, and foretells nobody's year.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from math import exp
from random import Random

HOUR, DAY, YEAR = 60, 1_440, 525_600
CREW = 8  # machines of a rack that are worked on at once


class Cause(Enum):
    """What is wrong with a machine: what mends it is a power cycle, to reinstall it, a person."""

    HUNG = "hung"
    CORRUPT = "corrupt"
    BROKEN = "broken"


class Kind(Enum):
    """What passes by itself. Of an ALARM nothing is true but that the monitor gives it."""

    POWER = "power"
    SWITCH = "switch"
    REBOOT = "reboot"
    WORKS = "works"
    BMC = "bmc"
    ALARM = "alarm"
    DECEPTION = "deception"


GONE = frozenset({Kind.POWER, Kind.SWITCH, Kind.REBOOT, Kind.WORKS})
"""What makes machines unreachable; the others make them look unhealthy."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """How large it is, and how often what happens: per machine and year, but for what is whole.

    `reboots` are planned, of so many machines of a rack `together`. `works` are maintenance
    windows of some hours, of eight machines of a rack; they are off meanwhile. `resets` are of
    BMCs; until then the machine looks unhealthy. `alarms` are false ones, and one in `deceptions`
    deceives the health check too. `outages` are racks without power for an hour, `flappings`
    switches of racks that come and go for some hours, `campaigns` nights in which the BMCs of one
    machine in ten get new firmware. `lies`: for 45 minutes the source says of the first `lied`
    machines that they are unhealthy; `silences`: it says nothing for 12 hours.
    """

    machines: int = 10_000
    rack: int = 40
    days: int = 365
    faults: float = 0.1
    reboots: float = 2.0
    together: int = 20
    works: float = 0.08
    resets: float = 0.1
    alarms: float = 0.05
    deceptions: int = 10
    outages: int = 1
    flappings: int = 2
    campaigns: int = 1
    lies: int = 1
    lied: int = 1_000
    silences: int = 1

    @property
    def minutes(self) -> int:
        """How long the whole is."""
        return self.days * DAY

    @property
    def years(self) -> float:
        """The same."""
        return self.days / 365


@dataclass(frozen=True, slots=True)
class Fault:
    """A machine breaks, and stays so until it is mended.

    `gone`: it is unreachable then, else unhealthy. A person who has been called has it mended after
    `hands` minutes.
    """

    at: int
    machine: int
    cause: Cause
    gone: bool
    hands: int


@dataclass(frozen=True, slots=True)
class Spell:
    """Something that begins and ends for some machines at once."""

    at: int
    until: int
    kind: Kind
    machines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Year:
    """All of it. `lies` and `silences` are from when until when the source lies and is mute."""

    fleet: Fleet
    seed: int
    faults: tuple[Fault, ...]
    spells: tuple[Spell, ...]
    lies: tuple[tuple[int, int], ...]
    silences: tuple[tuple[int, int], ...]


def draw(fleet: Fleet, seed: int) -> Year:
    """A year of this fleet; the same seed has the same one."""
    chance = Random(seed)
    spells = list(_outages(fleet, chance))
    broken = [
        _fault(chance, spell.until, machine)
        for spell in spells
        for machine in chance.sample(spell.machines, min(2, len(spell.machines)))
    ]
    lies = [_at(fleet, chance, 45) for _ in range(fleet.lies)]
    silences = [_at(fleet, chance, 12 * HOUR) for _ in range(fleet.silences)]
    spells += [*_flappings(fleet, chance), *_reboots(fleet, chance), *_resets(fleet, chance)]
    spells += [*_campaigns(fleet, chance), *_alarms(fleet, chance)]
    faults = [*broken, *_faults(fleet, chance)]
    spells += _works(fleet, chance)
    return Year(
        fleet,
        seed,
        tuple(sorted(faults, key=lambda fault: (fault.at, fault.machine))),
        tuple(sorted(spells, key=lambda spell: (spell.at, spell.machines))),
        tuple(sorted(lies)),
        tuple(sorted(silences)),
    )


def _faults(fleet: Fleet, chance: Random) -> Iterator[Fault]:
    """By the bathtub: racks are delivered whole, and are young, in their prime or worn out."""
    ages = [chance.uniform(0, 5) for _ in range(-(-fleet.machines // fleet.rack))]
    most = 4.0  # of the hazard below, over its plain level
    for machine in range(fleet.machines):
        age, at = ages[machine // fleet.rack], 0.0
        while (at := at + chance.expovariate(most * fleet.faults)) < fleet.years:
            if chance.random() * most < _hazard(age + at):
                yield _fault(chance, int(at * YEAR), machine)


def _hazard(age: float) -> float:
    """How much likelier than in its prime a machine of so many years is to break."""
    return 1 + 2 * exp(-age / 0.2) + 0.5 * max(0.0, age - 4)


def _fault(chance: Random, at: int, machine: int) -> Fault:
    cause = chance.choices(tuple(Cause), (60, 25, 15))[0]
    gone = chance.random() < 0.6
    return Fault(at, machine, cause, gone, int(chance.uniform(4 * HOUR, 4 * DAY)))


def _at(fleet: Fleet, chance: Random, minutes: int) -> tuple[int, int]:
    """When something that lasts so long begins and ends: not in the first nor the last tenth."""
    at = int(chance.uniform(0.1, 0.9) * fleet.minutes)
    return at, at + minutes


def _rack(fleet: Fleet, chance: Random) -> tuple[int, ...]:
    first = fleet.rack * chance.randrange(max(1, fleet.machines // fleet.rack))
    return tuple(range(first, min(first + fleet.rack, fleet.machines)))


def _outages(fleet: Fleet, chance: Random) -> Iterator[Spell]:
    for _ in range(fleet.outages):
        yield Spell(*_at(fleet, chance, HOUR), Kind.POWER, _rack(fleet, chance))


def _flappings(fleet: Fleet, chance: Random) -> Iterator[Spell]:
    for _ in range(fleet.flappings):
        at, end = _at(fleet, chance, 4 * HOUR)
        rack = _rack(fleet, chance)
        while at < end:
            back = at + chance.randint(2, 6)
            yield Spell(at, back, Kind.SWITCH, rack)
            at = back + chance.randint(3, 20)


def _reboots(fleet: Fleet, chance: Random) -> Iterator[Spell]:
    batches = int(fleet.reboots * fleet.machines * fleet.years / fleet.together)
    for _ in range(batches):
        at = chance.randrange(fleet.minutes)
        rack = _rack(fleet, chance)
        together = chance.sample(rack, min(fleet.together, len(rack)))
        yield Spell(at, at + chance.randint(4, 12), Kind.REBOOT, tuple(together))


def _works(fleet: Fleet, chance: Random) -> Iterator[Spell]:
    for _ in range(int(fleet.works * fleet.machines * fleet.years / CREW)):
        at = chance.randrange(fleet.minutes)
        machines = chance.sample(_rack(fleet, chance), CREW)
        yield Spell(at, at + chance.randint(HOUR, 6 * HOUR), Kind.WORKS, tuple(machines))


def _resets(fleet: Fleet, chance: Random) -> Iterator[Spell]:
    for _ in range(int(fleet.resets * fleet.machines * fleet.years)):
        at, machine = chance.randrange(fleet.minutes), chance.randrange(fleet.machines)
        yield Spell(at, at + chance.randint(3, 12), Kind.BMC, (machine,))


def _campaigns(fleet: Fleet, chance: Random) -> Iterator[Spell]:
    for _ in range(fleet.campaigns):
        night, _ = _at(fleet, chance, 0)
        for machine in sorted(chance.sample(range(fleet.machines), fleet.machines // 10)):
            at = night + chance.randrange(3 * HOUR)
            yield Spell(at, at + chance.randint(3, 12), Kind.BMC, (machine,))


def _alarms(fleet: Fleet, chance: Random) -> Iterator[Spell]:
    for _ in range(int(fleet.alarms * fleet.machines * fleet.years)):
        at, machine = chance.randrange(fleet.minutes), chance.randrange(fleet.machines)
        kind = Kind.ALARM if chance.randrange(fleet.deceptions) else Kind.DECEPTION
        yield Spell(at, at + chance.randint(10, 60), kind, (machine,))
