"""Search thread: finds better balances beside the rounds; no round waits for it."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from nodeagent.background import Background, Start
from nodeagent.errors import NodeAgentError, Unavailable
from nodeagent.maintd.balancing.ratings import Rating, ratable, rated
from nodeagent.model.balance import Advice, Question
from nodeagent.model.snapshot import Capacity, Running, Snapshot
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.cluster import Known, Loads
from nodeagent.placement.cluster.from_ganeti import assess

log = logging.getLogger(__name__)

SECONDS = 10.0  # seconds to search one group
ALL = 60.0  # seconds after which the remaining groups wait for another time
_EVEN = 300.0  # seconds for which a balanced group counts as balanced
RATED = 300.0  # seconds for which a rating is valid
_LATE = 900.0  # seconds after which an unfinished search is reported


# The room of these nodes, as the htools see it; Unavailable.
Look: TypeAlias = Callable[[Snapshot, Sequence[Question]], Known]
# The load of instances, and by group why it is unknown.
Measure: TypeAlias = Callable[[Snapshot, Sequence[Question]], tuple[Loads, Mapping[str, str]]]
# The room of these nodes, which must answer themselves; NodeAgentError.
AskRoom: TypeAlias = Callable[[Collection[str]], Mapping[str, Capacity]]
# The states of the instances on these nodes, which must answer themselves; NodeAgentError.
AskRunning: TypeAlias = Callable[[Collection[str]], Mapping[str, Running]]


class Adviser:
    """Answer the newest questions, one search at a time.

    `measure` gives the loads, and by group why they are unknown. `room` is asked about groups that
    are to be rated and that no round asked about; without it they stay unrated. `running` is asked
    about the instances of rated groups; without it nobody counts them. `tell` gets the state of
    groups that are rated. `start` runs work; `steady` are seconds of a clock that nobody sets.
    """

    def __init__(
        self,
        look: Look,
        measure: Measure,
        start: Start | None = None,
        steady: Callable[[], float] = time.monotonic,
        room: AskRoom | None = None,
        running: AskRunning | None = None,
        tell: Callable[[Known, Collection[str]], None] = lambda *_: None,
    ) -> None:
        self._room, self._running, self._told = room, running, tell
        self._look = look
        self._measure = measure
        self._steady = steady
        self._advice: dict[str, Advice] = {}
        self._answered: dict[str, tuple[Question, float]] = {}
        self._background = Background("adviser", start)
        self._began = 0.0
        self._rated: float | None = None
        self.ratings: Mapping[str, Rating] = {}

    def advice(self) -> Mapping[str, Advice]:
        return dict(self._advice)

    def ask(self, questions: Sequence[Question], snapshot: Snapshot, now: Ms) -> None:
        """Search for these in the cluster of `now`, unless a search is running."""
        asked = {question.group for question in questions}
        if self._background.busy:
            late = self._steady() - self._began
            if late > _LATE:
                self._refuse(questions, now, f"the search has not ended for {late / 60:.0f} min")
            return
        if not questions:
            return
        for group in self._advice.keys() - asked:
            self._advice.pop(group, None)
        due = [q for q in questions if q.load or not self._still_even(q)]
        if not due:
            return
        if why := self._begin(lambda: self._answer(due, snapshot, now)):
            log.warning("not-advised why=%r", why)
            self._refuse(due, now, f"nothing can be searched: {why}")

    def _begin(self, work: Callable[[], None]) -> str:
        """Start work beside the rounds; return why no thread is available, or ""."""
        self._began = self._steady()
        return self._background.begin(work)

    def rate(
        self,
        snapshot: Snapshot,
        capacity: Mapping[str, Capacity],
        answering: Collection[str],
        now: Ms,
    ) -> None:
        """Rate the groups whose nodes all answer, once in a while.

        `capacity` is what nodes reported in this round. Only nodes that are `answering` are asked
        for theirs: a dead one would delay the thread.
        """
        waits = self._rated is not None and self._steady() - self._rated < RATED
        if self._background.busy or waits:
            return
        due = [group for group in snapshot.groups if not self._rated_lately(group, now)]
        groups = [group for group in ratable(snapshot, capacity) if group in due]
        unknown = set(due) - set(groups) if self._room else set()
        names = _that_answer(unknown, snapshot, answering)
        if not (groups or names):
            return
        self._rated = self._steady()
        if why := self._begin(lambda: self._rate(snapshot, capacity, names, answering, due, now)):
            log.warning("not-rated why=%r", why)

    def _rate(
        self,
        snapshot: Snapshot,
        capacity: Mapping[str, Capacity],
        names: Sequence[str],
        answering: Collection[str],
        due: Collection[str],
        now: Ms,
    ) -> None:
        try:
            if names and self._room is not None:
                capacity = {**self._room(names), **capacity}
            groups = [group for group in ratable(snapshot, capacity) if group in due]
            states = self._states(snapshot, groups, answering)
            known = assess(snapshot, capacity, states or {})
            self._rated_now(known, rated(known, snapshot, groups, now, running=states is not None))
        except NodeAgentError as error:
            log.warning("not-rated why=%r", str(error))
        except Exception:  # a bug must not end the thread unseen; this is only for metrics
            log.exception("not-rated")

    def _rated_now(self, known: Known, ratings: Mapping[str, Rating]) -> None:
        self.ratings = {**self.ratings, **ratings}
        self._told(known, ratings.keys())

    def _states(
        self, snapshot: Snapshot, groups: Collection[str], answering: Collection[str]
    ) -> Mapping[str, Running] | None:
        """The states of these groups' instances; None if unknown.

        Of an offline node Ganeti knows them by itself; a node that may be dead is not asked.
        """
        if self._running is None:
            return None
        members = (node for node in snapshot.nodes.values() if node.group in groups)
        nodes = [n.name for n in members if n.in_service or n.offline or n.name in answering]
        try:
            return self._running(nodes)
        except NodeAgentError as error:
            log.warning("instances-not-counted why=%r", str(error))
            return None

    def _refuse(self, questions: Sequence[Question], now: Ms, why: str) -> None:
        for question in questions:
            self._advice[question.group] = Advice(question.group, now, why=why)

    def _rated_lately(self, group: str, now: Ms) -> bool:
        known = self.ratings.get(group)
        return known is not None and 0 <= now - known.at < 1000 * RATED

    def _still_even(self, question: Question) -> bool:
        """Check whether the same question was asked lately, without a gain."""
        advice = self._advice.get(question.group)
        before, when = self._answered.get(question.group, (None, 0.0))
        even = advice is not None and not advice.shifts and not advice.why
        return even and before == question and self._steady() - when < _EVEN

    def _answer(self, questions: Sequence[Question], snapshot: Snapshot, now: Ms) -> None:
        try:
            self._search(questions, snapshot, now)
        except NodeAgentError as error:
            log.warning("not-advised why=%r", str(error))
            self._refuse(questions, now, str(error))
        except Exception as bug:  # a bug must not end the thread unseen; balancing is only a luxury
            log.exception("not-advised")
            why = f"the search has failed: {type(bug).__name__}; the journal has it"
            self._refuse(questions, now, why)

    def _search(self, questions: Sequence[Question], snapshot: Snapshot, now: Ms) -> None:
        from nodeagent.maintd.balancing.search import advise  # imports NumPy, which only this needs

        measured = [question for question in questions if question.load]
        loads, doubts = self._measure(snapshot, measured) if measured else ({}, {})
        known = self._look(snapshot, questions)
        asked = {question.group for question in questions}
        old = [g for g in asked if not (self._rated_lately(g, now) and self.ratings[g].instances)]
        self._rated_now(known, rated(known, snapshot, old, now))
        end = self._steady() + ALL
        # The question with the oldest answer comes first.
        order = sorted(questions, key=lambda q: self._answered.get(q.group, (q, 0.0))[1])
        for question in order:
            began = self._steady()
            if began > end:
                break
            doubt = doubts.get(question.group, "") if question.load else ""
            used = loads if question.load and not doubt else {}

            def spent(since: float = began) -> float:
                return (self._steady() - since) / SECONDS

            advice = advise(question, known, now, used, doubt, spent)
            self._advice[question.group] = advice
            self._answered[question.group] = question, self._steady()


def _that_answer(
    groups: Collection[str], snapshot: Snapshot, answering: Collection[str]
) -> list[str]:
    """Return the nodes in service of those groups in which all of them answer."""
    nodes = [n for n in snapshot.nodes.values() if n.in_service and n.group in groups]
    silent = {node.group for node in nodes if node.name not in answering}
    return [node.name for node in nodes if node.group not in silent]


def nothing_measured(_: Snapshot, questions: Sequence[Question]) -> tuple[Loads, Mapping[str, str]]:
    return {}, dict.fromkeys((q.group for q in questions), "load is not measured here")


def unanswered(_: Snapshot, __: Sequence[Question]) -> Known:
    """Refuse the search: this process does not ask nodes for their room."""
    raise Unavailable("this process does not ask nodes for their room")
