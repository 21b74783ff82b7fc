"""The simulation must misbehave like Ganeti, or what is tested with it proves nothing."""

import pytest

from nodeagent.cluster.simulated import SimulatedCluster
from nodeagent.errors import Unavailable
from nodeagent.model.action import Action, AddTag, Drain, MovePrimary, MoveSecondary, SetOffline
from nodeagent.model.ledger import Outcome
from nodeagent.model.snapshot import Instance
from tests.maintd.world import node


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster(clock: Clock) -> SimulatedCluster:
    instances = [Instance("web", "n1", "n2"), Instance("single", "n3", None)]
    return SimulatedCluster.of(clock, [node(f"n{i}") for i in range(1, 5)], instances)


def test_a_job_takes_its_time_and_has_its_effect_at_its_end(
    cluster: SimulatedCluster, clock: Clock
) -> None:
    cluster.takes = lambda _: 5.0
    job = cluster.submit(Drain("n1"), "why")
    clock.now = 4.9
    assert cluster.outcome(job) is Outcome.RUNNING
    assert not cluster.snapshot().nodes["n1"].drained
    clock.now = 5.0
    assert cluster.outcome(job) is Outcome.SUCCESS
    assert cluster.snapshot().nodes["n1"].drained


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(SetOffline("n1"), id="offline with a primary instance"),
        pytest.param(MovePrimary("single", "n3", live=True), id="no mirror to move to"),
        pytest.param(MovePrimary("gone", "n3", live=True), id="no such instance"),
        pytest.param(MoveSecondary("web", "n2", "n1"), id="mirror onto the primary itself"),
        pytest.param(Drain("n9"), id="no such node"),
        pytest.param(AddTag("n9", "t"), id="tag on no such node"),
    ],
)
def test_what_ganeti_refuses_fails(cluster: SimulatedCluster, clock: Clock, action: Action) -> None:
    before = cluster.snapshot()
    job = cluster.submit(action, "why")
    clock.now = 10
    assert cluster.outcome(job) is Outcome.ERROR
    assert cluster.snapshot() == before


def test_a_lost_answer_is_a_job_all_the_same(cluster: SimulatedCluster) -> None:
    cluster.loses_answer = lambda _: True
    with pytest.raises(Unavailable):
        cluster.submit(Drain("n1"), "reason")
    assert cluster.find("reason") == "1"
    assert cluster.find("another") is None


def test_an_old_job_is_deleted_and_then_lost(cluster: SimulatedCluster, clock: Clock) -> None:
    job = cluster.submit(Drain("n1"), "reason")
    clock.now = 20 * 86400
    assert (cluster.find("reason"), cluster.outcome(job)) == (job, Outcome.SUCCESS)
    clock.now = 22 * 86400
    assert (cluster.find("reason"), cluster.outcome(job)) == (None, Outcome.LOST)


def test_jobs_end_in_the_order_of_their_ends(cluster: SimulatedCluster, clock: Clock) -> None:
    cluster.takes = lambda action: 5.0 if isinstance(action, Drain) else 1.0
    cluster.submit(Drain("n1"), "a")
    cluster.submit(MovePrimary("web", "n1", live=True), "b")
    cluster.submit(SetOffline("n1"), "c")
    clock.now = 10
    node_after = cluster.snapshot().nodes["n1"]
    assert (node_after.drained, node_after.offline) == (True, False), "the drain ended last"


def test_a_cluster_that_is_down_answers_nothing(cluster: SimulatedCluster) -> None:
    cluster.down = True
    for ask in (cluster.snapshot, lambda: cluster.find("x"), lambda: cluster.outcome("1")):
        with pytest.raises(Unavailable):
            ask()
