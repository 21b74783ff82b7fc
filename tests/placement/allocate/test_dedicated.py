"""Allocation on exclusive storage: the design's own examples, and hail beside it."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.errors import MessageError
from nodeagent.placement.allocate.dedicated import room, sizes
from nodeagent.placement.cluster.cluster import Load, Policy, Spec, Template
from nodeagent.placement.layout.node import Demand, Filled, Host, Refused, Sums, add_primary
from tests.placement.hail import dedicated, hail, ours, real

QUARTER, HALF, FULL = 25, 50, 100
# A node is never filled to nothing: each holds a little more than its four quarters.
NODE = 103


def policy(*quarters: int) -> Policy:
    """One range for each part of a node, in any order."""
    specs = [Spec(part, part // 25, part, 1, 0, 1) for part in quarters]
    return Policy(specs[0], tuple((spec, spec) for spec in specs), (Template.PLAIN, Template.DRBD))


def node(index: int, filled: int) -> Filled:
    """A node of which so much is taken already."""
    host = Host(
        index=index,
        name=f"node{index}",
        memory=NODE,
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
    free = NODE - filled
    sums = Sums(free, free, spindles=9, cpus=filled // 25, pressure=0, exclusion={})
    return Filled(
        host=host,
        present=sums,
        promised=sums,
        load=Load(),
        primaries=0,
        secondaries=0,
        reserved_for={},
        reserved=0,
        failing=False,
        misplaced=0,
    )


EMPTY = node(0, 0)
THREE_SIZES = policy(QUARTER, FULL, HALF)


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
        present=Sums(
            memory=rng.randint(-5, 300),
            disk=rng.randint(0, 300),
            spindles=rng.choice((-1, 0, 3)),
            cpus=rng.randint(0, 5),
            pressure=rng.choice((0, 1)),
            exclusion={},
        ),
        reserved=rng.choice((0, 0, 40, 120)),
        failing=rng.random() < 0.2,
        promised=here.promised._replace(
            memory=rng.randint(0, 300), disk=rng.randint(0, 300), cpus=rng.randint(0, 6)
        ),
    )
    if here.failing:  # a node that is failing is so by its numbers
        here = here._replace(reserved=max(0, here.present.memory) + 1)
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
