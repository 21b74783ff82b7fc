"""Brakes: each of them alone keeps a node that is proven dead from being fenced."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from nodeagent.model.action import PowerCommand
from nodeagent.model.fencing import Stage
from nodeagent.model.queue import Entry, EntryStatus, Queue, StepStatus
from nodeagent.model.reason import FencingKind, Held
from nodeagent.model.window import NANOSECONDS, Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import DrillPower, SetSchedule, Wish
from simulation.machines import Control
from tests.maintd.fencing.loop import RESTART, STEP, Loop, kill

OFF = PowerCommand.OFF


def made(limit: int = 9, burst: int = 9) -> Loop:
    """Six nodes, two and two in a group, where no limit of fencings is near."""
    loop = Loop(replace(RESTART, fence_limit=limit, fence_burst=burst))
    for number, node in enumerate(loop.cluster.nodes.values()):
        loop.cluster.put(replace(node, group=f"g{number // 2}"))
    loop.learn()
    return loop


@pytest.fixture
def loop() -> Loop:
    return made()


def in_one_group(loop: Loop, *names: str) -> None:
    for name in names:
        loop.cluster.tag(name, "rack:r1")
    loop.cluster.world.tags |= {"htools:nlocation:rack"}


def kinds(held: Held) -> Iterator[str]:
    return (kind.name for kind in held.why.kinds)


def brakes(loop: Loop, node: str) -> set[str]:
    """The kinds of the reasons why a node's fencing waits."""
    waits = (one for one in loop.decision.held if one.node == node)
    return {kind for one in waits for kind in kinds(one)} - {"FENCING_WAITS"}


def stay(loop: Loop, count: int, node: str = "n3") -> None:
    """Hold rounds in which this node is not powered off."""
    for _ in range(count):
        loop.step()
        assert node not in loop.powers(OFF), loop.reasons()


def test_without_a_brake_it_is_fenced(loop: Loop) -> None:
    kill(loop)
    loop.steps(30)
    assert loop.powers(OFF) == ["n3"]


# This node.


def test_a_node_in_a_maintenance_window_is_not_fenced(loop: Loop) -> None:
    kill(loop)
    loop.steps(5)
    window = Unavailability(loop.now * NANOSECONDS, 7200 * 10**9)  # type: ignore[arg-type]
    schedule = Schedule((Window((Machine("n3"),), window),))
    loop.wishes.append(Wish("w1", "root", loop.now, SetSchedule(schedule)))
    stay(loop, 30)
    assert "IN_WINDOW" in brakes(loop, "n3")
    assert loop.stage("n3") is None


def test_a_node_on_a_step_of_the_repair_queue_is_not_fenced(loop: Loop) -> None:
    entry = Entry(
        7,
        loop.cluster.nodes["n3"].address,
        "metal",
        "reboot",
        status=EntryStatus.PROCESSING,
        step_status=StepStatus.WATCHING,
    )
    kill(loop)
    for _ in range(30):
        loop.ledger = replace(loop.ledger, queue=Queue(entries=(entry,)))
        stay(loop, 1)
    assert "UNDER_REPAIR" in brakes(loop, "n3")


# Nodes that fall silent together.


