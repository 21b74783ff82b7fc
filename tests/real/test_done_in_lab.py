"""From fault to back in service, on a real Ganeti cluster with its own lists as the witness.

Uses the multi-node laboratory beside the checkout; skipped by name where that is absent.
`make test-real` runs it.
"""

import json
import re
import sys
from collections.abc import Iterator

import pytest

from tests.real.lab import ROOT, create, gnt, node, remove
from tests.real.maintd import (
    EVACUATE,
    SETTINGS,
    Maintenance,
    agrees_with_ganetis_own_commands,
    flags,
    job_times,
    kinds,
    last_job,
    maintained,
    out_of_service,
    placed,
    until,
)

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
]

AFTER = "maintd:return-after:15s"
BACK = ["NODE_SET_PARAMS", "NODE_SET_PARAMS", "TAGS_DEL"]


@pytest.fixture(scope="module")
def lab() -> Iterator[Maintenance]:
    with maintained() as system:
        gnt("gnt-cluster", "add-tags", AFTER, "maintd:unreachable-after:10s")
        yield system


def evacuated(system: Maintenance) -> int:
    """node2 is evacuated, offline and repaired meanwhile; the newest job."""
    system.breaks("node2", EVACUATE)
    system.until_status("node2", "completed", 180)
    until(lambda: "evacuated and offline" in system.ask("held").stdout, 60, system.tail)
    system.mended("node2")
    assert out_of_service("node2") == "offline"
    return last_job()


@pytest.mark.story
def test_an_evacuated_node_is_back_in_service_after_proof(system: Maintenance) -> None:
    create("inst1", "drbd", "node2.gnt.test", "node3.gnt.test")
    try:
        before = evacuated(system)
        assert placed("inst1") == ("node3", "node1")
        done = system.ask("done", "node2")
        assert done.returncode == 0, done.stderr
        assert done.stdout == (
            "node2.gnt.test is brought back drained first; it returns once it has reported Ok for"
            " 15 s.\n"
        )
        until(lambda: out_of_service("node2") == "", 120, system.tail)
        until(lambda: flags("node2")["tags"] == "", 60, system.tail)
        until(lambda: system.incidents() == [], 30, system.tail)
        assert kinds(before) == BACK
        # By the jobs' own times: on a busy machine nobody here would see the quarter of a minute.
        online, undrained, _ = sorted(job for job in job_times() if job[0] > before)
        assert undrained[1] - online[2] >= 15, "it proves to be healthy first, drained"
        agrees_with_ganetis_own_commands()
        assert "Nothing is blocked." in system.ask("held").stdout
        moved = node("master", "gnt-instance", "replace-disks", "-n", "node2", "inst1", seconds=180)
        assert moved.returncode == 0, moved.stderr
        assert placed("inst1") == ("node3", "node2"), "it takes instances"
    finally:
        remove("inst1")


NOTICES = "/run/notices"
NOTIFY = """
[[notify]]
name = "ops"
kind = "webhook"
url = "http://127.0.0.1:8125/"
events = ["needs-you"]
interval = "1s"
"""


@pytest.fixture
def notified(lab: Maintenance) -> Iterator[Maintenance]:
    """The same, and a receiver of messages on the master."""
    lab.write("node1", "/etc/nodeagent/maintd.toml", SETTINGS + NOTIFY)
    receiver = lab.spawn("node1", "tests.real.receiver", "8125", NOTICES, env=f"PYTHONPATH={ROOT}")
    lab.start_maintd()
    try:
        lab.until_it_answers()
        lab.heal()
        yield lab
        lab.heal()
    finally:
        lab.stop_maintd()
        lab.write("node1", "/etc/nodeagent/maintd.toml", SETTINGS)
        ended = "import urllib.request as u; u.urlopen('http://127.0.0.1:8125/end')"
        node("node1", sys.executable, "-c", ended)
        receiver.wait(30)


def surfaces(system: Maintenance, name: str) -> dict[str, str]:
    """The words of `check`, `status`, the page and the messages about a node, beside each other."""
    script = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:1816/status').read().decode())"
    page = node("node1", sys.executable, "-c", script).stdout
    needs = page.partition("<h2>Needs you</h2>")[2].partition("</section>")[0]
    line = needs.partition(f'<li id="node-{name}"')[2].partition("</li>")[0]
    check = system.ask("check")
    status = system.ask("status").stdout.partition("\nNeeds your action\n")[2]
    messages = node("node1", "cat", NOTICES).stdout.splitlines()
    events = [event for one in messages for event in json.loads(one)["events"]]
    return {
        "check": f"{check.returncode} {check.stdout.partition(' | ')[0]}",
        "status": "".join(one for one in status.splitlines(True) if one.startswith(name)),
        "page": " ".join(re.sub("<[^>]*>", " ", line).split()),
        "message": "".join(one["text"] for one in events if one["node"] == name),
    }


def test_a_done_that_the_node_contradicts_and_a_cancel_of_a_mended_node_need_a_person(
    notified: Maintenance,
) -> None:
    """Nobody polls an offline node, so `done` is accepted while it is still broken."""
    name, system = "node2.gnt.test", notified
    system.breaks("node2", EVACUATE)
    system.until_status("node2", "completed", 180)
    until(lambda: "evacuated and offline" in surfaces(system, name)["message"], 60, system.tail)
    found = surfaces(system, name)
    assert found["check"].startswith(f"1 MAINTD WARNING - needs your action: {name}"), found
    system.shell("node1", f": > {NOTICES}")
    assert system.ask("done", "node2").returncode == 0
    until(lambda: out_of_service("node2") == "drained", 60, system.tail)
    told = f"but its agent reports evacuate: repair {name}"
    until(lambda: told in surfaces(system, name)["message"], 60, system.tail)
    found = surfaces(system, name)
    print(json.dumps(found, indent=1))
    assert found.pop("check").startswith(f"1 MAINTD WARNING - needs your action: {name}")
    assert [surface for surface, words in found.items() if told not in words] == []
    system.mended("node2")
    until(lambda: out_of_service("node2") == "", 90, system.tail)
    until(lambda: name not in system.ask("check").stdout, 60, system.tail)
    # The other way round: it is mended, and its incident is canceled instead of done.
    create("inst1", "drbd", "node2.gnt.test", "node3.gnt.test")
    gnt("gnt-cluster", "add-tags", "maintd:moves:1")
    try:
        system.shell("node1", f": > {NOTICES}")
        system.breaks("node2", EVACUATE)
        until(lambda: out_of_service("node2") == "drained", 60, system.tail)
        canceled = system.ask("cancel", "node2")
        assert canceled.returncode == 0, canceled.stderr
        system.mended("node2")
        until(lambda: system.incidents() == [], 90, system.tail)
        told = f"gnt-maint done {name} puts it back"
        until(lambda: told in surfaces(system, name)["message"], 60, system.tail)
        found = surfaces(system, name)
        print(json.dumps(found, indent=1))
        assert found.pop("check").startswith(f"1 MAINTD WARNING - needs your action: {name}")
        assert [surface for surface, words in found.items() if told not in words] == []
        assert out_of_service("node2") in ("drained", "offline")
        done = system.ask("done", "node2", "--wait", "--timeout", "120s")
        assert done.returncode == 0, done.stderr
        until(lambda: name not in system.ask("check").stdout, 60, system.tail)
    finally:
        gnt("gnt-cluster", "remove-tags", "maintd:moves:1")
        remove("inst1")
