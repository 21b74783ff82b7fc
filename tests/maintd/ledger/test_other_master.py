"""Where another node was the master meanwhile, what is planned waits until somebody looks."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.maintd.engine.memory import away_since, mark_away, unmark_away
from nodeagent.maintd.ledger import other_master
from nodeagent.model.action import Drain, Scope
from nodeagent.model.balance import Agenda
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger
from nodeagent.model.outage import Back, Outage, Way
from nodeagent.model.purpose import OfTags
from nodeagent.model.queue import Entry, EntryStatus, Queue
from nodeagent.model.reason import Kind
from nodeagent.model.series import Series, Weekly
from nodeagent.model.units import Ms, Nanoseconds, Seconds
from nodeagent.model.window import Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import Pause, SetQueue, TrustLedger
from tests.maintd.queue.mender import ADD, HOUR, WATCHES, Mender, policy
from tests.maintd.world import EVACUATE

OUTDATED = (Kind.OUTDATED, "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ledger.sqlite").touch()
    return tmp_path


def come_back(rig: Mender, folder: Path) -> None:
    """Be the master again after another was, with no rule that tells of its ledger."""
    rig.cluster.remove_ledger_rule()
    mark_away(str(folder))
    os.utime(folder / "away", (rig.time, rig.time))
    again(rig, folder)


def again(rig: Mender, folder: Path) -> None:
    rig.crash()
    rig.engine.acting.conduct = replace(
        rig.engine.conduct,
        away=lambda: away_since(str(folder)),
        back=lambda: unmark_away(str(folder)),
    )


def test_a_window_waits_until_somebody_has_looked(folder: Path) -> None:
    rig = Mender(policy(WATCHES))
    rig.plan("n3", ahead=2 * HOUR)
    come_back(rig, folder)
    rig.time += 2 * HOUR - 60
    assert OUTDATED in rig.whys()
    for _ in range(5):
        rig.tick()
    assert rig.jobs() == []
    assert rig.ask(TrustLedger()) == ""
    assert not rig.engine.memory.waits_for_a_round, "the ledger is no other"
    rig.until_true(lambda: not rig.in_service())
    assert OUTDATED not in rig.whys()


def test_what_nobody_had_answered_before_is_to_be_said_again(folder: Path) -> None:
    """It was noted when no round could be held, and is over or done elsewhere by now."""
    rig = Mender(policy(WATCHES))
    rig.plan("n3", ahead=2 * HOUR)
    before = [rig.wish(TrustLedger()), rig.wish(ADD), rig.wish(Pause(Scope.CLUSTER, ""))]
    rig.time += 60
    come_back(rig, folder)
    rig.time += 2 * HOUR
    after = rig.wish(SetQueue(enabled=False))
    for _ in range(5):
        rig.tick()
    assert rig.ledger.away
    assert rig.jobs() == []
    assert {rig.store.answer(wish) for wish in before} == {other_master.SAY_AGAIN}
    told = [event.details for event in rig.store.history() if event.kind == "wish-refused"]
    assert str(told[0]["request"]).endswith("before another node was the master")
    assert [details["why"] for details in told] == [other_master.SAY_AGAIN] * 3
    assert rig.store.answer(after) == "", "that was said here, to the master of now"


def test_jobs_that_are_newer_than_the_ledger_tell_it_too(folder: Path) -> None:
    """As after a node that had died while it was the master, or with a ledger from a backup."""
    rig = Mender(policy(WATCHES))
    rig.plan("n3", ahead=2 * HOUR)
    old = rig.ledger
    rig.agents.says["n5"] = EVACUATE
    rig.until_true(lambda: rig.status("n5") is Status.COMPLETED)
    again(rig, folder)
    rig.tick()
    assert not rig.ledger.away, "its own jobs are no other's"
    rig.store.save(old)
    again(rig, folder)
    rig.tick()
    assert rig.ledger.away
    assert OUTDATED in rig.whys()


def test_the_mark_is_taken_off_when_the_ledger_has_it(folder: Path) -> None:
    rig = Mender(policy(WATCHES))
    rig.plan("n3", ahead=2 * HOUR)
    rig.cluster.remove_ledger_rule()
    mark_away(str(folder))
    since = away_since(str(folder))
    assert since > 0
    mark_away(str(folder))
    assert away_since(str(folder)) == since, "the first time counts"
    again(rig, folder)
    rig.engine.acting.conduct = replace(rig.engine.conduct, back=lambda: None)  # killed before it
    rig.tick()
    assert rig.ledger.away == since
    again(rig, folder)
    rig.tick()
    assert (rig.ledger.away, away_since(str(folder))) == (since, 0)
    again(rig, folder)
    rig.tick()
    assert rig.ledger.away == since, "until somebody says that it holds"


def test_a_dry_run_leaves_the_mark(folder: Path) -> None:
    rig = Mender(policy(WATCHES))
    rig.plan("n3", ahead=2 * HOUR)
    come_back(rig, folder)
    rig.engine.acting.conduct = replace(rig.engine.conduct, dry=True)
    rig.tick()
    assert away_since(str(folder))


def test_without_a_ledger_there_is_nothing_to_mark(tmp_path: Path) -> None:
    mark_away(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_each_kind_of_plan_may_be_out_of_date() -> None:
    start = Unavailability(Nanoseconds(0))
    entry = Entry(0, "192.0.2.3", "r640", "unreachable")
    over = replace(entry, status=EntryStatus.SUCCEEDED)
    rule = Weekly((6,), 120, "UTC", Seconds(7200), 1)
    for planned in (
        Ledger(schedule=Schedule((Window((Machine("n3"),), start),))),
        Ledger(outages=(Outage("u", back=Back(Way.WINDOW, Ms(0))),)),
        Ledger(series=(Series(1, "u", "root", rule),)),
        Ledger(queue=Queue((entry,))),
        Ledger(queue=Queue((replace(over, drained=True),))),
        Ledger(agenda=(Agenda("g", "root", Ms(0)),)),
    ):
        for repairs in (False, True):
            assert other_master.since(planned, 5, 0, Ms(9), repairs=repairs) == 5, planned
            assert other_master.since(planned, 0, 1, Ms(9), repairs=repairs) == 9
            assert other_master.since(planned, 0, 0, Ms(9), repairs=repairs) == 0, "no job is newer"
    without = Ledger(queue=Queue((over,)))
    assert other_master.since(without, 5, 1, Ms(9), repairs=False) == 0
    assert other_master.since(without, 5, 1, Ms(9), repairs=True) == 5
    assert other_master.since(without, 0, 1, Ms(9), repairs=True) == 9
    assert other_master.since(without, 0, 0, Ms(9), repairs=True) == 0
    assert other_master.since(Ledger(), 0, 0, Ms(9), repairs=True, used=True) == 9, "a new ledger"
    assert other_master.since(Ledger(), 0, 0, Ms(9), repairs=False, used=True) == 0
    assert other_master.since(Ledger(1), 0, 0, Ms(9), repairs=True, used=True) == 0


def test_when_another_master_was_seen() -> None:
    assert other_master.seen(Ledger(7), 5, 7) == 5
    assert other_master.seen(Ledger(7), 5, 9) == 9


def test_ganeti_must_know_the_newest_job_for_two_weeks() -> None:
    at, weeks = Ms(10**12), 14 * 86_400_000
    jobs = [
        Intent(job, OfTags(), "n1", Drain("n1"), job, promised=at) for job in ("76", "an-order")
    ]
    there = Ledger(intents=tuple(jobs))
    assert other_master.newest_job(there, Ms(at + weeks - 1)) == "76"
    assert other_master.newest_job(there, Ms(at + weeks)) == ""
    assert other_master.newest_job(Ledger(), Ms(5)) == ""


def test_the_reason_has_a_kind_of_its_own() -> None:
    told = other_master.doubt(replace(Ledger(), away=Ms(1_000_000)))
    assert told is not None
    assert told.kind is Kind.OUTDATED_QUEUE
    assert other_master.doubt(Ledger()) is None
