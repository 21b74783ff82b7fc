"""What is advised: legal moves, worth their share, on the nodes named alone, and none back."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from nodeagent.maintd.balancing.moves import fault
from nodeagent.maintd.balancing.search import advise, laid_out
from nodeagent.model.balance import Advice, Question, Shift, Spot
from nodeagent.model.snapshot import Instance
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.cluster import Cluster, Known, Load
from nodeagent.placement.cluster.textfile import parse
from nodeagent.placement.layout.layout import Place
from nodeagent.placement.layout.moves import Moved, attempt, candidates
from nodeagent.placement.layout.score import score
from tests.maintd.balancing.world import LOPSIDED
from tests.placement.clusters import case

SEEDS = range(24)


def questions(cluster: Cluster, **members: object) -> list[Question]:
    """One for each group, about all its nodes that are on."""
    found = []
    for group in cluster.groups:
        on = frozenset(n.name for n in cluster.nodes if n.group == group.uuid and not n.offline)
        asked = Question(group.uuid, on, 10, 0.01)
        found.append(replace(asked, **members))  # type: ignore[arg-type]
    return found


def told(question: Question, cluster: Cluster, at: int = 7, *more: Any, **named: Any) -> Advice:
    return advise(question, Known(cluster, {}), Ms(at), *more, **named)


def replayed(question: Question, whole: Cluster, advice: Advice) -> list[float]:
    """The scores after each shift, each made by a move that is allowed there; else it fails."""
    layout = laid_out(question, whole, {})
    cluster = layout.cluster
    index = {node.name: n for n, node in enumerate(cluster.nodes)}
    scores = []
    for shift in advice.shifts:
        (number,) = [n for n, i in enumerate(cluster.instances) if i.name == shift.instance]
        wanted = [index[shift.to.primary], index.get(shift.to.secondary or "", -1)]
        assert shift.at == spot(cluster, layout.places[number])
        for move in candidates(layout, number):
            moved = attempt(layout, move)
            if isinstance(moved, Moved) and list(moved.place[:2]) == wanted:
                layout = layout.with_changes(moved.nodes, {number: moved.place})
                break
        else:
            raise AssertionError(f"{shift} is no move that is allowed")
        scores.append(score(layout))
    return scores


def spot(cluster: Cluster, place: Place) -> Spot:
    names = [cluster.nodes[n].name for n in place[:2] if n >= 0]
    return Spot(*names)


@cache
def asked() -> tuple[tuple[Cluster, Question], ...]:
    """A question for each group of each cluster."""
    clusters = [parse(case(seed).text) for seed in SEEDS]
    return tuple((cluster, one) for cluster in clusters for one in questions(cluster))


@cache
def answered() -> tuple[tuple[Cluster, Question, Advice], ...]:
    """The same with the answers."""
    return tuple((cluster, one, told(one, cluster, 7, {})) for cluster, one in asked())


def test_every_advice_is_legal_and_worth_it() -> None:
    advised = 0
    for cluster, question, advice in answered():
        if advice.why or not advice.shifts:
            continue
        advised += 1
        scores = replayed(question, cluster, advice)
        befores = [advice.score, *scores[:-1]]
        gains = [before - after for before, after in zip(befores, scores, strict=True)]
        assert gains == pytest.approx([shift.gain for shift in advice.shifts])
        assert min(gains) >= question.share
        assert len(gains) <= question.moves
        assert advice.final == pytest.approx(scores[-1])
        for shift in advice.shifts:
            assert shift.nodes <= question.nodes
            (template,) = (i.template for i in cluster.instances if i.name == shift.instance)
            seen = Instance("x", shift.at.primary, shift.at.secondary, template.value)
            assert not fault(shift, seen)
    assert advised > 8


def test_a_node_that_takes_no_part_neither_gives_nor_takes() -> None:
    for cluster, question in asked():
        for left_out in sorted(question.nodes)[:2]:
            fewer = replace(question, nodes=question.nodes - {left_out})
            advice = told(fewer, cluster, 7, {})
            assert not any(left_out in shift.nodes for shift in advice.shifts)


def test_who_rests_stays_and_nobody_is_brought_back() -> None:
    for cluster, question, advice in answered():
        first = advice.shifts
        if not first:
            continue
        resting = replace(question, never=frozenset({first[0].instance}))
        names = {shift.instance for shift in told(resting, cluster, 7, {}).shifts}
        assert first[0].instance not in names
        barred = frozenset((s.instance, n, part) for s in first for n, part in comes(s))
        for shift in told(replace(question, left=barred), cluster, 7, {}).shifts:
            came = {(shift.instance, node, part) for node, part in comes(shift)}
            assert came.isdisjoint(barred), shift


def comes(shift: Shift) -> set[tuple[str, str]]:
    found = set()
    if shift.to.primary != shift.at.primary:
        found.add((shift.to.primary, "primary"))
    if shift.to.secondary and shift.to.secondary != shift.at.secondary:
        found.add((shift.to.secondary, "secondary"))
    return found


def test_without_copies_of_disks_only_sides_are_changed() -> None:
    for cluster, question in asked():
        for shift in told(replace(question, disks=False), cluster, 7, {}).shifts:
            if shift.at.secondary is not None:
                assert shift.to == Spot(shift.at.secondary, shift.at.primary)


def test_loads_count_where_there_are_some() -> None:
    """One works and one does not: the busy one has its node for itself, whichever it is."""
    cluster = parse(LOPSIDED)
    (question,) = questions(cluster)
    for busy, idle in (("a", "b"), ("b", "a")):
        loads = {busy: Load(cpu=8.0), idle: Load(cpu=0.5)}
        (shift,) = told(question, cluster, 7, loads).shifts
        assert shift.to == Spot("n2", "n1")
    both = {"a": Load(0, 0, 0, 0), "b": Load(0, 0, 0, 0)}
    dear = replace(question, share=5.0)
    assert not told(dear, cluster, 7, both).shifts


@pytest.mark.parametrize("status", ["ERROR_down", "ERROR_up", "ERROR_wrongnode", "ADMIN_offline"])
def test_what_is_broken_stays(status: str) -> None:
    for name, other in ("ab", "ba"):
        broken = LOPSIDED.replace(f"{name}|1000|1000|1|running", f"{name}|1000|1000|1|{status}")
        cluster = parse(broken)
        (question,) = questions(cluster)
        assert {s.instance for s in told(question, cluster, 7, {}).shifts} == {other}


def test_what_would_take_too_long_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = parse(LOPSIDED)
    (question,) = questions(cluster)
    monkeypatch.setattr("nodeagent.maintd.balancing.search.MOST", 4)
    assert told(question, cluster, 7, {}).shifts
    monkeypatch.setattr("nodeagent.maintd.balancing.search.MOST", 3)
    found = told(question, cluster, 7, {})
    assert not found.shifts
    assert found.why == "2 nodes and 2 instances that may move are too many to be searched"


def test_time_that_is_over_ends_the_search_with_what_there_is() -> None:
    whole = some = 0
    for cluster, question, advice in answered():
        whole += len(advice.shifts)
        found = told(question, cluster, 7, {}, spent=lambda: 1.0).shifts
        assert len(found) <= 1
        some += len(found)
    assert 0 < some < whole


def test_nodes_of_which_nobody_knows_what_they_have_are_named() -> None:
    cluster = parse(LOPSIDED)
    (question,) = questions(cluster)
    doubtful = Known(cluster, {"n2": "n2 does not report its free resources"})
    assert advise(question, doubtful, Ms(7), {}).why == "n2 does not report its free resources"
    off = replace(cluster, nodes=(replace(cluster.nodes[0], offline=True), cluster.nodes[1]))
    assert told(question, off, 7, {}).why == "n1 has been taken out of service"


def test_a_score_that_is_no_number_is_told_and_nothing_moves() -> None:
    for sizes in ("0|0|0|100000|90000|8", "10000|100|7900|100000|90000|0"):
        cluster = parse(LOPSIDED.replace("10000|100|7900|100000|90000|8", sizes))
        (question,) = questions(cluster)
        why = "its score is not a number: a node has no size"
        assert told(question, cluster, 7, {}) == Advice(question.group, Ms(7), why=why)
