"""The whole backend against a real cluster: each action as a job, and how it is found again."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.cluster.backend import Accepted, Cluster, Submission
from nodeagent.cluster.ganeti import configuration
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.maintd.balancing.inputs import take_stock
from nodeagent.model.action import Action, Drain, Retag, Scope, SetOffline
from nodeagent.model.ledger import Outcome, Result
from nodeagent.model.snapshot import Instance
from nodeagent.placement.cluster.textfile import parse
from nodeagent.placement.layout import score
from nodeagent.placement.layout.layout import group_of, lay_out
from nodeagent.placement.layout.rules import Rules
from simulation.textfile import write
from tests.placement.hbal import ask as hbal
from tests.placement.hbal import real, shown
from tests.real.lab import CLUSTER, NODES, STATE, create, gnt, listed, remove, socket_path, wait

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


def submit(cluster: Cluster, *actions: Action) -> dict[str, Submission]:
    """Submit them, all to be taken; what was submitted by job."""
    batch = [Submission(action, reason(str(i))) for i, action in enumerate(actions)]
    answers = cluster.submit(batch)
    jobs = {a.job: s for a, s in zip(answers, batch, strict=True) if isinstance(a, Accepted)}
    assert len(jobs) == len(batch), answers
    return jobs


def done(cluster: Cluster, *actions: Action) -> list[Result]:
    """Submit them, wait for all, and see that each can be found again as what it was."""
    jobs = submit(cluster, *actions)
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


def test_disks_of_several_kinds_are_seen_on_their_other_node(
    cluster: Cluster, instances: None
) -> None:
    """Ganeti attaches disks of several kinds at once where an instance has none."""
    mirrored, plain = (_disk(name) for name in (MIRRORED, PLAIN))
    _modify(PLAIN, "0:detach")
    _modify(MIRRORED, "0:detach")
    _modify(MIRRORED, f"0:attach,uuid={mirrored}", f"1:attach,uuid={plain}")
    try:
        seen = cluster.snapshot().instances[MIRRORED]
        on_disk = configuration.read(f"{STATE}/nodes/node1/lib/config.data").instances[MIRRORED]
    finally:
        _modify(MIRRORED, "1:detach")
        _modify(PLAIN, f"0:attach,uuid={plain}")
    assert seen.template == "mixed"
    for instance in (seen, on_disk):
        assert (instance.primary, instance.secondary) == (TWO, None)
        assert instance.partly_on == {THREE}


def _disk(instance: str) -> str:
    ((disks,),) = listed("instance", "disk.uuids", name=instance)
    return str(disks[0])


def _modify(instance: str, *disks: str) -> None:
    changes = [word for disk in disks for word in ("--disk", disk)]
    gnt("gnt-instance", "modify", *changes, instance)


def test_a_node_set_offline_by_others_is_woken_by_a_drain(cluster: Cluster) -> None:
    """So nobody may order a drain of a node that is offline: Ganeti does not refuse it."""
    with roles_restored():
        assert outcomes(done(cluster, SetOffline(THREE), Drain(THREE))) == [OK, OK]
        there = cluster.snapshot().nodes[THREE]
        assert (there.drained, there.offline) == (True, False)


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
