"""The demo's nodes: six folders like a Ganeti node's, and a real agent in each."""

import functools
import json
import multiprocessing
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import NAMESPACE_DNS, uuid4, uuid5

import click

from nodeagent import service
from nodeagent.agent.daemon import run_front, run_runner
from nodeagent.agent.run import ENVIRONMENT
from nodeagent.agent.whitelist import Owner, judge_folder
from nodeagent.model.evidence import Mirror
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms
from nodeagent.protocol.testimony import Words
from nodeagent.settings import load

CLUSTER = "demo.example"
NODES = tuple(
    Node(name := f"node{n}.{CLUSTER}", str(uuid5(NAMESPACE_DNS, name)), f"127.0.0.{10 + n}")
    for n in range(1, 7)
)

# A command's HOME is its node's folder, so that all nodes have the same files.
DISK_BAYS = """#!/bin/sh
# Stands in for a RAID controller's tool: this node's hardware is a file.
exec cat "$HOME/hardware.json"
"""
RESEAT_DISK = """#!/usr/bin/python3 -I
# Takes the diagnosis on standard input, as every repair command does.
import json, os, sys
diagnosis = json.load(sys.stdin)
assert diagnosis["command"] == "reseat-disk"
with open(os.environ["HOME"] + "/hardware.json", "w") as file:
    json.dump({"status": "Ok"}, file)
print("reseated the disk in bay", diagnosis["details"]["bay"])
"""

# Commands of the repair queue, which sends them its entry on standard input.
POWERED, POWER_CYCLE = "is-powered", "power-cycle"
_IS_POWERED = """#!/usr/bin/python3 -I
import json, pathlib, sys
entry = json.load(sys.stdin)
file = pathlib.Path.home().parent / ("powered-" + entry["index"])
print("true" if file.exists() else "false")
"""
_POWER_CYCLE = """#!/usr/bin/python3 -I
import json, pathlib, sys
entry = json.load(sys.stdin)
(pathlib.Path.home().parent / ("powered-" + entry["index"])).touch()
print("power-cycled", entry["address"])
"""

# Commands of a roll and of a fenced node's return, and the folder of requests to the demo.
REBOOT, STALE, ASKED = "reboot-node", "stale-instances", "asked"
MIRRORS = "mirrors.json"  # what a node's agent is told of its DRBD disks
_BOOT = "boot_id"
_REBOOT_NODE = f"""#!/bin/sh
# Stands in for the shipped command: the demo starts this node again.
exec touch "$HOME/../{ASKED}/reboot.$(basename "$HOME")"
"""
_STALE_INSTANCES = """#!/bin/sh
# Stands in for the shipped command: no instance runs on these machines at all.
echo no old instance is in use here
"""


class Nodes:
    """Six nodes below a folder, each with a runner and a front of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.noded = _free_port(), _free_port()
        self.key = secrets.token_hex(20) + "\n"
        self._processes: dict[str, list[multiprocessing.process.BaseProcess]] = {}
        (folder / ASKED).mkdir(mode=0o755)
        candidate, self.client_pem = _candidate()
        for node in NODES:
            self._lay_out(node, candidate)

    def _lay_out(self, node: Node, candidate: str) -> None:
        """Create a node's files: Ganeti's, a command in each white-list folder, settings."""
        home = self.folder / node.name
        ganeti = home / "ganeti"
        for place in (ganeti, home / "diagnose", home / "repair", home / "state"):
            place.mkdir(parents=True, mode=0o755)
        addresses = "".join(f"{each.name} {each.address}\n" for each in NODES)
        for file, text in {
            "cluster_name": CLUSTER + "\n",
            "cluster_tags": "",
            "master_node": NODES[0].name + "\n",
            "node_primary_ips": addresses,
            "master_candidates_certs": f"{NODES[0].uuid}={candidate}\n",
        }.items():
            (ganeti / f"ssconf_{file}").write_text(text)
        (ganeti / "hmac.key").write_text(self.key)
        (ganeti / "hmac.key").chmod(0o400)
        self.set_hardware(node.name, {"status": "Ok"})
        _command(home / "diagnose" / "disk-bays", DISK_BAYS)
        _command(home / "repair" / "reseat-disk", RESEAT_DISK)
        _command(home / "repair" / POWERED, _IS_POWERED)
        _command(home / "repair" / POWER_CYCLE, _POWER_CYCLE)
        _command(home / "repair" / REBOOT, _REBOOT_NODE)
        _command(home / "repair" / STALE, _STALE_INSTANCES)
        mdraid = Path(__file__).parents[1] / "etc" / "node-diagnose-commands" / "mdraid"
        also = ""
        if mdraid.exists():  # a shipped command, run for real but only watched
            _command(home / "diagnose" / "mdraid", mdraid.read_text())
            also = ', "mdraid"'
        (home / "agent.toml").write_text(
            f"""
