"""What a review of the repair queue found: entries that got stuck, and nodes that stayed drained.

And the other way round: what was done too early, or to what was somebody else's.
"""

from dataclasses import dataclass, field, replace

import pytest

from nodeagent.maintd.queue.entries import remember
from nodeagent.maintd.queue.state import rewind
from nodeagent.maintd.queue.strategy import Do, Machine
from nodeagent.model.action import Drain, RunCommand
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy, Result
from nodeagent.model.queue import (
    DeleteEntry,
    Entry,
    EntryStatus,
    Operation,
    Procedures,
    Queue,
    RepairStep,
    SetQueue,
    StepStatus,
)
from nodeagent.model.snapshot import Instance, Observed, Snapshot
from nodeagent.model.window import Machine as Named
from nodeagent.model.window import Schedule, Unavailability, Window
from nodeagent.model.wish import SetSchedule
from tests.maintd.rig import Between
from tests.maintd.test_entries import ADD, BROKEN, NO, Mender, policy
from tests.maintd.test_queue import (
    DRAINS,
    EMPTY,
    HERE,
    WATCHES,
    begun,
    did,
    entry,
    how,
    reasons,
    turns,
)
from tests.maintd.world import NOW

DRAINING, WAITING, WATCHING = StepStatus.DRAINING, StepStatus.WAITING, StepStatus.WATCHING
HOURLY = RepairStep("try-1", need_drain=True, command_retries=1, command_interval=3600)
LATER = Result(Outcome.LATER, "exit code 75", 75)
DAY = 86_400_000


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


def test_a_node_that_could_not_be_put_back_is_tried_again_in_a_while() -> None:
    one = begun(backoffs=1, backoff_until=NOW + 9000, drained=True, restore_after=NOW + 5000)
    done = turns(one, machine=EMPTY, procedures=DRAINS)
    assert did(done) == []
    assert "n4 goes back into service in 5 s" in reasons(done)
    assert did(turns(replace(one, restore_after=NOW), machine=EMPTY, procedures=DRAINS)) == [
        (Do.UNDRAIN, 0)
    ]


@dataclass
class Meddling(Between):
    """Somebody drains n3 himself, after our drain was promised and before it was submitted."""

    rig: list[Mender] = field(default_factory=list)

    def snapshot(self) -> Snapshot:
        promised = self.rig and any(
            isinstance(i.action, Drain) and i.job is None for i in self.rig[0].ledger.intents
        )
        if promised:
            node = self.cluster.snapshot().nodes["n3"]
            self.cluster.world.nodes["n3"] = replace(node, drained=True)
        return self.cluster.snapshot()


def test_a_node_that_somebody_drains_just_before_we_do_stays_drained() -> None:
    there: list[Mender] = []
    rig = Mender(policy(RepairStep("try-1", need_drain=True)), through=lambda c: Meddling(c, there))
    there.append(rig)
    rig.add()
    for _ in range(12):
        rig.tick(60)
    assert rig.entry.status is EntryStatus.SUCCEEDED
    assert rig.node().drained
    assert not [job for job in rig.jobs() if job.startswith("Restore")]


def test_so_does_one_that_a_window_was_to_drain() -> None:
    there: list[Mender] = []
    rig = Mender(policy(), through=lambda c: Meddling(c, there))
    there.append(rig)
    window = Window((Named("n3"),), Unavailability(round(rig.time * 1e9)))
    rig.ask(SetSchedule(Schedule((window,))))
    for _ in range(4):
        rig.tick(60)
    assert not [job for job in rig.jobs() if job.startswith("Drain")]
    rig.ask(SetSchedule(Schedule()))
    for _ in range(4):
        rig.tick(60)
    assert rig.node().drained
    assert not [job for job in rig.jobs() if job.startswith("Restore")]
    assert rig.ledger.scheduled == ()


def folded(one: object, intent: Intent, **members: object) -> Ledger:
    """A round's news of one intent of one entry."""
    ledger = Ledger(queue=Queue((one,)), intents=(intent,))  # type: ignore[arg-type]
    observed = Observed(Snapshot("c", {}), {}, {}, **members)  # type: ignore[arg-type]
    return remember(ledger, observed, Policy(procedures=DRAINS), NOW)


