"""A whole scene: machines, agents, a simulated cluster, and maintd on three nodes.

Only the maintd on Ganeti's master runs, beside an agent on each node.
"""

import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nodeagent.model.snapshot import Instance, Node
from simulation.cluster import SimulatedCluster
from tests.agent.place import CLUSTER, NODE, Place
from tests.torture import clients
from tests.torture.door import Door
from tests.torture.ground import Ground
from tests.torture.processes import ROOT, Keeper, Process
from tests.torture.rules import Naming

NODES = ("n1", "n2", "n3", "n4", "n5")
MASTERS, WORKERS = NODES[:3], NODES[3:]
PAIRS = (("n4", "n1"), ("n4", "n5"), ("n5", "n2"), ("n5", "n4"), ("n2", "n3"))
AGENT_PORT, DOOR_PORT = 1817, 5080


@dataclass(frozen=True)
class Disk:
    """A folder that can be filled up."""

    folder: Path

    def fill(self) -> None:
        with suppress(OSError), open(self.folder / "filler", "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))
        with suppress(OSError), open(self.folder / "filler", "ab", buffering=0) as file:
            while True:
                file.write(b"0")

    def empty(self) -> None:
        (self.folder / "filler").unlink(missing_ok=True)


class Scene:
    """All of it below a folder that is root's."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        self.ground = Ground((*NODES, "cluster", "clients"))
        self.keeper = Keeper()
        self.disks: dict[str, Disk] = {}
        self.maintds: dict[str, Process] = {}
        self.agents: dict[str, tuple[Process, Process]] = {}
        self.places: dict[str, Place] = {}
        self.namings = [Naming(0.0, "n1")]
        self._python = python
        self._mounts: list[Path] = []
        self._server: socket.socket | None = None
        self._door: Door | None = None

    @property
    def door(self) -> Door:
        assert self._door is not None
        return self._door

    def up(self) -> None:
        self.ground.up()
        for name in NODES:
            self._node(name)
        self._share()
        self._door = Door(self._cluster())
        address = self.ground.address["cluster"]
        self._server = self.ground.inside(
            "cluster", lambda: socket.create_server((address, DOOR_PORT), backlog=100)
        )
        threading.Thread(target=self.door.serve, args=(self._server,), daemon=True).start()
        for name in MASTERS:
            self._maintd(name)
        self.keeper.start()

    def down(self) -> None:
        self.keeper.end()
        if self._server is not None:
            self._server.close()
        for mount in self._mounts:
            subprocess.run(["umount", "-l", str(mount)], check=False)
        self.ground.down()

    def keep(self, folder: str) -> None:
        """Copy all logs there, if that names a folder."""
        for path in (*self.folder.glob("*/*.out"), *self.folder.glob("*/*.log")):
            if folder:
                target = Path(folder, path.parent.name)
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)

    def output(self) -> dict[str, str]:
        """Return what our own processes wrote beside their logs, by file."""
        return {str(path): path.read_text(errors="replace") for path in self.folder.glob("*/*.out")}

    def fail_over(self, name: str, beside: str = "", *, cut_off: bool = False) -> None:
        """Make another node Ganeti's master.

        The node `beside` does not hear of it; and where it is cut off, nobody can stop its luxid.
        """
        self.namings.append(Naming(time.monotonic(), name))
        self.door.fail_over(name, beside if cut_off else "")
        for node, place in self.places.items():
            if node != beside:
                place.ssconf("master_node", f"{name}\n")

    def tell_master(self) -> None:
        """Let all nodes hear who the master is."""
        self.fail_over(self.door.master())

    def image(self, name: str) -> Path:
        """Make an image of the disk of a node's maintd."""
        target, process = self.folder / name / "image", self.maintds[name]
        process.signal(signal.SIGSTOP)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.disks[name].folder, target, ignore=_no_socket)
        process.signal(signal.SIGCONT)
        return target

    def restore(self, name: str, image: Path) -> None:
        """Have the disk of a node's maintd as it was; maintd starts anew."""
        folder, process = self.disks[name].folder, self.maintds[name]
        process.halt()
        for there in folder.iterdir():
            shutil.rmtree(there) if there.is_dir() else there.unlink()
        shutil.copytree(image, folder, dirs_exist_ok=True)
        process.release()

    # The parts.

    def _cluster(self) -> SimulatedCluster:
        nodes = [
            Node(name, place.uuid, self.ground.address[name], candidate=True)
            for name, place in self.places.items()
        ]
        instances = [
            Instance(f"i{at}", primary, secondary, memory=100, disk=100)
            for at, (primary, secondary) in enumerate(PAIRS, 1)
        ]
        cluster = SimulatedCluster.of(time.time, nodes, instances, master="n1", name=CLUSTER)
        cluster.takes = lambda _: 0.3
        return cluster

    def _disk(self, name: str) -> Path:
        folder = self.folder / name / "maintd"
        folder.mkdir(parents=True)
        size = "size=32m,mode=0700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "torture", str(folder)], check=True)
        self._mounts.append(folder)
        self.disks[name] = Disk(folder)
        return folder

    def _process(self, name: str, where: str, command: list[str], **more: object) -> Process:
        log = self.folder / where / f"{name}.out"
        process = Process(self.ground, where, command, log, **more)  # type: ignore[arg-type]
        self.keeper.processes.append(process)
        return process

    def _node(self, name: str) -> None:
        folder = self.folder / name
        folder.mkdir()
        (folder / "state").mkdir(mode=0o700)
        address = self.ground.address[name]
        place = Place(folder, address, AGENT_PORT)
        config = Path(place.config)
        text = config.read_text().replace(f'node = "{NODE}"', f'node = "{name}"')
        config.write_text(text.replace("[listen]\n", "[listen]\ntls = true\n"))
        place.ssconf("master_node", "n1\n")
        pem = folder / "ganeti" / "client.pem"
        pem.write_bytes(place.master_pem)
        pem.chmod(0o600)
        self.places[name] = place
        main = str(ROOT / "nodeagent" / "agent" / "__main__.py")
        runner, front = (
            self._process(half, name, [self._python, "-I", main, half, place.config])
            for half in ("runner", "front")
        )
        self.agents[name] = runner, front

    def _share(self) -> None:
        """Give all nodes one cluster key and one list of candidates."""
        key = self.places["n1"].key_file.read_text()
        places = self.places.values()
        addresses = "".join(f"{name} {self.ground.address[name]}\n" for name in NODES)
        for place in places:
            place.key_file.chmod(0o640)
            place.key_file.write_text(key)
            place.key_file.chmod(0o440)
            place.ssconf("node_primary_ips", addresses)

    def _maintd(self, name: str) -> None:
        folder = self.folder / name
        state = self._disk(name)
        users = folder / "users"
        users.write_text(clients.USERS)
        users.chmod(0o600)
        config = folder / "maintd.toml"
        config.write_text(self._settings(name, state))
        config.chmod(0o600)
        address = self.ground.address["cluster"]
        command = [
            *(self._python, "-m", "tests.torture.one_maintd", str(config)),
            *(address, str(DOOR_PORT), name, str(folder)),
        ]
        self.maintds[name] = self._process(
            "maintd", name, command, may_run=lambda: self._is_master(name)
        )

    def _is_master(self, name: str) -> bool:
        path = self.folder / name / "ganeti" / "ssconf_master_node"
        return path.read_text().strip() == name

    def _settings(self, name: str, state: Path) -> str:
        ganeti = self.folder / name / "ganeti"
        return f"""
[maintd]
state = "{state}"
socket = "{state}/admin.sock"
every = "500ms"
[cluster]
node = "{name}"
ganeti = "{ganeti}"
[poll]
port = {AGENT_PORT}
seconds = "1s"
total = "3s"
[http]
address = "{self.ground.address[name]}"
users = "{self.folder / name / "users"}"
read = "anyone"
[policy]
stage = "full"
settle = "0s"
cooldown = "0s"
attempts = 1000
nodes-in-work = 2
group-in-work = 2
storm = 100
burst = 10000
return-after = "1s"
"""


def _no_socket(folder: str, names: Collection[str]) -> list[str]:
    return [name for name in names if Path(folder, name).is_socket()]
