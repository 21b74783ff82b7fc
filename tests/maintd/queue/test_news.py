"""What a round learns of one entry: how its orders and jobs have ended."""

from dataclasses import replace
from typing import Any

import pytest

from nodeagent.model.action import Drain, MoveSecondary
from nodeagent.model.ledger import Intent, Outcome, Result
from nodeagent.model.purpose import OfEntry
from nodeagent.model.queue import Entry, EntryStatus, RepairStep
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Seconds
from nodeagent.protocol.messages import INTERRUPTED, UNREAD
from tests.maintd.queue.mender import BROKEN, NO, YES
from tests.maintd.queue.turns import DRAINING, LATER, WAITING, WATCHING, begun, entry, folded, how
from tests.maintd.queue.turns import order as ordered
from tests.maintd.world import NOW

CHECK, REPAIR = ordered("check", "check"), ordered("repair", "try-1")
TELL = ordered("success", "tell")
DRAIN = Intent("1", OfEntry(0, "empty"), "n4", Drain("n4"), "7")
LOST = Result(Outcome.LOST)
CUT_OFF = Result(Outcome.ERROR, "the agent ended while it ran")
RETRIED = how(RepairStep("try-1", command_retries=1, command_interval=Seconds(30)))


def after(one: Entry, order: Intent, said: Result | str, **members: Any) -> Entry:
    """The entry after this result, or after its order was refused for this reason."""
    news = {"absent": {"1": said}} if isinstance(said, str) else {"results": {"1": said}}
    (found,) = folded(one, order, **news, **members).queue.entries
    return found


CHECKS: list[tuple[Result, bool]] = [
    (YES, True),
    (replace(YES, said="True"), False),
    (replace(YES, said="true\ntrue"), False),
    (replace(YES, said=""), False),
    (replace(YES, code=None), False),
    (replace(YES, code=1), False),
    (replace(BROKEN, said="true"), False),
    (Result(Outcome.ERROR, "timed out after 30 s"), False),
]


def test_a_health_check_counts_only_by_exit_code_0_and_the_word_true() -> None:
    for said, healthy in CHECKS:
        found = after(entry(unanswered="refused", unanswered_since=NOW - 7), CHECK, said)
        assert (found.healthy, found.checked_at, found.asked_at) == (healthy, NOW - 5, NOW - 5), (
            said,
            healthy,
        )
        assert (found.unanswered, found.unanswered_since) == ("", 0), (said, healthy)


NO_ANSWERS: list[tuple[Result | str, str]] = [
    (LOST, "its agent no longer knows it: how far it came is unknown"),
    (LATER, "exit code 75"),
    # The master's own agent was killed.
    (Result(Outcome.ERROR, f"{INTERRUPTED}; how far"), f"{INTERRUPTED}; how far"),
    (Result(Outcome.ERROR, f"{UNREAD}; how far"), f"{UNREAD}; how far"),
    ("refused", "refused"),
]


def test_a_check_without_an_answer_says_nothing() -> None:
    for said, why in NO_ANSWERS:
        found = after(entry(healthy=True), CHECK, said)
        assert (found.checked_at, found.healthy, found.asked_at) == (NOW, True, NOW - 5), (
            said,
            why,
        )
        assert (found.unanswered, found.unanswered_since) == (why, NOW - 5), (said, why)
        earlier = entry(unanswered="refused", unanswered_since=NOW - 7)
        assert after(earlier, CHECK, said).unanswered_since == NOW - 7, (said, why)