@pytest.mark.parametrize("fate", ["refused", "failed"])
def test_a_drain_that_was_none_is_not_ours_to_undo(fate: str) -> None:
    drain = Intent("1", "", "n4", Drain("n4"), "7", entry="queue:0:empty")
    one = begun(at=DRAINING, drained=True)
    refused = {"absent": {"1": "full"}} if fate == "refused" else {}
    failed = {"results": {"1": Result(Outcome.ERROR, "no")}} if fate == "failed" else {}
    (after,) = folded(one, drain, **refused, **failed).queue.entries
    assert (after.drained, after.step_status, after.backoffs) == (False, WAITING, 1)
    over = replace(one, status=EntryStatus.FAILED)
    (after,) = folded(over, drain, **refused, **failed).queue.entries
    assert not after.drained, "though it is over by now"
    assert (after.step_status, after.backoffs) == (DRAINING, 0)


def test_what_runs_for_an_entry_that_is_deleted_is_waited_for() -> None:
    drain = Intent("1", "", "n4", Drain("n4"), "7", entry="queue:0:empty")
    one = begun(at=DRAINING, drained=True, deleted=True)
    assert folded(one, drain, results={"1": Result(Outcome.RUNNING)}).intents == (drain,)
    assert not folded(one, drain, results={"1": Result(Outcome.LOST)}).intents


def test_a_command_of_a_step_that_is_configured_no_more_is_not_run_again() -> None:
    one = begun(at=WATCHING, step=2)
    (after,) = folded(one, order("repair", "try-3"), results={"1": BROKEN}).queue.entries
    assert (after.status, after.why) == (EntryStatus.FAILED, "try-3 failed: exit code 1")


def order(does: str, command: str) -> Intent:
    return Intent("1", "", "", RunCommand("n1", command, "{}"), "o", promised=NOW - 5,
                  entry=f"queue:0:{does}")  # fmt: skip


@pytest.mark.parametrize("does", ["check", "repair"])
def test_what_was_ordered_of_a_master_that_is_offline_now_is_not_waited_for(does: str) -> None:
    """The new master's agent is asked about the health; how far a repair came nobody can tell."""
    rig = Mender(policy())
    rig.add()
    while not any(i.entry == f"queue:0:{does}" and i.job for i in rig.ledger.intents):
        rig.tick(1)
    rig.agents.says["n1"] = None
    rig.agents.master = rig.me = "n2"
    rig.cluster.set_master("n2")
    rig.cluster.put(replace(rig.node("n1"), offline=True))
    rig.crash()
    if does == "check":
        rig.until(EntryStatus.SUCCEEDED)
    else:
        assert "nobody can tell how far it came" in rig.until(EntryStatus.FAILED).why
        assert rig.commands() == ["try-1"]


def test_a_check_that_nobody_makes_keeps_no_other_machine_waiting() -> None:
    """The agent refuses it: a command that is not listed there, say."""
    rig = Mender(policy())
    rig.agents.refuses = lambda i: i.entry == "queue:0:check"
    rig.add()
    rig.add(replace(ADD, address="n4", serial=""))
    for _ in range(12):
        rig.tick()
    first, second = rig.ledger.queue.entries
    assert (first.status, second.status) == (EntryStatus.QUEUED, EntryStatus.SUCCEEDED)
    assert "waits for what check says" in rig.held()


def unanswered(one: Entry, ago: int = DAY) -> Entry:
    return replace(one, unanswered="exit code 75", unanswered_since=NOW - ago)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_check_that_never_answers_after_a_step_is_told_and_keeps_nobody_waiting(
    steps: int,
) -> None:
    rig = Mender(policy(*[RepairStep("try-1", need_drain=True, watch_seconds=60)] * steps), "none")
    ended = rig.agents.tells
    silent = set[str]()
    rig.agents.tells = lambda i: LATER if i.entry in silent else ended(i)
    rig.add()
    rig.add(replace(ADD, address="n4", serial=""))
    while rig.entry.checked_at == 0 or not rig.commands():
        rig.tick()
    silent.add("queue:0:check")
    while "waits for what check says: exit code 75" not in (held := rig.held()):
        assert rig.entry.status is EntryStatus.QUEUED
    assert "no more than 1 are repaired at once" in held
    rig.tick(14_400)
    for _ in range(10):
        rig.tick()
    first, second = rig.ledger.queue.entries
    why = "check does not answer: exit code 75"
    last = (EntryStatus.FAILED, f"the last step is over, and {why}")
    assert (first.status, first.why) == (last if steps == 1 else (EntryStatus.PROCESSING, why))
    assert second.at_work
    assert rig.commands() == ["try-1"] * 2, "one of each"
    assert not rig.node().drained
    silent.clear()
    for _ in range(60):
        rig.tick(30)
        first, second = rig.ledger.queue.entries
        assert (first.at_work, second.at_work) != (True, True)
    assert rig.commands() == ["try-1"] * 2 * steps
    assert {first.status, second.status} == {EntryStatus.FAILED}


