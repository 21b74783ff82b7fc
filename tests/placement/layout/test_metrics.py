"""Scores of changed nodes, beside those counted anew."""

from itertools import permutations
from math import isnan

import pytest

from nodeagent.placement.allocate.groups import open_site
from nodeagent.placement.allocate.request import read_request
from nodeagent.placement.layout import score
from nodeagent.placement.layout.node import Filled, Refused, add_primary, add_secondary
from nodeagent.placement.layout.score import Metrics
from tests.placement.requests import request


def anew(nodes: list[Filled], changed: dict[int, Filled]) -> float:
    now = [changed.get(node.host.index, node) for node in nodes]
    return score.weigh(score.components(now))


def test_scores_are_those_counted_anew() -> None:
    """To the last bit where everything is added up again, else nearly."""
    singles = pairs = 0
    for seed in range(60):
        asked, _ = request(seed, "allocate")
        found = read_request(asked)
        site = open_site(found, ignore_soft=False)
        nodes = site.layout.group_nodes()
        metrics = Metrics(nodes)
        base = metrics.statistics()
        demand = site.demand(found.newcomers[0].instance)
        after = {node.host.index: add_primary(node, demand, force=True) for node in nodes}
        for node in nodes:
            there = after[node.host.index]
            if not isinstance(there, Refused):
                changed = {node.host.index: there}
                assert metrics.score(changed) == anew(nodes, changed)
                singles += 1
        for one, other in permutations(nodes, 2):
            there, mirror = after[one.host.index], add_secondary(other, demand, one.host.index)
            if isinstance(there, Refused) or isinstance(mirror, Refused):
                continue
            changed = {one.host.index: there, other.host.index: mirror}
            clashing = metrics.clashing({one.host.index: there})
            updated = base.updated(metrics.changes(one, there), clashing)
            got = updated.score(metrics.changes(other, mirror))
            # The variance is corrected, and its root is steep where it is nearly nothing.
            assert got == pytest.approx(anew(nodes, changed), abs=1e-6)
            pairs += 1
    assert singles > 200
    assert pairs > 500


def test_nodes_that_are_not_among_them_do_not_count() -> None:
    asked, _ = request(3, "change-group")
    site = open_site(read_request(asked), ignore_soft=False)
    nodes = site.layout.group_nodes()
    metrics = Metrics(nodes[:2])
    assert metrics.score({5: nodes[-1]}) == anew(nodes[:2], {})


def test_without_nodes_there_is_no_score() -> None:
    assert Metrics([]).score({}) == 0.0
    assert not isnan(Metrics([]).statistics().score([]))
