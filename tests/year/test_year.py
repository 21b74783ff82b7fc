"""A small fleet for a day or two: what the docs say of the guards, and that no round is missed.

The whole table is `make year`'s.
"""

from dataclasses import replace

from tests.year.fleet import HOUR, Fleet, Kind, Spell, Year
from tests.year.rounds import Rounds
from tests.year.rows import GUARDED, NO_LIMIT, ROWS, Row, go
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
GUARDS = {row.name: row for row in ROWS}
DOMAINS_OFF = replace(GUARDED, maximum_repairs_per_domain=0, domain_failure_machines=0)


def through(row: Row, *spells: Spell) -> Rounds:
    """Two days in which nothing happens but this."""
    year = Year(QUIET, 1, (), spells, (), ())
    rounds = Rounds(World(year, gullible=row.gullible), row.policy, planned=row.planned)
    rounds.run()
    return rounds


def started(*given: Spell, row: Row | None = None) -> tuple[int, int]:
    tally = through(row or ROWS[0], *given).world.tally
    return tally.started, tally.wrong


def cut(minutes: int) -> Spell:
    return Spell(100, 100 + minutes, Kind.SWITCH, RACK)


def test_a_rack_that_is_cut_off_has_no_machine_repaired_with_guards() -> None:
    assert started(cut(HOUR)) == (0, 0)


def test_without_any_guard_every_machine_of_it_is_repaired() -> None:
    done = through(GUARDS["none"], cut(4 * HOUR)).world
    assert {box.number for box in done.boxes if box.repairs} == set(RACK)
    assert done.tally.wrong == done.tally.started >= 40


def test_either_the_limit_or_the_failure_domain_alone_saves_a_rack() -> None:
    unlimited = replace(GUARDED, maximum_repair_queue_entries=NO_LIMIT)
    both = replace(DOMAINS_OFF, maximum_repair_queue_entries=NO_LIMIT)
    assert started(cut(4 * HOUR), row=Row("", unlimited)) == (0, 0)
    assert started(cut(4 * HOUR), row=Row("", DOMAINS_OFF)) == (0, 0)
    assert started(cut(4 * HOUR), row=Row("", both, 40))[1] > 30


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
