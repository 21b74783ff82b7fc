"""The better search: its moves are allowed, and lead nowhere worse than hbal's own."""

from math import isfinite

import pytest

from nodeagent.placement.balance.search import SMALL, Plan, best
from nodeagent.placement.balance.state import has_arrays
from nodeagent.placement.layout.moves import Moved, attempt, copied
from nodeagent.placement.layout.rules import Enough
from nodeagent.placement.layout.score import score
from tests import needs
from tests.placement.asked import by_exact, enough, laid_out
from tests.placement.clusters import Case, case
from tests.placement.hbal import generate

shared = needs.mark("shared/htools")


def generated(nodes: int, instances: int, seed: int, **features: object) -> Case:
    """A larger cluster."""
    text, loads, _ = generate(nodes, instances, seed, **features)
    return Case(text, [], loads or None)


def played(plan: Plan) -> Plan:
    """All its moves are allowed, and each leads to the score that it says."""
    assert plan.initial == score(plan.layout)
    then = plan.layout
    for step in plan.steps:
        moved = attempt(then, step.move)
        assert isinstance(moved, Moved)
        then = then.with_changes(moved.nodes, {step.move.instance: moved.place})
        assert step.score == score(then)
    return plan


def no_worse_than_exact(seed: int, *features: str) -> None:
    asked = case(seed, *features)
    layout, wanted = laid_out(asked), enough(asked.options)
    theirs = by_exact(layout, wanted)
    if not isfinite(theirs.initial):
        assert not best(layout, wanted).steps
        return
    ours = played(best(layout, wanted))
    assert ours.final <= theirs.final
    assert wanted.moves is None or len(ours.steps) <= wanted.moves
    if len(layout.members) <= SMALL and has_arrays(layout):
        assert ours.after(len(theirs.steps)) <= theirs.final


def test_never_worse_than_exact() -> None:
    for seed in range(401, 404):
        no_worse_than_exact(seed)
    no_worse_than_exact(401, "dedicated")


@pytest.mark.oracle
def test_never_worse_than_exact_on_many() -> None:
    for seed in range(404, 600):
        no_worse_than_exact(seed)
    for seed in range(402, 500):
        no_worse_than_exact(seed, "dedicated")


FEATURES: dict[str, dict[str, object]] = {
    "several": {"offline": 2, "migration": 1, "excl_tags": 6, "location": 3},
    "off": {"offline": 2},
    "tags": {"excl_tags": 6, "location": 3, "desired": 1},
    "migration": {"migration": 1},
    "loads": {"dynu": True, "forthcoming": 0.1},
    "alike": {"homogeneous": True, "only_drbd": True, "noise": False},
    "full": {"fill": 0.8, "skew": 0.9},
}


@shared
def test_a_larger_cluster_ends_lower_with_few_more_moves() -> None:
    ends_lower()


@shared
@pytest.mark.oracle
@pytest.mark.parametrize("kind", FEATURES)
def test_larger_clusters_end_lower_with_few_more_moves(kind: str) -> None:
    ends_lower(**FEATURES[kind])


def ends_lower(**features: object) -> None:
    asked = generated(16, 120, 1, **features)
    layout = laid_out(asked)
    theirs = by_exact(layout, Enough())
    ours = played(best(layout, Enough()))
    assert ours.final <= theirs.final
    assert len(ours.steps) <= max(1.15 * len(theirs.steps), len(theirs.steps) + 4)


@shared
def test_with_few_moves_the_best_so_many_lead_to() -> None:
    asked = generated(12, 90, 2)
    layout, wanted = laid_out(asked), Enough(moves=3)
    ours = played(best(layout, wanted))
    assert 0 < len(ours.steps) <= 3
    assert ours.final <= by_exact(layout, wanted).final


