"""Capacity is counted beside the rounds: seldom, one group at a time, and with rests."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import pytest

from nodeagent.maintd.balancing import headroom_thread
from nodeagent.maintd.balancing.headroom_thread import EVERY, SECONDS, Headrooms
from nodeagent.model.departure import Departure
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.cluster import Cluster, Group, Known, Node, Policy, Spec

SIZE = Spec(1024, 1, 1024, 1, 1, 1)


def cluster(memory: int = 8192) -> Cluster:
    """Two groups, a and b, of three nodes each."""
    groups = tuple(Group(g, g, policy=Policy(SIZE, ((SIZE, SIZE),))) for g in "ab")
    nodes = (
        Node(f"{g}{n}", g, float(memory), 0, memory, 1e6, 10**6, 64.0) for g in "ab" for n in "123"
    )
    return Cluster(groups, tuple(nodes), ())


class Desk:
    """A clock, and the work that waits for its thread."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.rested = 0.0
        self.work: list[Callable[[], None]] = []
        self.headrooms = Headrooms(self.work.append, lambda: self.seconds, self._rest)
        self.leaving: Mapping[str, Departure] = {}

    def _rest(self, seconds: float) -> None:
        self.rested += seconds

    def take(self, memory: int = 8192, groups: Collection[str] = "ab") -> None:
        self.headrooms.take(Known(cluster(memory), {}), groups)

    def round(self, groups: Collection[str] = "ab") -> list[str]:
        """Hold a round, and let the thread work; return the groups that it counted."""
        before = dict(self.headrooms.found)
        self.headrooms.count(lambda: self.leaving, groups, Ms(int(self.seconds * 1000)))
        while self.work:
            self.work.pop()()
        return [g for g, one in self.headrooms.found.items() if before.get(g) is not one]


def test_one_group_after_the_other_and_only_a_new_state() -> None:
    desk = Desk()
    assert desk.round() == []
    desk.take()
    assert [desk.round(), desk.round(), desk.round()] == [["a"], ["b"], []]
    (size,) = desk.headrooms.found["a"].document["sizes"]
    assert (size["today"]["fits"], size["worst"]["fits"], size["away"]) == (14, 7, None)
    desk.seconds += EVERY - 1
    desk.take()
    assert desk.round() == []  # it is new, but too early
    desk.seconds += 1
    assert [desk.round(), desk.round(), desk.round()] == [["a"], ["b"], []]
    desk.seconds += EVERY
    assert desk.round() == []  # nothing new is known


def test_other_nodes_that_leave_next_are_counted_soon() -> None:
    desk = Desk()
    desk.take()
    desk.round()
    desk.round()
    desk.leaving = {"b1": Departure(Ms(9_000_000))}
    assert [desk.round(), desk.round()] == [["b"], []]
    (size,) = desk.headrooms.found["b"].document["sizes"]
    assert size["away"]["without"] == ["b1"]


def test_no_second_count_beside_a_running_one() -> None:
    desk = Desk()
    desk.take()
    for _ in range(2):
        desk.headrooms.count(dict, "ab", Ms(0))
    assert len(desk.work) == 1


def test_large_groups_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headroom_thread, "NODES", 2)
    desk = Desk()
    desk.take()
    assert desk.round() == []


def test_a_bug_ends_no_thread_and_is_not_repeated_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    known = cluster()
    broken = (replace(known.nodes[0], group="c"), *known.nodes[1:])  # of a group that is unknown
    desk.headrooms.take(Known(replace(known, nodes=broken), {}), "a")
    assert [desk.round("a"), desk.round("a")] == [["a"], []]
    monkeypatch.setattr("nodeagent.placement.headroom.survey.survey", lambda *_, **__: 1 // 0)
    desk.take()
    desk.seconds += EVERY
    assert [desk.round("a"), desk.round("a")] == [[], []]
    monkeypatch.undo()
    desk.take()
    desk.seconds += EVERY
    assert desk.round("a") == ["a"]


def test_it_rests_four_times_as_long_as_it_works_and_ends() -> None:
    desk = Desk()
    slow = iter(range(10**6))
    desk.headrooms = Headrooms(
        desk.work.append, lambda: 1000 + next(slow) * 0.1, desk._rest
    )  # each look at the clock is a tenth of a second of work
    desk.take(memory=10**6)
    assert desk.round() == ["a"]
    (size,) = desk.headrooms.found["a"].document["sizes"]
    assert not size["today"]["exact"]
    assert 0 < size["today"]["fits"] < 100
    assert desk.rested == pytest.approx(SECONDS * 4, rel=0.2)


def test_no_thread_is_no_end_of_a_round() -> None:
    def none(_: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    headrooms = Headrooms(none)
    headrooms.take(Known(cluster(), {}), "a")
    headrooms.count(dict, "a", Ms(0))
    assert headrooms.found == {}