def test_for_a_check_is_waited_as_long_as_nobody_could_make_it() -> None:
    """Else who was not there for a day would give up at once what he finds."""
    long = begun(at=WATCHING, ago=DAY, checked_at=0)
    for one in (long, unanswered(long, 14_400_000)):
        assert did(turns(one, procedures=WATCHES)) == []
    (turn,) = turns(unanswered(long), procedures=WATCHES).turns
    assert (turn.do, turn.entry.step, turn.entry.step_status) == (Do.BACK_OFF, 1, WAITING)
    recent = unanswered(begun(at=WATCHING, ago=14_459_000, checked_at=0))
    assert did(turns(recent, procedures=WATCHES)) == [], "it is asked since the watch is over"


def test_no_last_step_fails_in_a_window_for_a_check_that_does_not_answer() -> None:
    last = unanswered(begun(at=WATCHING, ago=DAY, step=1, checked_at=0))
    shut = replace(HERE, shut="n4 is in a window")
    (turn,) = turns(last, machine=shut, procedures=WATCHES).turns
    assert (turn.do, turn.entry.step, turn.entry.step_status) == (Do.BACK_OFF, 1, WAITING)


def test_between_two_tries_a_check_is_not_waited_for_for_ever() -> None:
    """Its node is drained, and its place is kept."""
    waits = unanswered(begun(0, ago=DAY, attempt=1, not_before=NOW - 14_400_000, checked_at=0))
    other = entry(1)
    places = {0: HERE, 1: Machine("n5")}
    done = turns(waits, other, machines=places)
    assert (did(done), done.held[0][0]) == ([], waits)
    (turn,) = turns(replace(waits, not_before=NOW - 14_400_001), other, machines=places).turns
    assert (turn.do, turn.entry.step) == (Do.BACK_OFF, 0)
    off = replace(waits, backoffs=1, backoff_until=NOW - 1)
    assert did(turns(off, other, machines=places)) == [(Do.EXECUTE, 1)]


def test_what_is_at_work_keeps_its_place_when_another_need_not_wait_any_more() -> None:
    waited, works = begun(0, backoffs=1, backoff_until=NOW - 1), begun(1, WATCHING, 30_000)
    places = {0: Machine("n5", candidate=True), 1: HERE}
    done = turns(waited, works, machines=places, procedures=WATCHES)
    assert did(done) == []
    assert done.held[-1] == (waited, "no more than 1 are repaired at once")
    ends = replace(works, step_status=WAITING, ending=True)
    running = {**places, 1: replace(HERE, running=True)}
    assert did(turns(waited, ends, machines=running, procedures=WATCHES)) == []


@pytest.mark.parametrize("outcome", [Outcome.LOST, Outcome.LATER])
def test_a_check_without_an_answer_says_nothing_and_is_made_after_the_others(
    outcome: Outcome,
) -> None:
    said = Result(outcome, code=75)
    (after,) = folded(entry(), order("check", "check"), results={"1": said}).queue.entries
    assert (after.checked_at, after.healthy, after.asked_at) == (NOW, False, NOW - 5)
    assert (bool(after.unanswered), after.unanswered_since) == (True, NOW - 5)
    earlier = entry(unanswered="refused", unanswered_since=NOW - 7)
    (after,) = folded(earlier, order("check", "check"), results={"1": said}).queue.entries
    assert after.unanswered_since == NOW - 7
    (after,) = folded(earlier, order("check", "check"), results={"1": NO}).queue.entries
    assert (after.unanswered, after.unanswered_since) == ("", 0)
    done = turns(entry(0, checked_at=3, asked_at=9), entry(1, checked_at=5))
    assert [one.index for one in done.checks] == [1, 0]


