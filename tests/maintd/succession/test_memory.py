"""The helper's memory: since when the master is silent, and the last failover."""

from dataclasses import replace
from typing import Any

import pytest

from nodeagent.maintd.succession.plan import (
    GAP,
    HOUR,
    Attempt,
    Known,
    Memory,
    Silence,
    outcome,
    remember,
)
from nodeagent.model.clock import Moment
from nodeagent.model.reason import SuccessionKind, because
from nodeagent.model.units import Ms
from nodeagent.store.records import Fault, document_of, value_of
from tests.maintd.succession.knowledge import (
    ANSWERS,
    SINCE,
    STEADY,
    earlier,
    heard,
    known,
    told_by,
    world,
)
from tests.maintd.world import NOW


def later(ms: int, boot: str = "boot") -> Moment:
    return replace(earlier(-ms), boot=boot)


def after(one: Known, **members: Any) -> Known:
    """The knowledge after one more look at the master."""
    found = known(**{"memory": one.memory, **members})
    return replace(found, memory=remember(found))


FIRST = after(known(since=None))


def test_silence_is_measured_from_the_first_look_that_found_it() -> None:
    assert FIRST.since == NOW
    two = after(FIRST, at=later(60_000))
    assert replace(two, at=later(90_000)).since == NOW
    other = replace(world(), master="n2")
    assert replace(two, at=later(90_000), snapshot=other).since is None


def test_a_machine_that_slept_or_a_clock_that_was_set_changes_nothing() -> None:
    set_forward = Moment(Ms(NOW + 10 * HOUR), Ms(STEADY + 1000), "boot", "")
    assert replace(FIRST, at=set_forward).since == set_forward.wall - 1000


def test_silence_counts_to_the_end_of_the_longest_gap() -> None:
    assert replace(FIRST, at=later(GAP)).since == NOW
    assert after(FIRST, at=later(GAP)).since == NOW


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(later(GAP + 1), id="nobody has looked for too long"),
        pytest.param(later(1000, "other"), id="this node has booted"),
        pytest.param(later(-1), id="from the future"),
    ],
)
def test_silence_counts_from_now_where_nobody_knows_better(at: Moment) -> None:
    assert replace(FIRST, at=at).since is None
    assert after(FIRST, at=at).since == at.wall


def test_an_answer_ends_the_silence() -> None:
    answers = heard(n4=told_by("n4", ANSWERS))
    assert after(FIRST, heard=answers, at=later(1)).memory == Memory()


def test_too_few_answers_neither_begin_nor_end_it() -> None:
    few = heard("n1", "n2")
    assert after(known(since=None), heard=few).memory == Memory()
    assert after(known(since=None), heard=heard("n1", "n2", "n3")).since == NOW
    assert after(FIRST, heard=few, at=later(1)).memory == FIRST.memory


def test_a_look_forgets_no_failover() -> None:
    tried = Attempt(Ms(NOW - HOUR), "n9", "why")
    assert after(known(since=None, tried=tried)).memory.tried == tried
    answers = heard(n4=told_by("n4", ANSWERS))
    assert after(known(tried=tried), heard=answers).memory == Memory(tried=tried)


def test_a_configuration_without_the_master_is_told() -> None:
    one = known(snapshot=replace(world(), master="n7"), files="n7", heard=None)
    assert one.since is None
    assert outcome(one, because(SuccessionKind.FILES_DIFFER, "n7"))["silent-since"] is None


def test_it_is_read_as_it_was_written() -> None:
    one = Memory(known(since=SINCE).memory.silence, Attempt(NOW, "n0", "why"))
    assert value_of(Memory, document_of(one)) == one


SILENCE = document_of(Silence("m", "boot", Ms(1), Ms(2)))


@pytest.mark.parametrize(
    "document",
    [None, [], {"more": 1}, {"tried": ""}, {"tried": {}}, {"silence": {**SILENCE, "last": "2"}}],
)
def test_nothing_else_is_read(document: object) -> None:
    with pytest.raises(Fault):
        value_of(Memory, document)
