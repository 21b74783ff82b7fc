"""Nodes of one failure domain that fall silent together, on a real Ganeti cluster of five nodes.

Uses the multi-node laboratory beside the checkout; skipped by name where that is absent.
`make test-real` runs it.
"""

import time
from collections.abc import Iterator
from functools import partial

import pytest

from tests.real.dying import Dying, Since
from tests.real.maintd import Maintenance, flags, maintained, until
from tests.real.powered import missing, state

NODES = tuple(f"node{number}.gnt.test" for number in range(1, 6))
FOURTH, FIFTH = NODES[3:]

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dying]:
    with maintained(NODES) as system:
        made = Dying(tmp_path_factory.mktemp("power"), system)
        try:
            system.start_maintd()
            system.until_it_answers()
            yield made
        finally:
            made.close()


@pytest.fixture
def system(lab: Dying) -> Maintenance:
    """For the report of a test that fails."""
    return lab.system


@pytest.mark.thorough
def test_two_nodes_that_hang_together_are_not_fenced(lab: Dying, system: Maintenance) -> None:
    since = Since()
    for name in (FOURTH, FIFTH):
        lab.hang(name)
    for name in (FOURTH, FIFTH):
        until(partial(_waits, lab, name), 240, system.tail)
    time.sleep(45)
    assert (since(), lab.powerd.acts) == ([], [])
    for name in (FOURTH, FIFTH):
        assert (state(name), flags(name)["offline"], lab.stage(name)) == ("on", "N", "")
        lab.wake(name)
    until(lambda: set(system.needs().values()) == {"Ok"}, 120, system.tail)
    assert (since(), lab.powerd.acts) == ([], [])


def _waits(lab: Dying, name: str) -> bool:
    return "fell silent together with" in lab.why(name)
