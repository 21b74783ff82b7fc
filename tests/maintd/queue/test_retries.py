"""Steps that are tried again, and commands that never run: a node goes back all the same."""

from dataclasses import replace

import pytest

from nodeagent.maintd.queue.entries import remember
from nodeagent.maintd.queue.state import rewind
from nodeagent.maintd.queue.strategy import Do
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.queue import EntryStatus, Operation, Procedures, Queue, RepairStep, StepStatus
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Instance, Observed, Snapshot
from nodeagent.model.units import Seconds
from nodeagent.model.wish import DeleteEntry, SetQueue
from tests.maintd.decided import details
from tests.maintd.queue.news import DAY, LATER, WATCHING, folded, order
from tests.maintd.queue.test_entries import ADD, BROKEN, NO, Mender, policy
from tests.maintd.queue.test_strategy import WATCHES, begun, entry, how, turns
from tests.maintd.world import NOW

HOURLY = RepairStep("try-1", need_drain=True, command_retries=1, command_interval=Seconds(3600))


def to_be_tried_again() -> Mender:
    """Its node is drained, its command has failed, and may run again in an hour."""
    rig = Mender(policy(HOURLY))
    rig.fates["try-1"] = [BROKEN]
    rig.add()
    for _ in range(30):
        rig.tick()
        if rig.entry.attempt and not rig.ledger.intents:
            break
    assert rig.node().drained
    assert rig.entry.not_before > rig.now() + 3_000_000
    return rig


def given_back(rig: Mender) -> bool:
    """Whether the node is in service, before long."""
    for _ in range(5):
        rig.tick()
    return not rig.node().drained


def test_an_entry_that_waits_for_a_retry_gives_its_node_back_when_it_is_deleted() -> None:
    rig = to_be_tried_again()
    assert rig.ask(DeleteEntry(0)) == ""
    assert given_back(rig)
    assert rig.ledger.queue.entries == ()


def test_an_entry_that_waits_for_a_retry_gives_its_node_back_when_it_is_healthy() -> None:
    rig = to_be_tried_again()
    rig.healed = True
    assert given_back(rig)
    assert rig.entry.status is EntryStatus.SUCCEEDED


def test_an_entry_that_waits_for_a_retry_gives_its_node_back_when_the_queue_is_disabled() -> None:
    rig = to_be_tried_again()
    rig.ask(SetQueue(enabled=False))
    assert given_back(rig)


def test_a_success_command_does_not_wait_for_the_retry_of_a_repair() -> None:
    operation = Operation("op1", (RepairStep("try"),), "check", success_command="tell")
    told = replace(how().repair_procedures[0], repair_operations=(operation,))
    one = begun(healthy=True, not_before=NOW + DAY, tries=4)
    (turn,) = turns(one, procedures=Procedures((told,))).turns
    assert (turn.do, turn.entry.tries) == (Do.SUCCEED, 0)


def test_a_command_of_a_step_that_is_configured_no_more_is_not_run_again() -> None:
    one = begun(at=WATCHING, step=2)
    (after,) = folded(one, order("repair", "try-3"), results={"1": BROKEN}).queue.entries
    assert (after.status, after.why) == (EntryStatus.FAILED, "try-3 failed: exit code 1")


@pytest.mark.parametrize("does", ["check", "repair"])
def test_what_was_ordered_of_a_master_that_is_offline_now_is_not_waited_for(does: str) -> None:
    """The new master's agent is asked about the health; how far a repair came nobody can tell."""
    rig = Mender(policy())
    rig.add()
    while not any(i.purpose.entry == f"queue:0:{does}" and i.job for i in rig.ledger.intents):
        rig.tick(1)
    rig.agents.says["n1"] = None
    rig.agents.master = rig.me = "n2"
    rig.cluster.set_master("n2")
    rig.cluster.put(replace(rig.node("n1"), offline=True))
    rig.crash()
    if does == "check":
        rig.until(EntryStatus.SUCCEEDED)
    else:
        assert "how far it came is unknown" in rig.until(EntryStatus.FAILED).why
        assert rig.commands() == ["try-1"]


