"""The whole backend against a real cluster: each action as a job, and how it is found again."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.cluster.backend import Accepted, Cluster, NotTaken, Submission
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.cluster.ganeti.luxi import Luxi
from nodeagent.cluster.ganeti.ssconf import Ssconf
from nodeagent.errors import NotMaster
from nodeagent.maintd.balancing.inputs import take_stock
from nodeagent.model.action import (
    Action,
    Drain,
    MovePrimary,
    MoveSecondary,
    Retag,
    RunCommand,
    Scope,
    SetOffline,
)
from nodeagent.model.ledger import Outcome, Result
from nodeagent.model.snapshot import Instance
from nodeagent.placement.cluster.textfile import parse, write
from nodeagent.placement.layout import score
from nodeagent.placement.layout.layout import group_of, lay_out
from nodeagent.placement.layout.rules import Rules
from tests.placement.hbal import ask as hbal
from tests.placement.hbal import real, shown
from tests.real.lab import (
    CLUSTER,
    NODES,
    STATE,
    create,
    gnt,
    node,
    power,
    remove,
    socket_path,
    wait,
)

pytest_plugins = ["tests.real.lab"]
pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

ONE, TWO, THREE = NODES
MIRRORED, SHARED, PLAIN = "inst1.gnt.test", "inst2.gnt.test", "inst3.gnt.test"
INCIDENT = "7b1cb7c2-0c8e-5b8e-9d55-0d4a5f6a1b2c"


@pytest.fixture
def cluster(lab_luxi: GanetiCluster) -> Cluster:
    """The real cluster."""
    return lab_luxi


@pytest.fixture(scope="module")
def instances(lab: None) -> Iterator[None]:
    """One of each kind on the second node, mirrored to the third. A test moves them back."""
    wanted = [(MIRRORED, "drbd", TWO, THREE), (SHARED, "sharedfile", TWO), (PLAIN, "plain", TWO)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda each: create(*each), wanted))
        yield
        list(pool.map(lambda each: remove(each[0]), wanted))


@contextmanager
def roles_restored() -> Iterator[None]:
    try:
        yield
    finally:
        for name in (TWO, THREE):
            gnt("gnt-node", "modify", "-f", "--offline=no", "--drained=no", name)
            gnt("gnt-node", "modify", "-f", "--master-candidate=yes", name)


def reason(word: str) -> str:
    return f"{INCIDENT}:{word}.{time.time_ns()}"


def submit(cluster: Cluster, *actions: Action, after: str | None = None) -> dict[str, Submission]:
    """Submit them, all to be taken; what was submitted by job."""
    batch = [Submission(action, reason(str(i)), after) for i, action in enumerate(actions)]
    answers = cluster.submit(batch)
    jobs = {a.job: s for a, s in zip(answers, batch, strict=True) if isinstance(a, Accepted)}
    assert len(jobs) == len(batch), answers
    return jobs


def done(cluster: Cluster, *actions: Action, after: str | None = None) -> list[Result]:
    """Submit them, wait for all, and see that each can be found again as what it was."""
    jobs = submit(cluster, *actions, after=after)
    results = wait(cluster, jobs)
    assert cluster.find([s.reason for s in jobs.values()]) == {
        s.reason: job for job, s in jobs.items()
    }
    trails = {trail.job: trail for trail in cluster.trails()}
    for job, submitted in jobs.items():
        assert trails[job].action == submitted.action
        assert (trails[job].reason, trails[job].result) == (submitted.reason, results[job])
        assert abs(trails[job].at - time.time() * 1000) < 300_000
    return [results[job] for job in jobs]


def outcomes(results: list[Result]) -> list[Outcome]:
    return [result.outcome for result in results]


OK, ERROR = Outcome.SUCCESS, Outcome.ERROR


def test_a_snapshot_is_what_ganetis_own_commands_say(cluster: Cluster, instances: None) -> None:
    seen = cluster.snapshot()
    assert (seen.cluster, seen.master, sorted(seen.nodes)) == (CLUSTER, ONE, sorted(NODES))
    assert seen.instances[MIRRORED] == replace(
        Instance(MIRRORED, TWO, THREE, "drbd", 128, 192), hypervisor="fake"
    )
    assert seen.instances[SHARED] == replace(
        Instance(SHARED, TWO, None, "sharedfile", 128, 64), hypervisor="fake"
    )
    assert seen.instances[PLAIN] == replace(
        Instance(PLAIN, TWO, None, "plain", 128, 64), hypervisor="fake"
    )
    fields = "name,uuid,pip,group.uuid,master_candidate,vm_capable"
    told = gnt("gnt-node", "list", "--no-headers", "--separator=|", "-o", fields)
    for line in told.splitlines():
        name, uuid, address, group, candidate, capable = line.split("|")
        there = seen.nodes[name]
        assert (there.uuid, there.address, there.group) == (uuid, address, group)
        assert (there.candidate, there.vm_capable) == (candidate == "Y", capable == "Y")
    assert [group.name for group in seen.groups.values()] == ["default"]


@real
def test_the_cluster_is_what_the_real_hbal_takes_it_for(
    lab_luxi: GanetiCluster, instances: None, tmp_path: Path
) -> None:
    known = take_stock(lab_luxi)
    said = hbal([f"-L{socket_path()}", "-l", "0", "-S", str(tmp_path / "seen")])
    theirs = parse((tmp_path / "seen.original").read_text())
    assert not known.doubts
    # The nodes share this machine, of which a little more or less is used every moment.
    nodes = [
        replace(one, free_memory=their.free_memory, own_memory=their.own_memory)
        for one, their in zip(known.cluster.nodes, theirs.nodes, strict=True)
    ]
    ours = replace(known.cluster, nodes=tuple(nodes))
    assert parse(write(ours)) == theirs
    for one, their in zip(known.cluster.nodes, theirs.nodes, strict=True):
        assert abs(one.free_memory - their.free_memory) < 1000
        assert abs(one.own_memory - their.own_memory) < 1000
    layout = lay_out(ours, group_of(ours), Rules())
    values = score.components(layout.group_nodes())
    names = [part.name for part in score.COMPONENTS]
    assert said.components == tuple(zip(names, map(shown, values), strict=True))
    assert said.initial == shown(score.score(layout))


def test_tags_are_put_on_and_taken_off_everything(cluster: Cluster, instances: None) -> None:
    where = [
        (Scope.CLUSTER, ""),
        (Scope.GROUP, "default"),
        (Scope.NODE, TWO),
        (Scope.INSTANCE, PLAIN),
    ]
    tags = ("maintd:repairready:" + INCIDENT, "maintd:x:y+z")
    assert outcomes(done(cluster, *(Retag(s, name, add=tags) for s, name in where))) == [OK] * 4
    seen = cluster.snapshot()
    carried = [
        seen.tags,
        next(iter(seen.groups.values())).tags,
        seen.nodes[TWO].tags,
        seen.instances[PLAIN].tags,
    ]
    assert all(set(tags) <= found for found in carried)
    assert outcomes(done(cluster, *(Retag(s, name, remove=tags) for s, name in where))) == [OK] * 4
    assert not cluster.snapshot().tags & set(tags)


def test_who_comes_second_with_a_retag_changes_nothing(lab_luxi: GanetiCluster) -> None:
    assert outcomes(done(lab_luxi, Retag(Scope.NODE, TWO, add=("old",)))) == [OK]
    swaps = [Retag(Scope.NODE, TWO, add=(new,), remove=("old",)) for new in ("mine", "yours")]
    results = done(lab_luxi, *swaps)
    assert sorted(o.value for o in outcomes(results)) == ["error", "success"]
    tags = lab_luxi.snapshot().nodes[TWO].tags
    winner = ("mine", "yours")[outcomes(results).index(OK)]
    assert tags & {"old", "mine", "yours"} == {winner}
    assert next(r.why for r in results if r.outcome is ERROR) == (
        "OpPrereqError: Tag(s) 'old' not found"
    )
    done(lab_luxi, Retag(Scope.NODE, TWO, remove=(winner,)))


def test_instances_move_and_move_back(cluster: Cluster, instances: None) -> None:
    away = done(
        cluster,
        MovePrimary(MIRRORED, TWO, live=True),
        MovePrimary(SHARED, TWO, live=True, target=THREE),
    )
    assert outcomes(away) == [OK, OK]
    seen = cluster.snapshot().instances
    assert (seen[MIRRORED].primary, seen[MIRRORED].secondary) == (THREE, TWO)
    assert seen[SHARED].primary == THREE
    back = done(
        cluster,
        MovePrimary(MIRRORED, THREE, live=False),
        MovePrimary(SHARED, THREE, live=False, target=TWO),
    )
    assert outcomes(back) == [OK, OK]
    assert outcomes(done(cluster, MoveSecondary(MIRRORED, THREE, ONE))) == [OK]
    seen = cluster.snapshot().instances
    assert (seen[MIRRORED].primary, seen[MIRRORED].secondary) == (TWO, ONE)
    assert seen[SHARED].primary == TWO
    assert outcomes(done(cluster, MoveSecondary(MIRRORED, ONE, THREE))) == [OK]


def test_a_target_keeps_a_mirrored_instance_from_moving_back(
    lab_luxi: GanetiCluster, instances: None
) -> None:
    for live in (True, False):
        move = MovePrimary(MIRRORED, TWO, live=live, target=THREE)
        assert outcomes(done(lab_luxi, move)) == [OK]
        (again,) = done(lab_luxi, move)
        assert "cannot be" in again.why
        assert lab_luxi.snapshot().instances[MIRRORED].primary == THREE
        assert outcomes(done(lab_luxi, MovePrimary(MIRRORED, THREE, live=live))) == [OK]


def test_a_node_set_offline_by_others_is_woken_by_a_drain(cluster: Cluster) -> None:
    """So nobody may order a drain of a node that is offline: Ganeti does not refuse it."""
    with roles_restored():
        assert outcomes(done(cluster, SetOffline(THREE), Drain(THREE))) == [OK, OK]
        there = cluster.snapshot().nodes[THREE]
        assert (there.drained, there.offline) == (True, False)


def test_what_cannot_move_says_why(cluster: Cluster, instances: None) -> None:
    results = done(
        cluster,
        MovePrimary(PLAIN, TWO, live=True),
        MovePrimary("inst9.gnt.test", TWO, live=False, unchecked=True),
        MoveSecondary(MIRRORED, THREE, TWO),
    )
    assert [result.why for result in results] == [
        "OpPrereqError: Instance's disk layout 'plain' does not allow migrations",
        "OpPrereqError: Instance 'inst9.gnt.test' not known",
        "OpPrereqError: The specified node is the primary node of the instance",
    ]


def test_a_node_is_drained_and_taken_offline_and_another_promoted(cluster: Cluster) -> None:
    with roles_restored():
        gnt("gnt-cluster", "modify", "--candidate-pool-size=2")
        gnt("gnt-node", "modify", "-f", "--master-candidate=no", THREE)
        assert not cluster.snapshot().nodes[THREE].candidate
        assert outcomes(done(cluster, Drain(TWO, promote=True))) == [OK]
        nodes = cluster.snapshot().nodes
        assert (nodes[TWO].drained, nodes[TWO].candidate, nodes[THREE].candidate) == (
            True,
            False,
            True,
        )
        assert outcomes(done(cluster, SetOffline(TWO))) == [OK]
        there = cluster.snapshot().nodes[TWO]
        assert (there.drained, there.offline) == (False, True), "one role at a time"
        gnt("gnt-cluster", "modify", "--candidate-pool-size=10")


def test_the_master_is_never_drained(cluster: Cluster) -> None:
    why = "OpPrereqError: The master role can be changed only via master-failover"
    assert done(cluster, Drain(ONE), SetOffline(ONE)) == [Result(ERROR, why)] * 2


def test_a_job_waits_for_the_one_before_it(cluster: Cluster) -> None:
    first, *_ = submit(cluster, Retag(Scope.NODE, TWO, add=("first",)))
    assert outcomes(done(cluster, Retag(Scope.NODE, TWO, remove=("first",)), after=first)) == [OK]
    failing, *_ = submit(cluster, Retag(Scope.NODE, TWO, remove=("no-such-tag",)))
    (result,) = done(cluster, Drain(THREE), after=failing)
    assert result.outcome is Outcome.LATER, "what is still wanted is planned anew"
    assert result.why == (
        f"OpExecError: Dependency job {failing} finished with status 'error',"
        " not one of 'success' as required"
    )
    assert not cluster.snapshot().nodes[THREE].drained


def test_archived_jobs_are_found_like_others(cluster: Cluster) -> None:
    jobs = submit(cluster, Retag(Scope.NODE, TWO, add=("kept",)), Drain(ONE))
    before = wait(cluster, jobs)
    reasons = {submitted.reason: job for job, submitted in jobs.items()}
    trails = cluster.trails()
    gnt("gnt-job", "archive", *jobs)
    listed = gnt("gnt-job", "list", "--no-headers", "-o", "id").split()
    assert not set(jobs) & set(listed), "Ganeti's own list has them no more"
    assert cluster.results(jobs) == before
    assert cluster.find(reasons) == reasons
    assert cluster.trails() == trails


def test_a_job_that_nobody_knows_is_lost(cluster: Cluster) -> None:
    unknown = ["99999999", "0", "-1", "order-7", "12345678901234567890123"]
    assert {r.outcome for r in cluster.results(unknown).values()} == {Outcome.LOST}
    assert set(cluster.results(unknown)) == set(unknown)
    assert cluster.results([]) == {}, "an empty list would mean all jobs"
    assert cluster.find([]) == {}
    assert cluster.find(["nobody:said"]) == {}


def test_canceled_jobs_are_no_success(lab_luxi: GanetiCluster) -> None:
    luxi = Luxi(socket_path())
    rule = [["reason", ["=", "source", "gnt:daemon:maintd"]]]
    paused = luxi.ask("ReplaceFilter", [None, 0, [rule[0]], "PAUSE", []])
    try:
        (job,) = submit(lab_luxi, Retag(Scope.NODE, TWO, add=("never",)))
        time.sleep(2)
        assert lab_luxi.results([job])[job] == Result(Outcome.RUNNING, "queued"), "paused"
        luxi.ask("CancelJob", [int(job), False])
        assert wait(lab_luxi, [job])[job].outcome is ERROR
        assert "canceled" in lab_luxi.results([job])[job].why
    finally:
        luxi.ask("DeleteFilter", [paused])


def test_capacity_of_those_that_say(cluster: Cluster) -> None:
    told = cluster.capacity([ONE, TWO, "node9.gnt.test"])
    assert set(told) == {ONE, TWO}
    assert all(free.memory > 0 and free.disk > 0 for free in told.values())
    assert cluster.capacity([]) == {}


def test_a_dead_node_delays_no_snapshot_and_is_left_out_of_the_capacity(
    cluster: Cluster,
) -> None:
    power("node3", "off")
    try:
        began = time.monotonic()
        assert set(cluster.snapshot().nodes) == set(NODES)
        assert time.monotonic() - began < 2
        assert set(cluster.capacity(NODES)) == {ONE, TWO}
        # It is still a master candidate: luxid waits for it before it answers.
        assert outcomes(done(cluster, Retag(Scope.NODE, TWO, add=("slow",)))) == [OK]
    finally:
        power("node3", "on")


def test_what_is_no_job_is_not_taken_and_the_rest_goes_on(cluster: Cluster) -> None:
    tag = Retag(Scope.NODE, TWO, add=("goes-on",))
    batch = [
        Submission(RunCommand(TWO, "fix", "{}"), reason("a")),
        Submission(tag, reason("b")),
        Submission(Retag(Scope.NODE, TWO), reason("c")),
        Submission(tag, reason("d"), after="order-7"),
    ]
    answers = cluster.submit(batch)
    assert [type(answer) for answer in answers] == [NotTaken, Accepted, NotTaken, NotTaken]
    assert cluster.submit([]) == []


def test_a_drained_queue_takes_nothing(lab_luxi: GanetiCluster) -> None:
    luxi = Luxi(socket_path())
    luxi.ask("SetDrainFlag", [True])
    try:
        answers = lab_luxi.submit([Submission(Drain(TWO), reason("a"))])
    finally:
        luxi.ask("SetDrainFlag", [False])
    assert answers == [NotTaken("Queue drained")]


def test_no_socket_means_not_taken(lab: None) -> None:
    gone = GanetiCluster(socket_path() + ".gone")
    (answer,) = gone.submit([Submission(Drain(TWO), reason("a"))])
    assert isinstance(answer, NotTaken)
    assert "No such file" in answer.why


def test_many_jobs_are_found_page_by_page(
    lab_luxi: GanetiCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodeagent.cluster.ganeti.queries.PAGE", 3)
    jobs = submit(lab_luxi, *(Retag(Scope.NODE, TWO, add=(f"p{i}",)) for i in range(7)))
    wait(lab_luxi, jobs)
    assert lab_luxi.find([s.reason for s in jobs.values()]) == {
        s.reason: job for job, s in jobs.items()
    }
    numbers = [int(trail.job) for trail in lab_luxi.trails()]
    assert numbers == sorted(numbers)


def test_a_job_that_cannot_be_read_makes_the_answer_incomplete(lab_luxi: GanetiCluster) -> None:
    queue = STATE / "nodes/node1/lib/queue"
    broken = queue / "job-900000"
    broken.write_text("{")
    like = next(queue.glob("job-[0-9]*")).stat()
    os.chown(broken, like.st_uid, like.st_gid)
    try:
        with pytest.raises(Exception, match="lists job 900000 and cannot read it"):
            lab_luxi.find(["x:y"])
    finally:
        broken.unlink()


def test_the_connection_outlives_luxid(lab_luxi: GanetiCluster) -> None:
    assert lab_luxi.master() == ONE
    for what in ("stop", "start"):
        assert node("node1", "/usr/lib/ganeti/daemon-util", what, "ganeti-luxid").returncode == 0
    deadline = time.monotonic() + 20
    while not os.path.exists(socket_path()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert lab_luxi.master() == ONE


def test_the_master_knows_that_it_is_and_the_others_that_they_are_not(
    lab_luxi: GanetiCluster,
) -> None:
    def check(number: int) -> None:
        folder = str(STATE / f"nodes/node{number}/lib")
        Ssconf(NODES[number - 1], folder).check_master(lab_luxi.master)

    check(1)
    with pytest.raises(NotMaster, match=f"this is {TWO}, and the master is {ONE}"):
        check(2)
