"""Whether Ganeti's noded answers: asked beside the rounds, of few nodes, and seldom."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import pytest

from nodeagent.errors import Unavailable
from nodeagent.maintd.engine.noded import AGAIN, AT_ONCE, Noded
from nodeagent.model.snapshot import Snapshot
from tests.cluster.by_hand import ByHand
from tests.maintd.rig import Between, fleet


class Asked(Between):
    """Remembers who was asked; may refuse."""

    def __init__(self, cluster: ByHand) -> None:
        super().__init__(cluster)
        self.asked: list[list[str]] = []
        self.refuses: Exception | None = None

    def answering(self, nodes: Collection[str]) -> frozenset[str]:
        self.asked.append(list(nodes))
        if self.refuses:
            raise self.refuses
        return self.cluster.answering(nodes)


class Desk:
    """Asks at times set by hand; what a thread would do waits in `work` where `waits`."""

    def __init__(self, nodes: int = 6) -> None:
        self.seconds = 0.0
        self.cluster = ByHand.of(lambda: self.seconds, fleet(nodes), master="n1")
        self.between = Asked(self.cluster)
        self.waits = False
        self.work: list[Callable[[], None]] = []
        self.noded = Noded(self.between, lambda: self.seconds, self._start)

    def _start(self, work: Callable[[], None]) -> None:
        self.work.append(work)
        if not self.waits:
            self.work.pop()()

    @property
    def snapshot(self) -> Snapshot:
        return self.cluster.snapshot()

    def ask(self, *names: str, after: float = 0.0) -> Mapping[str, bool]:
        self.seconds += after
        self.noded.ask(self.snapshot, names)
        return self.noded.answers()


def test_nobody_is_asked_as_long_as_all_can_be_reached() -> None:
    desk = Desk()
    assert [desk.ask(after=AGAIN) for _ in range(3)] == [{}] * 3
    assert desk.between.asked == []


def test_the_dead_is_told_from_the_one_whose_agent_is_down_and_asked_again_seldom() -> None:
    desk = Desk()
    desk.cluster.world.machines.off |= {"n4"}
    assert desk.ask("n4", "n5") == {"n4": False, "n5": True}
    assert desk.between.asked == [["n4", "n5", "n1"]], "with the master as a witness"
    for _ in range(29):
        desk.ask("n4", "n5", after=AGAIN / 30)
    assert len(desk.between.asked) == 1
    desk.cluster.world.machines.off -= {"n4"}
    assert desk.ask("n4", "n5", after=AGAIN / 30) == {"n4": True, "n5": True}
    assert desk.ask("n5") == {"n5": True}, "who answers again is forgotten"
    assert desk.ask("n4", "n5") == {"n4": True, "n5": True}
    assert desk.between.asked[2:] == [["n4", "n1"]], "and asked at once if it is silent again"


def test_a_hypervisor_that_fails_is_no_silence() -> None:
    desk = Desk()
    desk.cluster.world.blind |= {"n4"}
    assert "n4" not in desk.cluster.capacity(["n4"])
    assert desk.ask("n4") == {"n4": True}


def test_if_nobody_answers_it_is_no_evidence() -> None:
    desk = Desk()
    assert desk.ask("n4") == {"n4": True}
    desk.cluster.world.machines.off |= set(desk.snapshot.nodes)
    assert desk.ask("n4", after=AGAIN) == {}


@pytest.mark.parametrize("error", [Unavailable("luxid is busy"), ValueError("a bug")])
def test_an_older_answer_is_dropped_where_ganeti_does_not_tell(error: Exception) -> None:
    desk = Desk()
    assert desk.ask("n4") == {"n4": True}
    desk.between.refuses = error
    assert desk.ask("n4", after=AGAIN) == {}
    desk.between.refuses = None
    desk.cluster.world.machines.off |= {"n4"}
    assert desk.ask("n4", after=AGAIN) == {"n4": False}


def test_one_question_at_a_time_and_no_round_waits_for_it() -> None:
    desk = Desk()
    desk.waits = True
    assert desk.ask("n4") == {}
    assert desk.ask("n4", "n5", after=10 * AGAIN) == {}
    (work,) = desk.work
    work()
    assert desk.noded.answers() == {"n4": True}


def test_of_many_some_are_asked_at_once_and_all_in_turn() -> None:
    desk = Desk(60)
    silent = [f"n{i}" for i in range(10, 50)]
    found = [len(desk.ask(*silent, after=10)) for _ in range(4)]
    assert found == [AT_ONCE, 2 * AT_ONCE, 40, 40]
    assert [len(names) for names in desk.between.asked] == [16, 16, 11]


def test_without_a_witness_or_where_ganeti_asks_no_noded_nothing_is_asked() -> None:
    desk = Desk()
    assert desk.ask(*desk.snapshot.nodes) == {}
    desk.cluster.put(replace(desk.cluster.nodes["n4"], vm_capable=False))
    assert desk.ask("n4") == {}
    assert desk.between.asked == []
    desk.cluster.put(replace(desk.cluster.nodes["n1"], drained=True))
    desk.ask("n5")
    assert desk.between.asked == [["n5", "n2"]], "any node in service is as good as the master"


def test_where_no_thread_is_to_be_had_it_is_tried_later() -> None:
    desk = Desk()

    def none(_: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    noded = Noded(desk.between, lambda: desk.seconds, none)
    noded.ask(desk.snapshot, ["n4"])
    desk.seconds += AGAIN
    noded.ask(desk.snapshot, ["n4"])
    assert noded.answers() == {}
