"""The year of dead machines: its promises."""

from dataclasses import replace

from tests.year.__main__ import DEAD_NODES
from tests.year.dead import Outcome, Site
from tests.year.dead_faults import NODES, Fault


# Of a machine behind a cut network whose BMC lies nobody can tell.
def hang() -> Fault:
    return Fault(0.0, "hang", ("n7",), 600.0, False, 1800.0, 3600.0, "good", False)


def lived(row: str, fault: Fault) -> Outcome:
    site = Site(DEAD_NODES[row])
    site.steps(3 * NODES, 61)
    site.episode([fault])
    return site.told


def test_a_hung_machine_costs_less_with_maintd_than_with_people_alone() -> None:
    alone, helped = lived("`observe`", hang()), lived("`restart`", hang())
    assert (alone.by_hand, alone.power_offs) == (1, 0)
    assert helped.by_hand == 0
    assert helped.power_offs == 1
    assert 0 < helped.down < alone.down / 2


def test_a_crash_is_left_alone_while_the_machine_boots() -> None:
    crash = replace(hang(), kind="crash", lasts=480.0)
    assert lived("`restart`", crash).power_offs == 0


def test_what_is_wrong_is_counted() -> None:
    """A power-off of a machine that is well, and an instance that runs twice."""
    site = Site(DEAD_NODES["`restart`"])
    site.machines.command("n5", "power-off")
    site.go()
    assert (site.told.power_offs, site.told.booting) == (1, 0)
    site.machines.start("n6", "i7-0")
    site.go()
    assert site.told.twice == 1
