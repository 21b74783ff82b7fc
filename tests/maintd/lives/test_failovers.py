"""Master failovers over one simulated cluster whose configuration keeps the ledger.

The scenarios are numbered as in the table of ADR 29. n1 (M) and n2 (B) are masters in turn.
"""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from nodeagent.errors import NotMaster
from nodeagent.maintd.ledger.doubt import UNSURE
from nodeagent.maintd.notices import needs_you
from nodeagent.model.action import Drain, Scope
from nodeagent.model.incident import Status
from nodeagent.model.keeping import Trouble
from nodeagent.model.offer import Reply
from nodeagent.model.queue import EntryStatus
from nodeagent.model.reason import Kind, LedgerKind
from nodeagent.model.units import Ms, Seconds
from nodeagent.model.window import Machine
from nodeagent.model.wish import AddSeries, AnswerOffers, ImportLedger, Pause, SetQueue, TrustLedger
from nodeagent.store.carried import FORM, unpack
from simulation.cluster import Job
from tests.maintd import inline
from tests.maintd.lives.masters import B, M, Masters
from tests.maintd.queue.mender import HOUR
from tests.maintd.world import EVACUATE


@pytest.fixture
def rig() -> Masters:
    one = Masters()
    one.tick()
    assert one.ask(Pause(Scope.NODE, "n2", why="the first use")) == ""
    assert one.is_kept()
    return one


# The scenarios of ADR 29.


def test_01_after_a_failover_all_is_as_before(rig: Masters) -> None:
    owned = next(iter(rig.cluster.instances.values()))
    rig.cluster.put(replace(owned, primary="n5", tags=frozenset({"maintd:owner:db"})))
    rig.plan("n5", ahead=24 * HOUR)
    (offer,) = (one for one in rig.ledger.offers if one.instances)
    assert rig.ask(AnswerOffers((offer.id,), Reply.DECLINE, Ms(0), reason="a release")) == ""
    weekly = AddSeries((Machine("n6"),), (6,), 120, "Europe/Zurich", Seconds(2 * HOUR))
    assert rig.ask(weekly) == ""
    assert rig.ask(Pause(Scope.NODE, "n6", why="new disks")) == ""
    rig.add()
    rig.until_true(lambda: rig.commands() == ["try-1"])
    before = rig.ledger
    assert before.schedule.windows
    assert before.series
    assert [one.answer.reason for one in before.offers if one.answer] == ["a release"]
    audit = rig.store.audits(1000)
    rig.fail_over(B)
    rig.tick()
    after = rig.ledger
    assert not after.away
    assert after.schedule == before.schedule
    assert after.scheduled == before.scheduled
    assert after.holds == before.holds
    assert after.series == before.series
    assert after.offers == before.offers
    assert after.queue.entries[0].index == before.queue.entries[0].index
    assert after.queue.entries[0].status is EntryStatus.PROCESSING
    assert rig.store.audits(1000)[: len(audit)] == audit, "who asked for what is known"
    assert rig.told("ledger-taken")[0].details["whose"] == M
    assert unpack(rig.rule).writer == rig.cluster.nodes[B].uuid
    assert rig.is_kept()
    rig.tick()
    assert Kind.OUTDATED not in rig.kinds()
    assert rig.commands() == ["try-1"], "it is not begun again"


def test_04_nothing_is_begun_that_ganeti_has_not(rig: Masters) -> None:
    rig.cluster.keeps = lambda _: "the configuration cannot be written"
    rig.agents.says["n3"] = EVACUATE
    rig.add()
    jobs = rig.jobs()
    for _ in range(5):
        rig.tick(30)
    assert rig.jobs() == jobs
    assert rig.commands() == []
    assert LedgerKind.NOT_WRITTEN in rig.kinds()
    assert LedgerKind.NOT_WRITTEN in needs_you.YOURS, "a person is notified"
    assert len(rig.told("dropped")) <= 2, "not a line for each try"
    rig.cluster.keeps = lambda _: ""
    rig.until_true(lambda: rig.status("n3") is Status.COMPLETED)
    rig.until_true(lambda: rig.commands() == ["try-1"])
    rig.fail_over(B)
    for _ in range(3):
        rig.tick()
    assert rig.commands() == ["try-1"]
    assert all(times == 1 for times in rig.agents.asked.values())


def test_07_an_old_master_that_finds_anothers_save_ends(rig: Masters) -> None:
    """It was stopped, and its own luxid and files still name it."""
    old = rig.engine
    rig.fail_over(B)
    rig.tick()
    assert rig.ask(SetQueue(enabled=False)) == ""
    newest = rig.rule
    rig.wakes_up(M)
    with pytest.raises(NotMaster, match="another maintd has written"):
        inline.run(old.one_round())
    assert rig.rule == newest, "it has written nothing"