[agent]
node = "{node.name}"
uuid = "{node.uuid}"
ganeti = "{ganeti}"
state = "{home}/state"
socket = "{home}/runner.sock"
log = "info"
[listen]
address = "{node.address}"
port = {self.port}
[diagnose]
folder = "{home}/diagnose"
commands = ["disk-bays"{also}]
every = "1s"
[diagnose.command.mdraid]
audit = true
[repair]
folder = "{home}/repair"
queue-commands = ["{POWER_CYCLE}", "{REBOOT}", "{STALE}"]
queue-checks = ["{POWERED}"]
timeout = "20s"
"""
        )
        (home / "agent.toml").chmod(0o644)

    def set_hardware(self, name: str, diagnosis: object) -> None:
        """Break or repair a node: its diagnose command prints this."""
        file = self.folder / name / "hardware.json"
        new = file.with_suffix(".new")
        new.write_text(json.dumps(diagnosis))
        new.replace(file)

    def start(self) -> None:
        """Start all machines."""
        for node in NODES:
            self.boot_id(node.name)
            self.start_agent(node.name)

    def boot_id(self, name: str) -> None:
        """Give a new start of a machine its id, as Linux does."""
        (self.folder / name / _BOOT).write_text(f"{uuid4()}\n")

    def start_agent(self, name: str) -> None:
        """Start a node's runner and front, each a process of its own."""
        context = multiprocessing.get_context("spawn")
        owner = Owner(os.getuid(), os.getgid())
        home = self.folder / name
        read = functools.partial(load, str(home / "agent.toml"), owner=os.getuid())
        for target, args in ((run_runner, (read, owner)), (run_front, (read,))):
            process = context.Process(target=_on_its_machine, args=(home, self.noded, target, args))
            process.start()
            self._processes.setdefault(name, []).append(process)

    def stop_agent(self, name: str) -> None:
        """End a node's runner and front, and wait for it."""
        _end(self._processes.pop(name, []))

    def all_listen(self) -> bool:
        """Tell whether every front takes connections."""
        for node in NODES:
            with socket.socket() as probe:
                if probe.connect_ex((node.address, self.port)):
                    return False
        return True

    def stop(self) -> None:
        """End all agents."""
        _end([process for both in self._processes.values() for process in both])
        self._processes.clear()


def _end(processes: list[multiprocessing.process.BaseProcess]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()


def _candidate() -> tuple[str, bytes]:
    """Make a master candidate's client.pem, after its digest as Ganeti lists it."""
    from nodeagent.protocol.signature import sign, verify
    from nodeagent.web.selfsigned import make  # not for the agents, which load this module too

    pem = make()
    return verify(*sign(pem, b""), b""), pem


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _command(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _on_its_machine(
    home: Path, noded: int, target: Callable[..., object], args: tuple[object, ...]
) -> None:
    """Run one daemon of an agent as on a machine of its own, with its log in a file.

    The machine's boot id, DRBD disks, port of noded and its commands' HOME are the demo's.
    """
    log = str(home / f"{target.__name__}.log")
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(handle, 2)
    service.BOOT = str(home / _BOOT)
    ENVIRONMENT["HOME"] = str(home)
    socket.getservbyname = lambda name, *_: {"ganeti-noded": noded}[name]
    if target is run_front:
        from nodeagent.agent import probe

        probe.read_mirrors = functools.partial(_read_mirrors, home / MIRRORS)
    target(*args)


async def _read_mirrors(file: Path, _: Mapping[int, Ms]) -> tuple[tuple[Mirror, ...] | None, str]:
    """Read the simulated DRBD disks, as an agent reads real ones from ganeti-mond."""
    try:
        return Words.from_body(json.loads(file.read_text())).mirrors, ""
    except FileNotFoundError:
        return None, "its disks have not been read yet"


@contextmanager
def trusted_folder() -> Iterator[Path]:
    """Make a folder that no other user could tamper with, as the white list demands."""
    owner = Owner(os.getuid(), os.getgid())
    wanted = [os.environ.get("XDG_RUNTIME_DIR", ""), "/run", str(Path.home()), str(Path.cwd())]
    reasons = []
    for place in filter(None, wanted):
        if why := judge_folder(os.path.realpath(place), owner):
            reasons.append(why)
            continue
        with suppress(OSError):
            folder = tempfile.mkdtemp(prefix="nodeagent-demo-", dir=os.path.realpath(place))
            try:
                yield Path(folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return
    raise click.ClickException("no folder that only you can write: " + "; ".join(reasons))
