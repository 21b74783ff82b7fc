"""The search beside the rounds: one at a time, none in vain, and no end of the daemon."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from nodeagent.errors import Unavailable
from nodeagent.maintd.balancing.search_thread import Adviser
from nodeagent.model.balance import Advice, Question
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.cluster import Cluster, Known, Load, Loads
from nodeagent.placement.cluster.textfile import parse
from tests.maintd.balancing.world import LOPSIDED

SEEN = Snapshot("c", {})
KNOWN = Known(parse(LOPSIDED), {})
ASKED = Question("g", frozenset({"n1", "n2"}), 10, 0.01)


class Desk:
    """An adviser whose searches are begun by hand, at a time set by hand."""

    def __init__(self, known: Known | Exception = KNOWN) -> None:
        self.known = known
        self.work: list[Callable[[], None]] = []
        self.looked = 0
        self.seconds = 0.0
        self.loads: Loads = {}
        self.measured: list[str] = []
        self.doubts: Mapping[str, str] = {}
        self.adviser = Adviser(self._look, self._measure, self.work.append, lambda: self.seconds)

    def _look(self, _: Snapshot, __: Sequence[Question]) -> Known:
        self.looked += 1
        if isinstance(self.known, Exception):
            raise self.known
        return self.known

    def _measure(self, _: Snapshot, asked: Sequence[Question]) -> tuple[Loads, Mapping[str, str]]:
        self.measured += [question.group for question in asked]
        return self.loads, self.doubts

    def ask(self, *questions: Question, now: int = 7) -> None:
        self.adviser.ask(questions, SEEN, Ms(now))
        while self.work:
            self.work.pop()()


def test_one_search_at_a_time() -> None:
    desk = Desk()
    desk.adviser.ask([ASKED], SEEN, Ms(1))
    desk.adviser.ask([ASKED], SEEN, Ms(2))
    assert len(desk.work) == 1
    desk.work.pop()()
    desk.adviser.ask([ASKED], SEEN, Ms(3))
    assert len(desk.work) == 1


def test_a_search_that_does_not_end_is_told_and_none_is_begun_beside_it() -> None:
    desk = Desk()
    desk.seconds = 50.0
    desk.adviser.ask([ASKED], SEEN, Ms(1))
    desk.seconds += 900.0
    desk.adviser.ask([ASKED], SEEN, Ms(2))
    assert desk.adviser.advice() == {}
    desk.seconds += 60.0
    desk.adviser.ask([ASKED], SEEN, Ms(3))
    assert desk.adviser.advice()["g"] == Advice(
        "g", Ms(3), why="the search has not ended for 16 min"
    )
    assert len(desk.work) == 1
    desk.work.pop()()
    assert not desk.adviser.advice()["g"].why
    desk.adviser.ask([ASKED], SEEN, Ms(4))
    assert len(desk.work) == 1


def test_where_no_thread_is_to_be_had_it_is_told_and_tried_again() -> None:
    desk = Desk()

    def none(_: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    desk.adviser = Adviser(desk._look, desk._measure, none)
    for now in (1, 2):
        desk.ask(ASKED, now=now)
        why = "nothing can be searched: can't start new thread"
        assert desk.adviser.advice() == {"g": Advice("g", Ms(now), why=why)}
    threads: list[Callable[[Callable[[], None]], None]] = [none, lambda work: work()]
    desk.adviser = Adviser(desk._look, desk._measure, lambda work: threads.pop(0)(work))
    desk.ask(ASKED)
    assert desk.adviser.advice()["g"].why
    desk.ask(ASKED)
    assert not desk.adviser.advice()["g"].why


def test_who_cannot_be_asked_is_told_and_asked_again() -> None:
    desk = Desk(Unavailable("luxid does not answer"))
    desk.ask(ASKED)
    assert desk.adviser.advice()["g"].why == "luxid does not answer"
    desk.known = KNOWN
    desk.ask(ASKED)
    assert desk.adviser.advice()["g"].shifts


def test_a_bug_of_the_search_ends_nothing() -> None:
    desk = Desk(ZeroDivisionError("a bug"))
    desk.ask(ASKED)
    assert "ZeroDivisionError" in desk.adviser.advice()["g"].why
    desk.known = KNOWN
    desk.ask(ASKED)
    assert desk.adviser.advice()["g"].shifts


def test_load_that_is_in_doubt_is_not_counted_and_said() -> None:
    desk = Desk()
    desk.loads = {"a": Load(0.0, 0.0, 0.0, 0.0), "b": Load(0.0, 0.0, 0.0, 0.0)}
    idle = replace(ASKED, load=True, share=5.0)
    desk.ask(idle)
    assert not desk.adviser.advice()["g"].shifts, "nobody works"
    desk.doubts = {"g": "n2 has not been measured"}
    desk.ask(replace(idle, share=1.0))
    advice = desk.adviser.advice()["g"]
    assert advice.doubt == "n2 has not been measured"
    assert advice.shifts, "all count the same"


def test_whoever_waits_longest_is_searched_first_where_there_is_no_time_for_all() -> None:
    whole = _together([_of(group) for group in "ghi"])
    asked = [replace(ASKED, group=g, nodes=frozenset({f"{g}1", f"{g}2"})) for g in "ghi"]
    desk = Desk(Known(whole, {}))

    def steady() -> float:
        desk.seconds += 25.0
        return desk.seconds

    desk.adviser = Adviser(desk._look, desk._measure, desk.work.append, steady)
    known = []
    for now in range(1, 4):
        desk.ask(*asked, now=now)
        known.append({g: advice.at for g, advice in desk.adviser.advice().items()})
    assert known == [{"g": 1}, {"g": 1, "h": 2}, {"g": 1, "h": 2, "i": 3}]


def _together(clusters: Sequence[Cluster]) -> Cluster:
    return replace(
        clusters[0],
        groups=tuple(g for c in clusters for g in c.groups),
        nodes=tuple(n for c in clusters for n in c.nodes),
        instances=tuple(i for c in clusters for i in c.instances),
    )


def _of(group: str) -> Cluster:
    """The group under another name, with nodes of its own."""
    text = LOPSIDED.replace("|g|", f"|{group}|").replace("|g\n", f"|{group}\n")
    text = text.replace("n1|", f"{group}1|").replace("n2|", f"{group}2|")
    return parse(text.replace("\na|", f"\na{group}|").replace("\nb|", f"\nb{group}|"))


def test_a_search_ends_after_ten_seconds_of_its_own() -> None:
    more = "".join(f"{name}|1000|1000|1|running|Y|n1|n2|drbd|\n" for name in "cdef")
    crowded = parse(LOPSIDED.replace("\na|", f"\n{more}a|").replace("7900", "3900"))
    shifts = []
    for each in (0.0, 6.0):
        desk = Desk(Known(crowded, {}))
        desk.seconds = 10_000.0

        def steady(desk: Desk = desk, each: float = each) -> float:
            desk.seconds += each
            return desk.seconds

        desk.adviser = Adviser(desk._look, desk._measure, desk.work.append, steady)
        desk.ask(ASKED)
        shifts.append(len(desk.adviser.advice()["g"].shifts))
    assert shifts == [3, 2]