def test_07_nothing_is_written_before_the_vote(rig: Masters) -> None:
    """Its own files name the old master, and the nodes do not."""
    rig.fail_over(B)
    rig.tick()
    newest = rig.rule
    rig.cluster.set_master(M)
    rig.wake(M)
    with pytest.raises(NotMaster, match="0 of 6 nodes say"):
        rig.tick()
    assert rig.rule == newest
    for name in rig.cluster.nodes:
        rig.agents.says[name] = None
    rig.wake(M)
    assert "undecided" in str(rig.tick().idle)
    assert rig.rule == newest


def test_07_a_machine_that_slept_after_its_save_writes_nothing(rig: Masters) -> None:
    newest, save = rig.rule, rig.store.save

    def saved_before_it_slept(*given: Any, **more: Any) -> None:
        save(*given, **more)
        rig.time += HOUR

    with patch.object(rig.store, "save", saved_before_it_slept):
        rig.wish(SetQueue(enabled=False))
        rig.tick()
    assert rig.rule == newest
    assert "confirmed as the master" in rig.engine.memory.kept.why


@pytest.mark.parametrize("with_rule", [True, False])
def test_11_a_ledger_that_is_newer_than_a_restored_ganeti_waits(
    rig: Masters, with_rule: bool
) -> None:
    """The job of the drain is gone, and so is what the configuration has of it."""
    rig.plan("n5", ahead=24 * HOUR)
    was, known, rule = rig.cluster.snapshot(), set(rig.cluster.jobs), rig.rule
    rig.agents.says["n3"] = EVACUATE
    rig.until_true(lambda: rig.status("n3") is Status.COMPLETED)
    rig.agents.says["n3"] = None
    rig.time += 2 * HOUR
    lost = [job for job in rig.cluster.jobs.values() if job.number not in known]
    jobs = {job.number for job in lost}
    lose_jobs(rig, *lost)
    rig.fail_over(M, was, rule if with_rule else None)
    rig.tick()
    assert rig.ledger.away
    assert Kind.OUTDATED in rig.kinds()
    (told,) = rig.told("job-unknown")
    assert told.job in jobs
    assert rig.ask(TrustLedger()) == ""
    rig.tick()
    assert not rig.ledger.away
    assert rig.ledger.schedule.windows


def test_13_requests_that_never_left_are_said_to_be_not_in_force(rig: Masters) -> None:
    rig.cluster.keeps = lambda _: "no"
    wish = rig.wish(SetQueue(enabled=False))
    rig.tick()
    assert rig.store.answer(wish) == ""
    assert rig.ask(Pause(Scope.NODE, "n6", why="never left")) == ""
    rig.cluster.keeps = lambda _: ""
    rig.fail_over(B)
    rig.tick()
    rig.plan("n5", ahead=24 * HOUR)
    rig.fail_over(M)
    rig.tick()
    assert rig.ledger.queue.enabled
    assert rig.ledger.schedule.windows
    (told,) = rig.told("requests-dropped")
    assert told.details["count"] == "2"
    assert told.details["requests"][0].startswith("root ")
    assert rig.store.answer(wish) is None, "nobody is told that it was accepted"


def test_15_what_a_newer_nodeagent_wrote_is_waited_for(rig: Masters) -> None:
    rig.plan("n5", ahead=24 * HOUR)
    newer = f"{FORM + 1}:whatever"
    rig.cluster.write_ledger_rule(newer)
    rig.fail_over(B)
    rig.tick()
    assert rig.doubtful is Trouble.NEWER
    (held,) = rig.tick().decision.held
    assert (held.why.kind, held.reason) == (LedgerKind.NEWER_RULE, rig.ask(TrustLedger()))
    assert not rig.ledger.schedule.windows
    assert rig.rule == newer, "it is left as it is"


def lose_jobs(rig: Masters, *jobs: Job) -> None:
    """Ganeti does not know these any more."""
    for job in jobs:
        rig.cluster.jobs.pop(job.number)
        rig.cluster._active.pop(job.number, None)
        rig.cluster._reasons.pop(job.reason, None)


# Between the rule and the disk.


def test_a_pause_that_was_taken_in_doubt_stays_when_the_doubt_ends(rig: Masters) -> None:
    rig.fail_over(B)
    rig.tick()
    good = rig.rule
    rig.cluster.world.ledger_rule = f"{FORM + 1}:newer"
    rig.fail_over(M)
    rig.tick()
    assert rig.ask(Pause(Scope.CLUSTER, "", "upgrade", until=Ms(rig.now() + 86_400_000))) == ""
    rig.cluster.world.ledger_rule = good
    rig.wake(M)
    rig.agents.says["n3"] = EVACUATE
    for _ in range(10):
        rig.tick(20)
    assert ("", "upgrade") in {(hold.name, hold.why) for hold in rig.ledger.holds}
    assert not [job for job in rig.cluster.jobs.values() if isinstance(job.action, Drain)]


