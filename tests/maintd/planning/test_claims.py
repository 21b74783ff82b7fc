"""Incidents, entries of the repair queue and maintenance windows at one node: who has it when.

docs/repair-queue-cases.md names the test of each rule in docs/repair-queue.md. That a node has one
owner and ends as it was found, whatever order things happen in, `tests/maintd/lives` shows.
"""

from dataclasses import replace

import pytest

from nodeagent.model.incident import Status
from nodeagent.model.queue import EntryStatus, StepStatus
from nodeagent.model.reason import Kind
from nodeagent.model.units import Seconds
from nodeagent.model.window import Standing
from nodeagent.model.wish import DeleteEntry, SetQueue
from tests.maintd.queue.mender import BROKEN, DRAINS, TWO, WATCHES, Mender, policy
from tests.maintd.world import EVACUATE, REPAIR

# An entry that is queued.


def test_queued_in_a_window_waits_until_the_node_is_back() -> None:
    rig = Mender(policy(WATCHES), heals="nothing")
    rig.plan("n3")
    rig.add()
    rig.until_true(lambda: rig.resting and not rig.in_service())
    assert (Kind.IN_WINDOW, "n3") in rig.whys()
    rig.down()
    rig.until_true(lambda: rig.node().offline)
    assert rig.commands() == []
    rig.up()
    rig.until_true(lambda: rig.commands() == ["try-1"])
    assert rig.in_service()


def test_queued_where_an_incident_is_pending_waits() -> None:
    rig = Mender(policy(WATCHES), heals="nothing")
    rig.cluster.takes = lambda _: 10_000.0
    rig.agents.says["n3"] = EVACUATE
    rig.until_true(lambda: bool(rig.ledger.incidents) and rig.status("n3") is Status.PENDING)
    rig.add()
    rig.tick()
    assert (Kind.INCIDENT_THERE, "n3") in rig.whys()
    assert rig.commands() == []


# An entry at work: its node is being drained, its command runs, its machine is watched.


@pytest.mark.parametrize("step", [StepStatus.DRAINING, StepStatus.WATCHING])
def test_at_work_it_is_let_be_by_a_window_that_then_takes_over(step: StepStatus) -> None:
    rig = Mender(policy(DRAINS), heals="nothing")
    rig.cluster.takes = lambda _: 60.0
    rig.add()
    rig.until_true(lambda: rig.at(step) and rig.node().drained)
    rig.plan("n3")
    assert (Kind.WINDOW_WAITS, "n3") in rig.whys()
    rig.until_true(lambda: rig.entry.status is EntryStatus.FAILED or rig.at(StepStatus.WAITING))
    rig.until_true(lambda: rig.found() is not None)
    assert rig.found() is Standing.SERVING, "it was in service before the entry came"
    rig.until_true(lambda: rig.resting)
    assert (rig.drains(), rig.restores()) == (1, 0), "it is not drained twice"
    rig.down()
    rig.until_true(lambda: rig.node().offline)
    rig.up()
    rig.until_true(rig.in_service)


@pytest.mark.parametrize("step", [StepStatus.DRAINING, StepStatus.WATCHING])
def test_at_work_it_is_let_be_by_an_incident(step: StepStatus) -> None:
    rig = Mender(policy(DRAINS), heals="nothing")
    rig.cluster.takes = lambda _: 60.0
    rig.add()
    rig.until_true(lambda: rig.at(step) and rig.node().drained)
    rig.agents.says["n3"] = EVACUATE
    rig.tick()
    assert (Kind.CLAIMED, "n3") in rig.whys()
    rig.until_true(lambda: rig.status("n3") is not Status.NOTED)


def test_the_next_step_is_not_begun_in_a_window() -> None:
    rig = Mender(policy(WATCHES, TWO), heals="try-2")
    rig.add()
    rig.until_true(lambda: rig.at(StepStatus.WATCHING))
    rig.plan("n3")
    rig.until_true(lambda: rig.at(StepStatus.WAITING))
    assert (rig.entry.step, rig.commands()) == (1, ["try-1"])
    rig.until_true(lambda: not rig.in_service())
    rig.plan()
    assert rig.until(EntryStatus.SUCCEEDED).step == 1
    assert rig.commands() == ["try-1", "try-2"]
    rig.until_true(rig.in_service)


