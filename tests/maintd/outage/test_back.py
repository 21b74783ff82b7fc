"""`gnt-maint done`: a repaired node proves healthy, goes back, and its incidents are closed."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.engine import failpoint
from nodeagent.maintd.engine.round import Round
from nodeagent.maintd.outage.back import closed, put_back
from nodeagent.maintd.planning.situation import Stops
from nodeagent.model.action import Restore, RunCommand, Scope, describe
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.fencing import Fencing, Stage
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Hold, Ledger, Outcome, RoleChange
from nodeagent.model.outage import Back, Outage, Proof, Wanted, Way
from nodeagent.model.reason import AgentKind, Kind, Reason, because
from nodeagent.model.units import Ms
from nodeagent.model.wish import Done
from tests.build import situation
from tests.failpoints import NAMES
from tests.maintd.decided import POLICY, new, within
from tests.maintd.outage.returned import CHECKED, done, evacuated
from tests.maintd.rig import QUICK, Rig, fleet
from tests.maintd.world import EVACUATE, NOW, OK, REPAIR, incident, node, seen, six


def later(rig: Rig, rounds: int = 10, seconds: float = 10.0) -> Round:
    return [rig.tick(seconds) for _ in range(rounds)][-1]


def whys(result: Round) -> list[Reason]:
    return [held.why for held in result.decision.held if held.node == "n3"]


def jobs(rig: Rig, since: int = 0) -> list[str]:
    return [type(job.action).__name__ for job in list(rig.cluster.jobs.values())[since:]]


def state(rig: Rig) -> str:
    node = rig.cluster.nodes["n3"]
    return "offline" if node.offline else "drained" if node.drained else "in service"


# After a window.


def test_a_node_whose_window_is_over_is_closed_but_to_those_who_want_it_out() -> None:
    """Its return waits for them, so they must not wait for its return."""
    outage = Outage("uuid-n3", offline_by="1", back=Back(Way.WINDOW, NOW))
    observed = seen(six(node("n3", offline=True)))
    fenced = (Fencing("uuid-n3", Stage.RESTARTS, NOW, NOW),)
    for name, before, closes in (
        ("nobody else", Ledger(), True),
        ("its fencing", Ledger(fencing=fenced), False),
        ("a drill", Ledger(fencing=(replace(fenced[0], drill=True),)), True),
        ("an incident", Ledger(incidents=(incident("n3", status=Status.PENDING),)), False),
        ("a person", Ledger(), False),
    ):
        wanted = Wanted("ada", NOW, "new disks") if name == "a person" else None
        ledger = replace(before, outages=(replace(outage, wanted=wanted),))
        assert ("n3" in closed(ledger, observed)) is closes, name


# What stops it, whichever way it goes.


def test_no_node_returns_while_it_is_paused_but_where_a_person_cancels_and_undrains() -> None:
    world = six(node("n3", drained=True))
    change = RoleChange("1", "n3", ours=True, changed=True)
    pause = Hold(Scope.NODE, "n3", "ada", NOW)
    for way in Way:
        proof = Proof() if way is Way.ROLL else None
        back = Back(way, NOW, online=True, well=Ms(1), proof=proof)
        outage = Outage("uuid-n3", drained_by="1", back=back)
        for holds in ((), (pause,)):
            before = Ledger(outages=(outage,), holds=holds)
            after = decide(before, seen(world, roles=(change,)), POLICY, NOW)
            returns = any(isinstance(i.action, Restore) for i in after.ledger.intents)
            assert returns is (not holds or way is Way.UNDRAINED), (way, holds)
            assert returns or "n3" in {held.node for held in after.held}, way


# Back into service.


@pytest.mark.parametrize(
    ("says", "kinds"),
    [
        (EVACUATE, [Kind.RETURN_CONTRADICTED]),
        (None, [Kind.RETURN_WAITS, Kind.IN_DOUBT]),
    ],
)
def test_one_that_turns_unhealthy_does_not_return_and_begins_anew(
    says: Diagnosis | None, kinds: list[Kind]
) -> None:
    rig = evacuated()
    done(rig)
    later(rig, 20)
    rig.agents.says["n3"] = says
    result = later(rig, 8)
    told = within(whys(result)[0])
    assert (state(rig), told) == ("drained", [(kind, "n3") for kind in kinds])
    result = later(rig, 52)
    late = Kind.RETURN_FAILED if says is None else Kind.RETURN_CONTRADICTED
    assert whys(result)[0].kind is late, "a doubt that does not pass needs a person"
    rig.agents.says["n3"] = OK
    later(rig, 28)
    assert state(rig) == "drained", "the count began anew"
    later(rig, 10)
    assert state(rig) == "in service"


def test_a_step_that_has_failed_is_tried_again_after_a_pause_whichever_way() -> None:
    world = six(node("n3", drained=True))
    change = RoleChange("1", "n3", ours=True, changed=True)
    for way in Way:
        proof = Proof() if way is Way.ROLL else None
        back = Back(way, NOW, online=True, well=Ms(1), proof=proof, tries=1, failure="busy")
        for not_before, waits in ((NOW + 1, True), (NOW, False)):
            outage = Outage("uuid-n3", drained_by="1", back=replace(back, not_before=not_before))
            decision = decide(Ledger(outages=(outage,)), seen(world, roles=(change,)), POLICY, NOW)
            told = [kind for held in decision.held for kind, _ in within(held.why)]
            assert (Kind.TRY_AGAIN in told) is waits, (way, told)
            assert bool(new(decision)) is not waits, (way, told)


# A command that proves it.


def ran(rig: Rig) -> list[str]:
    return [order.command for order in rig.agents.orders]


def test_a_check_that_fails_keeps_it_out_and_is_tried_five_times() -> None:
    rig = evacuated(CHECKED)
    rig.agents.ends = lambda _: Outcome.ERROR
    done(rig)
    result = later(rig, 80)
    assert (state(rig), ran(rig)) == ("drained", ["memtest"] * 5)
    (why,) = whys(result)
    assert (why.kind, why.help) == (Kind.RETURN_FAILED, "gnt-maint done n3")
    assert dict(why.details)["why"] == f"{describe(RunCommand('n3', 'memtest', ''))}: it failed"
    rig.agents.ends = lambda _: Outcome.SUCCESS
    assert done(rig) == ""
    later(rig, 20)
    assert state(rig) == "in service"


@pytest.mark.parametrize("kind", [AgentKind.CLOCK_AHEAD, AgentKind.REFUSES_ORDERS])
def test_a_check_waits_while_the_agent_would_refuse_its_order(kind: AgentKind) -> None:
    rig = evacuated(CHECKED)
    if kind is AgentKind.CLOCK_AHEAD:
        rig.agents.ahead["n3"] = Ms(90_000)
    else:
        rig.agents.refusing["n3"] = "its disk is full"
    done(rig)
    result = later(rig, 80)
    assert (state(rig), ran(rig)) == ("drained", [])
    assert kind in {kind for why in whys(result) for kind, _ in within(why)}
    rig.agents.ahead.clear()
    rig.agents.refusing.clear()
    later(rig, 30)
    assert (state(rig), ran(rig)) == ("in service", ["memtest"])


# Other ends.


@pytest.mark.parametrize(
    ("does", "ends"),
    [
        pytest.param(
            lambda rig: rig.cluster.put(
                replace(rig.cluster.nodes["n3"], drained=False, offline=True)
            ),
            "offline",
            id="takes it offline",
        ),
        pytest.param(lambda rig: rig.cluster.undrain("n3"), "in service", id="puts it back"),
        pytest.param(
            lambda rig: rig.cluster.untag("n3", rig.incident("n3").tag),
            "in service",
            id="removes the tag, which stops nothing",
        ),
    ],
)
def test_what_somebody_does_meanwhile_is_the_last_word(
    does: Callable[[Rig], object], ends: str
) -> None:
    rig = evacuated()
    done(rig)
    later(rig, 5)
    does(rig)
    later(rig, 60)
    assert (state(rig), rig.ledger.returning()) == (ends, frozenset())
    if ends == "in service":
        assert (rig.ledger.incidents, rig.cluster.nodes["n3"].tags) == ((), frozenset())


# Guards.


# Killed anywhere.


BACK = ["Restore", "Restore", "Retag"]


def killed(rig: Rig, name: str, nth: int) -> list[str]:
    """Say that n3 is repaired, and kill maintd where `name` is reached; the jobs since."""
    before = len(rig.cluster.jobs)
    rig.wish(Done("n3"))
    if name == "adopted":  # there is something to find only after another death
        failpoint.arm("submitted:raise:1")
        rig.tick_quietly()
        rig.crash()
    failpoint.arm(f"{name}:raise:{nth}")
    died = False
    try:
        for _ in range(30):
            rig.tick_quietly(25)
            if failpoint._reached >= nth:
                died = True
                failpoint.arm("")
                rig.crash()
    finally:
        failpoint.arm("")
    assert died or name != "ordered"
    return jobs(rig, before)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "ordered"])
def test_killed_at_every_effect_each_job_is_given_once(name: str) -> None:
    for nth in (1, 2, 3):
        rig = evacuated()
        assert killed(rig, name, nth) == BACK
        assert state(rig) == "in service"
        assert (rig.ledger.incidents, rig.ledger.outages, rig.ledger.intents) == ((), (), ())


# Live repairs close themselves.


def repaired(close: Ms | None, **members: bool) -> Rig:
    nodes = [replace(node, **members) if node.name == "n3" else node for node in fleet()]  # type: ignore[arg-type]
    rig = Rig(nodes, [], replace(QUICK, close_live_repairs=close))
    rig.agents.says["n3"] = REPAIR
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED
    return rig


@pytest.mark.parametrize("vm_capable", [True, False])
def test_a_live_repair_is_closed_once_its_node_was_healthy_for_an_hour(vm_capable: bool) -> None:
    rig = repaired(Ms(3_600_000), vm_capable=vm_capable)
    later(rig, 10, 600.0)
    assert rig.status("n3") is Status.COMPLETED, "it reports live-repair still"
    rig.agents.says["n3"] = OK
    rig.tick()
    later(rig, 5, 600.0)
    assert rig.status("n3") is Status.COMPLETED
    later(rig, 4, 600.0)
    assert (rig.ledger.incidents, rig.cluster.nodes["n3"].tags) == ((), frozenset())
    kinds = [event.kind for event in rig.store.history(None, limit=1000)]
    assert "forgotten" in kinds


def test_another_fault_there_ends_the_return_and_is_worked_on() -> None:
    rig = evacuated()
    done(rig)
    later(rig, 5)
    rig.agents.says["n3"] = Diagnosis(EVACUATE.need, None, '{"part":"fan","status":"evacuate"}')
    later(rig, 15)
    assert (state(rig), rig.ledger.returning()) == ("offline", frozenset())
    kinds = [event.kind for event in rig.store.history(None, limit=1000)]
    assert (kinds.count("returning"), kinds.count("return-over")) == (1, 1)


def test_a_node_does_not_go_back_where_work_is_stopped() -> None:
    """A withdrawn incident's does in doubt about the ledger, as a fault asks for it."""
    why = because(Kind.PAUSED, "n3")
    free = Stops()
    here, there = replace(free, pauses={"n3": why}), replace(free, pauses={"n4": why})
    storm, doubt = replace(free, storm=why), replace(free, doubt=why)
    ours = RoleChange("1", "n3", ours=True, changed=True)
    observed = replace(seen(six(node("n3", drained=True))), roles=(ours,))
    for way, goes, waits in (
        (Way.WINDOW, (free, there), (here, storm, doubt)),
        (Way.DONE, (free, there), (here, storm, doubt)),
        (Way.WITHDRAWN, (free, there, doubt), (here, storm)),
    ):
        healthy = Back(way, NOW, online=True, well=Ms(1))
        back = Ledger(outages=(Outage("uuid-n3", drained_by="1", back=healthy),))
        for stops in (*goes, *waits):
            after, _ = put_back(back, situation(back, observed, QUICK, NOW, stops))
            assert bool(after.intents) is (stops in goes), (way, stops)
