"""The ledger to go on with, by the scenarios of a lost, restored or divided set of candidates."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.maintd.copies.choice import (
    Alone,
    Choice,
    First,
    Missing,
    Ours,
    Take,
    Wait,
    choose,
    everybody,
    is_majority,
    next_epoch,
)
from nodeagent.model.copies import Holding, Kept, Stamp, Trouble
from nodeagent.model.units import Ms
from nodeagent.store.contract import Revision

NEVER = Revision(0, 7)
SILENT = Missing("timed out")
OLD = Missing("too old", able=False)
NONE = Holding()


def kept(epoch: int, number: int, writer: str = "m", among: str = "mbc", at: int = 0) -> Kept:
    return Kept(Stamp(epoch, writer, number), Ms(at or number), tuple(among), "", 1, 1)


def has(epoch: int, number: int, writer: str = "m", among: str = "mbc") -> Holding:
    return Holding(epoch, writer, (kept(epoch, number, writer, among),))


def to(writer: str, epoch: int = 3) -> Holding:
    """A promise, and no copy."""
    return Holding(epoch, writer)


def take(epoch: int, number: int, sources: str, writer: str = "m", among: str = "mbc") -> Take:
    return Take(kept(epoch, number, writer, among), tuple(sources))


@pytest.mark.parametrize(("answers", "ours", "me", "choice"), [
    # The first use, and agents that are too old.
    pytest.param({"m": NONE, "b": NONE, "c": NONE}, NEVER, "m", First(), id="no copy yet"),
    pytest.param({"m": NONE, "b": NONE, "c": OLD}, NEVER, "m", First(), id="two of three are able"),
    pytest.param({"m": NONE, "b": OLD, "c": OLD}, NEVER, "m", Alone(), id="one is able"),
    pytest.param({"m": OLD, "b": OLD, "c": OLD}, NEVER, "m", Alone(), id="none is able"),
    pytest.param({"m": NONE, "b": SILENT, "c": SILENT}, NEVER, "m", Wait(Trouble.FEW, None),
                 id="none answers: they may have copies"),
    pytest.param({"m": OLD, "b": OLD, "c": SILENT}, NEVER, "m", Alone(), id="an upgrade"),
    # Failovers.
    pytest.param({"m": SILENT, "b": has(1, 900), "c": has(1, 900)}, NEVER, "b",
                 take(1, 900, "bc"), id="1 M dies after a hand-over"),
    pytest.param({"m": SILENT, "b": has(1, 899), "c": has(1, 898)}, NEVER, "b",
                 take(1, 899, "b"), id="2 the newest of a majority, though one only has it"),
    pytest.param({"m": SILENT, "b": has(1, 100), "c": SILENT}, NEVER, "b",
                 Wait(Trouble.FEW, take(1, 100, "b")), id="5 B was down for a week"),
    pytest.param({"b": has(1, 9, among="mb"), "m": SILENT}, NEVER, "b",
                 Wait(Trouble.FEW, take(1, 9, "b", among="mb")), id="6 two candidates in all"),
    pytest.param({"m": has(1, 950), "b": has(2, 3, "b"), "c": has(2, 3, "b")}, Revision(1, 950),
                 "m", take(2, 3, "bc", "b"), id="7 the epoch counts before the number"),
    pytest.param({"m": SILENT, "b": has(4, 9, "b"), "c": has(4, 9, "c")}, NEVER, "d",
                 Wait(Trouble.CONFLICT, take(4, 9, "c", "c")), id="8 two writers of one epoch"),
    pytest.param({"m": NONE, "b": has(4, 9, "b"), "c": has(4, 8, "b")}, Revision(4, 20), "m",
                 Wait(Trouble.CONFLICT, take(4, 9, "b", "b")), id="8 one of the two is ours"),
    pytest.param({"m": has(3, 5), "b": has(3, 900), "c": has(3, 900)}, Revision(3, 5), "m",
                 take(3, 900, "bc"), id="9 our own machine was restored"),
    pytest.param({"m": has(3, 900), "b": has(3, 900), "c": has(2, 4, "b")}, Revision(3, 900), "m",
                 Ours(), id="10 C was restored, and outvoted"),
    pytest.param({"m": has(3, 9, among="mbc"), "b": SILENT, "c": SILENT, "d": NONE, "e": NONE},
                 Revision(3, 5), "m", Wait(Trouble.FEW, take(3, 9, "m")),
                 id="12 a majority of the candidates then is needed, too"),
    pytest.param({"m": has(3, 9), "b": has(3, 9), "c": SILENT, "d": NONE, "e": NONE},
                 Revision(3, 5), "m", take(3, 9, "bm"), id="12 and it answers"),
    pytest.param({"m": has(3, 9), "b": has(3, 9), "c": SILENT, "d": SILENT, "e": SILENT},
                 Revision(3, 5), "m", Wait(Trouble.FEW, take(3, 9, "bm")),
                 id="12 that of today is needed, too"),
    # Our own file.
    pytest.param({"m": has(3, 9), "b": has(3, 9), "c": SILENT}, Revision(3, 12), "m", Ours(),
                 id="killed before the hand-over, on the same node"),
    pytest.param({"m": has(3, 9), "b": has(3, 9), "c": SILENT}, Revision(4, 13), "m", Ours(),
                 id="killed before our epoch was handed over"),
    pytest.param({"m": NONE, "b": NONE, "c": NONE}, Revision(3, 12), "m",
                 Wait(Trouble.LOST, None), id="the candidates lost theirs"),
    pytest.param({"m": to("m"), "b": to("m"), "c": NONE}, Revision(3, 12), "m", Ours(),
                 id="killed before the first copy of all"),
    pytest.param({"m": to("m", 4), "b": to("m", 5), "c": SILENT}, Revision(3, 12), "m", Ours(),
                 id="and again before our next epoch begins"),
    pytest.param({"m": to("m"), "b": to("b", 4), "c": to("b", 4)}, Revision(3, 12), "m",
                 Wait(Trouble.LOST, None), id="they have promised to another since"),
    pytest.param({"m": to("m", 2), "b": to("m", 2), "c": NONE}, Revision(3, 12), "m",
                 Wait(Trouble.LOST, None), id="their promises are older than our epoch"),
    pytest.param({"m": to("m"), "b": NONE, "c": SILENT}, Revision(3, 12), "m",
                 Wait(Trouble.LOST, None), id="too few of them know our epoch"),
    pytest.param({"m": NONE, "b": SILENT, "c": SILENT}, Revision(3, 12), "m",
                 Wait(Trouble.FEW, None), id="only we answer, without a copy"),
    pytest.param({"m": has(3, 9), "b": SILENT, "c": SILENT}, Revision(3, 12), "m",
                 Wait(Trouble.FEW, None), id="only we answer, with a copy that is older"),
])  # fmt: skip
def test_a_majority_of_all_candidates_decides(
    answers: dict[str, Holding | Missing], ours: Revision, me: str, choice: Choice
) -> None:
    candidates = "made" if "d" in answers else "mb" if len(answers) == 2 else "mbc"
    assert choose(candidates, answers, ours, me) == choice


def test_half_is_no_majority_and_nobody_has_none() -> None:
    assert is_majority("ab", "abc")
    assert not is_majority("ab", "abcd")
    assert not is_majority("abxyz", "abcd"), "others do not count"
    assert not is_majority("", "")
    assert is_majority("a", "a")


def test_the_next_epoch_is_above_all_known() -> None:
    answers = {"b": Holding(5, "b", (kept(4, 1),)), "c": Holding(0, "", (kept(7, 1),))}
    assert next_epoch(answers, Revision(3, 1)) == 8
    assert next_epoch({}, Revision(3, 1)) == 4
    assert next_epoch({"b": Missing("outbid", promised=11)}, Revision()) == 12


def test_the_candidates_of_a_copys_time_are_asked_too() -> None:
    assert everybody("md", {"m": has(1, 1), "d": SILENT}) == frozenset("mdbc")


@given(st.integers(1, 7), st.data())
def test_two_majorities_share_a_candidate(count: int, data: st.DataObject) -> None:
    """So a save that a majority had is found by every other majority, whoever else is away."""
    nodes = "abcdefg"[:count]
    wrote = data.draw(st.sets(st.sampled_from(nodes)).filter(lambda s: is_majority(s, nodes)))
    for size in range(count + 1):
        for some in combinations(nodes, size):
            answers = {
                node: (has(3, 9, among=nodes) if node in wrote else has(3, 4, among=nodes))
                if node in some
                else SILENT
                for node in nodes
            }
            choice = choose(nodes, answers, NEVER, "a")
            if is_majority(some, nodes):
                assert isinstance(choice, Take)
                assert choice.copy.stamp.number == 9
            else:
                assert isinstance(choice, Wait)
