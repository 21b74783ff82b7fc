"""Lives of a whole coordinator, each about one or two subjects."""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
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
    STRANGERS,
    counted,
)
from tests.maintd.lives.incidents import Incidents
from tests.maintd.lives.machines import Machines
from tests.maintd.lives.outages import Outages
from tests.maintd.lives.people import People
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
    frozenset({STRANGERS}): 4,
    frozenset({STRANGERS, OUTAGES}): 4,
    frozenset({STRANGERS, ROLLS}): 4,
    frozenset({STRANGERS, FENCING}): 3,
}


def at_random(lives: int) -> settings:
    """So many lives, always the same; LIFE_TIMES as many, other ones, where that is set.

    A failure is shrunk where LIFE_SHRINK is set.
    """
    return settings(
        derandomize="LIFE_TIMES" not in os.environ or "CI" in os.environ,
        max_examples=lives * int(os.environ.get("LIFE_TIMES", "1")),
        stateful_step_count=25,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, *([Phase.shrink] if "LIFE_SHRINK" in os.environ else [])],
        report_multiple_bugs=False,
    )


class Everything(People, Rolls, Outages, Repairs, Machines, Balancing, Incidents):
    """The rules and promises of all subjects."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("subjects", LIVES, ids=lambda subjects: "+".join(sorted(subjects)))
def test_whatever_happens_what_is_promised_holds(subjects: frozenset[str]) -> None:
    class About(Everything):
        pass

    About.subjects = subjects
    run_state_machine_as_test(About, settings=at_random(LIVES[subjects]))  # type: ignore[no-untyped-call]


def test_the_machine_was_where_it_matters() -> None:
    """After all lives: a machine that idles finds nothing."""
    if not counted:
        pytest.skip("the machine was left out")
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
        "lifted",
        "nonsense",
    ]
    for name in (*seen, *repaired, *balanced):
        assert counted[name], (name, counted)
