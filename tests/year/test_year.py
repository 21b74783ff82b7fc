"""A small fleet for a day or two: what the docs say of the guards, and that no round is missed.

The whole table is `make year`'s.
"""

import json
from dataclasses import replace
from functools import cache
from xml.etree import ElementTree

import pytest

from nodeagent.model.queue import EntryStatus
from tests.year.fleet import HOUR, Cause, Fault, Fleet, Kind, Spell, Year, draw
from tests.year.rounds import Rounds
from tests.year.rows import GUARDED, NO_LIMIT, ROWS, Row, go, outcome
from tests.year.show import BEGIN, DOCUMENT, END, FOLDER, document, picture, table
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
    machines=120,
    days=1,
    faults=20,
    reboots=40,
    resets=10,
    alarms=15,
    deceptions=3,
    lied=20,
    works=50,
)
RACK = tuple(range(40, 80))
GUARDS = {row.name: row for row in ROWS}
DOMAINS_OFF = replace(GUARDED, maximum_repairs_per_domain=0, domain_failure_machines=0)


def through(
    row: Row, *spells: Spell, faults: tuple[Fault, ...] = (), lies: int = 0, silent: int = 0
) -> Rounds:
    """Two days in which nothing happens but this."""
    lie = ((60, 60 + lies),) if lies else ()
    silence = ((60, 60 + silent),) if silent else ()
    year = Year(QUIET, 1, faults, spells, lie, silence)
    rounds = Rounds(World(year, gullible=row.gullible), row.policy, planned=row.planned)
    rounds.run()
    return rounds


def started(*given: Spell, row: Row | None = None) -> tuple[int, int]:
    tally = through(row or ROWS[0], *given).world.tally
    return tally.started, tally.wrong


def cut(minutes: int, kind: Kind = Kind.SWITCH, at: int = 100) -> Spell:
    return Spell(at, at + minutes, kind, RACK)


@pytest.mark.parametrize("kind", [Kind.POWER, Kind.SWITCH])
def test_a_rack_that_is_cut_off_has_no_machine_repaired_with_guards(kind: Kind) -> None:
    assert started(cut(HOUR, kind)) == (0, 0)


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


def test_what_passes_within_minutes_is_waited_out() -> None:
    flapping = [cut(5, at=at) for at in range(100, 400, 20)]
    reset = Spell(500, 512, Kind.BMC, (7, 90, 170))
    reboot = Spell(600, 612, Kind.REBOOT, tuple(range(8)))
    assert started(*flapping, reset, reboot) == (0, 0)
    assert started(*flapping, reset, reboot, row=GUARDS["none"])[1] > 15


def test_what_is_worked_on_in_a_window_is_repaired_only_if_nobody_tells() -> None:
    works = Spell(100, 340, Kind.WORKS, RACK[:8])
    assert started(works) == (0, 0)
    count, wrong = started(works, row=GUARDS["windows that nobody tells"])
    assert count == wrong == 8


def test_a_repair_that_has_begun_waits_for_the_window_and_goes_on_after_it() -> None:
    fault = Fault(60, RACK[0], Cause.CORRUPT, True, 100)
    done = through(ROWS[0], Spell(80, 400, Kind.WORKS, RACK[:2]), faults=(fault,)).world.tally
    (case,) = done.cases
    assert (done.started, case.by_hand) == (1, False)
    assert case.over is not None
    assert 460 <= case.over < 480


def test_a_false_alarm_comes_to_nothing_by_the_check_and_not_by_any_guard() -> None:
    alarm = Spell(100, 160, Kind.ALARM, (3,))
    assert started(alarm) == (0, 0)
    assert started(alarm, row=GUARDS["none"]) == (0, 0)
    assert started(replace(alarm, kind=Kind.DECEPTION)) == (1, 1)
    assert started(alarm, row=GUARDS["a check that asks the source"]) == (1, 1)


def test_a_source_that_lies_about_all_is_believed_about_none() -> None:
    assert through(GUARDS["a check that asks the source"], lies=90).ledger.queue.next == 0
    gullible = through(replace(GUARDS["none"], gullible=True), lies=90).world.tally
    assert gullible.wrong == gullible.started > 20
    assert through(GUARDS["none"], lies=90).world.tally.started == 0


def test_a_silent_source_has_repairs_go_on_and_none_begun() -> None:
    faults = (Fault(30, 5, Cause.HUNG, True, 100), Fault(90, 6, Cause.HUNG, True, 100))
    first, second = through(ROWS[0], faults=faults, silent=600).world.tally.cases
    assert first.over is not None
    assert first.over < 90
    assert second.over is not None
    assert 660 < second.over < 700


def test_what_each_step_mends_and_what_is_left_to_people() -> None:
    faults = tuple(Fault(100, number, cause, True, 3 * HOUR) for number, cause in enumerate(Cause))
    done = through(ROWS[0], faults=faults)
    hung, corrupt, broken = done.world.tally.cases
    assert [case.by_hand for case in (hung, corrupt, broken)] == [False, False, True]
    assert hung.over is not None
    assert corrupt.over is not None
    assert 115 < hung.over < 140 < corrupt.over < 220
    assert broken.over is not None
    assert all(entry.status is not EntryStatus.QUEUED for entry in done.ledger.queue.entries)


def test_without_cool_down_and_memory_the_same_machine_is_repaired_again_and_again() -> None:
    faults = (Fault(100, 0, Cause.BROKEN, True, 30 * HOUR),)
    assert through(ROWS[0], faults=faults).world.tally.started == 3
    assert through(GUARDS["none"], faults=faults).world.tally.started > 5


@cache
def busy(row: Row, seed: int, every: bool) -> Rounds:
    return go(row, BUSY, seed, every=every)


@pytest.mark.parametrize(("row", "seed"), [(ROWS[0], 1), (GUARDS["no waiting"], 3)])
def test_the_rounds_left_out_change_nothing(row: Row, seed: int) -> None:
    quick, whole = busy(row, seed, every=False), busy(row, seed, every=True)
    assert whole.rounds == BUSY.minutes > 2 * quick.rounds
    assert quick.world.tally == whole.world.tally
    assert quick.ledger.intents == whole.ledger.intents
    ours, theirs = quick.ledger.queue, whole.ledger.queue
    assert (ours.entries, ours.next) == (theirs.entries, theirs.next)
    assert (ours.attempts, ours.refusals) == (theirs.attempts, theirs.refusals)
    assert ours.failed == theirs.failed
    assert theirs.next > 10


def test_a_seed_has_one_year_and_one_outcome() -> None:
    assert draw(BUSY, 7) == draw(BUSY, 7) != draw(BUSY, 8)
    assert outcome(go(ROWS[0], BUSY, 1)) == outcome(busy(ROWS[0], 1, every=False))


def test_the_docs_have_the_table_and_the_picture_of_what_was_measured() -> None:
    found = json.loads((FOLDER / "year.json").read_text())
    assert [one["row"] for one in found if one["seed"] == 1] == [row.name for row in ROWS]
    assert (FOLDER / "year.svg").read_text() == picture(found)
    text = DOCUMENT.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    assert document(text, found) == text
    assert ElementTree.fromstring(picture(found)).tag.endswith("svg")
    assert ROWS[0].name in table(found)
