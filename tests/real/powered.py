"""A laboratory whose nodes have BMCs, and witnesses of what truly runs where.

Each node has a BMC that speaks IPMI (`ipmi_sim`) outside the nodes' network namespaces. It switches
the laboratory's nodes, so one without power has no processes.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from nodeagent.cluster.backend import Accepted, Submission
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.model.action import Action, Power, PowerCommand, Restore
from nodeagent.model.ledger import Outcome, Result
from tests import needs
from tests.power import rig
from tests.real.lab import LAB, STATE, gnt, node, power, socket_path, wait
from tests.real.maintd import Maintenance, flags

powered = needs.mark("ipmi_sim", "ipmitool", "fence_ipmilan")
LEG = "10.77.0.254"  # of the bridge that the nodes are on
PROGRAM = "/usr/sbin/nodeagent-oob"
SECRET = "/etc/nodeagent/power-bmc"
_REASON = count(1)


class Powered:
    """A cluster whose nodes have BMCs; `lying` says off of these, and switches nothing."""

    def __init__(self, folder: Path, system: Maintenance) -> None:
        self.system = system
        self.folder = folder
        keep_address()
        self.lying: set[str] = set()
        self.faults: list[str] = []  # of the laboratory
        self.powerd = rig.Powerd(folder, self._switch)
        self.bmcs: dict[str, rig.Device] = {}
        self.ports: dict[str, int] = {}
        self.cluster = GanetiCluster(socket_path(), grace=5.0)
        for name in self.system.nodes:
            self.have_bmc(name)
            self.install(name)
        self.install_settings()
        use(PROGRAM)

    def close(self) -> None:
        self.cluster.close()
        for bmc in self.bmcs.values():
            bmc.kill()
        self.powerd.close()

    def _switch(self, word: str, name: str) -> tuple[int, str]:
        """Switch a node of the laboratory, as its BMC asks."""
        if word == "power-status":
            return 0, "off" if name in self.lying else self.says(name)
        if name in self.lying:
            return 0, ""
        try:
            for what in {"power-off": ["off"], "power-on": ["on"]}.get(word, ["off", "on"]):
                self.turn(name, what)
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            self.faults.append(f"{word} {name}: {error}")
            return 1, str(error)
        return 0, ""

    def says(self, name: str) -> str:
        """`on` or `off`: what an honest BMC says."""
        return state(name)

    def turn(self, name: str, what: str) -> None:
        """Turn the power of a node `on` or `off`."""
        power(name, what)

    def have_bmc(self, name: str) -> None:
        """Have a BMC, or a new one, for this node."""
        folder = self.folder / f"{name}.{next(_REASON)}"
        self.bmcs[name], self.ports[name] = rig.ipmi(folder, self.powerd, name, LEG)

    def install(self, name: str) -> None:
        """Have our program on a node as the package would, from this checkout."""
        short = name.partition(".")[0]
        run = f'#!/bin/sh\nexec {sys.executable} -m nodeagent.cli.oob "$@"'
        self.system.write(short, PROGRAM, run, mode="755")
        self.system.write(short, SECRET, rig.PASSWORD, mode="600")

    def install_settings(self, master: str = "node1") -> None:
        """Tell the master where the BMCs are, and have each of them say ON once."""
        options = f'ip = "{LEG}", ipport = "{{port}}", username = "{rig.USER}", cipher = 3'
        text = f"""
            [device.bmc]
            agent = "fence_ipmilan"
            options = {{ {options}, power_wait = 0 }}
            password-file = "{SECRET}"
            """
        for name, port in self.ports.items():
            text += f"""
            [nodes."{name}"]
            levels = [["bmc"]]
            values = {{ port = "{port}" }}
            """
        self.system.write(master, "/etc/nodeagent/power.toml", text, mode="600")
        done = self.oob("check", master=master)
        assert done.returncode == 0, done.stdout + done.stderr

    def oob(self, *arguments: str, master: str = "master") -> "subprocess.CompletedProcess[str]":
        """Run our program on the master."""
        return node(master, PROGRAM, *arguments)

    def ends(self, action: Action) -> Result:
        """Have Ganeti do it; its job's result."""
        reason = f"power-in-lab:{next(_REASON)}"
        (answer,) = self.cluster.submit([Submission(action, reason)])
        assert isinstance(answer, Accepted), answer
        return wait(self.cluster, [answer.job], 180)[answer.job]

    def status(self, name: str) -> object:
        """Whether Ganeti says that the node is powered, by an answer that says how it knows."""
        result = self.ends(Power(name, PowerCommand.STATUS))
        assert (result.outcome, result.code) == (Outcome.SUCCESS, 0), result
        said = json.loads(result.said)
        assert (said["level"], said["agent"]) == (1, "fence_ipmilan")
        return said["powered"]

    def heal(self) -> None:
        """Have all nodes on, online and with agents; have all BMCs, and they tell the truth."""
        self.lying.clear()
        for name in self.system.nodes:
            if self.bmcs[name].process.poll() is not None:
                self.have_bmc(name)
                self.install_settings()
            if state(name) == "off":
                assert self.ends(Power(name, PowerCommand.ON)).outcome is Outcome.SUCCESS
            short = name.partition(".")[0]
            if self.system.agents[short].poll() is not None:
                self.system.booted(short)
        for name in self.system.nodes:
            if flags(name)["offline"] == "Y":
                assert self.ends(Restore(name)).outcome is Outcome.SUCCESS
        self.powerd.acts.clear()


def keep_address() -> None:
    """Have the nodes' bridge keep its hardware address.

    It has the lowest one of its ports, which a node that boots may change: then the BMCs there are
    deaf for 40 s, until the master's kernel asks anew.
    """
    asked = subprocess.run(["ip", "-j", "address"], capture_output=True, timeout=20, check=True)
    links = json.loads(asked.stdout)
    bridge = next(one for one in links if LEG in [at.get("local") for at in one["addr_info"]])
    command = ["ip", "link", "set", bridge["ifname"], "address", bridge["address"]]
    subprocess.run(command, check=True, timeout=20)


def use(program: str) -> None:
    """Have this program as Ganeti's power control; none if empty."""
    gnt("gnt-cluster", "modify", "--node-parameters", f"oob_program={program}")


def state(name: str) -> str:
    """`on` or `off`: what is truly so of a node, whatever its BMC says."""
    asked = [str(LAB / "power"), name, "state"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()[1]


def runs_on(instance: str) -> list[str]:
    """The nodes with power whose own hypervisor has the instance."""
    there = sorted((STATE / "nodes").glob(f"*/run/ganeti/fake-hypervisor/{instance}"))
    places = [place.parents[3] for place in there]
    return [f"{place.name}.gnt.test" for place in places if _has_power(place)]


def _has_power(place: Path) -> bool:
    """As `state`, at a hundredth of its price: asked ten times a second."""
    try:
        pid = (place / "init.pid").read_text().strip()
    except OSError:
        return False
    return pid.isdecimal() and Path("/proc", pid).exists()


@contextmanager
def never_twice(*instances: str) -> Iterator[None]:
    """Look at every node all the while: none of these instances may run on two."""
    over, most, looks = threading.Event(), dict.fromkeys(instances, 0), 0

    def look() -> None:
        nonlocal looks
        while not over.wait(0.1):
            looks += 1
            for name in instances:
                most[name] = max(most[name], len(runs_on(name)))

    watching = threading.Thread(target=look)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
    assert looks
    assert most == dict.fromkeys(instances, 1), "one ran twice, or never"
