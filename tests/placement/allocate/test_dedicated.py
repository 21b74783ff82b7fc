"""Allocation on exclusive storage: the design's own examples, and hail beside it."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.errors import MessageError
from nodeagent.placement.allocate.dedicated import Judge, Loss, choose_one, choose_pair, room, sizes
from nodeagent.placement.cluster.cluster import Load, Policy, Spec, Template
from nodeagent.placement.layout.node import Demand, Filled, Host, Refused, add_primary
from tests.placement.hail import dedicated, hail, ours, real

QUARTER, HALF, THREE_QUARTERS, FULL = 25, 50, 75, 100
# A node is never filled to nothing: each holds a little more than its four quarters.
NODE = 103


def policy(*quarters: int) -> Policy:
    """One range for each part of a node, in any order."""
    specs = [Spec(part, part // 25, part, 1, 0, 1) for part in quarters]
    return Policy(specs[0], tuple((spec, spec) for spec in specs), (Template.PLAIN, Template.DRBD))


def demand(part: int, template: Template = Template.PLAIN) -> Demand:
    return Demand(
        memory=part,
        used=part,
        reserved=part if template is Template.DRBD else 0,
        disk=part,
        vcpus=part // 25,
        load=Load(),
        local=True,
        mirrored=template is Template.DRBD,
        spindle_use=1,
        spindles=1,
        forthcoming=False,
    )


def node(index: int, filled: int) -> Filled:
    """A node of which so much is taken already."""
    host = Host(
        index=index,
        name=f"node{index}",
        memory=NODE,
        own_memory=0,
        missing=0,
        disk=NODE,
        cpus=4,
        speed=1.0,
        exclusive=True,
        spindles=9,
        low_disk=0,
        cpu_ratio=1.0,
        spindle_limit=32.0,
        offline=False,
    )
    free, cpus = NODE - filled, filled // 25
    return Filled(
        host=host,
        free_memory=free,
        free_disk=free,
        free_spindles=9,
        used_cpus=cpus,
        used_spindles=0,
        load=Load(),
        primaries=0,
        secondaries=0,
        reserved_for={},
        reserved=0,
        failing=False,
        exclusion={},
        settled={},
        misplaced=0,
        promised_memory=free,
        promised_disk=free,
        promised_free_spindles=9,
        promised_cpus=cpus,
        promised_spindles=0,
    )


EMPTY, ONE, TWO, THREE = (node(n, 25 * n) for n in range(4))
THREE_SIZES = policy(QUARTER, FULL, HALF)
FOUR_SIZES = policy(QUARTER, HALF, THREE_QUARTERS, FULL)


@pytest.mark.parametrize(
    ("policy", "part", "where", "lost"),
    [
        pytest.param(THREE_SIZES, QUARTER, THREE, (0, 0, 1), id="quarter, three quarters filled"),
        pytest.param(THREE_SIZES, QUARTER, ONE, (0, 0, 1), id="quarter, one quarter filled"),
        pytest.param(THREE_SIZES, QUARTER, TWO, (0, 1, 1), id="quarter, half filled"),
        pytest.param(THREE_SIZES, QUARTER, EMPTY, (1, 1, 1), id="quarter, empty"),
        pytest.param(THREE_SIZES, HALF, TWO, (0, 1, 2), id="half, half filled"),
        pytest.param(THREE_SIZES, HALF, ONE, (0, 1, 2), id="half, one quarter filled"),
        pytest.param(THREE_SIZES, HALF, EMPTY, (1, 1, 2), id="half, empty"),
        pytest.param(FOUR_SIZES, QUARTER, TWO, (0, 0, 1, 1), id="four sizes, half filled"),
        pytest.param(FOUR_SIZES, QUARTER, ONE, (0, 1, 0, 1), id="four sizes, quarter filled"),
    ],
)
def test_what_the_design_says_is_lost(
    policy: Policy, part: int, where: Filled, lost: tuple[int, ...]
) -> None:
    loss = Judge(demand(part), policy, force=False).primary(where)
    assert not isinstance(loss, Refused)
    assert loss == (lost, where.free_disk - part)


@pytest.mark.parametrize(
    ("policy", "part", "order"),
    [
        pytest.param(THREE_SIZES, QUARTER, [THREE, ONE, TWO, EMPTY], id="quarter"),
        pytest.param(THREE_SIZES, HALF, [TWO, ONE, EMPTY], id="half"),
        pytest.param(FOUR_SIZES, QUARTER, [THREE, TWO, ONE, EMPTY], id="quarter of four sizes"),
    ],
)
def test_what_the_design_prefers(policy: Policy, part: int, order: list[Filled]) -> None:
    judge = Judge(demand(part), policy, force=False)
    for n in range(len(order)):
        left = sorted(order[n:], key=lambda node: node.host.index)
        best = choose_one(left, judge).best
        assert best is not None
        assert best.nodes[0].host == order[n].host


def test_of_equals_the_last() -> None:
    judge = Judge(demand(QUARTER), THREE_SIZES, force=False)
    twins = [node(n, 25) for n in (5, 6, 7)]
    best = choose_one(twins, judge).best
    assert best is not None
    assert best.nodes[0].host.index == 7
    mirrored = Judge(demand(QUARTER, Template.DRBD), THREE_SIZES, force=False)
    pair = choose_pair(twins, twins, mirrored).best
    assert pair is not None
    assert [one.host.index for one in pair.nodes] == [7, 6]


def test_ranges_are_taken_by_their_least_disk() -> None:
    assert [size.disk for size in sizes(THREE_SIZES)] == [FULL, HALF, QUARTER]


def counted(node: Filled, size: Demand) -> int:
    """One after another."""
    times = 0
    after = add_primary(node, size)
    while not isinstance(after, Refused):
        times += 1
        after = add_primary(after, size)
    return times


def test_room_is_what_fits_one_after_another() -> None:
    for seed in range(400):
        here, size = drawn(random.Random(seed))
        assert room(here, size) == counted(here, size), seed


def drawn(rng: random.Random) -> tuple[Filled, Demand]:
    """A node in about any state, and a size."""
    here = node(0, 0)
    here = here._replace(
        host=replace(
            here.host,
            cpus=rng.choice((0.0, 3.0, 7.0, 16.0)),
            cpu_ratio=rng.choice((-1.0, 0.1, 1.0, 1.5, 3.3)),
            low_disk=rng.choice((0, 0, 20)),
            exclusive=rng.random() < 0.8,
            spindle_limit=rng.choice((0.5, 8.0)),
        ),
        free_memory=rng.randint(-5, 300),
        free_disk=rng.randint(0, 300),
        free_spindles=rng.choice((-1, 0, 3)),
        used_cpus=rng.randint(0, 5),
        used_spindles=rng.choice((0, 1)),
        reserved=rng.choice((0, 0, 40, 120)),
        failing=rng.random() < 0.2,
        promised_memory=rng.randint(0, 300),
        promised_disk=rng.randint(0, 300),
        promised_cpus=rng.randint(0, 6),
    )
    if here.failing:  # a node that is failing is so by its numbers
        here = here._replace(reserved=max(0, here.free_memory) + 1)
    spec = Spec(rng.choice((0, 1, 7, 64)), rng.choice((0, 1, 2)), rng.choice((1, 10, 50)), 1, 0, 1)
    (size,) = sizes(Policy(spec, ((spec, spec),)))
    return here, size


def test_a_policy_that_takes_nothing_is_refused() -> None:
    nothing = Spec(0, 0, 0, 0, 0, 0)
    (size,) = sizes(Policy(nothing, ((nothing, nothing),)))
    for exclusive in (True, False):
        here = EMPTY._replace(host=replace(EMPTY.host, exclusive=exclusive, cpu_ratio=-1.0))
        with pytest.raises(MessageError, match="takes nothing"):
            room(here, size)


def test_the_best_pair_is_the_best_of_all_pairs() -> None:
    for seed in range(60):
        check_best_pair(random.Random(seed))


def check_best_pair(rng: random.Random) -> None:
    nodes = [node(n, 25 * rng.randint(0, 3)) for n in range(rng.randint(2, 7))]
    for place, one in enumerate(nodes):
        known = {n: rng.choice((5, 25)) for n in range(len(nodes)) if n != place}
        reserved_for = {n: size for n, size in known.items() if rng.random() < 0.3}
        reserved = max(reserved_for.values(), default=0)
        nodes[place] = one._replace(
            reserved_for=reserved_for, reserved=reserved, failing=one.free_memory <= reserved
        )
    judge = Judge(demand(QUARTER, Template.DRBD), FOUR_SIZES, force=False)
    found = choose_pair(nodes, nodes, judge)
    best: tuple[Loss, int, int] | None = None
    successes = 0
    for primary in nodes:
        for secondary in nodes:
            if primary is secondary:
                continue
            first = judge.primary(primary)
            second = judge.secondary(secondary, primary.host.index)
            if isinstance(first, Refused) or isinstance(second, Refused):
                continue
            successes += 1
            pairs = zip(first[0], second[0], strict=True)
            whole = tuple(a + b for a, b in pairs), first[1] + second[1]
            if best is None or whole <= best[0]:
                best = whole, primary.host.index, secondary.host.index
    assert found.successes == successes
    assert found.successes + found.failures.total() == len(nodes) * (len(nodes) - 1)
    if best is None:
        assert found.best is None
    else:
        assert found.best is not None
        assert found.best.metric == best[0]
        assert tuple(one.host.index for one in found.best.nodes) == best[1:]


@real
def test_answers_are_hails(tmp_path: Path) -> None:
    agree(range(60), tmp_path)


@real
@pytest.mark.oracle
def test_more_answers_are_hails(tmp_path: Path) -> None:
    agree(range(60, 1000), tmp_path)


def agree(seeds: range, folder: Path) -> None:
    for seed in seeds:
        asked = dedicated(seed)
        assert ours(asked, []) == hail(folder, asked, []), seed
