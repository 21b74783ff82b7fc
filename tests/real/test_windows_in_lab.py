"""Maintenance windows on a real Ganeti cluster, with Ganeti's own lists as the witness."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.real.lab import create, gnt, remove_all
from tests.real.maintd import (
    Maintenance,
    flags,
    is_empty,
    job_list,
    job_times,
    kinds,
    last_job,
    maintained,
    placed,
    rests,
    service,
    until,
)
from tests.real.steps import machines, window

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


GUIDE = "/run/guide"
# As in the guide of Mesos' maintenance primitives, but for the address and `-u`.
POST = (
    "curl https://127.0.0.1:1816{path} -u alice:secret"
    ' -H "Content-type: application/json"'
    " -X POST"
    " -d @{file}"
)


@pytest.fixture(scope="module")
def lab() -> Iterator[Maintenance]:
    with maintained() as system:
        users = "/etc/nodeagent/maintd.users"
        system.shell("node1", f"umask 077; echo alice secret write > {users}; mkdir -p {GUIDE}")
        system.write("node1", f"{GUIDE}/.curlrc", "insecure\nsilent\nshow-error\nfail")
        system.shell("node1", "mkdir -p /etc/nodeagent/maintd.conf.d")
        system.write("node1", "/etc/nodeagent/maintd.conf.d/http.toml", "[http]\nplain = false")
        yield system


@pytest.fixture
def system(lab: Maintenance) -> Iterator[Maintenance]:
    lab.heal()
    lab.start_maintd()
    lab.until_it_answers()
    yield lab
    lab.stop_maintd("KILL")
    lab.lose_ledger()  # and all windows with it
    lab.heal()
    remove_all()


def post(system: Maintenance, path: str, document: object) -> None:
    system.write("node1", f"{GUIDE}/asked.json", json.dumps(document))
    line = POST.format(path=path, file="asked.json")
    said = system.shell("node1", f"cd {GUIDE}; export CURL_HOME=$PWD; {line}")
    # An answer waits a second for the candidates, whose agents may be slower on a busy machine.
    assert not said or said.startswith("kept on this node only: "), said


@pytest.mark.story_3_1
def test_a_node_is_emptied_in_time_goes_down_and_comes_up_as_it_was(system: Maintenance) -> None:
    create("inst1", "drbd", "node2.gnt.test", "node3.gnt.test")
    create("inst2", "drbd", "node1.gnt.test", "node2.gnt.test")
    create("inst3", "sharedfile", "node2.gnt.test")
    before, was = last_job(), service("node2")
    at = round(time.time()) + 7200
    window(system, "add", "node2", "--start", moment(at), "--duration", "1h")
    planned = machines(system)["node2"]
    ahead = at - planned["begins"]
    assert 600 < ahead < 1200, "ten minutes, and what three small disks take"
    assert (planned["mode"], planned["begun"], planned["left"]) == ("draining", False, 3)
    begins = round(time.time()) + 20
    window(system, "edit", "node2", "--start", moment(begins + ahead))
    assert machines(system)["node2"]["begins"] == pytest.approx(begins, abs=1)
    untouched = (job_list(before), service("node2"))
    if time.time() < begins:  # else this machine is too busy to have looked in time
        assert untouched == ([], was)
    until(lambda: is_empty("node2"), 180, system.tail)
    drained, *moves = kinds(before)
    assert drained == "NODE_SET_PARAMS"
    assert sorted(moves) == ["INSTANCE_MIGRATE"] * 2 + ["INSTANCE_REPLACE_DISKS"] * 2
    received = min(job.received for job in job_times(before))
    assert begins - 1 <= received < begins + 60
    assert placed("inst1") == ("node3", "node1")
    assert placed("inst2") == ("node1", "node3")

    rests(4)  # it goes down when somebody says so
    assert flags("node2")["offline"] == "N"
    window(system, "down", "node2")
    until(lambda: flags("node2")["offline"] == "Y", 60, system.tail)
    rests(2)
    window(system, "up", "node2")
    until(lambda: service("node2") == was, 60, system.tail)
    until(lambda: machines(system) == {}, 30, system.tail)
    assert kinds(before)[1 + len(moves) :] == ["NODE_SET_PARAMS"] * 2
    assert set(gnt("gnt-instance", "list", "--no-headers", "-o", "status").split()) == {"running"}
    rests(2)


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def test_one_that_was_drained_before_is_drained_again_by_the_guides_lines(
    system: Maintenance,
) -> None:
    gnt("gnt-node", "modify", "--drained=yes", "--auto-promote", "node3")
    was, machine = service("node3"), {"hostname": "NODE3.gnt.test", "ip": "10.77.0.13"}
    start = {"nanoseconds": round(time.time()) * 10**9}
    schedule = {"windows": [{"machine_ids": [machine], "unavailability": {"start": start}}]}
    post(system, "/maintenance/schedule", schedule)
    post(system, "/machine/down", [machine])
    until(lambda: flags("node3")["offline"] == "Y", 60, system.tail)
    told = "curl https://127.0.0.1:1816/maintenance/status -u alice:secret"
    status = system.shell("node1", f"export CURL_HOME={GUIDE}; {told}")
    assert json.loads(status) == {"down_machines": [machine]}
    post(system, "/machine/up", [machine])
    until(lambda: service("node3") == was, 60, system.tail)
    until(lambda: machines(system) == {}, 30, system.tail)
    rests(2)
    assert service("node3") == was
