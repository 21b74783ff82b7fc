"""Maintenance windows on a real Ganeti cluster, with Ganeti's own lists as the witness.

Uses the multi-node laboratory beside the checkout; skipped by name where that is absent.
`make test-real` runs it.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

import pytest

from tests.real.lab import LAB, create, gnt, node, remove
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
from tests.real.steps import is_current, machines, window

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
]


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
    for name in gnt("gnt-instance", "list", "--no-headers", "-o", "name").split():
        remove(name)


def held(system: Maintenance, name: str) -> str:
    """All reasons why nothing is done about a machine."""
    return "\n".join(machines(system)[name]["held"])


def post(system: Maintenance, path: str, document: object) -> None:
    system.write("node1", f"{GUIDE}/asked.json", json.dumps(document))
    line = POST.format(path=path, file="asked.json")
    said = system.shell("node1", f"cd {GUIDE}; export CURL_HOME=$PWD; {line}")
    # An answer waits a second for the candidates, whose agents may be slower on a busy machine.
    assert not said or said.startswith("kept on this node only: "), said


@pytest.mark.story
def test_a_node_is_emptied_in_time_goes_down_and_comes_up_as_it_was(system: Maintenance) -> None:
    create("inst1", "drbd", "node2.gnt.test", "node3.gnt.test")
    create("inst2", "drbd", "node1.gnt.test", "node2.gnt.test")
    create("inst3", "sharedfile", "node2.gnt.test")
    before, was = last_job(), service("node2")
    at = round(time.time()) + 7200
    window(system, "add", "node2", "--start", moment(at), "--duration", "1h")
    ahead = at - machines(system)["node2"]["begins"]
    assert 600 < ahead < 1200, "ten minutes, and what three small disks take"
    begins = round(time.time()) + 8
    window(system, "edit", "node2", "--start", moment(begins + ahead))
    planned = machines(system)["node2"]
    assert planned["begins"] == pytest.approx(begins, abs=1)
    assert (planned["mode"], planned["begun"], planned["left"]) == ("draining", False, 3)
    assert (job_list(before), service("node2")) == ([], was)
    until(lambda: is_empty("node2"), 180, system.tail)
    drained, *moves = kinds(before)
    assert drained == "NODE_SET_PARAMS"
    assert sorted(moves) == ["INSTANCE_MIGRATE"] * 2 + ["INSTANCE_REPLACE_DISKS"] * 2
    received = min(at for number, at, _, _ in job_times() if number > before)
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


def test_what_cannot_move_is_told_and_holds_it_until_it_is_canceled_or_gone(
    system: Maintenance,
) -> None:
    create("inst4", "plain", "node2.gnt.test")
    create("inst3", "sharedfile", "node2.gnt.test")
    was, stays = service("node2"), "instance inst4 cannot move: its disks (plain)"
    window(system, "add", "node2", "--start", "now", "--duration", "1h")
    until(lambda: stays in held(system, "node2"), 60, system.tail)
    until(lambda: placed("inst3")[0] != "node2", 60, system.tail)
    assert (flags("node2")["drained"], flags("node2")["offline"]) == ("Y", "N")
    assert stays in system.ask("held").stdout
    window(system, "cancel", "node2")
    until(lambda: service("node2") == was, 60, system.tail)
    until(lambda: machines(system) == {}, 30, system.tail)
    assert placed("inst4")[0] == "node2"

    window(system, "add", "node2", "--start", "now", "--duration", "1h")
    window(system, "down", "node2")
    until(lambda: stays in held(system, "node2"), 60, system.tail)
    rests(3)
    assert (flags("node2")["drained"], flags("node2")["offline"]) == ("Y", "N")
    refused = system.ask("window", "cancel", "node2")
    assert refused.returncode != 0
    assert "node2 is down, and must be in the schedule until it is up" in refused.stderr
    remove("inst4")  # the administrator has had a look
    until(lambda: flags("node2")["offline"] == "Y", 60, system.tail)
    window(system, "up", "node2")
    until(lambda: service("node2") == was, 60, system.tail)


def test_the_master_node_is_held_with_advice(system: Maintenance) -> None:
    was, before = service("node1"), last_job()
    window(system, "add", "node1", "--start", "now")
    advice = "is the master node: run gnt-cluster master-failover"
    until(lambda: advice in held(system, "node1"), 30, system.tail)
    window(system, "cancel", "node1")
    assert machines(system) == {}
    rests(2)
    assert (service("node1"), job_list(before)) == (was, [])


def test_after_another_master_all_that_is_planned_goes_on(system: Maintenance) -> None:
    """A window whose node is down, a later one, a pause with its reason: on node3, and back."""
    was = {name: service(name) for name in ("node2", "node3")}
    window(system, "add", "node2", "--start", "now", "--duration", "2h")
    until(lambda: flags("node2")["drained"] == "Y", 60, system.tail)
    window(system, "down", "node2")
    until(lambda: flags("node2")["offline"] == "Y", 60, system.tail)
    window(system, "add", "node1", "--start", "+20h", "--for", "1h")
    assert system.ask("pause", "--node", "node3", "--why", "switch 7").returncode == 0
    planned = {name: one["mode"] for name, one in machines(system).items()}
    for old, new in (("node1", "node3"), ("node3", "node1")):
        moved = node(new, "gnt-cluster", "master-failover", seconds=180)
        assert moved.returncode == 0, moved.stderr
        assert system.maintd is not None
        assert system.maintd.wait(120) == 11, f"{old} is not the master any more"
        system.maintd = None
        system.start_maintd(new)
        until(partial(is_current, system, new), 120, system.tail)
        assert {name: one["mode"] for name, one in machines(system, new).items()} == planned
        assert "another node has been" not in system.ask("held", master=new).stdout
        assert "switch 7" in system.ask("why", "node3", master=new).stdout
        assert (flags("node2")["offline"], flags("node3")["drained"]) == ("Y", "N")
    window(system, "up", "node2")
    until(lambda: service("node2") == was["node2"], 60, system.tail)
    assert system.ask("resume", "--node", "node3").returncode == 0
    until(lambda: service("node3") == was["node3"], 60, system.tail)


def test_a_move_that_fails_stops_it_until_the_window_is_changed(system: Maintenance) -> None:
    create("inst1", "drbd", "node2.gnt.test", "node3.gnt.test")
    subprocess.run([str(LAB / "disk"), "node3", "break", "inst1"], check=True, timeout=60)
    window(system, "add", "node2", "--start", "now", "--duration", "1h")
    stopped = "the maintenance window of node2.gnt.test has stopped: job "
    until(lambda: stopped in held(system, "node2"), 120, system.tail)
    rests(3)
    assert (flags("node2")["drained"], flags("node2")["pinst_cnt"]) == ("Y", "1")
    gnt("gnt-instance", "replace-disks", "-s", "inst1")
    rests(3)
    window(system, "edit", "node2", "--duration", "2h")
    until(lambda: is_empty("node2"), 120, system.tail)
    assert placed("inst1") == ("node3", "node1")


def test_killed_at_every_turn_it_goes_on_and_doubles_no_job(system: Maintenance) -> None:
    create("inst1", "drbd", "node2.gnt.test", "node3.gnt.test")
    before, was = last_job(), service("node2")

    def dies_when_it_has_submitted(*words: str) -> None:
        system.stop_maintd()
        system.start_maintd(failpoint="submitted:kill")
        if words:
            system.until_it_answers()
            system.ask("window", *words)  # it is killed in the round that answers
        assert system.maintd is not None
        system.maintd.wait(60)

    dies_when_it_has_submitted("add", "node2", "--start", "now", "--duration", "1h")
    dies_when_it_has_submitted()
    system.start_maintd()
    system.until_it_answers()
    until(lambda: "INSTANCE_MIGRATE" in str(job_list(before)), 60, system.tail)
    system.stop_maintd("KILL")
    system.start_maintd()
    system.until_it_answers()
    until(lambda: is_empty("node2"), 120, system.tail)
    moved = ["NODE_SET_PARAMS", "INSTANCE_MIGRATE", "INSTANCE_REPLACE_DISKS"]
    assert kinds(before) == moved
    until(lambda: machines(system)["node2"]["left"] == 0, 30, system.tail)
    dies_when_it_has_submitted("cancel", "node2")
    system.start_maintd()
    system.until_it_answers()
    until(lambda: service("node2") == was, 60, system.tail)
    until(lambda: machines(system) == {}, 30, system.tail)
    rests(2)
    assert kinds(before) == [*moved, "NODE_SET_PARAMS"]


def test_an_owner_who_declines_holds_it_with_a_reason_and_who_accepts_lets_it_go_on(
    system: Maintenance,
) -> None:
    create("inst3", "sharedfile", "node2.gnt.test")
    gnt("gnt-instance", "add-tags", "inst3", "maintd:owner:db")
    was, before = service("node2"), last_job()
    window(system, "add", "node2", "--start", "+5m", "--policy", "require-accept")
    until(lambda: "owner db has not answered" in held(system, "node2"), 60, system.tail)
    answer = ("--owner", "db", "--node", "node2")
    declined = system.ask("offers", "decline", *answer, "--reason", "rebuilding a replica")
    assert declined.returncode == 0, declined.stderr
    why = "owner db declines (root): rebuilding a replica"
    until(lambda: why in held(system, "node2"), 60, system.tail)
    refused = system.ask("window", "down", "node2")
    assert refused.returncode != 0
    assert why in refused.stderr
    system.stop_maintd("KILL")
    system.start_maintd()
    system.until_it_answers()
    until(lambda: why in system.ask("held").stdout, 60, system.tail)
    rests(2)
    assert (service("node2"), job_list(before)) == (was, [])
    accepted = system.ask("offers", "accept", *answer)
    assert accepted.returncode == 0, accepted.stderr
    until(lambda: is_empty("node2"), 120, system.tail)
    assert kinds(before) == ["NODE_SET_PARAMS", "INSTANCE_MIGRATE"]
    window(system, "cancel", "node2")
    until(lambda: service("node2") == was, 60, system.tail)
