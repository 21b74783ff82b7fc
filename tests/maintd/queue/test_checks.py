"""Checks of a machine's health: who waits for them, how long, and who does not."""

from dataclasses import replace

import pytest

from nodeagent.maintd.queue.state import rewind
from nodeagent.maintd.queue.strategy import Do, Machine
from nodeagent.model.ledger import Outcome, Result
from nodeagent.model.queue import Entry, EntryStatus, Queue, RepairStep
from nodeagent.model.reason import Kind, because
from nodeagent.model.units import Ms, Seconds
from tests.maintd.queue.news import DAY, DRAINING, LATER, WAITING, WATCHING, folded, order
from tests.maintd.queue.test_entries import ADD, NO, Mender, policy
from tests.maintd.queue.test_strategy import (
    DRAINS,
    EMPTY,
    HERE,
    WATCHES,
    begun,
    did,
    entry,
    how,
    turns,
    whys,
)
from tests.maintd.world import NOW


def test_a_check_that_nobody_makes_keeps_no_other_machine_waiting() -> None:
    """The agent refuses it: a command that is not listed there, say."""
    rig = Mender(policy())
    rig.agents.refuses = lambda i: i.purpose.entry == "queue:0:check"
    rig.add()
    rig.add(replace(ADD, address="n4", serial=""))
    for _ in range(12):
        rig.tick()
    first, second = rig.ledger.queue.entries
    assert (first.status, second.status) == (EntryStatus.QUEUED, EntryStatus.SUCCEEDED)
    assert (Kind.CHECK_AWAITED, "") in rig.whys()


def unanswered(one: Entry, ago: int = DAY) -> Entry:
    return replace(one, unanswered="exit code 75", unanswered_since=NOW - ago)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_check_that_never_answers_after_a_step_is_told_and_keeps_nobody_waiting(
    steps: int,
) -> None:
    rig = Mender(
        policy(*[RepairStep("try-1", need_drain=True, watch_seconds=Seconds(60))] * steps), "none"
    )
    ended = rig.agents.tells
    silent = set[str]()
    rig.agents.tells = lambda i: LATER if i.purpose.entry in silent else ended(i)
    rig.add()
    rig.add(replace(ADD, address="n4", serial=""))
    while rig.entry.checked_at == 0 or not rig.commands():
        rig.tick()
    silent.add("queue:0:check")
    awaited = because(Kind.CHECK_AWAITED, command="check", unanswered="exit code 75")
    while awaited not in (held := rig.whole()):
        assert rig.entry.status is EntryStatus.QUEUED
    assert because(Kind.AT_MOST, most=1) in held
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
    shut = replace(HERE, shut=because(Kind.IN_WINDOW, "n4"))
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
    assert done.held[-1] == (waited, because(Kind.AT_MOST, most=1))
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
    assert (did(done), whys(done)) == ([], [(Kind.CHECK_AWAITED, "")])
    since = replace(before, checked_at=NOW - 60_000)
    assert did(turns(since, machine=EMPTY, procedures=DRAINS)) == [(Do.EXECUTE, 0)]
    late = replace(before, changed_at=NOW - 14_400_001, checked_at=Ms(0))
    (turn,) = turns(late, machine=EMPTY, procedures=DRAINS).turns
    assert (turn.do, turn.entry.why) == (Do.BACK_OFF, "check does not answer"), "not for ever"
    healed = replace(since, healthy=True)
    assert did(turns(healed, machine=EMPTY, procedures=DRAINS)) == [(Do.FINISH, 0)]


def test_a_check_from_before_the_clock_was_put_back_is_none_from_after() -> None:
    """It was made before the last command, and only both are in the future."""
    one = begun(at=WAITING, ago=-DAY, checked_at=NOW + DAY - 1, asked_at=NOW + DAY - 1)
    queue = rewind(Queue((one,)), how(), NOW)
    assert did(turns(*queue.entries)) == []
