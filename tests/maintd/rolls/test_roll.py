"""Rolling maintenance on a whole coordinator: nodes leave, run their command, and return."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from nodeagent.maintd.planning.outcomes import TRIES
from nodeagent.model.action import Drain, MovePrimary, MoveSecondary, SetOffline
from nodeagent.model.asked import Asked
from nodeagent.model.ledger import Outcome
from nodeagent.model.reason import Kind, RollKind
from nodeagent.model.roll import Hours, Phase, Terms
from nodeagent.model.snapshot import Instance
from nodeagent.model.units import Ms
from nodeagent.model.wish import (
    CancelRoll,
    Evacuate,
    PauseRoll,
    ResumeRoll,
    RetryNode,
    SkipNode,
    StartRoll,
)
from tests.maintd.decided import kinds
from tests.maintd.rig import QUICK, Rig, ask, fleet, mirrored
from tests.maintd.rolls.rolling import TERMS, away, go_on, phases, rebooted, rig, roll, start
from tests.maintd.world import EVACUATE


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


def test_the_master_is_the_last_and_waits_for_a_failover() -> None:
    one = rig()
    start(one, "n1", "n3")
    go_on(one)
    assert phases(one) == {"n3": Phase.DONE, "n1": Phase.WAITING}
    assert (RollKind.ROLL_MASTER_WAITS, "n1") in told(one)
    assert not away(one)


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


def test_nodes_that_are_leaving_when_another_fails_go_back() -> None:
    one = rig()
    one.agents.ends = lambda _: Outcome.ERROR
    one.cluster.refuses = lambda action: isinstance(action, MovePrimary) and action.node == "n5"
    start(one, "n3", "n5", terms=replace(TERMS, at_once=2))
    go_on(one)
    assert phases(one) == {"n3": Phase.FAILED, "n5": Phase.WAITING}
    assert (away(one), rebooted(one)) == ({"n3"}, ["n3"])


@pytest.mark.parametrize(
    ("keeps", "degraded", "ends", "tried"),
    [(True, 300, Phase.DONE, 3), (True, 10**6, Phase.FAILED, TRIES), (False, 300, Phase.FAILED, 1)],
)
def test_a_node_whose_secondaries_stay_waits_for_a_degraded_mirror(
    keeps: bool, degraded: int, ends: Phase, tried: int
) -> None:
    """As after the reboot of the mirror's node: Ganeti's watcher activates it later."""
    one = rig()
    until = one.time + degraded
    one.cluster.fails = lambda action: isinstance(action, MovePrimary) and one.time < until
    start(one, "n3", terms=replace(TERMS, keep_secondaries=keeps))
    go_on(one)
    assert phases(one) == {"n3": ends}
    jobs = [j for j in one.cluster.jobs.values() if isinstance(j.action, MovePrimary)]
    assert len(jobs) == tried


def test_a_node_that_comes_back_late_returns_and_the_roll_goes_on_when_told() -> None:
    one = rig()
    one.agents.hangs = {"n3"}
    start(one, "n3", "n4")
    go_on(one)
    assert "n3 has not returned" in ask(one, ResumeRoll())
    one.agents.hangs = set()
    go_on(one)
    assert phases(one) == {"n3": Phase.DONE, "n4": Phase.WAITING}
    assert ask(one, ResumeRoll()) == ""
    go_on(one)
    assert set(phases(one).values()) == {Phase.DONE}


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


def test_an_incident_at_work_lets_no_other_node_begin() -> None:
    one = rig()
    one.cluster.refuses = lambda action: isinstance(action, MovePrimary | MoveSecondary)
    one.agents.says["n6"] = EVACUATE
    one.tick(20)
    start(one, "n3")
    assert any(kind is RollKind.ROLL_INCIDENT for kind, _ in told(one))
    assert phases(one) == {"n3": Phase.WAITING}


def test_offline_while_it_is_away() -> None:
    one = rig()
    start(one, "n3", terms=replace(TERMS, offline=True))
    seen = set()
    for _ in range(60):
        one.tick(10)
        seen |= {name for name, node in one.cluster.nodes.items() if node.offline}
    assert seen == {"n3"}
    assert (phases(one), away(one)) == ({"n3": Phase.DONE}, set())
    assert [job for job in one.jobs() if job.startswith(SetOffline.__name__)]


def test_a_node_that_is_removed_is_skipped() -> None:
    one = rig()
    start(one, "n3", "n6")
    one.cluster.remove_instance("i3")
    one.cluster.remove_node("n6")
    go_on(one)
    assert phases(one) == {"n3": Phase.DONE, "n6": Phase.SKIPPED}


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


def test_the_hours_hold_the_next_node_back() -> None:
    one = rig()
    never = Hours((), 0, 60, "Europe/Zurich")
    start(one, "n3", terms=replace(TERMS, hours=never))
    assert any(kind is RollKind.ROLL_HOURS for kind, _ in told(one))
    assert not [job for job in one.jobs() if job.startswith(Drain.__name__)]


def test_the_next_node_waits_for_the_pause_between() -> None:
    one = rig()
    start(one, "n3", "n6", terms=replace(TERMS, pause_between=Ms(3_600_000)))
    for _ in range(40):
        one.tick(20)
    assert phases(one) == {"n3": Phase.DONE, "n6": Phase.WAITING}
    one.tick(3600)
    go_on(one)
    assert phases(one) == {"n3": Phase.DONE, "n6": Phase.DONE}


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


def test_a_second_roll_waits_for_the_first() -> None:
    one = rig()
    start(one, "n3")
    assert "is active" in ask(one, StartRoll(TERMS, ("n4",)))


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


@pytest.mark.parametrize("ends", [PauseRoll(), CancelRoll()])
def test_a_node_whose_turn_waits_for_others_jobs_does_not_begin_after_a_pause(ends: Asked) -> None:
    one = Rig(fleet(), mirrored(("n5", "n3")), QUICK)
    one.tick()
    one.cluster.takes = lambda _: 300.0
    assert ask(one, Evacuate("n5", "new disks")) == ""
    while not [job for job in one.jobs() if job.startswith(MovePrimary.__name__)]:
        one.tick(100)
    start(one, "n3")
    assert (phases(one), away(one)) == ({"n3": Phase.WAITING}, {"n5"})
    before = one.ledger.roll
    one.tick(5)
    assert one.ledger.roll == before, "a quiet round changes nothing"
    assert ask(one, ends) == ""
    assert phases(one)["n3"] in (Phase.WAITING, Phase.SKIPPED)
    for _ in range(40):
        one.tick(60)
    assert (away(one), rebooted(one)) == ({"n5"}, [])
    if ends == PauseRoll():
        assert ask(one, ResumeRoll()) == ""
        go_on(one)
        assert phases(one) == {"n3": Phase.DONE}


def test_a_node_that_is_left_out_while_it_returns_owes_no_more_than_ok() -> None:
    """Its machine has not started anew, and never will."""
    one = rig()
    one.agents.stays_up = {"n3"}
    start(one, "n3", "n6", terms=replace(TERMS, check="upgrade-packages"))
    go_on(one)
    assert phases(one)["n3"] is Phase.RETURNING
    assert away(one) == {"n3"}
    assert ask(one, SkipNode("n3")) == ""
    assert ask(one, ResumeRoll()) == ""
    go_on(one)
    assert phases(one) == {"n3": Phase.SKIPPED, "n6": Phase.DONE}
    assert (away(one), one.ledger.outages) == (set(), ())


def test_a_failed_node_of_a_canceled_roll_is_named_until_it_is_left_out() -> None:
    one = rig()
    one.agents.ends = lambda _: Outcome.ERROR
    start(one, "n3", "n6")
    go_on(one)
    assert ask(one, CancelRoll()) == ""
    one.tick()
    assert (RollKind.ROLL_FAILED, "n3") in told(one)
    assert (phases(one), away(one)) == ({"n3": Phase.FAILED, "n6": Phase.SKIPPED}, {"n3"})
    assert ask(one, SkipNode("n3")) == ""
    for _ in range(10):
        one.tick()
    assert (roll(one).over, away(one)) == (True, set())
    assert (RollKind.ROLL_FAILED, "n3") not in told(one)


def test_a_node_whose_instances_fit_nowhere_stays_in_service_and_others_begin() -> None:
    local = Instance("local", "n3", None, template="plain", memory=100, disk=100)
    one = Rig(fleet(), [local, *mirrored(("n5", "n6"))], QUICK)
    one.tick()
    one.wish(StartRoll(TERMS, ("n3", "n5")))
    assert (RollKind.ROLL_NO_ROOM, "n3") in kinds(one.tick().decision.held)
    go_on(one)
    assert phases(one) == {"n3": Phase.WAITING, "n5": Phase.DONE}
    assert rebooted(one) == ["n5"]


def test_a_node_that_reboots_for_long_is_not_told_as_unreachable_until_it_is_late() -> None:
    one = rig()
    one.agents.down = 600_000
    start(one, "n3")
    told = set()
    while not phases(one)["n3"].over:
        told |= {kind for kind, _ in kinds(one.tick(20).decision.held)}
    assert phases(one)["n3"] is Phase.DONE
    assert not told & {Kind.UNREACHABLE, Kind.AGENT_UNREACHABLE, Kind.RETURN_FAILED}
    one.agents.hangs = {"n4"}
    ask(one, StartRoll(TERMS, ("n4",)))
    go_on(one)
    assert {Kind.UNREACHABLE, Kind.AGENT_UNREACHABLE} & {
        k for k, _ in kinds(one.tick().decision.held)
    }