ENDS: list[tuple[Entry, Intent, Result, EntryStatus, str]] = [
    (begun(at=WATCHING), TELL, YES, EntryStatus.SUCCEEDED, "the machine is healthy"),
    (
        begun(at=WATCHING),
        TELL,
        BROKEN,
        EntryStatus.FAILED,
        "its success command failed: exit code 1",
    ),
    (begun(at=WATCHING), REPAIR, YES, EntryStatus.PROCESSING, ""),
    (begun(at=WATCHING), REPAIR, BROKEN, EntryStatus.PROCESSING, "try-1 failed: exit code 1"),
    (begun(attempt=1), REPAIR, BROKEN, EntryStatus.FAILED, "try-1 failed: exit code 1"),
    # A step that is configured no more, and what was cut off, are not run again.
    (begun(step=2), REPAIR, BROKEN, EntryStatus.FAILED, "try-1 failed: exit code 1"),
    (
        begun(operation="op9"),
        REPAIR,
        BROKEN,
        EntryStatus.FAILED,
        "try-1 failed: exit code 1",
    ),
    (
        begun(at=WATCHING),
        REPAIR,
        CUT_OFF,
        EntryStatus.FAILED,
        "try-1 failed: the agent ended while it ran",
    ),
    (
        begun(at=WATCHING),
        REPAIR,
        LOST,
        EntryStatus.FAILED,
        "try-1 failed: its agent no longer knows it: how far it came is unknown",
    ),
]


def test_how_a_command_ends() -> None:
    for one, order, said, status, why in ENDS:
        found = after(one, order, said, procedures=RETRIED)
        assert (found.status, found.why) == (status, why), (one, order)


def test_a_repair_command_that_fails_is_run_again_later() -> None:
    for said in (BROKEN, replace(NO, outcome=Outcome.ERROR)):
        found = after(begun(at=WATCHING, tries=4), REPAIR, said, procedures=RETRIED)
        assert (found.step_status, found.attempt, found.tries) == (WAITING, 1, 0)
        assert found.not_before == NOW + 30_000
    found = after(begun(attempt=1, not_before=NOW, tries=4), REPAIR, YES)
    assert (found.attempt, found.not_before, found.tries, found.changed_at) == (0, 0, 0, NOW)


@pytest.mark.parametrize("order", [REPAIR, TELL], ids=["repair", "success"])
@pytest.mark.parametrize("said", ["refused", LATER])
def test_a_command_that_never_runs_is_given_up(order: Intent, said: Result | str) -> None:
    before = begun(at=WATCHING, ending=order is TELL, drained=True)
    for tries in range(1, 5):
        found = after(replace(before, tries=tries - 1), order, said)
        assert (found.processing, found.tries, found.not_before) == (True, tries, NOW + 60_000)
        assert found.step_status is (WAITING if order is REPAIR else WATCHING)
    found = after(replace(before, tries=4), order, said)
    why = said if isinstance(said, str) else said.why
    assert (found.status, found.tries) == (EntryStatus.FAILED, 4)
    assert found.why.endswith(f" was given up after 5 tries: {why}")


@pytest.mark.parametrize("said", ["full", Result(Outcome.ERROR, "no")])
def test_a_drain_that_was_none_is_not_ours_to_undo(said: Result | str) -> None:
    one = begun(at=DRAINING, drained=True)
    found = after(one, DRAIN, said)
    assert (found.drained, found.step_status, found.backoffs) == (False, WAITING, 1)
    found = after(replace(one, status=EntryStatus.FAILED), DRAIN, said)
    assert not found.drained, "though it is over by now"
    assert (found.step_status, found.backoffs) == (DRAINING, 0)


@pytest.mark.parametrize(
    ("said", "left"), [(Result(Outcome.ERROR, "no"), 0), (Result(Outcome.RUNNING), 2), (YES, 1)]
)
def test_what_was_to_follow_a_job_that_has_failed_is_dropped(said: Result, left: int) -> None:
    """By then its node is drained, or not any more."""
    there = (Node("n4", "uuid-n4", "10.0.0.4", drained=said is YES),)
    then = replace(DRAIN, id="2", action=MoveSecondary("i1", "n4", "n5"), job=None, after="1")
    done = folded(begun(at=DRAINING), DRAIN, then, nodes=there, results={"1": said})
    assert len(done.intents) == left


def test_what_runs_for_an_entry_that_is_deleted_is_waited_for() -> None:
    one = begun(at=DRAINING, drained=True, deleted=True)
    assert folded(one, DRAIN, results={"1": Result(Outcome.RUNNING)}).intents == (DRAIN,)
    assert not folded(one, DRAIN, results={"1": LOST}).intents
    assert not folded(entry(1), DRAIN, results={"1": LOST}).intents, "there is none any more"
    lasting = replace(one, deleted=False)
    assert folded(lasting, DRAIN, results={"1": LOST}).intents == (DRAIN,)
