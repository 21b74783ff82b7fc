"""The machines below the demo's agents: power, reboots, and ports that nothing answers at.

People's scripts and agents' commands ask by a file in one folder, named VERB.NODE. maintd's power
control switches the simulated machines. The agents' processes and the ports follow both.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from nodeagent.model.action import PowerCommand
from nodeagent.model.evidence import Contact
from nodeagent.protocol.canonical import canonical
from nodeagent.protocol.testimony import Words
from simulation.demo_nodes import ASKED, MIRRORS, NODES, Nodes
from simulation.machines import Control
from simulation.mirrors import Mirrors
from simulation.world import World

EVERY = 0.2  # seconds between two looks
SHUTS_DOWN, DOWN = 1.5, 3.0  # seconds from an ordered reboot to its end, and to the new start
DISKS_EVERY = 1.0  # seconds between two looks at the DRBD disks

Say = Callable[[str, str, str], None]  # node, event, text


class DemoMachines:
    """Each node's agent, noded and silence; `say` tells of each change.

    Only the master has no power control: maintd runs there, so it can neither lose its power nor be
    rebooted.
    """

    def __init__(self, nodes: Nodes, world: World, say: Say) -> None:
        self._nodes = nodes
        self._world = world
        self._say = say
        self._mirrors = Mirrors()
        self._disks_at = 0.0
        self._addresses = {node.name: node.address for node in NODES}
        self._noded: dict[str, asyncio.Server] = {}
        self._dark: dict[str, list[Unanswering]] = {}
        self._silenced: set[str] = set()
        self._without_agent: set[str] = set()
        self._due: dict[str, float] = {}  # when a machine that reboots goes down, or comes back
        world.machines.controls |= {
            name: (Control(),) for name in self._addresses if name != world.master
        }

    async def run(self) -> None:
        """Do what is asked, until canceled."""
        try:
            while True:
                for path in sorted((self._nodes.folder / ASKED).iterdir()):
                    path.unlink()
                    verb, _, name = path.name.partition(".")
                    if name in self._addresses:
                        self.do(verb, name)
                for name in self._addresses:
                    self._reboot_further(name)
                    await self._follow(name)
                self._look_at_disks()
                await asyncio.sleep(EVERY)
        finally:
            for name in self._addresses:
                self._free_ports(name)

    def do(self, verb: str, name: str) -> None:
        """Change a machine as it is asked: silence, speak, power-off, power-on, reboot."""
        machines = self._world.machines
        match verb:
            case "silence":
                self._silenced.add(name)
            case "speak":
                self._silenced.discard(name)
            case "power-off":
                machines.unplugged.add(name)
                machines.switch_off(name)
            case "power-on":
                machines.unplugged.discard(name)
                self._world.power(name, PowerCommand.ON)  # Ganeti knows what maintd switched off
            case "reboot":
                self._due.setdefault(name, time.monotonic() + SHUTS_DOWN)

    def _reboot_further(self, name: str) -> None:
        """Let a machine that reboots go down, and later come back."""
        machines = self._world.machines
        if time.monotonic() < self._due.get(name, float("inf")):
            return
        if name in machines.off:
            machines.switch_on(name)
            del self._due[name]
        else:
            machines.switch_off(name)
            self._due[name] = time.monotonic() + DOWN

    async def _follow(self, name: str) -> None:
        """Let processes and ports of a node be as its machine is."""
        off = name in self._world.machines.off
        agent = not off and name not in self._silenced
        if not agent and name not in self._without_agent:
            self._without_agent.add(name)
            if off:
                self._say(name, "reboots" if name in self._due else "dies", "nothing of it answers")
            else:
                self._say(name, "silence", "its agent ends; its noded answers")
            await asyncio.to_thread(self._nodes.stop_agent, name)
        if off and name not in self._dark:
            self._free_ports(name)
            ports = (self._nodes.port, self._nodes.noded)
            self._dark[name] = [Unanswering(self._addresses[name], port) for port in ports]
        if not off and name not in self._noded:
            await self._boot(name)
        if agent and name in self._without_agent:
            self._without_agent.discard(name)
            self._nodes.start_agent(name)
            self._say(name, "speaks", "its agent starts")

    async def _boot(self, name: str) -> None:
        """Start noded and, as Ganeti's watcher does, the instances."""
        first = name not in self._dark
        self._free_ports(name)
        self._noded[name] = await asyncio.start_server(
            _answer_anything, self._addresses[name], self._nodes.noded
        )
        if first:
            return
        self._nodes.boot_id(name)
        for instance in self._world.instances.values():
            if instance.primary == name and instance.running:
                self._world.start(instance.name)
        self._say(name, "boots", "with another boot id")

    def _free_ports(self, name: str) -> None:
        for one in self._dark.pop(name, ()):
            one.close()
        if server := self._noded.pop(name, None):
            server.close()

    def _look_at_disks(self) -> None:
        """Tell each agent of its DRBD disks, which this machine does not have."""
        now = time.monotonic()
        if now - self._disks_at < DISKS_EVERY:
            return
        self._disks_at = now
        self._mirrors.watch(self._world, now)
        for name in self._addresses:
            told = self._mirrors.told(self._world, name, now)
            words = Words(Contact.UNKNOWN, Contact.UNKNOWN, told)
            _replace(self._nodes.folder / name / MIRRORS, canonical(words.body()))


class Unanswering:
    """A port from which nothing comes back, as at a machine without power.

    Linux drops what arrives for a listener whose queue is full.
    """

    def __init__(self, address: str, port: int) -> None:
        self._sockets = [socket.socket() for _ in range(3)]
        listener, *fillers = self._sockets
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(0)
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex((address, port))

    def close(self) -> None:
        for one in self._sockets:
            one.close()


async def _answer_anything(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as noded would, as far as a witness looks: with some bytes."""
    with suppress(OSError):
        await reader.read(1024)
        writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")
        await writer.drain()
    writer.close()


def _replace(file: Path, text: str) -> None:
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)
