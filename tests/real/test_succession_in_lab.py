"""Succession on a real Ganeti cluster: the master dies, and a standby becomes the master itself.

Each node has a BMC, agents, maintd as a standby, and its root helper behind systemd's own stand-in
for socket activation.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click import ClickException

from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.model.action import MovePrimary
from tests import needs
from tests.real.dying import Dying, switch
from tests.real.lab import FIVE, LAB, ROOT, STATE, create, node, socket_path
from tests.real.maintd import (
    EVACUATE,
    SETTINGS,
    Maintenance,
    flags,
    job_list,
    maintained,
    placed,
    until,
)
from tests.real.powered import never_twice, powered, state

FOUR = FIVE[:4]  # a node that is evacuated is no candidate
MASTER, SECOND, THIRD, _ = FOUR
SHORT = tuple(name.partition(".")[0] for name in FOUR)
PROGRAM = "/usr/sbin/nodeagent-succeed"
SOCKET = "/run/nodeagent-succeed.sock"
ACTIVATE = "systemd-socket-activate"
SUCCEEDS = (
    SETTINGS.replace("[maintd]", "[maintd]\nstandby = true")
    + """
unreachable-after = "15s"
[succession]
enabled = true
after = "15s"
"""
)

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1200),
    powered,
    needs.mark(ACTIVATE),
]


class Succeeding(Dying):
    """Nodes that each have maintd, and the helper of a standby."""

    def __init__(self, folder: Any, system: Maintenance) -> None:
        super().__init__(folder, system)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        system.program = ("nodeagent.cli.maintd", "run")
        for name in SHORT:
            system.write(name, "/etc/nodeagent/maintd.toml", SUCCEEDS)
            run = f'#!/bin/sh\nexec {sys.executable} -m nodeagent.cli.succeed "$@"'
            system.write(name, PROGRAM, run, mode="755")
            self.install_settings(name)
            self.have_helper(name)

    def have_helper(self, name: str) -> None:
        log = (STATE / f"{name}.helper.log").open("ab")
        command = [ACTIVATE, "--accept", "--inetd", "-l", SOCKET, PROGRAM, "session"]
        with log:
            whole = [str(LAB / "node"), name, *command]
            self.processes[f"helper {name}"] = subprocess.Popen(
                whole, cwd=ROOT, stdout=log, stderr=log
            )

    def have_standby(self, name: str) -> None:
        self.processes[name] = self.system.spawn(
            name, *self.system.program, env=f"PYTHONPATH={ROOT}", log_name="maintd"
        )
        until(lambda: self.round(name)["standby"] is not None, 60, self.system.tail)

    def round(self, name: str) -> Any:
        return self.system.get("/1/round", name)

    def told(self, name: str) -> dict[str, Any]:
        """What the standby on this node says of the succession."""
        try:
            return dict(self.round(name)["succession"] or {})
        except ClickException:
            return {}

    def close(self) -> None:
        for name in SHORT:
            node(name, "pkill", "-f", "nodeagent.cli.maintd")
            node(name, "pkill", "-f", ACTIVATE)
        super().close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Succeeding]:
    with maintained(FOUR) as system:
        made = Succeeding(tmp_path_factory.mktemp("power"), system)
        try:
            system.start_maintd()
            system.until_it_answers()
            made.have_standby("node2")
            made.have_standby("node3")
            yield made
        finally:
            made.close()


def master_of(name: str) -> str:
    """The master by Ganeti's files on a node."""
    return node(name, "cat", "/var/lib/ganeti/ssconf_master_node").stdout.strip()


def helper_log(name: str) -> str:
    return (STATE / f"{name}.helper.log").read_text()[-4000:]


def test_a_standby_shows_beforehand_what_it_would_do(lab: Succeeding) -> None:
    until(lambda: lab.told("node2").get("kind") == "not-asked", 60, lambda: str(lab.told("node2")))
    told = lab.told("node2")
    assert told["able"], told
    assert (told["place"], told["needed"], told["nodes"]) == (1, 3, 4)
    assert "it counts" in told["power"][0]
    assert "gnt-cluster master-failover" in told["steps"][-1]
    until(lambda: lab.told("node3").get("place") == 2, 60, lambda: str(lab.told("node3")))


def test_a_master_whose_agent_stops_is_left_alone(lab: Succeeding) -> None:
    node("node1", "pkill", "-TERM", "-f", "nodeagent.cli.nodeagent")
    lab.system.agents["node1"].wait(60)
    try:
        until(
            lambda: lab.told("node2").get("kind") == "master-lives",
            90,
            lambda: f"{lab.told('node2')} {helper_log('node2')}",
        )
        assert lab.powerd.acts == []
    finally:
        lab.system.agents["node1"] = lab.system.spawn_agent("node1")


