"""From fault to back in service, on a real Ganeti cluster with its own lists as the witness.

Uses the multi-node laboratory beside the checkout; skipped by name where that is absent.
`make test-real` runs it.
"""

import json
import re
import sys
import time
from collections.abc import Iterator

import pytest

from nodeagent.maintd.engine.failpoint import NAMES
from nodeagent.model.ledger import PAUSE_TAG
from tests.real.lab import ROOT, create, gnt, node, remove
from tests.real.maintd import (
    AGENT,
    EVACUATE,
    NEXT,
    REPAIR,
    SETTINGS,
    Maintenance,
    agrees_with_ganetis_own_commands,
    flags,
    kinds,
    last_job,
    maintained,
    out_of_service,
    placed,
    rests,
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
        until(lambda: out_of_service("node2") == "drained", 60, system.tail)
        until(lambda: "returns to service once" in system.ask("held").stdout, 30, system.tail)
        time.sleep(5)
        assert out_of_service("node2") == "drained", "it proves to be healthy first"
        until(lambda: out_of_service("node2") == "", 60, system.tail)
        until(lambda: flags("node2")["tags"] == "", 60, system.tail)
        until(lambda: system.incidents() == [], 30, system.tail)
        assert kinds(before) == BACK
        agrees_with_ganetis_own_commands()
        assert "Nothing is blocked." in system.ask("held").stdout
        moved = node("master", "gnt-instance", "replace-disks", "-n", "node2", "inst1", seconds=180)
        assert moved.returncode == 0, moved.stderr
        assert placed("inst1") == ("node3", "node2"), "it takes instances"
    finally:
        remove("inst1")


def test_one_that_is_broken_again_meanwhile_stays_drained_until_it_is_mended(
    system: Maintenance,
) -> None:
    before = evacuated(system)
    assert system.ask("done", "node2").returncode == 0
    until(lambda: out_of_service("node2") == "drained", 60, system.tail)
    system.breaks("node2", EVACUATE)
    until(lambda: "its agent reports evacuate" in system.ask("held").stdout, 30, system.tail)
    rests(20)
    assert out_of_service("node2") == "drained"
    system.mended("node2")
    until(lambda: system.needs()["node2"] == "Ok", 30, system.tail)
    done = system.ask("done", "node2", "--wait", "--timeout", "90s")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "node2.gnt.test is in service.")
    assert (out_of_service("node2"), kinds(before)) == ("", BACK)


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


def test_a_live_repair_is_closed_by_a_word_and_an_unhealthy_node_is_refused(
    system: Maintenance,
) -> None:
    system.breaks("node2", REPAIR)
    system.until_status("node2", "completed")
    refused = system.ask("done", "node2")
    assert refused.returncode == 1
    assert "its agent reports live-repair: repair it first, or insist" in refused.stderr
    system.mended("node2")
    until(lambda: system.needs()["node2"] == "Ok", 30, system.tail)
    done = system.ask("done", "node2", "--wait")
    assert done.returncode == 0, done.stderr
    until(lambda: (system.incidents(), flags("node2")["tags"]) == ([], ""), 30, system.tail)


def test_a_node_whose_agent_is_dead_is_listed(system: Maintenance) -> None:
    node("node3", "pkill", "-TERM", "-f", "nodeagent.cli.nodeagent")
    system.agents["node3"].wait(20)
    try:

        def listed_there() -> list[str]:
            found = json.loads(system.ask("nodes", "--state", "unreachable", "--json").stdout)
            return [one["name"] for one in found]

        until(lambda: listed_there() == ["node3.gnt.test"], 60, system.tail)
        held = " ".join(system.ask("held").stdout.split())
        assert "node3.gnt.test has been unreachable since" in held
        assert "1 unreachable" in system.ask("status").stdout
    finally:
        system.agents["node3"] = system.spawn("node3", "nodeagent.cli.nodeagent", "run")
    until(lambda: listed_there() == [], 60, system.tail)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("ordered", "adopted")])
def test_killed_at_every_effect(system: Maintenance, name: str) -> None:
    evacuated(system)
    gnt("gnt-cluster", "add-tags", PAUSE_TAG)  # it is asked for, and nothing is begun
    until(lambda: "maintd:pause:yes" in system.ask("status").stdout, 30, system.tail)
    assert system.ask("done", "node2").returncode == 0
    system.stop_maintd()
    gnt("gnt-cluster", "remove-tags", PAUSE_TAG)
    before = last_job()
    system.start_maintd(failpoint=f"{name}:kill:1")
    killed = 0

    def back() -> bool:
        nonlocal killed
        assert system.maintd is not None
        if system.maintd.poll() is not None:
            killed += 1
            # Each life is longer: in step with the pauses between attempts, none would succeed.
            system.start_maintd(failpoint=f"{name}:kill:{NEXT[name] + killed}")
        return out_of_service("node2") == "" and flags("node2")["tags"] == ""

    until(back, 400, system.tail)
    assert kinds(before) == BACK
    assert killed >= (1 if name == "saved" else len(BACK) - 1)
    system.stop_maintd()
    system.start_maintd()


def test_killed_as_the_check_before_the_return_is_ordered(system: Maintenance) -> None:
    """The agent has the order before maintd knows that: the next life asks it for its receipt."""
    check = "maintd:return-check:fix"
    system.shell("node2", "rm -f /run/fed")
    place = "/etc/nodeagent/agent.toml"
    system.write("node2", place, f'{AGENT}[repair]\nqueue-commands = ["fix"]\n')
    system.restart_agent("node2")
    evacuated(system)
    gnt("gnt-cluster", "add-tags", check)
    try:
        before = last_job()
        system.stop_maintd()
        system.start_maintd(failpoint="ordered:kill:1")
        system.until_it_answers()
        assert system.ask("done", "node2").returncode == 0
        assert system.maintd is not None
        killed = system.maintd
        until(lambda: killed.poll() is not None, 240, system.tail)
        assert out_of_service("node2") == "drained"
        system.start_maintd()
        until(
            lambda: (out_of_service("node2"), flags("node2")["tags"]) == ("", ""), 180, system.tail
        )
        assert kinds(before) == BACK
        until(lambda: system.incidents() == [], 30, system.tail)
        assert len(system.shell("node2", "cat /run/fed").splitlines()) == 1, "it ran once"
    finally:
        gnt("gnt-cluster", "remove-tags", check)
        system.write("node2", place, AGENT)
        system.restart_agent("node2")
