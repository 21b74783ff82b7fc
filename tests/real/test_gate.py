"""The job filter that keeps out what a maintd submits after another has taken over."""

import time
from collections.abc import Iterator

import pytest

from nodeagent.cluster.backend import Accepted, NotTaken, Submission
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.cluster.ganeti.gate import UUID, Gate
from nodeagent.cluster.ganeti.rapi import RapiCluster
from nodeagent.errors import Unavailable
from nodeagent.model.action import Retag, Scope
from nodeagent.model.ledger import Outcome
from tests.real.lab import MASTER, gnt, rapi, wait

pytest_plugins = ["tests.real.lab"]
pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

REASON = "7b1cb7c2-0c8e-5b8e-9d55-0d4a5f6a1b2c:"


@pytest.fixture
def two(lab_rapi: RapiCluster) -> Iterator[tuple[RapiCluster, RapiCluster]]:
    """Two maintd over one RAPI; the second begins epoch 7 where the first had 5."""
    first, second = RapiCluster(rapi(), grace=5.0), RapiCluster(rapi(), grace=5.0)
    first.gate, second.gate = Gate(rapi(), lambda: 5), Gate(rapi(), lambda: 7)
    yield first, second
    gnt("gnt-filter", "delete", UUID)


def tag(name: str) -> Submission:
    return Submission(Retag(Scope.NODE, MASTER, add=(name,)), REASON + name)


def submitted(cluster: RapiCluster, name: str) -> str:
    (answer,) = cluster.submit([tag(name)])
    assert isinstance(answer, Accepted), answer
    return answer.job


def test_jobs_of_an_older_epoch_are_canceled_and_all_others_run(
    two: tuple[RapiCluster, RapiCluster], lab_luxi: GanetiCluster, lab_rapi: RapiCluster
) -> None:
    first, second = two
    assert first.gate is not None
    assert second.gate is not None
    (early,) = first.submit([tag("early")])
    assert isinstance(early, NotTaken)  # its filter is not there yet
    first.gate.shut()
    before = submitted(first, "gate-before")
    wait(lab_luxi, [before])
    second.gate.shut()
    second.gate.shut()  # changes nothing
    with pytest.raises(Unavailable, match="its epoch is 7, and ours is 5"):
        first.gate.shut()
    stale = submitted(first, "gate-stale")  # it slept since its last look
    fresh = submitted(second, "gate-fresh")
    (by_luxi,) = lab_luxi.submit([tag("gate-luxi")])
    assert isinstance(by_luxi, Accepted)
    unmarked = submitted(lab_rapi, "gate-unmarked")
    until = time.monotonic() + 120
    jobs = [before, stale, fresh, by_luxi.job, unmarked]
    while any(lab_luxi.results(jobs)[job].outcome is Outcome.RUNNING for job in jobs):
        assert time.monotonic() < until
        time.sleep(0.2)
    ends = {job: result.outcome for job, result in lab_luxi.results(jobs).items()}
    assert ends.pop(stale) is not Outcome.SUCCESS
    assert set(ends.values()) == {Outcome.SUCCESS}
    tags = lab_luxi.snapshot().nodes[MASTER].tags
    assert {"gate-before", "gate-fresh", "gate-luxi", "gate-unmarked"} <= tags
    assert "gate-stale" not in tags
    wanted = {REASON + "gate-before": before, REASON + "gate-fresh": fresh}
    assert second.find(wanted) == wanted  # without its epoch