def test_without_an_answer_of_power_control_nobody_succeeds(lab: Succeeding) -> None:
    """The master has lost its network, and its BMC too: its power cannot be proven off."""
    lab.bmcs[MASTER].freeze()
    lab.link(MASTER, "down")
    try:
        until(
            lambda: lab.told("node2").get("kind") == "not-dead",
            200,
            lambda: f"{lab.told('node2')} {helper_log('node2')}",
        )
        assert "its power is unknown" in lab.told("node2")["reason"]
        assert (lab.powerd.acts, state(MASTER)) == ([], "on")
        assert (master_of("node2"), master_of("node3")) == (MASTER, MASTER)
    finally:
        lab.link(MASTER, "up")
        lab.bmcs[MASTER].process.send_signal(18)
    until(lambda: lab.told("node2").get("kind") == "not-asked", 90, lambda: helper_log("node2"))


def test_node2_succeeds_a_dead_master_and_ends_its_evacuation_once(lab: Succeeding) -> None:
    """maintd has ended when Ganeti has just taken the drain; then the whole node dies."""
    create("inst1", "drbd", THIRD, SECOND)
    create("inst2", "drbd", THIRD, SECOND)
    system = lab.system
    system.stop_maintd()
    system.breaks("node3", EVACUATE)
    with never_twice("inst1", "inst2"):
        until(lambda: _drained_and_dead(system), 300, system.tail)
        assert (placed("inst1")[0], placed("inst2")[0]) == ("node3", "node3")
        began = time.monotonic()
        switch(MASTER, "off")
        until(
            lambda: master_of("node2") == SECOND,
            300,
            lambda: f"{lab.told('node2')} {helper_log('node2')}",
        )
        print(f"master after {time.monotonic() - began:.0f} s")
        system.where, system.maintd = "node2", lab.processes.pop("node2")
        Path(socket_path(MASTER.partition(".")[0])).unlink()  # nobody listens there any more
        until(lambda: lab.round("node2")["standby"] is None, 120, system.tail)
        assert state(MASTER) == "off"
        found = system.until_status("node3", "completed", 400, master="node2")
        assert (placed("inst1")[0], placed("inst2")[0]) == ("node2", "node2")
    assert master_of("node3") == SECOND
    reasons, moved = _jobs_of(str(found["uuid"]))
    assert len(set(reasons)) == len(reasons), "a job was given twice"
    assert sorted(moved) == ["inst1", "inst2"]
    kept = json.loads(node("node2", "cat", "/var/lib/nodeagent/succession/memory.json").stdout)
    assert kept["tried"]["master"] == MASTER
    assert "this node became the master" in kept["tried"]["why"]
    assert lab.powerd.acts == []  # it was off: nothing was to be sent


def _drained_and_dead(system: Maintenance) -> bool:
    """Whether maintd was killed right after a submission, and node3 is drained.

    A job that still runs would die with the master, and its incident would need a person.
    """
    if system.maintd is None or system.maintd.poll() is not None:
        if {status for _, status, _ in job_list()} & {"queued", "waiting", "running"}:
            return False
        if flags(THIRD)["drained"] == "Y":
            return True
        system.start_maintd(failpoint="submitted:kill:1")
    return False


def _jobs_of(incident: str) -> tuple[list[str], list[str]]:
    """The reasons of an incident's jobs in the new master's queue, and the instances moved."""
    cluster = GanetiCluster(socket_path("node2"), grace=5.0)
    try:
        trails = [t for t in cluster.trails() if t.reason.startswith(f"{incident}:")]
    finally:
        cluster.close()
    moved = [t.action.instance for t in trails if isinstance(t.action, MovePrimary)]
    return [trail.reason for trail in trails], moved


def test_the_old_master_comes_back_as_a_candidate(lab: Succeeding) -> None:
    switch(MASTER, "on")
    lab.system.booted("node1")
    until(lambda: node("node1", "true").returncode == 0, 60, lab.system.tail)
    time.sleep(20)
    assert node("node1", "pgrep", "-x", "ganeti-luxid").returncode == 1
    said = node("node2", "gnt-cluster", "redist-conf")
    assert said.returncode == 0, said.stderr
    assert master_of("node1") == SECOND
    assert node("node2", "gnt-cluster", "getmaster").stdout.strip() == SECOND
