"""Rolling maintenance on a real cluster of five nodes: each reboots, the master last.

In the laboratory `reboot` ends a node's whole namespace, and its boot id is new; its agent is
started again as systemd would.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from click import ClickException

from tests.real.lab import FIVE, NODES, STATE, create, gnt, listed, node, power
from tests.real.maintd import Maintenance, fail_over, job_times, maintained, until
from tests.real.steps import is_current

SHORT = [name.partition(".")[0] for name in FIVE]
INSTANCES = [f"inst{number}" for number in range(1, 13)]
SETTINGS = """
[repair]
queue-commands = ["reboot-node", "tell-owners"]
"""
OWNERS = """
[owners]
command = "tell-owners"
"""
TOLD = "/var/lib/told-owners"
TELL = f"#!/bin/sh\n(cat; echo) >> {TOLD}\nsync\n"
REBOOT = "#!/bin/sh\n[ -e /run/stays-up ] || { sync; reboot; sleep 30; }\n"
FAKE = "/run/ganeti/fake-hypervisor"

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]


def prepare(system: Maintenance, name: str) -> None:
    """Let the node's agent take orders to reboot, and to tell owners."""
    system.shell(name, "mkdir -p /etc/nodeagent/conf.d")
    system.write(name, "/etc/nodeagent/conf.d/roll.toml", SETTINGS)
    for command, script in (("reboot-node", REBOOT), ("tell-owners", TELL)):
        system.write(name, f"/etc/ganeti/node-repair-commands/{command}", script, mode="755")
    system.shell(name, "mkdir -p /etc/nodeagent/maintd.conf.d")
    system.write(name, "/etc/nodeagent/maintd.conf.d/owners.toml", OWNERS)


class Machines(threading.Thread):
    """Starts the agents of nodes that have rebooted, and watches where instances run."""

    def __init__(self, system: Maintenance) -> None:
        super().__init__(daemon=True)
        self.system = system
        self.over = threading.Event()
        self.rebooted: list[str] = []
        self.unheard: dict[str, float] = {}  # instances that run nowhere, and since when
        self.longest: dict[str, float] = {}  # and for how long at most, in seconds

    def run(self) -> None:
        while not self.over.wait(0.2):
            for name, agent in list(self.system.agents.items()):
                if agent.poll() is not None:
                    self.rebooted.append(name)
                    self.system.booted(name)
                    if name == self.system.where:
                        self.system.start_maintd(name)
            self._look()

    def _look(self) -> None:
        now, here = time.monotonic(), set[str]()
        for name in SHORT:
            with suppress(OSError):
                here |= {path.name for path in (STATE / "nodes" / name / FAKE[1:]).iterdir()}
        here = {name.partition(".")[0] for name in here}
        for instance in INSTANCES:
            if instance in here:
                if began := self.unheard.pop(instance, 0):
                    took = now - began
                    self.longest[instance] = max(took, self.longest.get(instance, 0))
            else:
                self.unheard.setdefault(instance, now)


@contextmanager
def rolling(nodes: tuple[str, ...]) -> Iterator[tuple[Maintenance, Machines]]:
    """A cluster whose agents take orders to reboot, and maintd."""
    with maintained(nodes) as system:
        for name in system.agents:
            prepare(system, name)
            system.restart_agent(name)
        system.start_maintd()
        system.until_it_answers()
        watch = Machines(system)
        watch.start()
        try:
            yield system, watch
        finally:
            watch.over.set()
            watch.join(120)


def boots() -> dict[str, str]:
    return {name: node(name, "cat", "/proc/sys/kernel/random/boot_id").stdout for name in SHORT}


def roll(system: Maintenance, *words: str) -> str:
    done = system.ask("roll", *words, master=system.where)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def state(system: Maintenance) -> dict[str, Any]:
    with suppress(ClickException):
        found: dict[str, Any] | None = system.get("/1/roll", system.where)
        if found is not None:
            return found
    return {"state": "unknown", "nodes": []}


def phases(system: Maintenance) -> dict[str, str]:
    return {one["name"].partition(".")[0]: one["phase"] for one in state(system)["nodes"]}


def out() -> list[str]:
    """The nodes that are not in service."""
    found = listed("node", "name", "role")
    return sorted(name.partition(".")[0] for name, role in found if role in ("O", "D"))


def told_owners(system: Maintenance) -> list[tuple[str, str]]:
    """The events that owners were told on any of the masters: what, and at which node."""
    lines = [line for name in SHORT for line in system.shell(name, f"cat {TOLD} || :").splitlines()]
    said = sorted(
        ((row["at"], row["event"], row["node"]) for line in lines for row in events_in(line)),
    )
    return [(event, name.partition(".")[0]) for _, event, name in said]