@pytest.mark.parametrize("later", [0, 60, 280])
def test_a_group_that_falls_silent_bit_by_bit_is_fenced_only_at_its_first(
    loop: Loop, later: int
) -> None:
    """Also when the first is being fenced, or fenced, by the time that the next one counts."""
    in_one_group(loop, "n3", "n5")
    kill(loop)
    loop.steps(later // STEP)
    kill(loop, "n5")
    stay(loop, 90, "n5")
    assert "DOMAIN_SILENT" in brakes(loop, "n5")
    assert loop.stage("n3") is (Stage.FENCED if later == 280 else None)


def test_the_fencing_of_a_node_long_ago_does_not_count(loop: Loop) -> None:
    in_one_group(loop, "n3", "n5")
    kill(loop)
    loop.steps(340 // STEP)
    kill(loop, "n5")
    loop.steps(60)
    assert loop.powers(OFF) == ["n3", "n5"]


def test_a_node_that_came_back_and_dies_again_counts_from_then_on(loop: Loop) -> None:
    """It keeps its fencing until it has passed the check for stale instances."""
    in_one_group(loop, "n3", "n5")
    kill(loop)
    loop.steps(60)
    assert loop.stage("n3") is Stage.FENCED
    loop.machines.switch_on("n3")
    loop.cluster.put(replace(loop.cluster.nodes["n3"], offline=False, drained=True))
    loop.steps(3)
    kill(loop)
    kill(loop, "n5")
    loop.steps(60)
    assert loop.powers(OFF) == ["n3"]
    assert loop.stage("n3") is Stage.FENCED, "no other one has begun"
    assert "DOMAIN_SILENT" in brakes(loop, "n3") & brakes(loop, "n5")


def test_the_first_of_a_group_is_not_powered_off_twice(loop: Loop) -> None:
    """It does not come back, and its neighbour has fallen silent just after it."""
    loop.policy = replace(loop.policy, revive=True)
    in_one_group(loop, "n3", "n5")
    loop.broken.add("n3")
    kill(loop, how="off")
    loop.steps(280 // STEP)
    kill(loop, "n5")
    loop.steps(90)
    assert loop.powers(OFF) == ["n3"]
    assert "DOMAIN_SILENT" in brakes(loop, "n3")


@pytest.mark.parametrize("later", [0, 280])
def test_many_nodes_that_fall_silent_together_are_not_fenced(loop: Loop, later: int) -> None:
    kill(loop)
    loop.steps(later // STEP)
    kill(loop, "n5")
    stay(loop, 60, "n5")
    assert "MANY_SILENT" in brakes(loop, "n5")
    said = loop.details(FencingKind.MANY_SILENT)
    assert (said["count"], said["nodes"]) == (2, 6)


def test_while_nodes_that_fell_silent_together_are_away_no_other_is_fenced(loop: Loop) -> None:
    """A switch loses its ports one after the other."""
    kill(loop, "n4", "cut")
    kill(loop, "n5", "cut")
    loop.steps(3600 // STEP)
    kill(loop)
    stay(loop, 60)
    assert "MANY_SILENT" in brakes(loop, "n3")
    for name in ("n4", "n5"):
        loop.machines.cut.discard(name)
    loop.steps(30)
    assert loop.powers(OFF) == ["n3"]


def test_one_that_has_been_silent_for_long_does_not_keep_another(loop: Loop) -> None:
    loop.machines.controls["n5"] = (Control(dead=True),)
    kill(loop, "n5", "off")
    loop.steps(3600 // STEP)
    kill(loop)
    loop.steps(30)
    assert loop.powers(OFF) == ["n3"]


def test_a_tenth_of_a_cluster_is_not_many() -> None:
    loop = made()
    for i in range(7, 24):
        node = loop.cluster.nodes["n6"]
        uuid = f"{i:08x}-0000-4000-8000-000000000000"
        name = f"n{i}"
        loop.machines.controls[name] = (Control(),)
        loop.cluster.put(replace(node, name=name, uuid=uuid, address=f"127.0.0.{i}", group=f"g{i}"))
    loop.learn()
    kill(loop)
    loop.steps(340 // STEP)
    kill(loop, "n5")
    kill(loop, "n7")
    loop.steps(60)
    assert sorted(loop.powers(OFF)) == ["n3", "n5", "n7"]


def test_a_node_whose_power_is_drilled_is_not_silent_with_others(loop: Loop) -> None:
    in_one_group(loop, "n3", "n6")
    loop.cluster.remove_instance("other")
    loop.cluster.put(replace(loop.cluster.nodes["n6"], drained=True))
    loop.wishes.append(Wish("w1", "root", loop.now, DrillPower("n6")))
    loop.machines.unplugged.add("n6")  # so that the drill lasts
    loop.steps(5)
    assert not loop.refused
    kill(loop)
    loop.steps(15)
    assert loop.powers(OFF) == ["n6", "n3"]


# The limits.


def test_no_more_are_fenced_at_once_than_the_limit() -> None:
    loop = made(limit=1)
    loop.machines.controls["n3"] = (Control(ignores=True),)
    kill(loop)
    loop.steps(340 // STEP)
    kill(loop, "n5")
    stay(loop, 60, "n5")
    assert "FENCE_LIMIT" in brakes(loop, "n5")
    assert "gnt-maint why n3" in {one.why.help for one in loop.decision.held if one.node == "n5"}
    loop.machines.controls["n3"] = (Control(),)
    loop.steps(120)
    assert "n5" in loop.powers(OFF)


def test_a_limit_of_zero_fences_none() -> None:
    loop = made(limit=0)
    kill(loop)
    stay(loop, 340 // STEP)
    assert "FENCE_LIMIT" in brakes(loop, "n3")
    assert loop.details(FencingKind.FENCE_LIMIT)["most"] == 0


def test_no_more_are_powered_off_within_an_hour_than_the_burst() -> None:
    loop = made(burst=1)
    kill(loop)
    loop.steps(340 // STEP)
    kill(loop, "n5")
    stay(loop, 60, "n5")
    assert "FENCE_BURST" in brakes(loop, "n5")
