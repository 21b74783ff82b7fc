"""What people ask for: a word that a node has no power, which is kept, and a drill."""

from dataclasses import replace

import pytest

from nodeagent.maintd.fencing.requests import drill, pulled
from nodeagent.maintd.planning.names import no_such
from nodeagent.model.action import Drain, Power, PowerCommand
from nodeagent.model.evidence import Evidence
from nodeagent.model.fencing import Fate, Fencing, Stage, Unreachable
from nodeagent.model.ledger import PAUSE_TAG, Ledger
from nodeagent.model.purpose import OfFencing
from nodeagent.model.snapshot import Instance, Node
from nodeagent.model.units import Ms
from nodeagent.model.wish import DrillPower, PulledPlug
from simulation.machines import Control
from tests.maintd.fencing.evidence import (
    CONNECTS,
    REFUSED,
    SILENCE,
    SILENT,
    WORLD,
    connected,
    evidence,
    told_by,
)
from tests.maintd.fencing.loop import Loop, word
from tests.maintd.world import NOW, node, seen, six


@pytest.fixture
def loop() -> Loop:
    made = Loop()
    made.learn()
    return made


def dead_control(loop: Loop, node: str = "n3") -> None:
    loop.machines.controls[node] = (Control(dead=True),)


def unplug(loop: Loop, node: str = "n3") -> None:
    """A person pulls the plug, and the BMC dies with it."""
    loop.machines.switch_off(node)
    loop.machines.unplugged.add(node)
    dead_control(loop, node)


# What is taken, and what is refused.


def told(ledger: Ledger | str) -> str:
    """Why it is refused, or nothing."""
    return ledger if isinstance(ledger, str) else ""


WORDS: dict[str, tuple[Evidence | None, str]] = {
    "nobody was asked": (None, "no other node has tried to reach n1 yet"),
    "nobody answered": (evidence(), "no other node has tried to reach n1 yet"),
    "its noded answers": (evidence(*SILENCE, noded=True), "n1 has power: "),
    "a disk is connected": (
        evidence(connected(), *SILENCE[1:]),
        "n1 has power: 1 of its DRBD disks are still connected",
    ),
    "connects": (evidence(told_by("n2", CONNECTS)), "n1 has power: n2 reaches its kernel"),
    "refused": (evidence(told_by("n2", SILENT, REFUSED)), "n1 has power: n2 reaches"),
    "maintd connects": (
        evidence(*SILENCE, agent=CONNECTS),
        "n1 has power: maintd reaches its kernel",
    ),
    "a peer cannot read its disks": (
        evidence(told_by("n2", mirrors=None, why="no mond"), *SILENCE[1:]),
        "n2 cannot tell whether DRBD disks are still connected to n1 (no mond), so n1 may have"
        " power: start ganeti-mond on n2, or, if that is dead as well and has no power, run"
        " gnt-node modify --offline=yes n2; then try again",
    ),
    "a peer was not heard": (evidence(SILENCE[0]), "n3 cannot tell whether DRBD disks"),
    "its peers alone do": (evidence(*SILENCE[:2]), ""),
}


def test_a_word_is_refused_while_anything_answers_or_a_disk_is_unread() -> None:
    for name, (given, why) in WORDS.items():
        found = {} if given is None else {"n1": given}
        observed = seen(WORLD, unanswered=frozenset({"n1"}), evidence=found)
        answer = told(pulled(Ledger(), PulledPlug("n1"), "alice", observed, NOW))
        assert answer.startswith(why) if why else answer == "", name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("n99", "there is no node n99"),
        ("n6", "n6 is the master node"),
        ("n2", "the agent of n2 answers"),
        ("n3", "n3 is offline already"),
    ],
)
def test_a_word_is_refused_for_other_nodes(name: str, why: str) -> None:
    nodes = {**WORLD.nodes, "n3": node("n3", offline=True)}
    observed = seen(replace(WORLD, nodes=nodes), unanswered=frozenset({"n1"}))
    assert told(pulled(Ledger(), PulledPlug(name), "alice", observed, NOW)).startswith(why)


SINCE = Ms(NOW - 600_000)


