"""A real node that dies while somebody has it out of service, in both orders of the ends.

A node in its window is not fenced, as silence is expected there; so the window comes after the
death. A node under the queue's repair is not fenced either.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.real.dying import Dying, fencing
from tests.real.lab import NODES, create, node, power, remove
from tests.real.maintd import EVACUATE, Maintenance, flags, is_empty, until
from tests.real.powered import never_twice, powered
from tests.real.steps import machines, more_rounds, window

_, SECOND, THIRD = NODES
STAYS = "inst3"  # its disks are on node2 alone, so that an evacuation cannot end

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(900),
    powered,
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dying]:
    with fencing(tmp_path_factory.mktemp("power")) as made:
        made.prove(SECOND)
        yield made


@pytest.fixture
def lab(whole: Dying) -> Iterator[Dying]:
    """Three healthy nodes; node2 has a DRBD instance, and one that cannot move."""
    whole.rest()
    create("inst1", "drbd", SECOND, THIRD)
    create(STAYS, "plain", SECOND)
    yield whole
    remove("inst1")
    remove(STAYS)
    whole.rest()


def breaks(system: Maintenance) -> None:
    system.breaks("node2", EVACUATE)
    until(lambda: flags(SECOND)["drained"] == "Y", 120, system.tail)


def is_mended(system: Maintenance) -> None:
    """The incident cannot go on without its last instance: a person withdraws it."""
    for incident in system.incidents():
        system.do("cancel", str(incident["uuid"]))


def is_wanted(system: Maintenance) -> None:
    system.do("evacuate", "node2", "--why", "new disks")
    until(lambda: flags(SECOND)["drained"] == "Y", 120, system.tail)


def has_window(system: Maintenance) -> None:
    window(system, "add", "node2", "--start", "now", "--for", "1h")
    until(lambda: machines(system)["node2"]["begun"], 60, system.tail)


@dataclass(frozen=True)
class Claim:
    """Another claim on node2: how it begins and ends, and whether it begins before the death."""

    begins: Callable[[Maintenance], object]
    ends: Callable[[Maintenance], object]
    comes_first: bool


CLAIMS = {
    "incident": Claim(breaks, is_mended, comes_first=True),
    "person": Claim(is_wanted, lambda _: None, comes_first=True),  # `done` ends both
    "window": Claim(has_window, lambda system: window(system, "cancel", "node2"), False),
}


@pytest.mark.parametrize("done_first", [False, True], ids=["done last", "done first"])
@pytest.mark.parametrize("name", CLAIMS)
def test_it_is_back_when_the_last_one_ends(lab: Dying, name: str, *, done_first: bool) -> None:
    system, claim = lab.system, CLAIMS[name]
    if claim.comes_first:
        claim.begins(system)
        until(lambda: is_empty_but_for_what_stays(), 120, system.tail)
    with never_twice("inst1"):
        dies(lab)
    if not claim.comes_first:
        claim.begins(system)
    comes_up(lab)
    if not done_first:
        claim.ends(system)
    more_rounds(system, 3)
    assert flags(SECOND)["offline"] == "Y", "nobody has seen to the dead node"
    if done_first and name == "incident":
        told = system.ask("done", "node2")
        assert (told.returncode, "has not ended" in told.stderr) == (1, True)
        claim.ends(system)
        done_first = False
    system.do("done", "node2")
    if done_first:
        more_rounds(system, 5)
        if name == "window":
            assert not in_service(), "the window has it yet"
        claim.ends(system)
    until(in_service, 180, system.tail)
    until(lambda: lab.member(SECOND, "out-for") == [], 60, system.tail)
    until(lambda: flags(SECOND)["tags"] == "", 60, system.tail)


def is_empty_but_for_what_stays() -> bool:
    found = flags(SECOND)
    return (found["pinst_cnt"], found["sinst_cnt"]) == ("1", "0") or is_empty("node2")


def in_service() -> bool:
    found = flags(SECOND)
    return (found["offline"], found["drained"]) == ("N", "N")


def dies(lab: Dying) -> None:
    """Its power goes, and its BMC cannot have it again: maintd fences it."""
    lab.broken.add(SECOND)
    power(SECOND, "off")
    until(lambda: lab.stage(SECOND) == "fenced", 300, lab.system.tail)
    assert flags(SECOND)["offline"] == "Y"


def comes_up(lab: Dying) -> None:
    """A person mends the machine and powers it on."""
    lab.broken.clear()
    said = node("master", "gnt-node", "power", "-f", "on", SECOND, seconds=180)
    assert said.returncode == 0, said.stderr
    until(lambda: lab.system.agents["node2"].poll() is None, 60, lab.system.tail)
    lab.system.mended("node2")
