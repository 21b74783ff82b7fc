"""The fencing of dead nodes over simulated machines."""

from dataclasses import replace

import pytest

from nodeagent.maintd.fencing.plan import FRESH, fence
from nodeagent.maintd.fencing.readings import AGAIN, DAILY, outcome, read, why_unproven
from nodeagent.maintd.planning.resources import Room
from nodeagent.maintd.planning.situation import Stops
from nodeagent.model.action import Power, PowerCommand
from nodeagent.model.evidence import Level, PowerReading
from nodeagent.model.fencing import Deaf, End, Fencing, Stage
from nodeagent.model.ledger import Intent, Ledger, Outcome, Result
from nodeagent.model.outage import Back, Outage, Way
from nodeagent.model.purpose import OfFencing
from nodeagent.model.reason import FencingKind, Kind, because
from nodeagent.model.snapshot import Instance
from nodeagent.model.units import Ms
from nodeagent.model.wish import Done, Wish
from simulation.machines import Control
from tests.build import situation
from tests.maintd.decided import kinds
from tests.maintd.fencing.evidence import power
from tests.maintd.fencing.loop import RESTART, STEP, Loop, kill
from tests.maintd.world import NOW, ledger, seen, six

OFF, ON, STATUS = PowerCommand.OFF, PowerCommand.ON, PowerCommand.STATUS
HOW = ["off", "hung", "cut"]


@pytest.fixture
def loop() -> Loop:
    made = Loop()
    made.learn()
    return made


@pytest.mark.parametrize("how", HOW)
def test_a_dead_node_is_fenced_and_its_instances_run_again(loop: Loop, how: str) -> None:
    kill(loop, how=how)
    loop.steps(100)
    assert loop.stage("n3") is Stage.FENCED
    assert loop.machines.off == {"n3"}
    assert loop.powers(OFF) == ["n3"]
    # A hung one went on writing, perhaps, after its disks had lost their connection.
    complete = how != "hung"
    assert loop.machines.running_on("drbd") == ({"n4"} if complete else set())
    assert len(loop.machines.running_on("shared")) == 1
    assert loop.machines.running_on("plain") == set()
    assert not loop.machines.twice()
    (fencing,) = loop.ledger.fencing
    ends = {fate.instance: fate.end for fate in fencing.fates}
    drbd = End.RESTARTED if complete else End.STAYS
    assert ends == {"drbd": drbd, "shared": End.RESTARTED, "plain": End.STAYS}
    assert loop.kinds() == {"FENCED"}
    node = loop.cluster.nodes["n3"]
    assert node.offline
    assert any(tag.startswith("maintd:fenced:") for tag in node.tags)


def test_a_machine_with_power_may_be_booting_and_is_given_time(loop: Loop) -> None:
    """With a connected DRBD disk, which only a kernel that runs can have, it is not waited for."""
    kill(loop, how="hung")
    loop.machines.apart.add("n3")
    while loop.seconds * 1000 < silence(loop) + RESTART.revive_within - 1000 * STEP:
        loop.step()
    assert (FencingKind.MAY_BOOT, "n3") in kinds(loop.decision.held)
    assert not loop.powers(OFF)
    loop.steps(4)
    assert loop.powers(OFF) == ["n3"]


def silence(loop: Loop) -> Ms:
    """Since when n3 is silent; before the first round without an answer, now."""
    return next((one.since for one in loop.ledger.unreachable), loop.now)


@pytest.mark.parametrize("limits", [{"dead_nodes": "observe"}, {"stage": "drain"}])
def test_by_default_nothing_is_done_and_said(limits: dict[str, str]) -> None:
    loop = Loop(replace(RESTART, **limits))  # type: ignore[arg-type]
    loop.learn()
    kill(loop)
    loop.steps(60)
    assert not loop.powers(OFF, ON)
    assert not loop.offline()
    assert loop.kinds() >= {"WOULD_FENCE"}


def test_without_restart_the_node_is_only_proven_dead() -> None:
    loop = Loop(replace(RESTART, dead_nodes="fence"))
    loop.learn()
    kill(loop)
    loop.steps(60)
    assert loop.stage("n3") is Stage.FENCED
    assert loop.cluster.nodes["n3"].offline
    assert not loop.failovers()


def test_a_hung_node_is_revived_and_nothing_moves() -> None:
    loop = Loop(replace(RESTART, revive=True))
    loop.learn()
    kill(loop, how="hung")
    loop.steps(80)
    assert (loop.powers(OFF), loop.powers(ON)) == (["n3"], ["n3"])
    assert loop.stage("n3") is None
    assert not loop.offline()
    assert not loop.failovers()