@pytest.mark.parametrize(("does", "status"), [("repair", WATCHING), ("success", WATCHING)])
@pytest.mark.parametrize("how_it_is", ["refused", "later"])
def test_a_command_that_never_runs_is_given_up(
    does: str, status: StepStatus, how_it_is: str
) -> None:
    one = begun(at=status, ending=does == "success", drained=True)
    news = {"results": {"1": LATER}} if how_it_is == "later" else {"absent": {"1": "refused"}}
    for tries in range(1, 5):
        (one,) = folded(one, order(does, "tell"), **news).queue.entries
        assert (one.processing, one.tries, one.not_before) == (True, tries, NOW + 60_000)
        one = replace(one, step_status=status)
    (one,) = folded(one, order(does, "tell"), **news).queue.entries
    why = "refused" if how_it_is == "refused" else "exit code 75"
    assert (one.status, one.why) == (
        EntryStatus.FAILED,
        f"tell was given up after 5 tries: {why}",
    )


def test_what_has_run_meanwhile_is_tried_as_often_again() -> None:
    for said in (BROKEN, NO):
        one = begun(at=WATCHING, tries=4)
        steps = how(RepairStep("try-1", command_retries=3))
        ledger = Ledger(queue=Queue((one,)), intents=(order("repair", "try-1"),))
        observed = Observed(Snapshot("c", {}), {}, {}, results={"1": said})
        (after,) = remember(ledger, observed, Policy(procedures=steps), NOW).queue.entries
        assert (after.processing, after.tries) == (True, 0)


def test_a_repair_that_the_agent_never_takes_keeps_no_other_machine_waiting() -> None:
    rig = Mender(policy(RepairStep("try-1", need_drain=True)))
    rig.agents.refuses = lambda i: i.purpose.entry == "queue:0:repair"
    rig.add()
    rig.add(replace(ADD, address="n4", serial=""))
    for _ in range(20):
        rig.tick(60)
    first, second = rig.ledger.queue.entries
    assert (first.status, second.status) == (EntryStatus.FAILED, EntryStatus.SUCCEEDED)
    assert first.why == "try-1 was given up after 5 tries: refused"
    assert not rig.node().drained


def test_steps_are_told_as_people_count_them() -> None:
    beyond = begun(step=2)
    (turn,) = turns(beyond).turns
    assert turn.entry.why == "there is no step 3 in its procedure (any more)"
    watched = begun(at=WATCHING, ago=50_000, step=1)
    ((_, why),) = turns(watched, procedures=WATCHES).held
    assert details([why], Kind.WATCHED) == {"it": "", "step": "2", "left": 10_000}


def test_what_was_put_off_before_anything_was_done_is_no_repair_that_counts() -> None:
    rig = Mender(policy(RepairStep("try-1", need_drain=True)))
    rig.cluster.world.put(Instance("stays", "n3", template="plain"))
    rig.add()
    for _ in range(8):
        rig.tick()
    assert (rig.entry.backoffs, rig.entry.begun_at, rig.jobs()) == (1, 0, [])
    rig.ask(DeleteEntry(0))
    assert rig.ledger.queue.attempts == ()


def test_a_clock_put_back_lengthens_no_wait_for_a_retry() -> None:
    late = NOW + DAY
    ahead = begun(not_before=late, restore_after=late, asked_at=late, unanswered_since=late)
    (one,) = rewind(Queue((ahead,)), how(HOURLY), NOW).entries
    assert (one.not_before, one.restore_after) == (NOW + 3_600_000, NOW + 60_000)
    assert (one.asked_at, one.unanswered_since) == (NOW, NOW)
    (one,) = rewind(Queue((ahead,)), how(), NOW).entries
    assert one.not_before == NOW + 60_000
    (one,) = rewind(Queue((entry(unanswered_since=NOW + 1),)), how(), NOW).entries
    assert one.unanswered_since == NOW
    (one,) = rewind(Queue((entry(restore_after=NOW + 60_001),)), how(), NOW).entries
    assert one.restore_after == NOW + 60_000
