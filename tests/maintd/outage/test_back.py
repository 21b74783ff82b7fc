"""`gnt-maint done`: a repaired node proves healthy, goes back, and its incidents are closed."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from nodeagent.maintd.engine import failpoint
from nodeagent.maintd.engine.round import Round
from nodeagent.maintd.outage.waiting import left_to_do
from nodeagent.model.action import MovePrimary, Restore, RunCommand, describe
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Status
from nodeagent.model.ledger import PAUSE_TAG, Outcome
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.units import Ms
from nodeagent.model.wish import Done
from tests.failpoints import NAMES
from tests.maintd.decided import within
from tests.maintd.outage.returned import CHECKED, FIVE, PLACES, done, evacuated
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, OK, REPAIR


def later(rig: Rig, rounds: int = 10, seconds: float = 10.0) -> Round:
    return [rig.tick(seconds) for _ in range(rounds)][-1]


def whys(result: Round) -> list[Reason]:
    return [held.why for held in result.decision.held if held.node == "n3"]


def jobs(rig: Rig, since: int = 0) -> list[str]:
    return [type(job.action).__name__ for job in list(rig.cluster.jobs.values())[since:]]


def state(rig: Rig) -> str:
    node = rig.cluster.nodes["n3"]
    return "offline" if node.offline else "drained" if node.drained else "in service"


# Back into service.


def test_an_evacuated_node_is_brought_back_drained_and_returns_after_proof() -> None:
    rig = evacuated()
    before = len(rig.cluster.jobs)
    assert done(rig) == ""
    later(rig, 4)
    assert (state(rig), jobs(rig, before)) == ("drained", ["Restore"])
    (why,) = whys(rig.tick())
    assert (why.kind, why.subject.name) == (Kind.PROVES, "n3")
    assert 200_000 <= dict(why.details)["left"] < 300_000  # type: ignore[operator]
    later(rig, 22)
    assert state(rig) == "drained"
    later(rig, 12)
    assert (state(rig), jobs(rig, before)) == ("in service", ["Restore", "Restore", "Retag"])
    assert rig.cluster.nodes["n3"].tags == frozenset()
    ledger = rig.ledger
    assert (ledger.incidents, ledger.outages, ledger.intents) == ((), (), ())
    assert not whys(rig.tick())


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


def test_another_fault_there_ends_the_return_and_is_worked_on() -> None:
    rig = evacuated()
    done(rig)
    later(rig, 5)
    rig.agents.says["n3"] = Diagnosis(EVACUATE.need, None, '{"part":"fan","status":"evacuate"}')
    later(rig, 15)
    assert (state(rig), rig.ledger.returning()) == ("offline", frozenset())
    kinds = [event.kind for event in rig.store.history(None, limit=1000)]
    assert (kinds.count("returning"), kinds.count("return-over")) == (1, 1)


@pytest.mark.parametrize("left", ["drained", "offline"])
def test_it_is_kept_out_where_somebody_says_so(left: str) -> None:
    rig = evacuated()
    assert done(rig, keep=left) == ""
    result = later(rig, 20)
    assert (state(rig), rig.ledger.incidents, whys(result)) == (left, (), [])
    assert rig.cluster.nodes["n3"].tags == frozenset()
    told = done(rig)
    assert told == (
        f"no incident of n3 waits to be closed; n3 is {left}: gnt-node modify --{left}=no n3"
    )


def test_to_say_it_once_more_begins_no_proof_anew() -> None:
    rig = evacuated()
    done(rig)
    later(rig, 25)
    done(rig)
    later(rig, 12)
    assert state(rig) == "in service"
    kinds = [event.kind for event in rig.store.history(None, limit=1000)]
    assert "return-over" not in kinds, "the second request only replaces the first"


def test_force_waits_for_no_proof() -> None:
    rig = evacuated()
    rig.agents.says["n3"] = None
    before = len(rig.cluster.jobs)
    assert done(rig, force=True) == ""
    later(rig, 6)
    assert (state(rig), jobs(rig, before)) == ("in service", ["Restore", "Retag"])


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


def test_a_check_whose_agent_has_forgotten_it_runs_again() -> None:
    rig = evacuated(CHECKED)
    rig.agents.forgets = True
    done(rig)
    while not ran(rig):
        rig.tick()
    rig.tick()
    rig.agents.forgets = False
    later(rig, 30)
    assert state(rig) == "in service"


# What is refused.


def test_what_is_not_healthy_is_refused_with_the_way_to_insist() -> None:
    rig = Rig(fleet(), [], FIVE)
    rig.agents.says["n3"] = REPAIR
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED
    assert done(rig) == (
        "n3 is not healthy: its agent reports live-repair: repair it first, or insist with"
        " gnt-maint done --force n3"
    )
    rig.agents.says["n3"] = None
    doubt = "its agent is in doubt (does not answer: timed out): "
    assert done(rig).startswith(f"n3 is not healthy: {doubt}")
    rig.agents.says["n3"] = OK
    assert done(rig) == ""
    later(rig, 4)
    assert (rig.ledger.incidents, rig.cluster.nodes["n3"].tags) == ((), frozenset())


def test_what_is_still_worked_on_is_refused() -> None:
    rig = Rig(fleet(), mirrored(*PLACES), FIVE)
    rig.cluster.takes = lambda _: 100.0
    rig.agents.says["n3"] = EVACUATE
    rig.tick()
    assert done(rig) == ("incident ID of n3 has not ended: wait for it, or run gnt-maint cancel ID")


def test_where_nothing_waits_and_where_there_is_no_such_node() -> None:
    rig = Rig(fleet(), [], FIVE)
    assert done(rig) == "no incident of n3 waits to be closed; n3 is in service"
    wish = rig.wish(Done("n33"))
    assert rig.tick().decision.refused[wish] == "there is no node n33: see gnt-maint nodes"


# Other ends.


def test_a_failed_incident_is_closed_and_its_node_returns() -> None:
    rig = Rig(fleet(), mirrored(*PLACES), FIVE)
    rig.cluster.fails = lambda action: isinstance(action, MovePrimary)
    rig.agents.says["n3"] = EVACUATE
    rig.settle()
    assert (rig.status("n3"), state(rig)) == (Status.FAILED, "drained")
    rig.cluster.fails = lambda _: False
    rig.agents.says["n3"] = OK
    rig.tick()
    assert done(rig) == ""
    later(rig, 40)
    assert (state(rig), rig.ledger.incidents, rig.ledger.begun) == ("in service", (), ())


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


@pytest.mark.parametrize("before", [True, False])
def test_a_pause_stops_it(before: bool) -> None:
    rig = evacuated()
    if before:
        rig.cluster.tag("n3", PAUSE_TAG)
    done(rig)
    later(rig, 5)
    rig.cluster.tag("n3", PAUSE_TAG)
    assert (Kind.TAGGED, "n3") in within(whys(later(rig, 40))[0])
    assert state(rig) == ("offline" if before else "drained")


def test_a_job_that_fails_is_tried_five_times_and_then_told() -> None:
    rig = evacuated()
    rig.cluster.fails = lambda action: isinstance(action, Restore)
    before = len(rig.cluster.jobs)
    done(rig)
    result = later(rig, 60)
    assert jobs(rig, before) == ["Restore"] * 5
    why = whys(result)[0]
    assert (why.kind, why.help) == (Kind.RETURN_FAILED, "gnt-maint done n3")
    *_, last = (j.action for j in rig.cluster.jobs.values() if isinstance(j.action, Restore))
    assert str(dict(why.details)["why"]).startswith(f"{describe(last)}: ")


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


@pytest.mark.parametrize(
    ("name", "nth"), [("ordered", 1), ("promised", 1), ("promised", 2), ("remembered", 2)]
)
def test_killed_at_every_effect_the_check_is_ordered_once(name: str, nth: int) -> None:
    """Its agent has the order before maintd knows: the next life asks for the receipt."""
    rig = evacuated(CHECKED)
    assert killed(rig, name, nth) == BACK
    assert (state(rig), ran(rig)) == ("in service", ["memtest"])
    assert (rig.ledger.incidents, rig.ledger.outages, rig.ledger.intents) == ((), (), ())


def test_without_the_ledger_it_is_said_once_more() -> None:
    rig = evacuated()
    done(rig)
    later(rig, 5)
    rig.lose_ledger()
    (why, *_) = whys(later(rig, 5))
    assert why == because(Kind.WAITS_FOR_REPAIR, "n3", state="drained", left=())
    assert done(rig) == ""
    later(rig, 40)
    assert (state(rig), rig.ledger.incidents) == ("in service", ())


# Live repairs close themselves.


def repaired(close: Ms | None) -> Rig:
    rig = Rig(fleet(), [], replace(QUICK, close_live_repairs=close))
    rig.agents.says["n3"] = REPAIR
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED
    return rig


def test_a_live_repair_is_closed_once_its_node_was_healthy_for_an_hour() -> None:
    rig = repaired(Ms(3_600_000))
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


# What is left to do.


def told(rig: Rig) -> str:
    return left_to_do(rig.incident("n3"), rig.cluster.snapshot(), rig.engine.policy)


@pytest.mark.parametrize("close", [None, 3_600_000])
def test_by_no_and_for_evacuations_a_person_closes_it(close: int | None) -> None:
    if close is None:
        rig = repaired(None)
        rig.agents.says["n3"] = OK
    else:
        rig = evacuated(replace(FIVE, close_live_repairs=Ms(close)))
    later(rig, 20, 600.0)
    assert rig.status("n3") is Status.COMPLETED


def test_a_node_that_somebody_has_put_back() -> None:
    rig = evacuated()
    rig.cluster.put(replace(rig.cluster.nodes["n3"], drained=False, offline=False))
    later(rig, 5)
    assert told(rig) == "n3 is in service: gnt-maint done n3 closes its incident"


def test_a_node_put_back_by_force_that_does_not_answer() -> None:
    """Its incident stays: a node that does not answer has not reported Ok."""
    rig = evacuated()
    rig.agents.says["n3"] = None
    assert done(rig, force=True) == ""
    later(rig, 6)
    assert state(rig) == "in service"
    assert (
        told(rig)
        == "n3 is in service: its incident closes once its agent reports that the fault is gone"
    )
    rig.agents.says["n3"] = OK
    later(rig, 2)
    assert not rig.ledger.incidents


def test_a_live_repair_says_when_it_closes_by_itself() -> None:
    rig = repaired(Ms(3_600_000))
    assert "has not reported Ok since: check it, then run gnt-maint done n3" in told(rig)
    rig.agents.says["n3"] = OK
    rig.tick()
    closes = "the repair command has succeeded: gnt-maint done n3 closes it"
    assert told(rig).startswith(f"{closes}, or maintd does at 2026-11-18T")
    assert told(rig).endswith("Z if it stays healthy")
    rig.engine.policy = replace(rig.engine.policy, close_live_repairs=None)
    assert told(rig) == closes