def test_a_node_that_does_not_come_back_is_revived_once() -> None:
    loop = Loop(replace(RESTART, revive=True))
    loop.learn()
    loop.broken.add("n3")
    kill(loop)
    while not loop.powers(ON):
        loop.step()
    since = loop.now
    while len(loop.powers(OFF)) < 2:
        loop.step()
    assert loop.now - since >= RESTART.revive_within, "its agent may answer until then"
    loop.steps(20)
    assert loop.powers(ON) == ["n3"]
    assert loop.powers(OFF) == ["n3", "n3"]
    assert loop.stage("n3") is Stage.FENCED
    assert loop.machines.running_on("drbd") == {"n4"}


def fenced(
    fencing: Fencing,
    *power: PowerReading,
    back: Back | None = None,
    stops: Stops = Stops(),
) -> tuple[Ledger, Room]:
    """One round over n1, which is offline."""
    observed = seen(six(replace(six().nodes["n1"], offline=True)))
    outages = (Outage("uuid-n1", back=back),) if back is not None else ()
    given = ledger(fencing=(fencing,), power=power, outages=outages)
    here = situation(given, observed, RESTART, NOW, stops)
    after, _ = fence(given, here, {})
    return after, here.room


def test_a_node_is_claimed_until_it_returns_after_its_fencing() -> None:
    done = Back(Way.DONE, NOW)
    for stage, back, claimed in (
        (Stage.FENCED, None, True),
        (Stage.FENCED, done, False),
        (Stage.PROVES, done, True),
    ):
        _, room = fenced(Fencing("uuid-n1", stage, NOW, NOW, ""), back=back)
        assert ("n1" in room.claims) == claimed, (stage, back)


def test_nothing_is_switched_where_work_is_stopped() -> None:
    why = because(Kind.PAUSED, "n1")
    revives = Fencing("uuid-n1", Stage.REVIVES, NOW, NOW, "")
    for stops, acts in (
        (Stops(), True),
        (Stops({"n2": why}), True),
        (Stops({"n1": why}), False),
        (Stops(storm=why), False),
        (Stops(doubt=why), False),
    ):
        intents = fenced(revives, stops=stops)[0].intents
        assert (Power("n1", ON) in [intent.action for intent in intents]) is acts, stops


def test_a_reading_proves_a_power_off_only_after_it_and_while_it_is_fresh() -> None:
    cut = Fencing("uuid-n1", Stage.PROVES, NOW, NOW, "", off=Ms(NOW - 2 * FRESH))
    for age, proves in ((2 * FRESH + 1, False), (FRESH, False), (FRESH - 1, True)):
        asked = [intent.action for intent in fenced(cut, power(False, age))[0].intents]
        assert (Power("n1", STATUS) not in asked) == proves, age
    late = fenced(replace(cut, off=Ms(NOW - 50)), power(False, 51))[0].intents
    assert Power("n1", STATUS) in [intent.action for intent in late]


def test_a_level_that_is_absent_is_asked_daily_and_one_that_fails_soon_again() -> None:
    world = six()
    intent = Intent("p", OfFencing("uuid-n1"), "n1", Power("n1", STATUS), "7", promised=NOW)
    for code, after, never in ((3, DAILY, True), (1, AGAIN, False), (None, AGAIN, False)):
        failed = {"p": Result(Outcome.ERROR, "no", code=code)}
        observed = replace(seen(world), results=failed)
        told = outcome(intent, observed, (), world.nodes["n1"], NOW)
        assert told == Deaf("uuid-n1", Ms(NOW + after), "no", never=never), code


# Doubt does nothing, and says why.


def test_a_level_that_has_never_said_on_proves_nothing() -> None:
    loop = Loop()
    loop.machines.controls["n3"] = (Control(says="off", ignores=True),)
    loop.steps(30, 61)
    assert "CONTROL_FAILS" in loop.kinds()
    kill(loop, how="cut")
    loop.steps(60)
    assert not loop.powers(OFF)
    assert not loop.offline()


def test_a_power_control_that_is_ignored_is_tried_again_more_and_more_seldom(loop: Loop) -> None:
    loop.machines.controls["n3"] = (Control(ignores=True),)
    kill(loop)
    loop.steps(180)
    assert not loop.offline()
    assert 2 <= len(loop.powers(OFF)) <= 8
    assert loop.kinds() & {"FENCE_TRIES_AGAIN", "FENCING_WAITS"}


