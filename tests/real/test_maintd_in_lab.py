"""maintd on a real Ganeti cluster, with Ganeti's own lists as the witness."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from nodeagent.cluster.backend import Accepted, Submission
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.model.action import Retag, Scope
from nodeagent.model.ledger import PAUSE_TAG, Outcome
from nodeagent.protocol.node_key import TAG
from tests.failpoints import NAMES
from tests.real.lab import create, gnt, listed, node, remove, socket_path
from tests.real.maintd import (
    AGENT_STATE,
    EVACUATE,
    NEXT,
    REPAIR,
    Maintenance,
    agrees_with_ganetis_own_commands,
    fail_over,
    flags,
    job_list,
    last_job,
    maintained,
    ours,
    placed,
    until,
)
from tests.real.steps import completes

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def lab() -> Iterator[Maintenance]:
    with maintained() as system:
        yield system


def test_a_broken_node_is_emptied_taken_offline_and_tagged(system: Maintenance) -> None:
    create("inst1", "drbd", "node2.gnt.test", "node3.gnt.test")
    create("inst2", "drbd", "node1.gnt.test", "node2.gnt.test")
    create("inst3", "sharedfile", "node2.gnt.test")
    before = last_job()
    system.breaks("node2", EVACUATE)
    incident = system.until_status("node2", "completed", 180)
    node2 = flags("node2")
    assert (node2["offline"], node2["pinst_cnt"], node2["sinst_cnt"]) == ("Y", "0", "0")
    assert node2["tags"] == f"maintd:repairready:{incident['uuid']}" == incident["tag"]
    assert placed("inst1") == ("node3", "node1")
    assert placed("inst2") == ("node1", "node3")
    assert placed("inst3")[0] in ("node1", "node3")
    jobs = job_list(before)
    assert {status for _, status, _ in jobs} == {"success"}
    kinds = [summary.partition("(")[0] for _, _, summary in jobs]
    assert kinds[0] == "NODE_SET_PARAMS"
    assert sorted(kinds[1:-2]) == ["INSTANCE_MIGRATE"] * 2 + ["INSTANCE_REPLACE_DISKS"] * 2
    assert kinds[-2:] == ["NODE_SET_PARAMS", "TAGS_SET"]
    assert incident["jobs"] == [number for number, _, _ in jobs]
    status = gnt("gnt-instance", "list", "--no-headers", "-o", "status")
    assert set(status.split()) == {"running"}
    agrees_with_ganetis_own_commands()
    for name in ("inst1", "inst2", "inst3"):
        remove(name)


def test_a_node_is_pinned_to_its_key_and_another_is_trusted_by_hand(system: Maintenance) -> None:
    """Its agent is reinstalled, and somebody could as well have answered in its place."""
    name = "node2.gnt.test"

    def told() -> dict[str, Any]:
        (found,) = [one for one in system.get("/1/agents") if one["name"] == name]
        return dict(found)

    def tags() -> list[str]:
        ((found,),) = listed("node", "tags", name=name)
        return [tag for tag in found if tag.startswith(TAG)]

    first = told()
    assert (first["state"], first["pinned"]) == ("pinned", [first["key"]])
    assert tags() == [TAG + first["key"]]
    system.shell("node2", f"rm {AGENT_STATE}/node.key")
    system.restart_agent("node2")
    system.breaks("node2", EVACUATE)
    until(lambda: told()["state"] == "mismatch", 60, system.tail)
    assert "gnt-maint agents trust node2.gnt.test" in told()["why"]
    time.sleep(8)
    assert system.incidents() == [], "nothing is done for who cannot be believed"
    assert flags("node2")["drained"] == "N"
    system.mended("node2")
    before = last_job()
    done = system.ask("agents", "trust", "--yes", "node2")
    assert done.returncode == 0, done
    until(lambda: told()["state"] == "pinned", 60, system.tail)
    second = told()
    assert tags() == [TAG + second["key"]]
    assert second["key"] != first["key"]
    ((_, status, summary),) = job_list(before)
    assert status == "success"
    assert [kind.partition("(")[0] for kind in summary.split(",")] == ["TAGS_DEL", "TAGS_SET"]


@pytest.mark.story_3_0
def test_a_live_repair_is_fed_the_diagnosis_and_tagged(system: Maintenance) -> None:
    system.shell("node2", "rm -f /run/fed")
    before = last_job()
    system.breaks("node2", REPAIR)
    incident = system.until_status("node2", "completed")
    fed = system.shell("node2", "cat /run/fed").splitlines()
    assert [json.loads(line) for line in fed] == [REPAIR]
    # The mark of its order goes in a later round: once the tag of its end shows.
    until(lambda: flags("node2")["tags"] == incident["tag"], 30, system.tail)
    kinds = [summary.partition("(")[0] for _, _, summary in job_list(before)]
    assert kinds == ["TAGS_SET", "TAGS_SET", "TAGS_DEL"]
    assert flags("node2")["drained"] == "N"
    gnt("gnt-node", "remove-tags", "node2", str(incident["tag"]))
    time.sleep(5)
    assert len(system.shell("node2", "cat /run/fed").splitlines()) == 1, "it loops never"
    system.mended("node2")
    until(lambda: system.incidents() == [], 30, system.tail)
    until(lambda: flags("node2")["tags"] == "", 120, system.tail)


def test_of_a_master_candidate_another_is_promoted(system: Maintenance) -> None:
    gnt("gnt-cluster", "modify", "--candidate-pool-size=2")
    gnt("gnt-node", "modify", "--master-candidate=no", "--force", "node3")
    try:
        assert (flags("node2")["role"], flags("node3")["role"]) == ("C", "R")
        system.breaks("node2", EVACUATE)
        system.until_status("node2", "completed")
        assert (flags("node2")["role"], flags("node3")["role"]) == ("O", "C")
    finally:
        gnt("gnt-cluster", "modify", "--candidate-pool-size=10")


def test_a_job_filter_on_an_incidents_id_holds_its_jobs_only(system: Maintenance) -> None:
    gnt("gnt-cluster", "add-tags", "maintd:settle:30s")
    try:
        system.breaks("node2", EVACUATE)
        incident = str(system.until_status("node2", "noted")["uuid"])
        gnt(
            "gnt-filter",
            "add",
            "--predicates",
            json.dumps([["reason", ["=", "reason", incident]]]),
            "--action",
            "PAUSE",
        )
        before = last_job()
        until(lambda: bool(job_list(before)), 90, system.tail)
        gnt("gnt-cluster", "add-tags", "not-held")  # waits for its own job, which runs
        time.sleep(5)
        waiting = [what for _, status, what in job_list(before) if status == "queued"]
        assert len(waiting) == 1, job_list(before)
        assert flags("node2")["drained"] == "N"
    finally:
        for line in gnt("gnt-filter", "list", "--no-headers", "-o", "uuid").split():
            gnt("gnt-filter", "delete", line)
        gnt("gnt-cluster", "remove-tags", "maintd:settle:30s")
    system.until_status("node2", "completed")
    gnt("gnt-cluster", "remove-tags", "not-held")


def test_the_ledger_deleted_in_mid_incident_is_rebuilt(system: Maintenance) -> None:
    create("inst1", "drbd", "node2.gnt.test", "node3.gnt.test")
    system.breaks("node2", EVACUATE)
    until(lambda: flags("node2")["drained"] == "Y", 60, system.tail)
    incident = system.until_status("node2", "pending")
    system.stop_maintd("KILL")
    system.lose_ledger()
    system.start_maintd()
    again = system.until_status("node2", "completed", 180)
    assert again["uuid"] == incident["uuid"]
    kinds = ours(str(incident["uuid"]))
    assert kinds == ["Drain", "MovePrimary", "MoveSecondary", "SetOffline", "Retag"]
    remove("inst1")


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("ordered", "adopted")])
def test_killed_at_every_effect(system: Maintenance, name: str) -> None:
    create("inst1", "drbd", "node2.gnt.test", "node3.gnt.test")
    system.stop_maintd()
    system.breaks("node2", EVACUATE)
    system.start_maintd(failpoint=f"{name}:kill:1")
    killed = 0
    found: list[dict[str, object]] = []

    def completed() -> bool:
        nonlocal killed
        assert system.maintd is not None
        if system.maintd.poll() is not None:
            killed += 1
            system.start_maintd(failpoint=f"{name}:kill:{NEXT[name]}")
        found[:] = [i for i in system.incidents() if i["repair-status"] == "completed"]
        return bool(found)

    until(completed, 500, system.tail)
    effects = ["Drain", "MovePrimary", "MoveSecondary", "SetOffline", "Retag"]
    assert ours(str(found[0]["uuid"])) == effects
    # Both moves of an instance are submitted together.
    assert killed >= (1 if name == "saved" else len(effects) - 1)
    system.stop_maintd()
    system.start_maintd()
    remove("inst1")


def test_a_pause_that_is_lost_as_the_master_changes_holds(system: Maintenance) -> None:
    """The new master has read its configuration before the tag's job ended, with success."""
    system.stop_maintd()
    # A job still under way would hand node3 the configuration anew, with the tag.
    ended = {"success", "error", "canceled"}
    until(lambda: {status for _, status, _ in job_list()} <= ended, 120, lambda: str(job_list()))
    config = "/var/lib/ganeti/config.data"
    system.shell("node3", f"cp -p {config} /run/read-before")
    with closing(GanetiCluster(socket_path())) as cluster:
        pause = Submission(Retag(Scope.CLUSTER, "", (PAUSE_TAG,)), "maintd:1")
        (answer,) = cluster.submit([pause])
        assert isinstance(answer, Accepted)
        until(lambda: cluster.results([answer.job])[answer.job].outcome is Outcome.SUCCESS, 60, str)
    system.shell("node3", f"cp -p /run/read-before {config}.new; mv {config}.new {config}")
    fail_over("node3", system.tail)
    try:
        assert PAUSE_TAG not in gnt("gnt-cluster", "list-tags"), "it is lost"
        system.breaks("node2", {**EVACUATE, "details": {"part": "seen by no other master"}})
        system.start_maintd("node3")
        until(lambda: PAUSE_TAG in gnt("gnt-cluster", "list-tags"), 180, system.tail)
        system.until_status("node2", "noted", master="node3")
        time.sleep(10)
        assert flags("node2")["drained"] == "N"
        resumed = system.ask("resume", "--cluster", master="node3")
        assert resumed.returncode == 0, resumed.stderr
        system.until_status("node2", "completed", 180, master="node3")
        assert PAUSE_TAG not in gnt("gnt-cluster", "list-tags")
    finally:
        system.stop_maintd()
        back = node("node1", "gnt-cluster", "master-failover", seconds=180)
        node("node1", "gnt-cluster", "remove-tags", PAUSE_TAG)  # where the test has failed
        assert back.returncode == 0, back.stderr
        system.start_maintd()


@pytest.mark.story_3_0
def test_a_master_failover_in_mid_evacuation(system: Maintenance) -> None:
    create("inst1", "drbd", "node2.gnt.test", "node1.gnt.test")
    system.breaks("node2", EVACUATE)
    until(lambda: flags("node2")["drained"] == "Y", 60, system.tail)
    incident = system.until_status("node2", "pending")
    fail_over("node3", system.tail)
    assert system.maintd is not None
    assert system.maintd.wait(90) == 11, "the old master's maintd leaves"
    system.start_maintd("node3")
    try:
        completes(system, "node2", incident, "node3")
        assert flags("node2")["offline"] == "Y"
        assert placed("inst1")[0] in ("node1", "node3")
    finally:
        system.stop_maintd()
        fail_over("node1", system.tail)
        system.start_maintd()
    remove("inst1")
