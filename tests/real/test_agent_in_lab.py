"""Our agent on the nodes of a real Ganeti cluster: its files, its key, its certificates.

Uses the multi-node laboratory beside the checkout; skipped by name where that is absent.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAB = ROOT.parent / "shared" / "ganeti-lab"
SICK = '{"status": "live-repair", "command": "fix", "details": {"bay": 7}}'

pytestmark = [
    pytest.mark.skipif(not LAB.exists(), reason="needs ../shared/ganeti-lab beside the checkout"),
    pytest.mark.skipif(os.getuid() != 0, reason="the laboratory needs root: sudo make test"),
    pytest.mark.timeout(400),
]

ORDER = """
import asyncio, sys, time
from nodeagent.maintd.order import Orders
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Intent, Outcome
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
action = RunCommand(node.name, "fix", text)
intent = Intent(number, "7b1cb7c2-0c8e-5b8e-9d55-0d4a5f6a1b2c", node.name, action)

async def main():
    from dataclasses import replace
    told = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "nodeagent.cli.nodeagent", "report", node.name, "--json",
        stdout=asyncio.subprocess.PIPE)
    import json
    uuid = json.loads((await told.communicate())[0])["node"]
    there = replace(node, uuid=uuid)
    job = await orders.submit(intent, Snapshot(snapshot.cluster, {node.name: there}))
    while (outcome := await orders.outcome(job, there)) is Outcome.RUNNING:
        await asyncio.sleep(0.1)
    print(outcome.value)

asyncio.run(main())
"""


def node(name: str, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(LAB / "node"), name, *command], capture_output=True, text=True, timeout=120, cwd=ROOT
    )


def agent(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return node(name, sys.executable, "-m", "nodeagent.cli.nodeagent", *arguments)


def shell(name: str, script: str) -> None:
    done = node(name, "sh", "-ec", script)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def lab() -> Iterator[None]:
    up = subprocess.run([str(LAB / "up"), "3"], capture_output=True, text=True, timeout=300)
    assert up.returncode == 0, up.stderr
    processes: list[subprocess.Popen[bytes]] = []
    try:
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
        command = [
            str(LAB / "node"),
            "node2",
            sys.executable,
            "-m",
            "nodeagent.cli.nodeagent",
            "run",
        ]
        processes.append(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL))
        deadline = time.monotonic() + 30
        while "live-repair" not in agent("node1", "report", "node2.gnt.test", "--json").stdout:
            assert time.monotonic() < deadline, agent("node1", "report", "node2.gnt.test")
            time.sleep(0.3)
        yield
    finally:
        for process in processes:
            process.terminate()
        subprocess.run([str(LAB / "down")], capture_output=True, timeout=60)
        for process in processes:
            process.wait(20)


def test_every_node_knows_itself_from_ganetis_own_files(lab: None) -> None:
    for number in (1, 2, 3):
        done = agent(f"node{number}", "check-config")
        assert done.stdout == f"ok: node node{number}.gnt.test of cluster cluster.gnt.test\n"


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
    assert order("node1", "1.1") == "success"
    fed = node("node2", "cat", "/run/fed").stdout
    assert json.loads(fed) == json.loads(SICK)
    assert order("node1", "1.1") == "success", "the same order again: the same receipt"
    assert node("node2", "cat", "/run/fed").stdout == fed


def test_a_demoted_candidate_orders_nothing_from_that_moment(lab: None) -> None:
    assert order("node3", "2.1") == "success", "as a candidate it may"
    fed = node("node2", "cat", "/run/fed").stdout
    for command in (
        ("gnt-cluster", "modify", "--candidate-pool-size=2"),
        ("gnt-node", "modify", "--master-candidate=no", "--force", "node3"),
    ):
        done = node("node1", *command)
        assert done.returncode == 0, done
    assert order("node3", "2.2") == "lost", "refused, so there is no receipt"
    assert node("node2", "cat", "/run/fed").stdout == fed


def test_a_cluster_tag_configures_every_node(lab: None) -> None:
    node("node1", "gnt-cluster", "add-tags", "nodeagent:confirm:none")
    done = agent("node3", "check-config")
    assert (done.returncode, "confirm is 'none'" in done.stderr) == (78, True)
    node("node1", "gnt-cluster", "remove-tags", "nodeagent:confirm:none")
    assert agent("node3", "check-config").returncode == 0
