"""Nodes that die in a laboratory whose maintd fences dead nodes."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from nodeagent.cli.maint.console.client import Reach
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.model.action import (
    Action,
    MovePrimary,
    Power,
    PowerCommand,
    Restore,
    Retag,
    SetOffline,
)
from nodeagent.model.fencing import FENCED_TAG
from nodeagent.model.ledger import Ledger, Outcome
from nodeagent.model.purpose import OfFencing
from nodeagent.store.codec import decode_observation
from nodeagent.web.blocking import at_socket
from tests.real.lab import LAB, NODES, ROOT, STATE, gnt, socket_path
from tests.real.maintd import AGENT, SETTINGS, Maintenance, flags, maintained, until
from tests.real.powered import Powered, state

SCRIPTS = "/etc/ganeti/node-repair-commands"
CHECK = "stale-instances"
LISTS = f'\n[repair]\nqueue-commands = ["{CHECK}"]\n'
FENCES = """
unreachable-after = "15s"
dead-nodes = "restart"
revive-within = "45s"
return-after = "10s"
fence-burst = 1000
"""


class Dying(Powered):
    """Nodes that may be `broken`: their power goes on, and no more. A power-on boots the others."""

    def __init__(self, folder: Path, system: Maintenance) -> None:
        self.broken: set[str] = set()
        self.will_lie: set[str] = set()  # their BMCs, once they are asked for a power-off
        self._dark: set[str] = set()  # broken ones with power
        self._frozen: set[str] = set()
        self._switching = threading.Lock()  # a person and its BMC may do it at once
        super().__init__(folder, system)
        system.agent_program = ("tests.real.witness", "nodeagent.cli.nodeagent", "run")
        system.program = ("tests.real.soon", "nodeagent.cli.maintd", "run")
        for name in self.system.nodes:
            short = _short(name)
            shipped = (ROOT / "etc/node-repair-commands" / CHECK).read_text()
            system.write(short, f"{SCRIPTS}/{CHECK}", shipped, mode="755")
            system.write(short, "/etc/nodeagent/agent.toml", AGENT + LISTS)
            system.write(short, "/etc/nodeagent/maintd.toml", SETTINGS + FENCES)
            system.restart_agent(short)

    def says(self, name: str) -> str:
        return "on" if name in self._dark else state(name)

    def turn(self, name: str, what: str) -> None:
        with self._switching:
            self._turn(name, what)

    def _turn(self, name: str, what: str) -> None:
        if what == "off" and name in self.will_lie:
            self.lying.add(name)
        elif what == "off":
            self._dark.discard(name)
            self._frozen.discard(name)
            self._let_go(name)
            switch(name, "off")
        elif name in self.broken:
            self._dark.add(name)
        else:
            self._dark.discard(name)
            if state(name) == "off":
                switch(name, "on")
                self.system.booted(_short(name))

    def hang(self, name: str) -> None:
        """Stop all programs of a node; its kernel lives, and so do its disks."""
        self._signal(name, signal.SIGSTOP)
        self._frozen.add(name)

    def part(self, name: str) -> None:
        """Have the peers of a node lose its DRBD disks; its network stays."""
        switch(name, "cut")
        self.link(name, "up")

    def wake(self, name: str) -> None:
        """Have the programs of a hung node go on."""
        self._signal(name, signal.SIGCONT)
        self._frozen.discard(name)
        self._let_go(name)

    def _let_go(self, name: str) -> None:
        """Let a node die: one whose processes nobody waits for cannot."""
        let_go(self.system.agents[_short(name)])

    def _signal(self, name: str, number: int) -> None:
        short = _short(name)
        init = (STATE / "nodes" / short / "init.pid").read_text().strip()
        inside = os.readlink(f"/proc/{init}/ns/pid")
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/ns/pid") == inside:
                    os.kill(int(pid), number)
            except OSError:
                continue  # it has ended

    def link(self, name: str, what: str) -> None:
        """Have the only network of a node `up` or `down`; its DRBD disks stay connected."""
        device = f"gl-{name.partition('.')[0]}"
        subprocess.run(["ip", "link", "set", device, what], check=True, timeout=20)

    # maintd.

    def prove(self, name: str) -> None:
        """Wait until maintd has seen that the power control of a node works: one a minute."""
        until(partial(self._is_proven, name), 400, self.system.tail)

    def ledger(self) -> Ledger:
        """maintd's memory as of now."""
        path = STATE / "nodes" / self.system.where / "run/maintd/admin.sock"
        text = Reach(at_socket(str(path)), local=True).get_raw("/1/observation").decode()
        return decode_observation(text)[0]

    def _is_proven(self, name: str) -> bool:
        uuid = self.member(name, "uuid")
        return any(o.node == uuid and o.alive and o.powered for o in self.ledger().power)

    def rest(self) -> None:
        """Have all nodes whole, powered, in service and trusted, and no power-off remembered."""
        self.lying.clear()
        self.broken.clear()
        self.will_lie.clear()
        for name in self.system.nodes:
            if name in self._frozen:
                self.wake(name)
            self.bmcs[name].process.send_signal(signal.SIGCONT)
            if self.says(name) == "on" and state(name) == "off":
                self.turn(name, "off")
            if state(name) == "off":
                until(partial(self._on, name), 120, self.system.tail)
            switch(name, "join")
        for name in self.system.nodes:
            if flags(name)["offline"] == "Y":
                until(partial(self._returned, name), 120, self.system.tail)
            for tag in flags(name)["tags"].split(","):
                if tag.startswith(FENCED_TAG):  # nobody ran `done`
                    gnt("gnt-node", "remove-tags", name, tag)
        until(self._quiet, 180, self.system.tail)
        assert not self.faults, self.faults
        self.powerd.acts.clear()

    def _on(self, name: str) -> bool:
        return self.ends(Power(name, PowerCommand.ON)).outcome is Outcome.SUCCESS

    def _returned(self, name: str) -> bool:
        """Ganeti may not know that it has power, if the answer to a power-on came too late."""
        return self._on(name) and self.ends(Restore(name)).outcome is Outcome.SUCCESS

    def _quiet(self) -> bool:
        kept, healthy = self.ledger(), self.system.needs()
        return not (
            kept.fencing
            or kept.cuts
            or kept.unreachable
            or kept.intents
            or any(flags(name)["tags"] for name in self.system.nodes)
            or set(healthy.values()) != {"Ok"}
        )

    def member(self, name: str, what: str) -> Any:
        """`evidence`, `fencing` and the like of a node, as maintd tells it now."""
        found = self.system.get("/1/nodes", self.system.where.partition(".")[0])
        return next(one for one in found if one["name"] == name)[what]

    def stage(self, name: str) -> str:
        """The stage of its fencing; empty if it is not fenced."""
        found = self.member(name, "fencing")
        return found["stage"] if found else ""

    def why(self, name: str) -> str:
        return " ".join(self.system.ask("why", name, master=self.system.where).stdout.split())


