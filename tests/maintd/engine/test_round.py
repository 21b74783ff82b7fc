"""Whole rounds over the simulated cluster: from a diagnosis to a tag, whatever goes wrong."""

from dataclasses import replace

import pytest

from nodeagent.errors import NotMaster
from nodeagent.model.action import Drain
from nodeagent.model.incident import Status
from nodeagent.model.reason import Kind, LedgerKind
from nodeagent.model.units import Ms
from nodeagent.model.wish import TrustLedger
from tests.maintd.decided import kinds
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, OK, REPAIR, need


def broken(**members: object) -> Rig:
    rig = Rig(fleet(), mirrored(("n3", "n4"), ("n3", "n5"), ("n2", "n3")), **members)  # type: ignore[arg-type]
    rig.agents.says["n3"] = EVACUATE
    return rig


def test_a_broken_node_is_drained_emptied_taken_offline_and_tagged() -> None:
    rig = broken()
    rig.settle()
    node = rig.cluster.nodes["n3"]
    assert node.offline
    assert node.tags == {f"maintd:repairready:{rig.incident('n3').id}"}
    assert all("n3" not in (i.primary, i.secondary) for i in rig.cluster.instances.values())
    assert rig.status("n3") is Status.COMPLETED
    kinds = [job.split("(")[0] for job in rig.jobs()]
    assert kinds[0] == "Drain"
    assert kinds[-2:] == ["SetOffline", "Retag"]
    assert sorted(kinds[1:-2]) == ["MovePrimary"] * 2 + ["MoveSecondary"] * 3


# Losses.


# Mastership.


def test_what_is_not_the_master_does_nothing() -> None:
    rig = broken(me="n2")
    with pytest.raises(NotMaster):
        rig.tick()
    assert not rig.cluster.jobs


def test_a_lost_vote_ends_us() -> None:
    rig = broken()
    rig.agents.masters = {f"n{i}": "n6" for i in range(2, 7)}
    with pytest.raises(NotMaster, match="1 of 6 nodes say that n1 is the master, 5 say n6"):
        rig.tick()
    assert not rig.cluster.jobs


def test_an_undecided_vote_does_nothing_and_says_so() -> None:
    rig = broken()
    rig.agents.says |= dict.fromkeys(("n2", "n4", "n5", "n6"))
    done = rig.tick()
    assert (
        done.idle == "the vote is undecided: 2 of 6 nodes say that n1 is the master, 4 say nothing"
    )
    assert not rig.cluster.jobs
    assert rig.store.load().incidents == ()


@pytest.mark.parametrize("had_effect", [False, True], ids=["before", "after its effect"])
def test_a_drain_whose_end_died_with_the_master_is_done_if_its_node_is_drained(
    *, had_effect: bool
) -> None:
    """Ganeti replicates a job's end to the candidates; one that was slow calls it dead."""
    rig = Rig(fleet(), mirrored(("n3", "n4")), QUICK)
    rig.agents.says["n3"] = EVACUATE
    rig.cluster.takes = lambda _: 25.0
    rig.tick(5)
    (drain,) = rig.cluster.jobs
    if had_effect:
        rig.cluster.put(replace(rig.cluster.nodes["n3"], drained=True))
    rig.cluster.kill(drain)
    rig.settle()
    assert rig.status("n3") is (Status.COMPLETED if had_effect else Status.FAILED)


def test_a_dry_run_decides_and_does_nothing() -> None:
    rig = broken(policy=replace(QUICK, settle=Ms(15_000)))
    rig.engine.acting.conduct = replace(rig.engine.conduct, dry=True)
    assert kinds(rig.tick().decision.held) == [(Kind.SETTLING, "n3")]
    rig.tick()
    for _ in range(2):
        done = rig.tick()
        assert [i.action for i in done.decision.ledger.intents] == [Drain("n3", promote=True)]
    assert [i.status for i in done.decision.ledger.incidents] == [Status.PENDING]
    assert [i.status for i in rig.ledger.incidents] == [Status.NOTED]
    assert not rig.cluster.jobs
    assert rig.store.load().incidents == ()


def test_nothing_begins_that_a_new_master_would_not_know_of() -> None:
    rig = broken()
    rig.agents.says["n6"] = REPAIR
    rig.cluster.keeps = lambda _: "too large"
    assert (LedgerKind.NOT_WRITTEN, "") in kinds(rig.tick().decision.held)
    for _ in range(60):
        done = rig.tick()
    assert (LedgerKind.NOT_WRITTEN, "") in kinds(done.decision.held)
    assert (rig.jobs(), rig.agents.ran) == ([], {})
    told = {event.kind for event in rig.store.history()}
    assert "promised" in told
    assert "dropped" not in told, "a line for an action that waits, and none for its end"
    rig.cluster.keeps = lambda _: ""
    rig.settle()
    assert (rig.status("n3"), rig.status("n6")) == (Status.COMPLETED, Status.COMPLETED)


def test_in_doubt_jobs_go_on_and_orders_wait() -> None:
    """Ganeti tells a new master of jobs, but not of orders."""
    rig = broken()
    rig.agents.says["n6"] = REPAIR
    rig.cluster.world.ledger_rule = "garbage"
    rig.crash()
    for _ in range(60):
        done = rig.tick()
    assert (LedgerKind.UNREADABLE_RULE, "") in kinds(done.decision.held)
    assert (rig.status("n3"), rig.status("n6")) == (Status.COMPLETED, Status.NOTED)
    assert rig.agents.ran == {}
    rig.wish(TrustLedger())
    rig.settle()
    assert rig.status("n6") is Status.COMPLETED


def test_a_node_that_says_something_else_every_round_adds_three_events_to_each() -> None:
    """So it takes weeks to push others' events out, and never those of administrators' acts."""
    rig = Rig(fleet())
    rounds = 20
    for number in range(rounds):
        rig.agents.says["n3"] = OK if number % 2 else need("live-repair", details=str(number))
        rig.tick(60)
    assert 0 < len(rig.store.history(limit=1000)) <= 3 * rounds