def test_what_waits_for_nothing_but_a_check_is_asked_for_first() -> None:
    """A thousand others are in the queue, and its node is drained."""
    waits = begun(0, DRAINING, 5000, drained=True, checked_at=NOW - 6000, asked_at=NOW - 6000)
    others = [entry(n, checked_at=NOW - 10**7) for n in (1, 2)]
    places = {0: EMPTY, 1: Machine("n5"), 2: Machine("n6")}
    done = turns(waits, *others, machines=places, procedures=DRAINS)
    assert [one.index for one in done.checks] == [0, 1, 2]
    asked = replace(waits, asked_at=NOW - 5000)
    done = turns(asked, *others, machines=places, procedures=DRAINS)
    assert [one.index for one in done.checks] == [1, 2, 0], "but once, if nobody answers"


def test_what_recovers_while_its_node_is_emptied_is_not_repaired() -> None:
    """The check that said no was made before, hours ago perhaps."""
    before = begun(at=DRAINING, ago=60_000, drained=True, checked_at=NOW - 60_001)
    done = turns(before, machine=EMPTY, procedures=DRAINS)
    assert (did(done), reasons(done)) == ([], "waits for what check says")
    since = replace(before, checked_at=NOW - 60_000)
    assert did(turns(since, machine=EMPTY, procedures=DRAINS)) == [(Do.EXECUTE, 0)]
    late = replace(before, changed_at=NOW - 14_400_001, checked_at=0)
    (turn,) = turns(late, machine=EMPTY, procedures=DRAINS).turns
    assert (turn.do, turn.entry.why) == (Do.BACK_OFF, "check does not answer"), "not for ever"
    healed = replace(since, healthy=True)
    assert did(turns(healed, machine=EMPTY, procedures=DRAINS)) == [(Do.FINISH, 0)]


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
    rig.agents.refuses = lambda i: i.entry == "queue:0:repair"
    rig.add()
    rig.add(replace(ADD, address="n4", serial=""))
    for _ in range(20):
        rig.tick(60)
    first, second = rig.ledger.queue.entries
    assert (first.status, second.status) == (EntryStatus.FAILED, EntryStatus.SUCCEEDED)
    assert first.why == "try-1 was given up after 5 tries: refused"
    assert not rig.node().drained


def test_what_was_begun_and_has_no_procedure_any_more_gives_its_node_back() -> None:
    one = begun(at=DRAINING, drained=True)
    none = Procedures()
    (turn,) = turns(one, machine=EMPTY, procedures=none).turns
    assert (turn.do, turn.entry.status) == (Do.FINISH, EntryStatus.FAILED)
    assert turn.entry.why == "no repair procedure is configured for machines of 'type1' (any more)"
    assert did(turns(turn.entry, machine=EMPTY, procedures=none)) == [(Do.UNDRAIN, 0)]
    running = replace(EMPTY, running=True)
    assert did(turns(one, machine=running, procedures=none)) == [], "its command ends first"
    assert did(turns(entry(), procedures=none)) == [], "what is queued waits for one"


@pytest.mark.parametrize("over", [{"status": EntryStatus.FAILED}, {"deleted": True}])
def test_a_node_is_not_put_back_under_the_next_entry_about_it(over: dict[str, object]) -> None:
    """Drained and empty as it is, the next would run its command at once, and not drain it."""
    old, new = replace(begun(0, drained=True), **over), entry(1)  # type: ignore[arg-type]
    done = turns(old, new, machine=EMPTY, procedures=DRAINS)
    assert did(done) == [(Do.UNDRAIN, 0)]
    assert reasons(done) == "another entry is about the same machine"
    moving = {0: replace(EMPTY, moving=True), 1: EMPTY}
    assert did(turns(old, new, machines=moving, procedures=DRAINS)) == []
    back = {0: HERE, 1: HERE}
    assert (Do.DRAIN, 1) in did(turns(old, new, machines=back, procedures=DRAINS))


def test_steps_are_told_as_people_count_them() -> None:
    beyond = begun(step=2)
    (turn,) = turns(beyond).turns
    assert turn.entry.why == "there is no step 3 in its procedure (any more)"
    watched = begun(at=WATCHING, ago=50_000, step=1)
    assert reasons(turns(watched, procedures=WATCHES)) == "step 2 is watched for 10 s more"


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


def test_a_check_from_before_the_clock_was_put_back_is_none_from_after() -> None:
    """It was made before the last command, and only both are in the future."""
    one = begun(at=WAITING, ago=-DAY, checked_at=NOW + DAY - 1, asked_at=NOW + DAY - 1)
    queue = rewind(Queue((one,)), how(), NOW)
    assert did(turns(*queue.entries)) == []