def test_a_control_of_another_node_that_dies_with_the_power_off_stops_everything() -> None:
    """Two addresses are swapped: each says on while both run."""
    there = tuple(Instance(f"on{i}", f"n{i}", template="rbd", memory=100) for i in (3, 6))
    there += (Instance("drbd", "n3", "n4", memory=100, disk=10),)
    loop = Loop(replace(RESTART, revive=True, fence_limit=9), there)
    loop.machines.controls |= {"n3": (Control(of="n6"),), "n6": (Control(of="n3"),)}
    for number, node in enumerate(loop.cluster.nodes.values()):
        loop.cluster.put(replace(node, group=f"g{number}"))
    loop.learn()
    kill(loop, how="off")
    for _ in range(160):
        loop.step()
        assert not loop.machines.twice()
    assert loop.powers(OFF) == ["n3"]
    assert not loop.powers(ON)
    assert not loop.offline()
    held = [one for one in loop.decision.held if FencingKind.STRUCK_ANOTHER in one.why.kinds]
    assert "n3" in {one.node for one in held}
    assert "n6" in {one.node for one in loop.decision.held if one.why.kind is not Kind.UNREACHABLE}


@pytest.mark.parametrize(("at", "proves"), [(10, True), (20, False), (30, False)])
def test_the_level_that_says_off_is_the_one_that_counts(at: int, proves: bool) -> None:
    """The other one is an outlet that is on: it said on all the time."""
    node = Loop().cluster.nodes["n3"]
    outlet, bmc = Level(1, ("wti",), "on", counts=True), Level(2, ("ipmilan",), "on", counts=True)
    readings = (
        PowerReading(node.uuid, Ms(20), True, 2, (outlet, bmc), alive=True),
        PowerReading(node.uuid, Ms(40), False, 2, (outlet, replace(bmc, said="off"))),
    )
    why = why_unproven(node, Ledger(power=readings), {"n6": Ms(at)})
    assert (why is None) == proves
    on = (*readings, replace(readings[0], at=Ms(50), alive=False))
    assert why_unproven(node, Ledger(power=on), {"n6": Ms(at)}) is None


def test_a_node_without_power_control_is_said_to_have_none(loop: Loop) -> None:
    del loop.machines.controls["n3"]
    kill(loop)
    loop.steps(40)
    assert "NO_POWER_CONTROL" in loop.kinds()
    assert not loop.powers(OFF)


@pytest.mark.parametrize("stage", [Stage.CONFIRMS, Stage.RESTARTS, Stage.FENCED])
def test_a_fenced_node_that_somebody_puts_online_stays_fenced(loop: Loop, stage: Stage) -> None:
    loop.policy = replace(loop.policy, moves=1)
    kill(loop)
    while loop.stage("n3") is not stage:
        loop.step(2)
    loop.machines.switch_on("n3")
    loop.machines.cut.discard("n3")
    loop.cluster.undrain("n3")
    before = loop.failovers()
    loop.steps(20)
    assert (loop.stage("n3"), loop.failovers()) == (Stage.FENCED, before)
    node = loop.cluster.nodes["n3"]
    assert node.tags
    loop.cluster.put(replace(node, tags=frozenset()))  # an administrator says that it is none
    loop.steps(2)
    assert loop.stage("n3") is None


# A person's word, and the way back.


@pytest.mark.parametrize("dead_nodes", ["fence", "restart"])
def test_one_that_somebody_powers_on_in_the_middle_is_judged_anew_at_once(
    loop: Loop, dead_nodes: str
) -> None:
    """It is not waited for: `done` puts it online, and its instances run there again."""
    loop.policy = replace(loop.policy, dead_nodes=dead_nodes)
    kill(loop)
    while loop.stage("n3") is not Stage.CONFIRMS:
        loop.step(2)
    loop.machines.switch_on("n3")
    loop.machines.cut.discard("n3")
    loop.steps(3)
    assert loop.stage("n3") is Stage.FENCED
    assert not loop.failovers()
    assert "FENCED" in loop.kinds()
    loop.wishes.append(Wish("w4", "root", loop.now, Done("n3")))
    loop.step()
    assert not loop.refused
    assert [one.back and one.back.fenced for one in loop.ledger.outages] == [True]
    loop.steps(60)
    assert loop.powers(OFF) == ["n3"]


@pytest.mark.parametrize("level", ["1.0", "true", "null", '"1"', "[1]", "2"])
def test_a_power_control_that_names_no_level_of_its_own_contradicts_itself(level: str) -> None:
    row = '{"level": 1, "agents": ["ipmilan"], "said": "off", "counts": true}'
    said = f'{{"powered": false, "level": {level}, "levels": [{row}]}}'
    reading = read(said, "uuid", Ms(5), alive=False)
    assert (reading.powered, reading.why) == (
        None,
        "the power control's answer contradicts itself",
    )


def test_a_node_whose_ports_only_connect_is_left_to_a_person(loop: Loop) -> None:
    """Somebody may flood it, or use its address: its disks are connected."""
    kill(loop, how="mute")
    loop.steps(60)
    assert not loop.powers(OFF, ON)
    assert not loop.offline()
    assert "YOU_DECIDE" in loop.kinds()