@pytest.mark.parametrize("stage", [None, Stage.PROVES, Stage.CONFIRMS])
def test_a_word_goes_on_from_what_is_known(stage: Stage | None) -> None:
    """Only a node that is offline has nothing to be marked."""
    fates = (Fate("web1", synced=True),)
    known = [Fencing("uuid-n1", stage, SINCE, SINCE, "w", fates=fates)] if stage else []
    unreachable = () if stage else (Unreachable("uuid-n1", SINCE),)
    ledger = Ledger(fencing=tuple(known), unreachable=unreachable)
    offline = stage is Stage.CONFIRMS
    there = replace(WORLD, nodes={**WORLD.nodes, "n1": node("n1", offline=offline)})
    unanswered = frozenset[str]() if offline else frozenset({"n1"})
    observed = seen(there, unanswered=unanswered, evidence={"n1": evidence(*SILENCE)})
    found = pulled(ledger, PulledPlug("n1"), "alice", observed, NOW)
    assert isinstance(found, Ledger)
    (one,) = found.fencing
    assert one.stage is (Stage.RESTARTS if offline else Stage.REMOVES)
    assert (one.who, one.off, one.at, one.silent) == ("alice", NOW, NOW, SINCE)
    assert (one.since, one.fates) == ((SINCE, fates) if stage else (NOW, ()))


EMPTY = node("n3", drained=True, controlled=True)
PROMISED = Instance("soon", "n5", "n3")


DRILLED: dict[str, tuple[Node, dict[str, object], str]] = {
    "empty, drained and alive": (EMPTY, {}, ""),
    "in service": (replace(EMPTY, drained=False), {}, "n3 is in service: "),
    "offline": (replace(EMPTY, offline=True), {}, "n3 is offline: "),
    "no control": (replace(EMPTY, controlled=False), {}, "Ganeti has no power"),
    "master": (EMPTY, {"master": "n3"}, "n3 is the master node"),
    "primary": (EMPTY, {"instances": {"a": Instance("a", "n3")}}, "n3 has 1 instances"),
    "secondary": (EMPTY, {"instances": {"a": PROMISED}}, "n3 has 1 instances"),
    "promised": (EMPTY, {"forthcoming": {"soon": PROMISED}}, "n3 has 1 instances"),
}


def test_which_node_is_drilled() -> None:
    for name, (changed, members, why) in DRILLED.items():
        world = replace(six(changed), **members)  # type: ignore[arg-type]
        answer = told(drill(Ledger(), DrillPower("n3"), "alice", seen(world), NOW))
        assert answer.startswith(why) if why else answer == "", name


def test_a_node_is_drilled_once_it_answers_and_nothing_else_goes_on_there() -> None:
    observed = seen(six(EMPTY))
    first = drill(Ledger(), DrillPower("n3"), "alice", observed, NOW)
    assert isinstance(first, Ledger)
    (one,) = first.fencing
    assert (one.stage, one.drill, one.who) == (Stage.CUTS, True, "alice")
    again = drill(first, DrillPower("n3"), "alice", observed, NOW)
    assert told(again).startswith("maintd works on the power of n3 already")
    silent = seen(six(EMPTY), doubts={"n3": "timed out"})
    answer = told(drill(Ledger(), DrillPower("n3"), "alice", silent, NOW))
    assert answer.startswith("the agent of n3 does not answer")
    assert told(drill(Ledger(), DrillPower("n9"), "alice", observed, NOW)) == no_such("node", "n9")
    for action, why in (
        (Power("n3", PowerCommand.STATUS), ""),
        (Drain("n3"), "maintd works on n3"),
    ):
        busy = Ledger().promise(OfFencing("uuid-n3"), "n3", action, NOW)
        assert told(drill(busy, DrillPower("n3"), "alice", observed, NOW)).startswith(why)
        assert bool(told(drill(busy, DrillPower("n3"), "alice", observed, NOW))) is bool(why)


# It is kept.


def test_one_that_gets_power_again_before_the_offline_mark_stops_it(loop: Loop) -> None:
    """Its watcher may start the instances as soon as its daemons run."""
    waiting(loop)
    loop.machines.unplugged.clear()
    loop.machines.switch_on("n3")
    loop.machines.apart.add("n3")
    loop.machines.hung.add("n3")
    loop.machines.start("n3", "shared")
    let_go(loop)
    loop.steps(10)
    assert not loop.offline()
    assert loop.machines.running_on("shared") == {"n3"}
    assert "FENCING_WAITS" in loop.kinds()
    unplug(loop)
    loop.steps(10)
    assert loop.stage("n3") is Stage.FENCED


def waiting(loop: Loop) -> None:
    """A person's word is taken, and a pause keeps it waiting."""
    unplug(loop)
    loop.steps(15)
    loop.cluster.tag("n3", PAUSE_TAG)
    assert not word(loop)
    loop.steps(3)
    assert loop.stage("n3") is Stage.REMOVES
    assert not loop.offline()


def let_go(loop: Loop) -> None:
    loop.cluster.put(replace(loop.cluster.nodes["n3"], tags=frozenset()))
