"""Our agent on the nodes of a real Ganeti cluster: its files, its key, its certificates."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests import needs
from tests.real.lab import LAB, ROOT, gnt, node, running

SICK = '{"status": "live-repair", "command": "fix", "details": {"bay": 7}}'

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

ORDER = """
import asyncio, sys, time
from nodeagent.cluster.backend import NotTaken
from nodeagent.maintd.engine.orders import Orders
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Intent, Outcome
from nodeagent.model.purpose import OfIncident
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.protocol.envelope import Key

number, address, text = sys.argv[1:]
ganeti = "/var/lib/ganeti/"
uuids = dict(reversed(line.split("=")) for line in open(ganeti + "ssconf_master_candidates_certs"))
node = Node("node2.gnt.test", "", address)
orders = Orders(
    Key(open(ganeti + "hmac.key", "rb").read()),
    open(ganeti + "client.pem", "rb").read(),
    1817,
    tls=True,
    now=lambda: time.time_ns() // 10**6,
)
snapshot = Snapshot("cluster.gnt.test", {node.name: node})
action = RunCommand(node.name, "fix", text, int(number))
incident = OfIncident("7b1cb7c2-0c8e-5b8e-9d55-0d4a5f6a1b2c")
intent = Intent("1", incident, node.name, action)

async def main():
    from dataclasses import replace
    told = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "nodeagent.cli.nodeagent", "report", node.name, "--json",
        stdout=asyncio.subprocess.PIPE)
    import json
    uuid = json.loads((await told.communicate())[0])["node"]
    there = replace(node, uuid=uuid)
    answer = await orders.submit(intent, Snapshot(snapshot.cluster, {node.name: there}))
    if isinstance(answer, NotTaken):
        print(answer.why)
        return
    while (result := await orders.outcome(answer.job, there)).outcome is Outcome.RUNNING:
        await asyncio.sleep(0.1)
    print(result.outcome.value)

asyncio.run(main())
"""


def agent(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return node(name, sys.executable, "-m", "nodeagent.cli.nodeagent", *arguments)


def shell(name: str, script: str) -> None:
    done = node(name, "sh", "-ec", script)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def lab() -> Iterator[None]:
    needs.require("root", "laboratory")
    with running(fresh=True):
        shell(
            "node2",
            f"""
            mkdir -p /etc/nodeagent /etc/ganeti/node-diagnose-commands
            mkdir -p /etc/ganeti/node-repair-commands
            printf '#!/bin/sh\\necho '"'"'{SICK}'"'"'\\n' > /etc/ganeti/node-diagnose-commands/check
            printf '#!/bin/sh\\ncat >> /run/fed\\n' > /etc/ganeti/node-repair-commands/fix
            chmod 755 /etc/ganeti/node-*-commands/*
            printf '[diagnose]\\ncommands = ["check"]\\nevery = "1s"\\n' > /etc/nodeagent/agent.toml
            """,
        )
        command = [sys.executable, "-m", "nodeagent.cli.nodeagent", "run"]
        whole = [str(LAB / "node"), "node2", *command]
        process = subprocess.Popen(whole, cwd=ROOT, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 30
            while (
                r"\"live-repair\""
                not in agent("node1", "report", "node2.gnt.test", "--json").stdout
            ):
                assert time.monotonic() < deadline, agent("node1", "report", "node2.gnt.test")
                time.sleep(0.3)
            yield
        finally:
            node("node2", "pkill", "-TERM", "-f", "nodeagent.cli.nodeagent")
            process.wait(20)


def test_every_node_knows_itself_from_ganetis_own_files(lab: None) -> None:
    for number in (1, 2, 3):
        done = agent(f"node{number}", "check-config")
        assert done.stdout == f"ok: node node{number}.gnt.test of cluster cluster.gnt.test\n"


@pytest.mark.story
def test_the_master_fetches_and_verifies_a_report(lab: None) -> None:
    report = json.loads(agent("node1", "report", "node2.gnt.test", "--json").stdout)
    assert json.loads(report["diagnosis"]) == json.loads(SICK)
    assert (report["name"], report["master"]) == ("node2.gnt.test", "node1.gnt.test")
    uuids = node("node1", "gnt-node", "list", "--no-headers", "-o", "uuid", "node2").stdout.strip()
    assert report["node"] == uuids


def test_a_report_offered_for_another_node_is_not_trusted(lab: None) -> None:
    done = agent("node1", "report", "10.77.0.12", "--node", "node3.gnt.test")
    assert done.returncode == 1
    assert "NOT TRUSTED" in done.stderr


def order(name: str, number: str) -> str:
    text = json.loads(agent("node1", "report", "node2.gnt.test", "--json").stdout)["diagnosis"]
    done = node(name, sys.executable, "-c", ORDER, number, "10.77.0.12", text)
    return done.stdout.strip() or done.stderr


def test_a_master_candidates_own_certificate_orders_a_repair(lab: None) -> None:
    assert order("node1", "1") == "success"
    fed = node("node2", "cat", "/run/fed").stdout
    assert json.loads(fed) == json.loads(SICK)
    assert order("node1", "1") == "success", "the same order again: the same receipt"
    assert node("node2", "cat", "/run/fed").stdout == fed


@pytest.mark.story
def test_a_demoted_candidate_orders_nothing_from_that_moment(lab: None) -> None:
    assert order("node3", "2") == "success", "as a candidate it may"
    fed = node("node2", "cat", "/run/fed").stdout
    for command in (
        ("gnt-cluster", "modify", "--candidate-pool-size=2"),
        ("gnt-node", "modify", "--master-candidate=no", "--force", "node3"),
    ):
        done = node("node1", *command)
        assert done.returncode == 0, done
    assert "refused the order" in order("node3", "3")
    assert node("node2", "cat", "/run/fed").stdout == fed


def until_config(name: str, code: int) -> str:
    """What a node's agent says once Ganeti has brought it its files: soon, not at once."""
    deadline = time.monotonic() + 30
    while (done := agent(name, "check-config")).returncode != code:
        assert time.monotonic() < deadline, done
        time.sleep(0.3)
    return done.stderr


def test_a_cluster_tag_configures_every_node(lab: None) -> None:
    gnt("gnt-cluster", "add-tags", "nodeagent:confirm:none")
    assert "confirm is 'none'" in until_config("node3", 78)
    gnt("gnt-cluster", "remove-tags", "nodeagent:confirm:none")
    until_config("node3", 0)
