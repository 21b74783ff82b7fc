"""Nodes of one failure domain that fall silent together, on a real Ganeti cluster of five nodes."""

import time
from collections.abc import Iterator
from functools import partial

import pytest

from tests.real.dying import Dying, Since, fencing
from tests.real.lab import FIVE, create, gnt, power, remove
from tests.real.maintd import flags, placed, until
from tests.real.powered import never_twice, powered, runs_on, state

SECOND, THIRD, FOURTH = FIVE[1:4]
RACKS = "htools:nlocation:rack"

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(900),
    powered,
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dying]:
    with fencing(tmp_path_factory.mktemp("power"), FIVE) as made:
        yield made


@pytest.fixture
def lab(whole: Dying) -> Iterator[Dying]:
    """Five healthy nodes."""
    whole.rest()
    yield whole
    whole.rest()


@pytest.fixture
def rack(lab: Dying) -> Iterator[Dying]:
    """node2 and node3 are in one rack, the others in another; both have instances."""
    for name in (SECOND, THIRD):
        lab.prove(name)
    gnt("gnt-cluster", "add-tags", RACKS)
    for name in FIVE:
        gnt("gnt-node", "add-tags", name, _place(name))
    create("inst1", "drbd", SECOND, FOURTH)
    create("inst2", "sharedfile", THIRD)
    yield lab
    for name in (SECOND, THIRD):
        lab.turn(name, "on")
    for name in FIVE:
        gnt("gnt-node", "remove-tags", name, _place(name))
    gnt("gnt-cluster", "remove-tags", RACKS)
    remove("inst1")
    remove("inst2")


def _place(name: str) -> str:
    return "rack:b" if name in (SECOND, THIRD) else "rack:a"


def test_two_nodes_of_a_rack_that_lose_their_power_together_are_not_fenced(rack: Dying) -> None:
    since = Since()
    with never_twice("inst1", "inst2"):
        for name in (SECOND, THIRD):
            power(name, "off")
        for name in (SECOND, THIRD):
            until(partial(_waits, rack, name), 240, rack.system.tail)
        time.sleep(45)
        assert (since(), rack.powerd.acts) == ([], [])
        for name, other in ((SECOND, THIRD), (THIRD, SECOND)):
            why = f"{name} stopped answering together with {other} of its failure domain"
            assert why in rack.why(name)
            assert (state(name), flags(name)["offline"], rack.stage(name)) == ("off", "N", "")
        assert (placed("inst1"), placed("inst2")) == (("node2", "node4"), ("node3", ""))
        assert (runs_on("inst1"), runs_on("inst2")) == ([], [])


def _waits(lab: Dying, name: str) -> bool:
    return "stopped answering together with" in lab.why(name)