# A ledger from a file.


def test_an_import_keeps_what_has_happened_to_nodes_since(rig: Masters) -> None:
    rig.plan("n5", ahead=24 * HOUR)
    exported = rig.ledger
    rig.agents.says["n3"] = EVACUATE
    rig.until_true(lambda: rig.status("n3") is Status.COMPLETED)
    rig.plan()
    assert rig.ask(Pause(Scope.CLUSTER, "", why="import")) == ""
    rig.until_true(lambda: not rig.ledger.intents)
    before = rig.ledger
    assert before.outages
    assert rig.ask(ImportLedger(exported)) == ""
    assert rig.ledger.schedule == exported.schedule != before.schedule
    assert [one.id for one in rig.ledger.incidents] == [one.id for one in before.incidents]
    assert [one.node for one in rig.ledger.outages] == [one.node for one in before.outages]


# The rule beside a running maintd.


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (None, "rule-removed"),
        ("", "rule-changed"),
        ("rubbish", "rule-changed"),
        ("older", "rule-changed"),
    ],
)
def test_a_rule_that_somebody_changes_is_told_and_mended(
    rig: Masters, change: str | None, kind: str
) -> None:
    older = rig.rule
    rig.plan("n5", ahead=24 * HOUR)
    newest = rig.rule
    rig.cluster.world.ledger_rule = older if change == "older" else change
    rig.tick()
    assert unpack(rig.rule).ledger == unpack(newest).ledger
    assert [event.kind for event in rig.store.history() if event.kind.startswith("rule-")] == [kind]
    rig.tick()
    assert len(rig.told(kind)) == 1
    rig.fail_over(B)
    rig.tick()
    assert rig.ledger.schedule.windows


def test_an_incident_that_waits_for_a_person_costs_a_write_in_five_minutes(rig: Masters) -> None:
    """It is seen again in each round, and a write is one of Ganeti's whole configuration."""
    rig.agents.says["n3"] = EVACUATE
    rig.until_true(lambda: rig.status("n3") is Status.COMPLETED)
    for _ in range(5):
        rig.tick(60)
    written: list[str] = []
    rig.cluster.keeps = lambda text: written.append(text) or ""  # type: ignore[func-returns-value]
    for _ in range(60):
        rig.tick(60)
        assert rig.engine.memory.handed_over
    assert 10 <= len(written) <= 12
    assert rig.ask(SetQueue(enabled=False)) == ""
    assert not unpack(written[-1]).ledger.queue.enabled, "what is asked for does not wait"


# A rule that cannot be read at a start.


def test_an_unreadable_rule_waits_for_a_person_and_incidents_go_on(rig: Masters) -> None:
    rig.plan("n5", ahead=2 * HOUR)
    rig.cluster.world.ledger_rule = "rubbish"
    rig.wake(M)
    rig.agents.says["n3"] = EVACUATE
    rig.until_true(lambda: rig.status("n3") is Status.COMPLETED)
    assert rig.doubtful is Trouble.UNREADABLE
    assert LedgerKind.UNREADABLE_RULE in rig.kinds()
    assert LedgerKind.UNREADABLE_RULE in needs_you.YOURS, "a person is notified"
    assert rig.rule == "rubbish", "it is left for a person to look at"
    rig.time += 3 * HOUR
    for _ in range(5):
        rig.tick()
    assert rig.cluster.nodes["n5"].in_service, "the window has not begun"
    assert rig.ask(SetQueue(enabled=False)).startswith("the ledger in Ganeti's configuration")
    assert rig.engine.memory.only_here() == UNSURE
    assert rig.ask(TrustLedger()) == ""
    rig.tick()
    assert rig.doubtful is None
    assert rig.is_kept()
    assert rig.status("n3") is Status.COMPLETED
    assert not rig.ledger.away


# Beside the table.


def test_nothing_is_written_in_a_dry_run(rig: Masters) -> None:
    rig.plan("n5", ahead=24 * HOUR)
    before = rig.rule, rig.disks[B].load(), rig.disks[B].history()
    rig.cluster.set_master(B)
    rig.me, rig.store = B, rig.disks[B]
    rig.engine = rig._engine()
    rig.engine.acting.conduct = replace(rig.engine.conduct, dry=True)
    rig.tick()
    rig.tick()
    assert rig.ledger.schedule.windows, "it shows what is planned"
    assert (rig.rule, rig.disks[B].load(), rig.disks[B].history()) == before
