"""A small fleet for a day or two: what the docs say of the guards, and that no round is missed.

The whole table is `make year`'s.
"""

from dataclasses import replace

from nodeagent.model.constraints import Constraints
from tests.year.fleet import HOUR, Fleet, Kind, Spell, Year
from tests.year.rounds import Rounds
from tests.year.rows import AT_ONCE, GUARDED, NO_LIMIT, ROWS, Row, go
from tests.year.world import World

QUIET = Fleet(
    machines=400,
    days=2,
    faults=0,
    reboots=0,
    resets=0,
    alarms=0,
    outages=0,
    flappings=0,
    campaigns=0,
    lies=0,
    lied=60,
    silences=0,
    works=0,
)
BUSY = Fleet(
    machines=60,
    days=1,
    faults=40,
    reboots=20,
    resets=10,
    alarms=8,
    deceptions=3,
    lied=10,
    works=25,
)
RACK = tuple(range(40, 80))
DOMAINS_OFF = replace(GUARDED, maximum_repairs_per_domain=0, domain_failure_machines=0)


def repaired(constraints: Constraints, at_once: int = AT_ONCE) -> tuple[int, int]:
    """The repairs that start, and those of them that are wrong, while a rack is cut off."""
    cut = Spell(100, 100 + 4 * HOUR, Kind.SWITCH, RACK)
    rounds = Rounds(World(Year(QUIET, 1, (), (cut,), (), ())), Row("", constraints, at_once).policy)
    rounds.run()
    return rounds.world.tally.started, rounds.world.tally.wrong


def test_either_the_limit_or_the_failure_domain_alone_saves_a_rack() -> None:
    unlimited = replace(GUARDED, maximum_repair_queue_entries=NO_LIMIT)
    both = replace(DOMAINS_OFF, maximum_repair_queue_entries=NO_LIMIT)
    assert repaired(unlimited) == (0, 0)
    assert repaired(DOMAINS_OFF) == (0, 0)
    assert repaired(both, at_once=40)[1] > 30


def test_the_rounds_left_out_change_nothing() -> None:
    quick, whole = go(ROWS[0], BUSY, 1), go(ROWS[0], BUSY, 1, every=True)
    assert whole.rounds == BUSY.minutes > 1.2 * quick.rounds
    assert quick.world.tally == whole.world.tally
    assert quick.ledger.intents == whole.ledger.intents
    ours, theirs = quick.ledger.queue, whole.ledger.queue
    assert (ours.entries, ours.next) == (theirs.entries, theirs.next)
    assert (ours.attempts, ours.refusals) == (theirs.attempts, theirs.refusals)
    assert ours.failed == theirs.failed
    assert theirs.next > 10
