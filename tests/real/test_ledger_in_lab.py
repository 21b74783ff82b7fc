"""The master's power is cut at each moment of a change, and Ganeti's configuration has all of it.

Three nodes, of which maintd's own evacuation has taken one offline: the last candidate becomes the
master.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.errors import Corrupt
from nodeagent.store.carried import unpack
from tests.real.lab import LAB, ROOT, gnt, listed, node, power, socket_path
from tests.real.maintd import (
    EVACUATE,
    FIX,
    REPAIR,
    Maintenance,
    flags,
    job_list,
    maintained,
    rests,
    until,
)
from tests.real.steps import PROCEDURES, SCRIPTS, machines, with_queue

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

LASTING = PROCEDURES.replace("command_timeout_seconds = 120", "command_timeout_seconds = 1800")
MASTERS = ("node1", "node2")


class Cluster:
    """Two masters in turn, and a node that is offline."""

    def __init__(self, system: Maintenance) -> None:
        self.system = system
        self.master = MASTERS[0]

    @property
    def other(self) -> str:
        return next(name for name in MASTERS if name != self.master)

    def ask(self, *words: str) -> str:
        done = self.system.ask(*words, master=self.master)
        assert done.returncode == 0, done.stderr
        assert "kept on this node only" not in done.stderr, "it was acknowledged"
        return done.stdout

    def get(self, target: str) -> Any:
        return self.system.get(target, self.master)

    def start(self, failpoint: str = "") -> None:
        self.system.start_maintd(self.master, failpoint)
        if not failpoint:
            until(self.acts, 120, self.system.tail)

    def acts(self) -> bool:
        told = self.get("/1/round")
        return told["idle"] is None and not told["trouble"]

    def reaches_it(self) -> None:
        """Wait until maintd has killed itself at its failpoint."""
        assert self.system.maintd is not None
        self.system.maintd.wait(180)

    def dies(self) -> None:
        """Cut the master's power; the other node becomes the master, and maintd starts there."""
        old, new = self.master, self.other
        power(old, "off")
        assert self.system.maintd is not None
        self.system.maintd.wait(60)
        self.system.agents[old].wait(60)
        self.system.maintd = None
        # It may end with 1, because the cluster's address is late.
        command = ("gnt-cluster", "master-failover", "--no-voting", "--yes-do-it")
        moved = node(new, *command, seconds=300)
        assert node(new, "gnt-cluster", "getmaster").stdout.strip() == f"{new}.gnt.test", moved
        # A person does this, as Ganeti's manual says: the dead node has no voice in the vote.
        self.do(new, "gnt-node", "modify", "-f", "--offline=yes", f"{old}.gnt.test")
        self.master = new
        self.start()
        told = self.get("/1/round")
        assert told["outdated"] is None, "no doubt"
        assert told["ledger"]["behind-since"] is None
        assert told["ledger"]["rule"]["writer"] == f"{new}.gnt.test"
        assert f"the maintd of {old}.gnt.test" in self.ask("history"), "it has taken its ledger"

    @staticmethod
    def do(name: str, *command: str) -> None:
        """Run a command of Ganeti's, which must be well."""
        done = node(name, *command, seconds=300)
        assert done.returncode == 0, done.stderr

    def state(self) -> dict[str, Any]:
        """What is planned, paused and queued."""
        members = ("index", "address", "status", "step", "step_status")
        windows = machines(self.system, self.master)
        return {
            "holds": [(hold["name"], hold["why"]) for hold in self.get("/1/round")["holds"]],
            "windows": [(name, one["mode"]) for name, one in windows.items()],
            "entries": [
                {key: entry[key] for key in members} for entry in self.get("/1/queue")["entries"]
            ],
            "enabled": self.get("/1/queue")["enabled"],
        }

    def asks(self, *words: str) -> "subprocess.Popen[bytes]":
        """Ask, and wait for no answer."""
        command = [str(LAB / "node"), self.master, sys.executable, "-m", "nodeagent.cli.gnt_maint"]
        return subprocess.Popen([*command, *words], cwd=ROOT, stderr=subprocess.DEVNULL)

    def changes(self, text: str | None) -> None:
        """Have this text in the rule, or no rule, as `gnt-filter` would do it."""
        cluster = GanetiCluster(socket_path(self.master))
        try:
            if text is None:
                cluster.remove_ledger_rule()
            else:
                cluster.write_ledger_rule(text)
        finally:
            cluster.close()

    def has(self, number: int) -> bool:
        """Tell whether the rule has this save, or a later one."""
        try:
            return unpack(self.rule() or "").number >= number
        except Corrupt:
            return False

    def rule(self) -> str | None:
        cluster = GanetiCluster(socket_path(self.master))
        try:
            return cluster.ledger_rule()
        finally:
            cluster.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A fresh one: a master that died comes back with daemons that ask who the master is."""
    with maintained() as system:
        with_queue(system, LASTING, SCRIPTS, MASTERS)
        made = Cluster(system)
        made.start()
        system.until_it_answers()
        system.breaks("node3", EVACUATE)
        system.until_status("node3", "completed")
        assert flags("node3")["offline"] == "Y"
        yield made


# The eight moments.


@pytest.mark.story
def test_a_request_that_was_just_accepted(cluster: Cluster) -> None:
    cluster.ask("pause", "--node", "node3", "--why", "rack 7")
    cluster.ask("queue", "disable")
    cluster.dies()
    found = cluster.state()
    assert found["holds"] == [("node3.gnt.test", "rack 7")]
    assert found["enabled"] is False


@pytest.mark.parametrize("moment", ["intended", "promised", "submitted"])
def test_an_intent_that_was_saved_written_or_submitted(cluster: Cluster, moment: str) -> None:
    """Nobody was told that this pause is accepted; with the rule it is in force."""
    cluster.system.stop_maintd()
    cluster.start(f"{moment}:kill")
    until(lambda: cluster.system.ask("status").returncode == 0, 120, cluster.system.tail)
    asked = cluster.asks("pause", "--node", "node3", "--why", moment)
    cluster.reaches_it()
    cluster.dies()
    asked.wait(60)
    if moment == "intended":
        assert cluster.state()["holds"] == [], "it had not left the node"
        assert not is_tagged(cluster)
        return
    assert cluster.state()["holds"] == [("node3.gnt.test", moment)]
    # What may have been submitted is looked for, five minutes long, and its tag set five later.
    until(lambda: is_tagged(cluster), 700, cluster.system.tail)
    rests(6)
    assert pauses() == ["success"], job_list()


def pauses() -> list[str]:
    """How the jobs ended that set the tag of a pause."""
    jobs = listed("job", "status", "ops")
    return [status for status, ops in jobs for op in ops if op.get("tags") == ["maintd:pause:yes"]]


def is_tagged(cluster: Cluster) -> bool:
    tags = node(cluster.master, "gnt-node", "list-tags", "node3")
    assert tags.returncode == 0, tags.stderr
    return "maintd:pause:yes" in tags.stdout


@pytest.mark.parametrize("moment", ["ordered", "receipt"])
def test_an_order_is_carried_out_once(cluster: Cluster, moment: str) -> None:
    """The next master itself is repaired: the old one dies once the order is there, or is done."""
    system, target = cluster.system, cluster.other
    system.repairs_with(
        target, f"touch /run/begun; until [ -e /run/go ]; do sleep 0.2; done; {FIX}"
    )
    if moment == "ordered":
        system.stop_maintd()
        cluster.start("ordered:kill")
        system.breaks(target, REPAIR)
        cluster.reaches_it()
    else:
        system.breaks(target, REPAIR)
        until(lambda: node(target, "test", "-e", "/run/begun").returncode == 0, 180, system.tail)
        system.stop_maintd("KILL")
        system.shell(target, "touch /run/go")
        until(lambda: fed(cluster, target) == 1, 60, system.tail)
        cluster.start("saved:kill")  # it has read the receipt
        cluster.reaches_it()
    cluster.dies()
    system.shell(target, "touch /run/go")
    system.until_status(target, "completed", master=target)
    rests(6)
    assert fed(cluster, target) == 1


def fed(cluster: Cluster, name: str) -> int:
    """How often its repair command has run."""
    text = cluster.system.shell(name, "cat /run/fed 2>/dev/null || :")
    return len([line for line in text.splitlines() if line])


def test_a_window_that_is_down(cluster: Cluster) -> None:
    cluster.ask("window", "add", "node3", "--start", "now", "--duration", "5h")
    until(lambda: cluster.state()["windows"] != [], 60, cluster.system.tail)
    cluster.ask("window", "down", "node3", "--yes")
    cluster.dies()
    assert cluster.state()["windows"] == [("node3", "down")]


def test_an_entry_in_mid_step(cluster: Cluster) -> None:
    cluster.ask("queue", "add", "--force", "unreachable", "r640", "node3.gnt.test", "S2X9")

    def is_watched() -> bool:
        return bool(cluster.state()["entries"][0]["step_status"] == "watching")

    until(is_watched, 180, cluster.system.tail)
    (before,) = cluster.state()["entries"]
    cluster.dies()
    (after,) = cluster.state()["entries"]
    assert (after["index"], after["address"]) == (before["index"], before["address"])


# The rule under a running maintd.


def test_the_rule_changes_the_queue_is_drained_and_luxid_stops(cluster: Cluster) -> None:
    a_rule_that_somebody_changes_is_told_and_mended(cluster)
    while_the_queue_is_drained_requests_are_kept(cluster)
    luxid_is_stopped_for_five_minutes(cluster)


def a_rule_that_somebody_changes_is_told_and_mended(cluster: Cluster) -> None:
    cluster.ask("pause", "--node", "node3", "--why", "before")
    older = cluster.rule() or ""
    cluster.ask("resume", "--node", "node3")
    for kind, text in (
        ("removed", None),
        ("changed", ""),
        ("changed", older[:100] + older[110:]),
        ("changed", older),
    ):
        newest = unpack(cluster.rule() or "")
        cluster.changes(text)
        until(lambda n=newest: cluster.has(n.number), 60, cluster.system.tail)  # type: ignore[misc]
        mended = unpack(cluster.rule() or "").ledger
        assert mended.holds == newest.ledger.holds
        assert mended.queue == newest.ledger.queue
        last = json.loads(cluster.ask("history", "--limit", "3", "--json"))
        assert f"rule-{kind}" in {event["kind"] for event in last}
    assert cluster.state()["holds"] == []


def while_the_queue_is_drained_requests_are_kept(cluster: Cluster) -> None:
    gnt("gnt-cluster", "queue", "drain")
    try:
        cluster.ask("queue", "disable")
        assert not unpack(cluster.rule() or "").ledger.queue.enabled
    finally:
        gnt("gnt-cluster", "queue", "undrain")
    cluster.ask("queue", "enable")


def luxid_is_stopped_for_five_minutes(cluster: Cluster) -> None:
    cluster.ask("pause", "--node", "node3", "--why", "before")
    daemons = "/usr/lib/ganeti/daemon-util"
    cluster.system.shell(cluster.master, f"{daemons} stop ganeti-luxid")
    try:
        asked = cluster.asks("queue", "disable")
        time.sleep(300)
        assert asked.wait(30) != 0, "nobody is told that it is accepted"
    finally:
        cluster.system.shell(cluster.master, f"{daemons} start ganeti-luxid")
    until(cluster.acts, 120, cluster.system.tail)
    found = cluster.state()
    assert found["holds"] == [("node3.gnt.test", "before")]
    assert found["enabled"] is False, "what was noted is done"
    newest = cluster.get("/1/round")["ledger"]["number"]
    until(lambda: cluster.has(newest), 30, cluster.system.tail)
    cluster.ask("queue", "enable")
    cluster.ask("resume", "--node", "node3")