def events_in(line: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(line).get("events", []) if line else []
    return found


def moves_at_once() -> int:
    """The most moves of instances that were ever under way at a time."""
    begins = ("INSTANCE_MIGRATE", "INSTANCE_FAIL")
    moves = [job for job in job_times() if job.summary.startswith(begins)]
    assert len(moves) > 5, "each node had instances"
    return max(
        sum(other.received <= move.received < other.ended for other in moves) for move in moves
    )


def fill(nodes: tuple[str, ...], count: int) -> None:
    """So many running DRBD instances, spread over the nodes."""
    many = len(nodes)
    for number, name in enumerate(INSTANCES[:count]):
        mirror = (number + 1 + number // many) % many
        create(name, "drbd", nodes[number % many], nodes[mirror])


def test_five_nodes_reboot_under_twelve_instances() -> None:
    """Killed on the way, failed over on the way, and the master is the last.

    A budget lets one of the twelve instances migrate at a time, and one has an owner.
    """
    with rolling(FIVE) as (system, machines):
        five_nodes_reboot(system, machines)


def five_nodes_reboot(system: Maintenance, machines: Machines) -> None:
    fill(FIVE, 12)
    for name in INSTANCES:
        gnt("gnt-instance", "add-tags", name, "maintd:budget:web:1:live")
    gnt("gnt-instance", "add-tags", INSTANCES[0], "maintd:owner:db")
    before, began = boots(), time.monotonic()
    until(lambda: not machines.unheard, 60, system.tail)
    machines.longest.clear()
    roll(system, "start", "--all", "--run", "reboot-node", "--quiet-time", "5s", "--why", "kernel")

    until(lambda: list(phases(system).values()).count("done") == 1, 600, system.tail)
    system.stop_maintd("KILL")
    system.start_maintd("node1")
    last = "node1"
    until(lambda: list(phases(system).values()).count("done") == 4, 1200, system.tail)
    assert phases(system)[last] == "waiting"
    until(lambda: any("only node1" in one["reason"] for one in system.get("/1/held")), 60, str)

    system.stop_maintd()
    fail_over("node2", system.tail)
    system.start_maintd("node2")
    until(lambda: is_current(system, "node2"), 300, system.tail)
    until(lambda: state(system)["state"] == "over", 600, system.tail)

    took = time.monotonic() - began
    after = boots()
    assert set(phases(system).values()) == {"done"}
    assert sorted(machines.rebooted) == SHORT
    assert all(before[name] != after[name] for name in SHORT), "each has started anew"
    assert out() == []
    ((*states,),) = [tuple(row[0] for row in listed("instance", "status"))]
    assert set(states) == {"running"}
    print(f"five nodes and twelve instances in {took / 60:.1f} minutes, by one command of a person")
    print(f"longest times without an instance, in seconds: {machines.longest}")
    assert max(machines.longest.values(), default=0) < 5, "no longer than its migration"
    assert moves_at_once() == 1, "as the budget wants it"
    events = told_owners(system)
    starts, ends = ([node for what, node in events if what == it] for it in ("started", "finished"))
    assert len(starts) >= 2, "its owner heard of the nodes of its instance and of its mirror"
    assert sorted(starts) == sorted(ends), "and of the end"


def test_one_that_does_not_come_back_stops_it() -> None:
    with rolling(NODES) as (system, machines):
        one_does_not_come_back(system, machines)


def one_does_not_come_back(system: Maintenance, machines: Machines) -> None:
    fill(NODES, 3)
    system.shell("node3", "touch /run/stays-up")
    words = ("--run", "reboot-node", "--quiet-time", "3s", "--return-within", "1m")
    roll(system, "start", "node3", "node2", *words)
    until(lambda: state(system)["state"] == "stopped", 300, system.tail)
    assert phases(system) == {"node3": "returning", "node2": "waiting"}
    assert out() == ["node3"], "nothing else is drained"
    assert system.ask("check").returncode == 1
    assert any("the roll has stopped" in one["reason"] for one in system.get("/1/held"))

    for what in ("off", "on"):  # a person's hand
        power("node3", what)
    until(lambda: phases(system).get("node3") == "done", 120, system.tail)
    assert phases(system)["node2"] == "waiting"
    roll(system, "resume")
    until(lambda: state(system)["state"] == "over", 300, system.tail)
    assert (out(), machines.rebooted.count("node2")) == ([], 1)
