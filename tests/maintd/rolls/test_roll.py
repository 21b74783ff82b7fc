"""Rolling maintenance on a whole coordinator: nodes leave, run their command, and return."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from nodeagent.model.action import MovePrimary
from nodeagent.model.asked import Asked
from nodeagent.model.ledger import Outcome
from nodeagent.model.reason import RollKind
from nodeagent.model.roll import Phase, Terms
from nodeagent.model.snapshot import Instance
from nodeagent.model.units import Ms
from nodeagent.model.wish import CancelRoll, PauseRoll, ResumeRoll, RetryNode, SkipNode, StartRoll
from tests.maintd.decided import kinds
from tests.maintd.rig import QUICK, Rig, ask, fleet, mirrored
from tests.maintd.rolls.rolling import TERMS, away, go_on, phases, rebooted, rig, roll, start


def told(one: Rig) -> Iterable[tuple[object, str]]:
    return kinds(one.tick().decision.held)


def test_all_nodes_reboot_one_by_one_in_their_order_and_all_return() -> None:
    one = rig()
    start(one, "n3", "n2", "n6")
    assert go_on(one) == 1
    assert rebooted(one) == ["n3", "n2", "n6"]
    assert set(phases(one).values()) == {Phase.DONE}
    assert (away(one), one.ledger.outages, one.ledger.intents) == (set(), (), ())


@pytest.mark.parametrize(("moves", "each"), [(20, 5), (4, 2), (1, 1)])
def test_nodes_that_leave_together_share_the_moves(moves: int, each: int) -> None:
    """Else the jobs of the first would fill Ganeti's queue, where they wait for each other."""
    leaving = ("n2", "n3", "n4", "n5")
    places = [(node, f"n{6 + n}") for n, node in enumerate(leaving) for _ in range(9)]
    one = Rig(fleet(9), mirrored(*places), replace(QUICK, moves=moves))
    one.cluster.takes = lambda action: 1000.0 if isinstance(action, MovePrimary) else 1.0
    one.tick()
    start(one, *leaving, terms=replace(TERMS, at_once=4, keep_secondaries=True))
    for _ in range(5):
        one.tick()
    moving = [i.node for i in one.ledger.intents if isinstance(i.action, MovePrimary)]
    assert Counter(moving) == dict.fromkeys(leaving, each)


@pytest.mark.parametrize("why", ["hangs", "stays up", "fails"])
def test_the_first_node_that_does_not_return_stops_it(why: str) -> None:
    one = rig()
    if why == "hangs":
        one.agents.hangs = {"n3"}
    elif why == "stays up":
        one.agents.stays_up = {"n3"}
    else:
        one.agents.ends = lambda _: Outcome.ERROR
    start(one, "n3", "n4", "n5")
    go_on(one)
    stages = {"hangs": Phase.RUNNING, "stays up": Phase.RETURNING, "fails": Phase.FAILED}
    assert phases(one) == {"n3": stages[why], "n4": Phase.WAITING, "n5": Phase.WAITING}
    assert roll(one).stopped.startswith("n3: ")
    assert any(kind is RollKind.ROLL_STOPPED for kind, _ in told(one))
    assert (away(one), rebooted(one)) == ({"n3"}, ["n3"]), "nothing else is drained"


@pytest.mark.parametrize("again", [RetryNode("n3"), SkipNode("n3")])
def test_a_failed_node_is_tried_again_or_left_out(again: Asked) -> None:
    one = rig()
    one.agents.ends = lambda _: Outcome.ERROR
    start(one, "n3", "n4")
    go_on(one)
    assert phases(one)["n3"] is Phase.FAILED
    one.agents.ends = lambda _: Outcome.SUCCESS
    assert ask(one, again) == ""
    if isinstance(again, SkipNode):
        assert ask(one, ResumeRoll()) == ""
    go_on(one)
    done = Phase.DONE if isinstance(again, RetryNode) else Phase.SKIPPED
    assert phases(one) == {"n3": done, "n4": Phase.DONE}
    assert not away(one)


def test_pause_lets_no_further_node_begin_and_cancel_returns_all() -> None:
    one = rig()
    start(one, "n3", "n4", "n5")
    one.tick(5)
    assert ask(one, PauseRoll()) == ""
    go_on(one)
    assert phases(one) == {"n3": Phase.DONE, "n4": Phase.WAITING, "n5": Phase.WAITING}
    assert ask(one, ResumeRoll()) == ""
    one.tick(5)
    assert away(one) == {"n4"}
    assert ask(one, CancelRoll()) == ""
    go_on(one)
    assert phases(one) == {"n3": Phase.DONE, "n4": Phase.SKIPPED, "n5": Phase.SKIPPED}
    assert (away(one), rebooted(one), one.ledger.outages) == (set(), ["n3"], ())


def test_a_lost_order_is_proven_by_the_start_of_the_machine_and_never_given_twice() -> None:
    one = rig()
    one.agents.forgets = True
    start(one, "n3")
    go_on(one)
    assert rebooted(one) == ["n3"]
    assert phases(one) == {"n3": Phase.DONE}


def test_a_lost_order_of_another_command_waits_for_a_person() -> None:
    one = rig()
    one.agents.forgets = True
    start(one, "n3", terms=Terms("upgrade-packages", quiet=Ms(30_000)))
    go_on(one)
    assert phases(one) == {"n3": Phase.FAILED}
    assert "unknown" in roll(one).stopped


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (StartRoll(TERMS, ("n99",)), "there is no node n99"),
        (StartRoll(TERMS, groups=("gold",)), "there is no group gold"),
        (StartRoll(TERMS, tags=("gold",)), "no node has the tag gold"),
        (StartRoll(TERMS), "no nodes are named"),
        (StartRoll(TERMS, needing="reboot-required"), "no node reports that it is needed"),
        (StartRoll(replace(TERMS, command="nothing"), ("n3",)), "takes no orders to run nothing"),
        (ResumeRoll(), "no roll is active"),
        (SkipNode("n3"), "no roll is active"),
    ],
)
def test_what_is_refused(asked: Asked, why: str) -> None:
    one = rig()
    assert why in ask(one, asked)
    assert one.ledger.roll is None


def test_names_groups_tags_and_patterns_choose_the_nodes() -> None:
    nodes = [replace(node, group="gold") if node.name in ("n5", "n6") else node for node in fleet()]
    one = Rig(nodes, mirrored(("n2", "n3")), QUICK)
    one.tick()
    one.cluster.tag("n4", "rack:7")
    start(one, "n[23]", "n6")
    assert list(phases(one)) == ["n2", "n3", "n6"]
    ask(one, CancelRoll())
    go_on(one)
    assert ask(one, StartRoll(TERMS, tags=("rack:7",), groups=("gold",))) == ""
    assert list(phases(one)) == ["n5", "n6", "n4"]


def test_a_node_whose_instances_fit_nowhere_stays_in_service_and_others_begin() -> None:
    local = Instance("local", "n3", None, template="plain", memory=100, disk=100)
    one = Rig(fleet(), [local, *mirrored(("n5", "n6"))], QUICK)
    one.tick()
    one.wish(StartRoll(TERMS, ("n3", "n5")))
    assert (RollKind.ROLL_NO_ROOM, "n3") in kinds(one.tick().decision.held)
    go_on(one)
    assert phases(one) == {"n3": Phase.WAITING, "n5": Phase.DONE}
    assert rebooted(one) == ["n5"]
