"""Lives of a whole coordinator, each about one or two subjects."""

import pytest
from hypothesis.stateful import run_state_machine_as_test

from nodeagent.model.action import RunCommand
from tests.maintd.lives.balancing import Balancing
from tests.maintd.lives.coordinator import (
    BALANCING,
    FENCING,
    INCIDENTS,
    KINDS,
    OUTAGES,
    REPAIRS,
    ROLLS,
    counted,
)
from tests.maintd.lives.incidents import Incidents
from tests.maintd.lives.life import at_random, hold_that_it_was
from tests.maintd.lives.machines import Machines
from tests.maintd.lives.outages import Outages
from tests.maintd.lives.repairs import Repairs
from tests.maintd.lives.rolls import Rolls

LIVES = {  # how many lives are about what
    frozenset({INCIDENTS}): 8,
    frozenset({INCIDENTS, REPAIRS}): 4,
    frozenset({INCIDENTS, BALANCING}): 4,
    frozenset({REPAIRS}): 8,
    frozenset({REPAIRS, FENCING}): 3,
    frozenset({FENCING}): 7,
    frozenset({BALANCING}): 4,
    frozenset({OUTAGES}): 6,
    frozenset({OUTAGES, INCIDENTS}): 4,
    frozenset({ROLLS}): 4,
    frozenset({ROLLS, OUTAGES}): 4,
}


class Everything(Rolls, Outages, Repairs, Machines, Balancing, Incidents):
    """The rules and promises of all subjects."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("subjects", LIVES, ids=lambda subjects: "+".join(sorted(subjects)))
def test_whatever_happens_what_is_promised_holds(subjects: frozenset[str]) -> None:
    class About(Everything):
        pass

    About.subjects = subjects
    run = at_random(LIVES[subjects], steps=25)
    run_state_machine_as_test(About, settings=run)  # type: ignore[no-untyped-call]


def test_the_machine_was_where_it_matters() -> None:
    moves = ("MovePrimary", "MoveSecondary")
    repaired = [f"repaired by {move}" for move in (*moves, "Reinstall")]
    balanced = [f"balanced by {move}" for move in moves]
    seen = [kind.__name__ for kind in (*KINDS, RunCommand)]
    seen += ["cancels", "ledger lost", "broken off", "clock", "even"]
    seen += [
        "fenced",
        "acknowledged",
        "failovers",
        "failovers in a round",
        "as found",
        "balancing acknowledged",
        "returns",
        "budgets",
        "budgets exceeded",
        "rolled by reboot-node",
        "rolled by upgrade-packages",
        "rolled and back",
        "rolled as found",
        "rolls over",
    ]
    hold_that_it_was(counted, [*seen, *repaired, *balanced])
