"""Instances that repair themselves on a real Ganeti cluster, with its own lists as the witness."""

import re
import time
from collections.abc import Iterator

import pytest

from tests.real.lab import create, gnt, listed, node, remove_all
from tests.real.maintd import Maintenance, job_list, last_job, maintained, placed, until
from tests.real.steps import RULES, dies, ended, set_service, tags

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


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
    remove_all()  # with all nodes there, so that nothing of it stays behind


def service_of(name: str) -> str:
    ((role,),) = listed("node", "role", name=name)
    return str(role)


def status(instance: str) -> str:
    return gnt("gnt-instance", "list", "--no-headers", "-o", "status", instance).strip()


@pytest.mark.story_3_0
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
            system.do("repair")
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
