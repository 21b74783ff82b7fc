"""Nodes that maintd itself has drained: nobody's leave to repair, and put back by whom."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.errors import Unavailable
from nodeagent.maintd.engine.round import Round
from nodeagent.maintd.outage.seen import remember
from nodeagent.maintd.outage.waiting import unlicensed
from nodeagent.maintd.planning.outcomes import TRIES
from nodeagent.model.action import Drain, Guarded, Restore, SetOffline
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger, Outcome, Result, RoleChange
from nodeagent.model.outage import Back, Outage, Proof, Way
from nodeagent.model.purpose import OfFencing, OfPerson, OfReturn, OfRoll, OfWindow
from nodeagent.model.reason import AnyKind, Detail, Kind, Reason
from nodeagent.model.window import Standing
from nodeagent.model.wish import Cancel
from tests.maintd.decided import details, within
from tests.maintd.rig import ID, QUICK, Between, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, NOW, OK, node, seen, six

RULES = "ganeti:watcher:autorepair:"
SAFE = replace(QUICK, autorepair="safe", moves=3)
MANY = mirrored(*[("n3", f"n{4 + n % 3}") for n in range(10)])


def emptying(policy: object = SAFE, rounds: int = 2, **members: object) -> Rig:
    """n3 is being emptied of ten instances, three at a time, which may all be repaired."""
    rig = Rig(fleet(), MANY, policy, **members)  # type: ignore[arg-type]
    rig.cluster.world.tags = frozenset({RULES + "failover"})
    rig.cluster.takes = lambda _: 15.0
    rig.agents.says["n3"] = EVACUATE
    while not rig.cluster.nodes["n3"].drained:
        rig.tick()
    for _ in range(rounds):
        rig.tick()
    return rig


def cancel(rig: Rig, *, undrain: bool = False) -> str:
    """Cancel the incident of n3; why it is refused, or nothing."""
    wish = rig.wish(Cancel(rig.incident("n3").id, undrain))
    return rig.tick().decision.refused.get(wish, "")


def later(rig: Rig, rounds: int = 60) -> Round:
    """So many rounds of ten seconds; many of them are held as a quarter, of forty."""
    if rounds >= 60:
        return [rig.tick(40) for _ in range(rounds // 4)][-1]
    return [rig.tick() for _ in range(rounds)][-1]


def repairs(rig: Rig) -> int:
    return sum(isinstance(job.action, Guarded) for job in rig.cluster.jobs.values())


def put_back(rig: Rig) -> int:
    return sum(isinstance(job.action, Restore) for job in rig.cluster.jobs.values())


def whys(done: Round) -> list[Reason]:
    return [held.why for held in done.decision.held if held.node == "n3"]


def stays(done: Round) -> tuple[AnyKind, str, Detail, Detail]:
    """Why n3 stays drained: the kind, the command that helps, what maintd did, and a doubt."""
    (why,) = whys(done)
    said = details([why], why.kind)
    assert (said["it"], said["state"]) == ("n3", "drained")
    assert said["incident"]
    return why.kind, ID.sub("ID", why.help), said["did"], said["why"]


CANCELED = (Kind.STAYS, "gnt-maint done n3", "drained it", "")


# A drain of ours is no licence.


def test_after_a_cancel_nothing_more_leaves_the_node_and_a_line_says_so() -> None:
    rig = emptying()
    assert not cancel(rig)
    jobs = len(rig.jobs())
    done = later(rig)
    kinds = [job.partition("(")[0] for job in rig.jobs()[jobs:]]
    assert set(kinds) <= {"Retag"}, "its tag alone"
    assert repairs(rig) == 0
    here = [i for i in rig.cluster.instances.values() if i.primary == "n3"]
    assert len(here) >= 4
    assert rig.cluster.nodes["n3"].drained
    assert stays(done) == CANCELED
    # Where somebody else drains it, it is his word.
    rig.cluster.undrain("n3")
    rig.tick()
    rig.cluster.submit_foreign(Drain("n3"))
    later(rig, 3)
    assert repairs(rig) > 0


# Put back.


def test_undrain_puts_it_back_once_its_jobs_have_ended() -> None:
    rig = emptying()
    cancel(rig)
    later(rig, 10)
    assert not cancel(rig, undrain=True)
    done = later(rig, 10)
    node = rig.cluster.nodes["n3"]
    assert (node.in_service, put_back(rig), repairs(rig)) == (True, 1, 0)
    assert (whys(done), rig.ledger.outages) == ([], ())
    assert rig.status("n3") is Status.CANCELED, "it is observed still, and not drained again"


@pytest.mark.parametrize(
    "touch",
    [
        lambda rig: rig.cluster.submit_foreign(Drain("n3")),
        lambda rig: (rig.cluster.undrain("n3"), rig.cluster.submit_foreign(Drain("n3"))),
        lambda rig: rig.cluster.submit_foreign(SetOffline("n3")),
    ],
    ids=["drained again", "undrained and drained", "offline"],
)
def test_what_somebody_else_has_touched_since_stays_as_it_is(
    touch: Callable[[Rig], object],
) -> None:
    rig = emptying()
    rig.agents.says["n3"] = OK
    rig.tick()
    touch(rig)
    later(rig, 80)
    node = rig.cluster.nodes["n3"]
    assert (node.in_service, put_back(rig)) == (False, 0)
    assert not any(outage.ours for outage in rig.ledger.outages)


def test_it_is_not_put_back_while_it_cannot_be_asked_who_has_touched_it() -> None:
    class Mute(Between):
        mute = True

        def roles(self, since: str) -> list[RoleChange]:
            if Mute.mute:
                raise Unavailable("no answer")
            return list(self.cluster.roles(since))

    rig = emptying(through=Mute)
    rig.agents.says["n3"] = OK
    done = later(rig, 80)
    assert rig.cluster.nodes["n3"].drained
    assert within(whys(done)[0]) == [(Kind.TO_BE_PUT_BACK, "n3"), (Kind.UNKNOWN_CHANGES, "n3")]
    Mute.mute = False
    later(rig, 5)
    assert rig.cluster.nodes["n3"].in_service


# Whatever becomes of maintd.


def test_a_lost_ledger_gives_no_leave_either(tmp_path: Path) -> None:
    rig = emptying(path=str(tmp_path / "ledger"))
    cancel(rig)
    later(rig, 5)
    rig.lose_ledger()
    done = later(rig)
    assert (repairs(rig), put_back(rig)) == (0, 0)
    assert stays(done) == CANCELED
    assert not cancel(rig, undrain=True)
    later(rig, 5)
    assert rig.cluster.nodes["n3"].in_service


def test_what_was_drained_in_the_same_moment_by_somebody_else_is_his() -> None:
    rig = Rig(fleet(), MANY, QUICK)
    rig.agents.says["n3"] = EVACUATE
    rig.cluster.takes = lambda _: 15.0
    rig.cluster.submit_foreign(Drain("n3"))
    while not rig.ledger.outages:
        rig.tick(5)
    rig.agents.says["n3"] = OK
    done = later(rig, 80)
    assert (rig.cluster.nodes["n3"].drained, put_back(rig)) == (True, 0)
    (why,) = whys(done)
    assert why.kind is Kind.STAYS
    assert "it is unknown whether job" in str(dict(why.details)["why"])


def test_a_failed_job_leaves_a_node_ours_that_an_earlier_one_took() -> None:
    for before, found, ours in (
        (Outage("uuid-n3", drained_by="1"), Standing.SERVING, True),
        (Outage("uuid-n3", offline_by="1"), Standing.SERVING, True),
        (Outage("uuid-n3"), Standing.DRAINED, False),
    ):
        world = six(node("n3", drained=not before.offline_by, offline=bool(before.offline_by)))
        intent = Intent("2", OfPerson("uuid-n3"), "n3", SetOffline("n3"), "7")
        observed = seen(world, results={"2": Outcome.ERROR})
        (after,) = remember(Ledger(intents=(intent,), outages=(before,)), observed, NOW).outages
        assert (after.found, after.ours) == (found, ours), before


def test_how_the_jobs_of_a_way_back_end() -> None:
    """A lost one is planned again, unless its effect shows; a failure without a reason is one."""
    restore, back = Restore("n3"), Back(Way.UNDRAINED, NOW, tries=TRIES - 2)
    out = node("n3", drained=True)
    for tries, there, result, kept, goes_on in (
        (TRIES - 2, out, Result(Outcome.LOST), False, True),
        (TRIES - 2, node("n3"), Result(Outcome.LOST), True, False),
        (TRIES - 2, out, Result(Outcome.RUNNING), True, True),
        (TRIES - 2, out, Result(Outcome.LATER), True, True),
        (TRIES - 1, out, Result(Outcome.LATER), True, False),
        (TRIES - 1, out, Result(Outcome.ERROR), True, False),
    ):
        intent = Intent("2", OfReturn("uuid-n3"), "n3", restore, "7")
        ours = Outage("uuid-n3", drained_by="1", back=replace(back, tries=tries))
        observed = replace(seen(six(there)), results={"2": result})
        after = remember(Ledger(intents=(intent,), outages=(ours,)), observed, NOW)
        assert bool(after.intents) is kept, (there, result)
        (outage,) = after.outages
        assert (outage.back is not None) is goes_on, (tries, there, result)
        failure = outage.why or (outage.back.failure if outage.back else "")
        assert bool(failure) is (there is out and result.outcome is not Outcome.RUNNING)


def test_an_offline_node_that_somebody_drains_is_drained_again_when_it_is_back() -> None:
    """maintd takes it offline once more, for whoever still wants it so."""
    world = six(node("n3", offline=True))
    for before, purpose, found in (
        (Outage("uuid-n3"), OfWindow("uuid-n3"), Standing.DRAINED),
        (Outage("uuid-n3", drained_by="1"), OfWindow("uuid-n3"), Standing.SERVING),
        (Outage("uuid-n3"), OfFencing("uuid-n3"), Standing.SERVING),
        (Outage("uuid-n3", Standing.OFFLINE), OfPerson("uuid-n3"), Standing.OFFLINE),
    ):
        intent = Intent("2", purpose, "n3", SetOffline("n3"), "7")
        observed = seen(world, results={"2": Outcome.SUCCESS})
        (after,) = remember(Ledger(intents=(intent,), outages=(before,)), observed, NOW).outages
        assert (after.found, after.offline_by) == (found, "7"), (before, purpose)


def test_a_node_returns_from_its_turn_as_it_was_found_whatever_is_known_of_that_since() -> None:
    """The roll was canceled while a job of its turn waited; somebody else has changed the node."""
    turn, done = Back(Way.ROLL, NOW, proof=Proof()), Back(Way.DONE, NOW, "root")
    drain, offline = Drain("n3"), SetOffline("n3")
    drained, dead, serves = node("n3", drained=True), node("n3", offline=True), node("n3")
    for action, outcome, there, back, to in (
        (drain, Outcome.ERROR, drained, turn, None),
        (drain, Outcome.ERROR, dead, turn, None),
        (drain, Outcome.ERROR, serves, turn, Standing.SERVING),
        (drain, Outcome.ERROR, drained, done, Standing.SERVING),
        (drain, Outcome.SUCCESS, drained, turn, Standing.SERVING),
        (offline, Outcome.SUCCESS, dead, turn, Standing.DRAINED),
        (offline, Outcome.SUCCESS, dead, done, Standing.SERVING),
    ):
        intent = Intent("2", OfRoll("uuid-n3"), "n3", action, "7")
        before = Ledger(intents=(intent,), outages=(Outage("uuid-n3", back=back),))
        (after,) = remember(before, seen(six(there), results={"2": outcome}), NOW).outages
        found = None if after.back is None else after.back.to
        assert found is to, (action, outcome, there, back)


def test_who_is_in_service_or_gone_is_not_held_by_maintd() -> None:
    back = Outage("uuid-n3", back=Back(Way.DONE, NOW))
    for world, held in ((six(node("n3", drained=True)), {"n3"}), (six(), set())):
        assert set(unlicensed(Ledger(outages=(back,)), world)) == held
    assert unlicensed(Ledger(outages=(replace(back, node="gone"),)), six()) == {}
