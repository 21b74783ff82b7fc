"""Answer a question: better places for a group's instances. Pure. NumPy."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf, isfinite
from typing import NamedTuple

from nodeagent.maintd.balancing.ratings import parts
from nodeagent.model.balance import Advice, Question, Shift, Spot
from nodeagent.model.units import Ms
from nodeagent.placement.balance.greedy import greedy
from nodeagent.placement.cluster.cluster import Cluster, Known, Loads, Status
from nodeagent.placement.layout.layout import Layout, Place, among, lay_out
from nodeagent.placement.layout.rules import Enough, Rules
from nodeagent.placement.layout.score import score

MOST = 30_000_000  # nodes times instances of a searched group: 5 s for a step
_AS_IT_SHOULD = frozenset({Status.RUNNING, Status.ADMIN_DOWN})
_TIMES = 5  # new searches to avoid a way back


class Improvement(NamedTuple):
    score: float
    shifts: tuple[Shift, ...]

    @property
    def final(self) -> float:
        return self.score - sum(shift.gain for shift in self.shifts)


def advise(
    question: Question,
    known: Known,
    at: Ms,
    loads: Loads,
    doubt: str = "",
    spent: Callable[[], float] = lambda: 0.0,
) -> Advice:
    """The answer for the cluster as it was at `at` (unix ms).

    `loads` may have only some instances: the others count 1. `spent` returns the used part of the
    time; the advice has what was found by then.
    """
    if doubts := question.nodes & known.doubts.keys():
        return Advice(question.group, at, why=known.doubts[min(doubts)])
    layout = laid_out(question, known.cluster, loads)
    size = len(layout.members) * len(layout.movable)
    if size > MOST:
        what = f"{len(layout.members)} nodes and {len(layout.movable)} instances that may move"
        return Advice(question.group, at, why=f"{what} are too many to be searched")
    if missing := question.nodes - {node.host.name for node in layout.group_nodes()}:
        return Advice(question.group, at, why=f"{min(missing)} has been taken out of service")
    best = _search(question, layout, spent)
    if not isfinite(best.score):
        return Advice(question.group, at, why="its score is not a number: a node has no size")
    return Advice(question.group, at, best.score, best.final, best.shifts, doubt=doubt)


def laid_out(question: Question, cluster: Cluster, loads: Loads) -> Layout:
    """The group as if it had only the nodes of the question.

    Instances in a wrong state and forthcoming ones stay where they are: their moves would fail.
    """
    ((group, cluster),) = parts(cluster, (question.group,))
    stay = frozenset(
        i.name for i in cluster.instances if i.forthcoming or i.status not in _AS_IT_SHOULD
    )
    rules = Rules(disk_moves=question.disks, loads=loads, never=question.never | stay)
    layout = lay_out(cluster, group, rules)
    online = {node.host.name for node in layout.group_nodes() if not node.host.offline}
    return among(layout, online & question.nodes)


def _search(question: Question, layout: Layout, spent: Callable[[], float]) -> Improvement:
    """Search the best moves; if an instance would return, it stays and the search restarts."""
    departed: dict[str, set[tuple[str, str]]] = {}
    for name, node, part in question.left:
        departed.setdefault(name, set()).add((node, part))
    best = Improvement(score(layout), tuple(_shifts(question, layout, spent)))
    for _ in range(_TIMES):
        back = {s.instance for s in best.shifts if departed.get(s.instance, set()) & _comes(s)}
        if not back:
            return best
        names = layout.cluster.instances
        movable = tuple(i for i in layout.movable if names[i].name not in back)
        layout = replace(layout, movable=movable)
        best = Improvement(best.score, tuple(_shifts(question, layout, spent)))
    return _before_a_way_back(best, departed)


def _before_a_way_back(best: Improvement, departed: dict[str, set[tuple[str, str]]]) -> Improvement:
    """Keep only the moves before the first way back."""
    kept = []
    for shift in best.shifts:
        if departed.get(shift.instance, set()) & _comes(shift):
            break
        kept.append(shift)
    return Improvement(best.score, tuple(kept))


def _comes(shift: Shift) -> set[tuple[str, str]]:
    """New places of an instance after a shift, each with its part."""
    at = {(shift.at.primary, "primary"), (shift.at.secondary or "", "secondary")}
    return {(shift.to.primary, "primary"), (shift.to.secondary or "", "secondary")} - at


def _shifts(question: Question, layout: Layout, spent: Callable[[], float]) -> Iterator[Shift]:
    """Choose the best move, step by step, while each is worth its share."""
    now = score(layout)
    if not isfinite(now):
        return
    enough = Enough(gain=question.share, gain_from=inf, moves=question.moves)
    for step in greedy(layout, enough):
        name = layout.cluster.instances[step.move.instance].name
        yield Shift(name, _spot(layout, step.before), _spot(layout, step.after), now - step.score)
        now = step.score
        if spent() >= 1.0:
            return


def _spot(layout: Layout, place: Place) -> Spot:
    names = [layout.cluster.nodes[index].name for index in place[:2] if index >= 0]
    return Spot(*names)
