"""Requests of very many jobs: what was decided long ago is not submitted."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from nodeagent.cluster.backend import Answer, Submission
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.errors import Unavailable
from nodeagent.model.action import MovePrimary
from nodeagent.model.incident import Status
from nodeagent.model.snapshot import Instance
from tests.maintd.rig import QUICK, Between, Rig, fleet
from tests.maintd.world import EVACUATE


@dataclass
class Busy(Between):
    """Each job takes 6 s to arrive; the answer to the request `loses` is lost."""

    rig: list[Rig] = field(default_factory=list)
    loses: int = 0
    sizes: list[int] = field(default_factory=list)

    @property
    def grace(self) -> float:
        return 300.0

    @property
    def at_once(self) -> int:
        return GanetiCluster(grace=self.grace).at_once

    def submit(self, batch: Sequence[Submission]) -> Sequence[Answer]:
        self.sizes.append(len(batch))
        if len(self.sizes) != self.loses:
            return self.cluster.submit(batch)
        now = self.rig[0].time
        self.cluster._late.extend((now + 6 * n, one) for n, one in enumerate(batch, 1))
        raise Unavailable("the connection is lost; luxid goes on")


def crowded(loses: int = 0, *, slow: float = 0.0) -> tuple[Rig, list[int]]:
    """A node with 80 instances to be emptied, and how many jobs each request had."""
    sizes: list[int] = []
    rigs: list[Rig] = []
    instances = [Instance(f"i{n:02}", "n3", None, "rbd", memory=10) for n in range(80)]
    policy = replace(QUICK, moves=80)
    rig = Rig(fleet(), instances, policy, through=lambda cluster: Busy(cluster, rigs, loses, sizes))
    rigs.append(rig)
    rig.agents.says["n3"] = EVACUATE
    if slow:
        plain = rig.cluster.submit

        def submit(batch: Sequence[Submission]) -> Sequence[Answer]:
            rig.time += slow * (len(batch) > 1)
            return plain(batch)

        rig.cluster.submit = submit  # type: ignore[method-assign]
    for _ in range(90):
        rig.tick(20)
        if not rig.status("n3").active:
            break
    for _ in range(10):
        rig.tick(20)
    return rig, sizes


@pytest.mark.parametrize("loses", [0, 2, 3])
def test_a_request_of_many_jobs_whose_answer_is_lost_is_not_repeated(loses: int) -> None:
    rig, sizes = crowded(loses)
    assert max(sizes) * 6 < 300
    moves = Counter(
        job.action.instance
        for job in rig.cluster.jobs.values()
        if isinstance(job.action, MovePrimary)
    )
    assert set(moves.values()) == {1}
    assert len(moves) == 80
    assert rig.status("n3") is Status.COMPLETED


def test_what_is_decided_is_not_submitted_long_after() -> None:
    rig, sizes = crowded(slow=400.0)
    assert sizes[:4] == [1, 49, 31, 1], "the drain, then 49; the others are planned anew"
    assert rig.status("n3") is Status.COMPLETED
