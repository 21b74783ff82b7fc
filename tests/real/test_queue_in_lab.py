"""The repair queue on a real Ganeti cluster, with Ganeti's own lists as the witness."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.real.lab import create, gnt, remove_all
from tests.real.maintd import (
    Maintenance,
    flags,
    is_empty,
    kinds,
    last_job,
    maintained,
    placed,
    rests,
    service,
    until,
)
from tests.real.steps import PROCEDURES, SCRIPTS, ran, used_before, with_queue

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


ADDRESS = "10.77.0.12"


@pytest.fixture(scope="module")
def lab() -> Iterator[Maintenance]:
    with maintained() as system:
        with_queue(system, PROCEDURES, SCRIPTS)
        used_before()
        yield system


@pytest.fixture
def system(lab: Maintenance) -> Iterator[Maintenance]:
    lab.heal()
    lab.shell("node1", "rm -f /run/ran-* /run/go; echo false > /run/healthy")
    lab.start_maintd()
    lab.until_it_answers()
    if lab.get("/1/round")["outdated"]:  # its ledger is new, and the tag is there
        lab.do("resume", "--ledger")
    yield lab
    lab.shell("node1", "touch /run/go")
    lab.stop_maintd("KILL")
    lab.lose_ledger()  # and the queue with it
    lab.heal()
    remove_all()


def entry(system: Maintenance) -> dict[str, Any]:
    """The one entry that there is."""
    (found,) = system.get("/1/queue")["entries"]
    assert isinstance(found, dict)
    return found


def standing(system: Maintenance) -> tuple[str, int, str]:
    one = entry(system)
    return one["status"], one["step"], one["step_status"]


@pytest.mark.story_3_0
def test_the_first_step_heals_nothing_and_the_second_does(system: Maintenance) -> None:
    create("inst1", "drbd", "node2.gnt.test", "node3.gnt.test")
    create("inst3", "sharedfile", "node2.gnt.test")
    before, was = last_job(), service("node2")
    system.do("queue", "add", "--force", "unreachable", "r640", "node2.gnt.test", "S2X9")
    first = entry(system)
    seen = [(first["status"], first["step"], first["step_status"])]

    def comes_to(status: str, step: int, step_status: str) -> None:
        def come() -> bool:
            now = standing(system)
            if now != seen[-1]:
                seen.append(now)
            return now == (status, step, step_status)

        until(come, 180, lambda: f"{seen} {system.tail()}")

    comes_to("processing", 0, "watching")
    assert (service("node2"), kinds(before)) == (was, []), "the first step wants no drain"
    comes_to("processing", 1, "draining")
    comes_to("processing", 1, "watching")
    assert is_empty("node2")
    assert flags("node2")["offline"] == "N"
    until(lambda: len(ran(system, "reinstall")) == 1, 30, system.tail)
    rests(3)
    assert standing(system) == ("processing", 1, "watching")
    assert is_empty("node2"), "as long as it is repaired"
    system.shell("node1", "touch /run/go")
    comes_to("succeeded", 1, "watching")
    until(lambda: service("node2") == was, 60, system.tail)
    drained, *moves, restored = kinds(before)
    assert (drained, restored) == ("NODE_SET_PARAMS", "NODE_SET_PARAMS")
    assert sorted(moves) == ["INSTANCE_MIGRATE"] * 2 + ["INSTANCE_REPLACE_DISKS"]
    assert placed("inst1") == ("node3", "node1")
    assert set(gnt("gnt-instance", "list", "--no-headers", "-o", "status").split()) == {"running"}
    whole = [
        ("queued", 0, "waiting"),
        ("processing", 0, "watching"),
        ("processing", 1, "draining"),
        ("processing", 1, "watching"),
        ("succeeded", 1, "watching"),
    ]
    assert seen == sorted(seen, key=whole.index), "and never back"

    for command, step in (("power-cycle", 0), ("reinstall", 1), ("tell-inventory", 1)):
        (given,) = ran(system, command)
        about = {key: given[key] for key in ("index", "address", "nodename", "serial")}
        name = "node2.gnt.test"
        assert about == {"index": "0", "address": ADDRESS, "nodename": name, "serial": "S2X9"}
        assert (given["machine_type"], given["operation"]) == ("r640", "unreachable")
        when = (given["status"], given["step"], given["step_status"])
        assert when == ("processing", step, "watching")
    checks = ran(system, "is-healthy")
    assert len(checks) >= 3, "before the first step, after it, and after the second"
    assert checks[0]["status"] == "queued"
    count = len(checks)
    rests(3)
    assert len(ran(system, "is-healthy")) == count, "what is over is not asked for any more"
    system.do("queue", "delete-finished")
    assert json.loads(system.do("queue", "list", "--json")) == []