@shared
def test_the_same_for_the_same_seed() -> None:
    layout = laid_out(generated(13, 40, 3))
    one, again, other = (best(layout, Enough(), seed=seed) for seed in (5, 5, 6))
    assert one.steps == again.steps
    assert one.steps != other.steps


@shared
def test_data_that_costs_more_is_copied_less() -> None:
    """What a GiB costs is weighed against what is gained, whatever is given for it."""
    asked = generated(8, 40, 1)
    layout, before = laid_out(asked), None
    greedily = by_exact(layout, Enough())
    for price in (0.001, 10.0):
        plan = played(best(layout, Enough(), price=price))
        sent = sum(copied(layout.demands[s.move.instance], s.move.kind) for s in plan.steps)
        assert plan.copied == sent
        assert plan.final + price * plan.copied <= plan.initial
        assert plan.final + price * sent <= greedily.final + price * greedily.copied
        assert before is None or plan.copied < before.copied
        before = plan


@shared
@pytest.mark.parametrize("after", [0, 30])
def test_when_time_is_up_there_is_a_plan(after: int) -> None:
    """Whenever that is."""
    asked = generated(10, 80, 4)
    calls = iter(range(10**9))
    plan = best(laid_out(asked), Enough(), spent=lambda: next(calls) / (after + 1e-9))
    assert played(plan).final < plan.initial


def test_the_only_search_takes_all_the_time() -> None:
    """Where some nodes have exclusive storage there is none but hbal's own."""
    nodes = [
        f"n{n}|999999|0|{999999 - 120000 * (n == 0)}|9999|9999|999|N|u|9||{'NY'[n % 2]}|9\n"
        for n in range(3)
    ]
    instances = [f"i{n}|1000|0|1|running|Y|n0||ext||1|0\n" for n in range(120)]
    asked = Case("g|u|preferred|\n\n" + "".join(nodes) + "\n" + "".join(instances) + "\n")
    layout, calls = laid_out(asked), iter(range(1000))
    assert not has_arrays(layout)
    plan = best(layout, Enough(), spent=lambda: next(calls) * 0.03)
    assert len(played(plan).steps) == 34


def test_nothing_to_do() -> None:
    """Well balanced, or without anything that may move."""
    asked = case(1)
    assert not best(laid_out(asked), Enough(excess=1e9)).steps
    assert not best(laid_out(asked), Enough(moves=0)).steps
    nodes = [node.host.name for node in laid_out(asked).group_nodes()]
    off = Case(asked.text, [*asked.options, *(word for name in nodes for word in ("-O", name))])
    assert not best(laid_out(off), Enough(excess=-1.0)).steps
    names = [line.partition("|")[0] for line in asked.text.splitlines() if line.count("|") > 8]
    still = Case(asked.text, [*asked.options, "--exclude-instances=" + ",".join(names)])
    assert not best(laid_out(still), Enough()).steps


def test_what_only_a_pair_of_moves_leads_to() -> None:
    """Nodes have as many instances each, so for hbal no single move is good: but some are large."""
    sizes = {1: 4096, 2: 1024, 3: 2560, 4: 2560}
    mirrors = {1: 3, 2: 4, 3: 1, 4: 2}
    nodes = [
        f"n{n}|65536|0|{65536 - 4 * size}|999999|900000|16|N|u|4\n" for n, size in sizes.items()
    ]
    instances = [
        f"i{n}{k}|{size}|1024|1|running|Y|n{n}|n{mirrors[n]}|drbd|\n"
        for n, size in sizes.items()
        for k in range(4)
    ]
    asked = Case("g|u|preferred|\n\n" + "".join(nodes) + "\n" + "".join(instances) + "\n")
    layout = laid_out(asked)
    theirs, ours = by_exact(layout, Enough()), played(best(layout, Enough()))
    assert len(theirs.steps) == 0
    assert ours.final < 0.8 * theirs.final
    at = [place.primary for place in ours.end().places]
    assert [at.count(n) for n in range(4)] == [4, 4, 4, 4]