def test_a_watch_of_a_disabled_queue_keeps_no_window_waiting() -> None:
    """Neither would ever go on, and nobody would know why."""
    rig = Mender(policy(WATCHES, TWO), heals="nothing")
    rig.add()
    rig.until_true(lambda: rig.at(StepStatus.WATCHING))
    rig.ask(SetQueue(enabled=False))
    rig.plan("n3")
    rig.until_true(lambda: not rig.in_service())
    assert rig.drains() == 1


# An entry between two steps: it backs off, or waits for its command next attempt in.


def backing_off() -> Mender:
    """A rig whose entry cannot empty its node, for instance i1 cannot move."""
    rig = Mender(policy(DRAINS), heals="nothing")
    plain = replace(rig.cluster.instances["i1"], secondary=None, template="plain")
    rig.cluster.put(plain)
    rig.add()
    rig.until_true(lambda: rig.at(StepStatus.WAITING) and rig.entry.backoffs > 0)
    return rig


def waiting_for_a_retry() -> Mender:
    """A rig whose entry has drained its node, and whose command has failed and may run again."""
    step = replace(DRAINS, command_retries=3, command_interval=Seconds(600))
    rig = Mender(policy(step), heals="nothing")
    rig.fates["try-1"] = [BROKEN] * 9
    rig.add()
    rig.until_true(lambda: rig.at(StepStatus.WAITING) and rig.entry.attempt == 1)
    return rig


def test_backing_off_it_keeps_no_incident_from_its_node() -> None:
    rig = backing_off()
    rig.agents.says["n3"] = REPAIR
    rig.until_true(lambda: rig.status("n3") is not Status.NOTED, 3)


def test_backing_off_it_keeps_no_window_from_its_node() -> None:
    rig = backing_off()
    rig.plan("n3")
    rig.until_true(lambda: rig.node().drained, 4)
    assert rig.found() is Standing.SERVING
    rig.plan()
    rig.until_true(rig.in_service)


def test_tried_again_only_if_nobody_else_has_begun() -> None:
    rig = waiting_for_a_retry()
    assert rig.node().drained
    rig.plan("n3")
    rig.until_true(lambda: rig.found() is Standing.SERVING)
    for _ in range(30):
        rig.tick(60)
    assert rig.commands() == ["try-1"]
    rig.plan()
    rig.until_true(lambda: len(rig.commands()) == 2)


def test_what_an_entry_has_drained_stays_with_the_incident_that_empties_it() -> None:
    rig = waiting_for_a_retry()
    rig.agents.says["n3"] = EVACUATE
    rig.until_true(lambda: rig.status("n3") is Status.COMPLETED)
    rig.ask(DeleteEntry(0))
    rig.until_true(lambda: not rig.entries)
    assert rig.node().offline
    assert rig.restores() == 0


def test_what_an_entry_has_drained_goes_back_when_the_live_repair_there_is_over() -> None:
    rig = waiting_for_a_retry()
    rig.agents.says["n3"] = REPAIR
    rig.until_true(lambda: rig.status("n3") is Status.PENDING)
    rig.ask(DeleteEntry(0))
    assert (Kind.TO_BE_PUT_BACK, "n3") in rig.whys()
    assert rig.restores() == 0
    rig.until_true(lambda: rig.status("n3") is Status.COMPLETED)
    rig.until_true(rig.in_service)


# A window and an incident.


def test_a_pending_incident_keeps_the_window_waiting() -> None:
    rig = Mender(policy(WATCHES))
    rig.cluster.takes = lambda _: 60.0
    rig.agents.says["n3"] = EVACUATE
    rig.until_true(lambda: bool(rig.ledger.incidents) and rig.status("n3") is Status.PENDING)
    rig.plan("n3")
    assert (Kind.WINDOW_WAITS, "n3") in rig.whys()
    rig.until_true(lambda: rig.status("n3") is Status.COMPLETED)
    assert rig.drains() == 1


def test_a_window_keeps_an_incident_that_has_not_begun_waiting() -> None:
    rig = Mender(policy(WATCHES))
    rig.plan("n3")
    rig.until_true(lambda: rig.found() is not None)
    rig.agents.says["n3"] = REPAIR
    rig.tick()
    assert (Kind.IN_WINDOW, "n3") in rig.whys()
    assert rig.status("n3") is Status.NOTED
    rig.plan()
    rig.until_true(lambda: rig.status("n3") is not Status.NOTED)