@contextmanager
def fencing(folder: Path, nodes: tuple[str, ...] = NODES) -> Iterator[Dying]:
    """A fresh laboratory whose maintd fences dead nodes."""
    with maintained(nodes) as system:
        made = Dying(folder, system)
        try:
            system.start_maintd()
            system.until_it_answers()
            yield made
        finally:
            made.close()


def _short(name: str) -> str:
    return name.partition(".")[0]


def let_go(process: "subprocess.Popen[bytes]") -> None:
    """Have a program on a node go on, and the commands outside that wait for it.

    They stop with it.
    """
    ours, waiting = os.readlink("/proc/self/ns/pid"), [process.pid]
    for pid in waiting:
        with suppress(OSError):  # it has ended
            if os.readlink(f"/proc/{pid}/ns/pid") == ours:
                os.kill(pid, signal.SIGCONT)
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
                waiting += map(int, children.split())


def switch(name: str, what: str) -> None:
    """Switch a node off or on, or cut it off, at once, whatever it is asked just now."""
    command = [str(LAB / "power"), name, what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def fencing_jobs(master: str = "node1") -> dict[int, Action]:
    """What maintd has had Ganeti do to fence nodes, by job, the newest last; each once."""
    cluster = GanetiCluster(socket_path(master), grace=5.0)
    try:
        found = [one for one in cluster.trails() if isinstance(one.purpose, OfFencing)]
    finally:
        cluster.close()
    reasons = [one.reason for one in found]
    assert len(set(reasons)) == len(reasons), "a job was given twice"
    found.sort(key=lambda one: int(one.job))
    return {int(one.job): one.action for one in found if one.action is not None}


class Since:
    """The fencing's jobs since now, without readings of power.

    By their numbers, as one master keeps older jobs than another: Ganeti gives a new candidate
    those that are not archived.
    """

    def __init__(self) -> None:
        self._last = max(fencing_jobs("node1"), default=0)

    def __call__(self, master: str = "node1") -> list[str]:
        found = [_word(what) for job, what in fencing_jobs(master).items() if job > self._last]
        return [word for word in found if word]


def _word(action: Action) -> str:
    """The action in short; empty for a reading of power."""
    match action:
        case Power(_, PowerCommand.STATUS):
            return ""
        case Power(name, command):
            return f"{command.value} {name}"
        case Retag():
            return "tag"
        case SetOffline(name):
            return f"offline {name}"
        case MovePrimary(name):
            return f"failover {name}"
    return str(action)
