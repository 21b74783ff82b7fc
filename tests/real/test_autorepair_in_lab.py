"""Instances that repair themselves on a real Ganeti cluster, with its own lists as the witness.

Uses the multi-node laboratory beside the checkout; skipped by name where that is absent.
`make test-real` runs it.
"""

import re
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from nodeagent.cluster.backend import Accepted, Submission
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.model.action import Reinstall
from nodeagent.model.ledger import Outcome, Result
from tests.real.lab import create, gnt, listed, node, remove, socket_path
from tests.real.maintd import Maintenance, job_list, last_job, maintained, placed, until
from tests.real.steps import RULES, dies, ended, jobs_of, set_service, tags

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def lab() -> Iterator[Maintenance]:
    with maintained() as system:
        yield system


@pytest.fixture
def system(lab: Maintenance) -> Iterator[Maintenance]:
    """maintd by the safe rules, and a cluster that allows everything."""
    lab.heal()
    gnt("gnt-cluster", "add-tags", "maintd:autorepair:safe", f"{RULES}reinstall")
    lab.start_maintd()
    lab.until_it_answers()
    yield lab
    lab.stop_maintd()
    gnt("gnt-cluster", "remove-tags", "maintd:autorepair:safe", f"{RULES}reinstall")
    if service_of("node2") == "O":
        lab.reboot("node2")  # else the other side of what was mirrored there is still in use
    lab.heal()
    for name in gnt("gnt-instance", "list", "--no-headers", "-o", "name").split():
        remove(name)  # with all nodes there, so that nothing of it stays behind


def service_of(name: str) -> str:
    ((role,),) = listed("node", "role", name=name)
    return str(role)


def status(instance: str) -> str:
    return gnt("gnt-instance", "list", "--no-headers", "-o", "status", instance).strip()


def test_a_shared_instance_is_failed_over_from_an_offline_node(system: Maintenance) -> None:
    create("inst1", "sharedfile", "node2.gnt.test")
    dies("node2")
    result = ended(system, "inst1")
    assert (result["kind"], result["end"]) == ("failover", "success")
    assert placed("inst1")[0] in ("node1", "node3")
    assert status("inst1") == "running"
    moves = [trail for trail in jobs_of(result["id"]) if trail.job in result["jobs"].split("+")]
    assert [type(trail.action).__name__ for trail in moves] == ["Guarded"]


def test_a_shared_instance_is_migrated_from_a_drained_node(system: Maintenance) -> None:
    create("inst1", "sharedfile", "node2.gnt.test")
    set_service("node2", drained=True)
    # As harep's: its tag names the running job, which ends with the move.
    pending = re.compile(r"pending:migrate:[^:]+:\d+:(\d+)")
    found: list[str] = []

    def named() -> bool:
        found[:] = [m[1] for tag in tags("inst1") if (m := pending.fullmatch(tag))]
        return bool(found)

    until(named, 60, system.tail)
    assert placed("inst1")[0] == "node2"
    result = ended(system, "inst1")
    assert found[0] in result["jobs"].split("+")
    assert (result["kind"], result["end"]) == ("migrate", "success")
    assert placed("inst1")[0] in ("node1", "node3")
    assert status("inst1") == "running"


@pytest.mark.story
def test_a_mirrored_instance_gets_a_new_mirror_in_the_same_repair(system: Maintenance) -> None:
    create("inst1", "drbd", "node2.gnt.test", "node3.gnt.test")
    dies("node2")
    result = ended(system, "inst1", 180)
    assert result["end"] == "success"
    assert placed("inst1") == ("node3", "node1")
    assert len(result["jobs"].split("+")) == 2, "failed over, then mirrored anew: one repair"
    assert status("inst1") == "running"


def test_a_local_instance_is_installed_anew_where_all_its_nodes_are_offline(
    system: Maintenance,
) -> None:
    create("inst1", "file", "node2.gnt.test")
    set_service("node2", drained=True)
    until(lambda: "cannot leave it" in explained(system, "inst1"), 60, system.tail)
    assert placed("inst1")[0] == "node2", "its disks are alive"
    before = last_job()
    dies("node2")
    result = ended(system, "inst1", 180)
    assert (result["kind"], result["end"]) == ("reinstall", "success")
    assert placed("inst1")[0] in ("node1", "node3")
    assert status("inst1") == "running"
    assert any("INSTANCE_REINSTALL" in summary for _, _, summary in job_list(before))


def test_of_what_is_stopped_as_well(system: Maintenance) -> None:
    create("inst1", "file", "node2.gnt.test")
    gnt("gnt-instance", "stop", "inst1")
    dies("node2")
    result = ended(system, "inst1", 180)
    assert (result["kind"], result["end"]) == ("reinstall", "success")
    assert placed("inst1")[0] in ("node1", "node3")
    assert status("inst1") == "ADMIN_down"


def test_but_not_where_its_node_is_back_when_the_job_begins(system: Maintenance) -> None:
    create("inst1", "file", "node2.gnt.test")
    gnt("gnt-instance", "stop", "inst1")
    late = Reinstall("inst1", "node2.gnt.test", "node3.gnt.test", running=False)
    with closing(GanetiCluster(socket_path())) as cluster:
        (answer,) = cluster.submit([Submission(late, "maintd:1")])
        assert isinstance(answer, Accepted)
        job = answer.job
        until(lambda: result_of(cluster, job).outcome is not Outcome.RUNNING, 60, system.tail)
        assert "no longer offline" in result_of(cluster, job).why
    assert placed("inst1")[0] == "node2"
    assert status("inst1") == "ADMIN_down"


def result_of(cluster: GanetiCluster, job: str) -> Result:
    return cluster.results([job])[job]


def explained(system: Maintenance, instance: str) -> str:
    """What `gnt-maint explain` says of it."""
    done = system.ask("explain", instance)
    return done.stdout + done.stderr


def test_a_pass_from_cron_beside_harep(system: Maintenance) -> None:
    """What harep itself would do, and then the same by a pass of ours, with no daemon."""
    system.stop_maintd()
    gnt("gnt-cluster", "remove-tags", "maintd:autorepair:safe")
    try:
        create("inst1", "drbd", "node2.gnt.test", "node3.gnt.test")
        dies("node2")
        theirs = node("node1", "harep", "--dry-run")
        ours = system.ask("repair", "--mode", "compatible", "--dry-run")
        assert theirs.returncode == ours.returncode == 0
        assert plain(ours.stdout) == plain(theirs.stdout)
        for _ in range(60):
            done = system.ask("repair")
            assert done.returncode == 0, done.stderr
            if any(tag.startswith("result:") for tag in tags("inst1")):
                break
            time.sleep(1)
        assert ended(system, "inst1")["end"] == "success"
        assert placed("inst1") == ("node3", "node1")
    finally:
        gnt("gnt-cluster", "add-tags", "maintd:autorepair:safe")


def plain(text: str) -> list[str]:
    """Lines without what is different each time: ids and times."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text)
    return re.sub(r"\b1[0-9]{9}\b", "NOW", text).splitlines()
