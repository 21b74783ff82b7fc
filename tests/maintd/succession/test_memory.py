"""The helper's memory: since when the master is silent, and which failover has not ended."""

from dataclasses import replace

import pytest

from nodeagent.errors import Corrupt
from nodeagent.maintd.succession.memory import (
    GAP,
    Clocks,
    Memory,
    begins,
    ended,
    from_json,
    heard,
    resumed,
    to_json,
)
from nodeagent.maintd.succession.plan import HOUR, Step
from nodeagent.model.evidence import Contact
from nodeagent.model.units import Ms
from tests.maintd.succession import test_plan as rules
from tests.maintd.world import NOW

AT = Clocks(NOW, Ms(5_000_000), "boot")


def later(ms: int, boot: str = "boot") -> Clocks:
    return Clocks(Ms(AT.now + ms), Ms(AT.steady + ms), boot)


def test_silence_is_measured_from_the_first_look_that_found_it() -> None:
    one = heard(Memory(), rules.known(), AT)
    assert one.silent_since("uuid-n0", AT) == NOW
    two = heard(one, rules.known(), later(60_000))
    assert two.silent_since("uuid-n0", later(90_000)) == NOW
    assert two.silent_since("uuid-n1", later(90_000)) is None


def test_a_machine_that_slept_or_a_clock_that_was_set_changes_nothing() -> None:
    one = heard(Memory(), rules.known(), AT)
    set_forward = Clocks(Ms(NOW + 10 * HOUR), Ms(AT.steady + 1000), "boot")
    assert one.silent_since("uuid-n0", set_forward) == set_forward.now - 1000


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(later(GAP + 1), id="nobody has looked for too long"),
        pytest.param(later(1000, "other"), id="this node has booted"),
        pytest.param(later(-1), id="from the future"),
    ],
)
def test_silence_counts_from_now_where_nobody_knows_better(at: Clocks) -> None:
    one = heard(Memory(), rules.known(), AT)
    assert one.silent_since("uuid-n0", at) is None
    assert heard(one, rules.known(), at).silent_since("uuid-n0", at) == at.now


def test_an_answer_ends_the_silence() -> None:
    one = heard(Memory(), rules.known(), AT)
    answers = rules.heard(n4=rules.told_by("n4", Contact.ANSWERS))
    assert heard(one, rules.known(heard=answers), later(1)).silent_since("uuid-n0", AT) is None


def test_too_few_answers_neither_begin_nor_end_it() -> None:
    few = rules.known(heard=rules.heard("n1", "n2"))
    assert heard(Memory(), few, AT) == Memory()
    one = heard(Memory(), rules.known(), AT)
    assert heard(one, few, later(1)) == one


def test_a_failover_that_was_cut_short_goes_on_for_an_hour() -> None:
    begun = begins(Memory(), rules.known(), Step.POWER_OFF, AT)
    begun = begins(begun, rules.known(), Step.FAIL_OVER, later(1000))
    assert begun.begun == NOW
    assert resumed(begun, rules.known(), later(HOUR - 1)) == begun
    after = resumed(begun, rules.known(), later(HOUR))
    assert (after.of, after.last, after.why) == ("", "n0", "its end is unknown")
    assert after.tried_lately == (Ms(NOW + HOUR), "n0", "its end is unknown")


def test_a_failover_that_was_cut_short_and_has_made_us_the_master_has_ended() -> None:
    begun = begins(Memory(), rules.known(), Step.FAIL_OVER, AT)
    after = resumed(begun, rules.known(files="n1"), later(1))
    assert (after.of, after.why) == ("", "this node became the master")


def test_a_failover_of_another_master_has_ended() -> None:
    begun = begins(Memory(), rules.known(), Step.FAIL_OVER, AT)
    other = rules.known(snapshot=replace(rules.world(), master="n2"), files="n2")
    assert resumed(begun, other, later(1)).last == "n0"


def test_a_power_off_alone_is_no_try() -> None:
    begun = begins(Memory(), rules.known(), Step.POWER_OFF, AT)
    assert resumed(begun, rules.known(), later(2 * HOUR)) == begun
    assert begun.tried_lately is None


def test_it_is_read_as_it_was_written() -> None:
    one = ended(heard(Memory(), rules.known(), AT), "n0", "why", AT)
    assert from_json(to_json(one)) == one


@pytest.mark.parametrize(
    "document", [None, [], {}, {**to_json(Memory()), "more": 1}, {**to_json(Memory()), "tried": ""}]
)
def test_nothing_else_is_read(document: object) -> None:
    with pytest.raises(Corrupt):
        from_json(document)
